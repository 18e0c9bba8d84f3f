"""What ``ORDER BY column … LIMIT count`` lets a scan leave out, as Spark orders values.

Takes the first sort key and a count; gives, for any value that `count` rows are known to reach, the predicate of
the rows that are no worse. Rows equal to it in the first key stay: further keys decide among them. The rule:
only rows of which `count` others are strictly better in the first key may go. NaN is the greatest number,
-0.0 = 0.0, text orders by its bytes, NULLs come where the query says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from twostage.predicates.predicate import FALSE, TRUE, Column, Compare, IsNull, Not, either
from twostage.predicates.prune import order_key, value_range
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from twostage.predicates.bounds import Bounds
    from twostage.predicates.predicate import Predicate

TYPES = frozenset("int long float double decimal string date timestamp timestamptz".split())
"""Whose values, bounds and literals all order as Spark orders them."""
MOST_ROWS = 100_000
"""More are seldom far fewer than all, and each task keeps the first key of so many."""
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Reached:
    """A value that enough rows reach, or are better than; None is NULL."""

    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TopRows:
    """The first `count` rows by `column`. `has_more_keys`: rows that are equal there are ordered further.

    `reached` is what planning knows of all of the table: no fewer than `count` live, matching rows reach it.

    >>> top = TopRows(column=Column(1, ("a",), Primitive("int")), count=3, descending=True, nulls_first=False)
    >>> str(top.no_worse(Reached(7)))
    'a >= 7'
    """

    column: Column
    count: int
    descending: bool
    nulls_first: bool
    has_more_keys: bool = False
    reached: Reached | None = None

    def __str__(self) -> str:
        direction, nulls = "DESC" if self.descending else "ASC", "FIRST" if self.nulls_first else "LAST"
        return (
            f"{self.column} {direction} NULLS {nulls}{', …' if self.has_more_keys else ''} LIMIT {self.count}"
        )

    def no_worse(self, reached: Reached | None) -> Predicate:
        """Return the predicate of the rows that reach a value."""
        if reached is None:
            return TRUE
        is_null = IsNull(self.column)
        if reached.value is None:
            return is_null if self.nulls_first else TRUE
        values = Compare(">=" if self.descending else "<=", self.column, reached.value)
        return either(is_null, values) if self.nulls_first else values

    def better(self, reached: Reached) -> Predicate:
        """Return the predicate of the rows that are strictly better than a value."""
        is_null = IsNull(self.column)
        if reached.value is None:
            return FALSE if self.nulls_first else Not(is_null)
        values = Compare(">" if self.descending else "<", self.column, reached.value)
        return either(is_null, values) if self.nulls_first else values

    def is_better(self, one: Reached, other: Reached) -> bool:
        """Tell whether a value comes strictly before another."""
        if one.value is None or other.value is None:
            return one.value is not other.value and (one.value is None) == self.nulls_first
        kind = self.column.type
        assert isinstance(kind, Primitive)
        keys = order_key(kind, one.value), order_key(kind, other.value)
        if keys[0] is None or keys[1] is None:
            return False
        return bool(keys[0] > keys[1] if self.descending else keys[0] < keys[1])

    def best_first(
        self,
        items: Iterable[Item],
        known: Callable[[Item], tuple[Callable[[int], Bounds | None], int | None]],
    ) -> list[Item]:
        """Return items (files, row groups) by the best value that each may hold; those that may hold any last.

        Args:
            items: What to order.
            known: Gives an item's bounds by field id, and its rows if they are known.
        """
        nulls: list[tuple[Any, Item]] = []
        values: list[tuple[Any, Item]] = []
        others: list[Item] = []
        for item in items:
            found = value_range(self.column, *known(item))
            best = found.upper if self.descending else found.lower
            if self.nulls_first and found.may_null and best is not None:
                nulls.append((best, item))
            elif best is not None:
                values.append((best, item))
            else:
                others.append(item)
        for part in (nulls, values):
            part.sort(key=lambda pair: pair[0], reverse=self.descending)
        return [*(item for _, item in nulls), *(item for _, item in values), *others]


def reached_by(
    top: TopRows, files: Sequence[tuple[Callable[[int], Bounds | None], int | None, int]]
) -> tuple[Reached, int] | None:
    """Return a value that `count` rows reach for certain, and how many files prove it; None if bounds tell none.

    Args:
        top: What is asked for.
        files: What is known of each file whose rows all match, how many they are, and how many of them are deleted.
    """
    nulls = null_files = 0
    values: list[tuple[Any, int]] = []
    for bounds_of, rows, gone in files:
        if rows is None:
            continue
        found = value_range(top.column, bounds_of, rows)
        bounds = bounds_of(top.column.field_id)
        worst = found.lower if top.descending else found.upper
        num_nulls = None if bounds is None else bounds.null_count
        if not found.may_value:
            nulls, null_files = nulls + max(0, rows - gone), null_files + 1
        elif worst is None or num_nulls is None or not 0 <= num_nulls <= rows:
            continue
        elif bounds is not None and bounds.value_count in (None, rows):
            if num_nulls:
                nulls, null_files = nulls + max(0, num_nulls - gone), null_files + 1
            values.append((worst, max(0, rows - num_nulls - gone)))
    if top.nulls_first and nulls >= top.count:
        return Reached(None), null_files
    enough = nulls if top.nulls_first else 0
    values.sort(key=lambda pair: pair[0], reverse=top.descending)
    for place, (worst, rows) in enumerate(values):
        enough += rows
        if enough >= top.count:
            return Reached(_value_of(top, worst)), place + 1
    return None


def _value_of(top: TopRows, key: Any) -> Any:
    """Return the value of an order key."""
    assert isinstance(top.column.type, Primitive)
    if top.column.type.name in ("float", "double"):
        return math.nan if key[0] else key[1]
    return key
