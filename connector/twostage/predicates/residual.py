"""The residual of a predicate: what remains to evaluate on a set of rows after their bounds are applied.

Takes a predicate and the bounds of its columns over the rows of a file or row group; returns a predicate that
is TRUE for the same rows, without the parts that the bounds decide: the residual of the Iceberg table spec
("Scan Planning"), but from bounds instead of partition values. The rule: a row may be FALSE for one and NULL
for the other, so nothing inside a NOT is removed.
"""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING

import cachetools

from twostage.predicates.predicate import FALSE, TRUE, And, Or
from twostage.predicates.prune import Match, match

if TYPE_CHECKING:
    from collections.abc import Callable

    from twostage.predicates.predicate import Predicate
    from twostage.predicates.value_range import BoundsOf

    Changed = Callable[[Predicate, Predicate], None]

MAX_RESIDUALS = 1_000
"""Cached residuals of a scan's predicate and its parts; row groups with the same remaining parts share
one."""


class Residuals:
    """The residuals of a scan's predicate: the same object for the same parts, so that measured costs carry over.

    >>> from twostage.predicates.bounds import Bounds
    >>> from twostage.predicates.predicate import Column, Compare
    >>> from twostage.schema import Primitive
    >>> a, b = (Compare("=", Column(i, (name,), Primitive("int")), 7) for i, name in enumerate("ab"))
    >>> str(Residuals().of(Or((a, b)), {0: Bounds(lower=8, upper=9), 1: Bounds(lower=1, upper=9)}.get, 100))
    'b = 7'
    """

    def __init__(self) -> None:
        # Keyed by the ids of the remaining parts, which stay valid because the entry references the parts.
        self._kept: cachetools.LRUCache[tuple[object, ...], Predicate] = cachetools.LRUCache(MAX_RESIDUALS)

    def of(
        self, predicate: Predicate, bounds_of: BoundsOf, num_rows: int, changed: Changed | None = None
    ) -> Predicate:
        """Return the residual of a predicate: itself if bounds decide nothing; TRUE or FALSE if they decide it all.

        Args:
            predicate: Any tree. Parts below a NOT are decided together with it or not at all.
            bounds_of: Returns the bounds of a field over the rows, by field id; None if nothing is known.
            num_rows: The number of rows.
            changed: Called with each child of an AND or OR that differs from its residual, and the residual.
        """
        if not isinstance(predicate, And | Or):
            return {Match.NONE: FALSE, Match.SOME: predicate, Match.ALL: TRUE}[
                match(predicate, bounds_of, num_rows)
            ]
        decides, leaves_open = (FALSE, TRUE) if isinstance(predicate, And) else (TRUE, FALSE)
        left: list[Predicate] = []
        for child in predicate.children:
            rest = self.of(child, bounds_of, num_rows, changed)
            if changed is not None and rest is not child:
                changed(child, rest)
            if rest is decides:
                return decides
            if rest is not leaves_open:
                left.append(rest)
        if len(left) < 2:
            return left[0] if left else leaves_open
        if len(left) == len(predicate.children) and all(map(is_, left, predicate.children)):
            return predicate
        key = (type(predicate), *map(id, left))
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = type(predicate)(tuple(left))
        return kept
