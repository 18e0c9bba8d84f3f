"""How selective a logged predicate is: S(p), and key(p), the columns whose index would give it.

Takes a predicate and what is known about the table's columns; returns S, the reciprocal of the share of rows
kept, so that S = 1 drops nothing. Measured shares take precedence over estimates from the number of distinct
values.

- A leaf: ``=`` has S = cardinality; ``IN`` of n values cardinality / n; ``<>`` cardinality / (cardinality - 1); ``NOT IN``
  cardinality / (cardinality - n). A measured leaf has S = rows in / rows out, any other leaf S = 1.
- AND: the largest S of its children, and the key of that child: evaluating begins with one index.
- OR: 1 / (the sum of 1 / S of the children), and all of their keys: every child needs its index.

Source: "Parser-based Scoring" in the design document of Apache Pinot's index tuner; where that shows
its formulas as pictures, the implementation (``ParserBasedImpl`` of Pinot's tuner).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from twostage.advisor.logged_predicate import RANGE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.advisor.logged_predicate import LoggedPredicate

_PLAIN = "<=> in prefix suffix contains".split()
HAS_ELEMENT = "has element"
"""The operator of ``array_contains`` and ``map_contains_key``."""
INDEXABLE = frozenset(
    [
        HAS_ELEMENT,
        "=",
        "<>",
        "<",
        "<=",
        ">",
        ">=",
        RANGE,
        "is null",
        "not is null",
        *_PLAIN,
        *(f"not {op}" for op in _PLAIN),
    ]
)
"""Operators that an index over one column answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cardinalities:
    """What selectivities and scan costs are estimated from.

    Attributes:
        distinct: Distinct values by column.
        entries_per_row: Values per row by column; 1 for a column that is no list.
    """

    distinct: Mapping[str, float] = field(default_factory=dict)
    entries_per_row: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selectivity:
    """S(p) and key(p); an empty key: no indexes over single columns give it."""

    value: float = 1.0
    key: frozenset[str] = frozenset()

    @property
    def share(self) -> float:
        """The share of rows kept, above 0 and at most 1."""
        return 1.0 / self.value


def selectivity(predicate: LoggedPredicate, known: Cardinalities) -> Selectivity:
    """Return S and key of a predicate."""
    if predicate.op == "and":
        found = [selectivity(child, known) for child in predicate.children]
        return max(found, key=lambda one: one.value if one.key else 1.0)
    if predicate.op == "or":
        found = [selectivity(child, known) for child in predicate.children]
        keys = [one.key for one in found]
        value = 1.0 / sum(one.share for one in found)
        return Selectivity(value=max(1.0, value), key=frozenset().union(*keys) if all(keys) else frozenset())
    return Selectivity(value=_leaf(predicate, known), key=key_of_leaf(predicate))


def with_spread_shares(whole: LoggedPredicate, known: Cardinalities) -> LoggedPredicate:
    """Return a scan's filter, its share of rows spread over its parts if only the whole was measured.

    Spark's event logs say no more. Parts about which nothing else is known get equal shares: in an AND of n
    such parts the n-th root of the share that remains for them, in an OR one n-th of it.
    """
    if not whole.children or not whole.rows_in:
        return whole
    share = max(whole.rows_out or 0, 0.5) / whole.rows_in
    is_open = [
        child.rows_in is None
        and child.op not in ("not is null", "is null")
        and selectivity(child, known).value <= 1.0
        for child in whole.children
    ]
    count = sum(is_open)
    if not count:
        return whole
    others = [
        selectivity(child, known).share for child, one in zip(whole.children, is_open, strict=True) if not one
    ]
    if whole.op == "and":
        each = min(1.0, share / math.prod(others)) ** (1 / count)
    else:
        each = max(0.0, share - sum(others)) / count
    rows_out = max(1, round(whole.rows_in * each))
    children = tuple(
        replace(child, rows_in=whole.rows_in, rows_out=rows_out) if one else child
        for child, one in zip(whole.children, is_open, strict=True)
    )
    return replace(whole, children=children)


def key_of_leaf(leaf: LoggedPredicate) -> frozenset[str]:
    """Return the column whose index answers a leaf; none if no index over one column does."""
    return frozenset(leaf.columns) if leaf.op in INDEXABLE and len(leaf.columns) == 1 else frozenset()


def _leaf(leaf: LoggedPredicate, known: Cardinalities) -> float:
    if leaf.rows_in:
        # If no row was kept, half a row: 1 / 0 would outweigh every other query.
        return max(1.0, leaf.rows_in / max(leaf.rows_out or 0, 0.5))
    distinct = known.distinct.get(leaf.columns[0], 0.0) if leaf.columns else 0.0
    if distinct <= 1 or len(leaf.columns) != 1:
        return 1.0
    match leaf.op:
        case "=" | "<=>":
            return distinct
        case "in":
            return max(1.0, distinct / max(1, leaf.count))
        case op if op == HAS_ELEMENT:
            return max(1.0, distinct / max(1.0, known.entries_per_row.get(leaf.columns[0], 1.0)))
        case "<>":
            return distinct / (distinct - 1)
        case "not in":
            return distinct / (distinct - leaf.count) if distinct > leaf.count else distinct
    return 1.0
