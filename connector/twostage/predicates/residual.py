"""What bounds leave of a predicate to evaluate on a set of rows.

Takes a predicate and the bounds of its columns over the rows of a file or row group; gives a predicate that is TRUE for the
same of these rows, without the parts that the bounds decide: the residual of the Iceberg table spec ("Scan Planning"), of
bounds instead of partition values. The rule: whether a row that it is not TRUE for is FALSE or NULL may differ, so that
nothing within a NOT is left out.
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

MAX_KEPT = 1_000
"""Residuals of parts of a scan's predicate; each stands for the parts that the bounds of some row groups leave."""


class Residuals:
    """The residuals of a scan's predicate: the same object for the same parts, so that what these have cost stays known.

    >>> from twostage.predicates.bounds import Bounds
    >>> from twostage.predicates.predicate import Column, Compare
    >>> from twostage.schema import Primitive
    >>> a, b = (Compare("=", Column(i, (name,), Primitive("int")), 7) for i, name in enumerate("ab"))
    >>> str(Residuals().of(Or((a, b)), {0: Bounds(lower=8, upper=9), 1: Bounds(lower=1, upper=9)}.get, 100))
    'b = 7'
    """

    def __init__(self) -> None:
        # By the parts left, which the residual holds: an id stands for one object as long as its entry is there.
        self._kept: cachetools.LRUCache[tuple[object, ...], Predicate] = cachetools.LRUCache(MAX_KEPT)

    def of(
        self, predicate: Predicate, bounds_of: BoundsOf, num_rows: int, changed: Changed | None = None
    ) -> Predicate:
        """Return what is left of a predicate: itself, if that is all of it; TRUE or FALSE, if it is nothing.

        Args:
            predicate: Any tree. Parts below a NOT are decided together with it or not at all.
            bounds_of: Returns the bounds of a field over the rows, by field id; None if nothing is known.
            num_rows: The number of rows.
            changed: Is told of each child of an AND or OR of which not all is left, and what is: TRUE or FALSE, if nothing.
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
