"""Top-n: the rows that ``ORDER BY column … LIMIT count`` may need, in Spark's order.

Takes the first sort key and the count. Once `count` live, matching rows are known to sort no later than some value,
that value is a threshold, and its predicate (`TopRows.no_worse`) selects the rows that may still be in the result.
Rows equal to the threshold stay if further sort keys decide among them. A row is dropped only if `count` others are
strictly better in the first key. NaN is the greatest number, -0.0 = 0.0, text sorts by its bytes, and NULLs come first
or last as the query says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from twostage.predicates.predicate import FALSE, TRUE, Column, Compare, IsNull, Not, either
from twostage.predicates.value_range import order_key, value_range
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from twostage.predicates.bounds import Bounds
    from twostage.predicates.predicate import Predicate

TYPES = frozenset("int long float double decimal string date timestamp timestamptz".split())
"""Types whose values, bounds and literals all sort as in Spark."""
MAX_TOP_ROWS = 100_000
"""Rows: a higher limit rarely prunes, and each task keeps the first sort key of up to `count` rows."""
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Threshold:
    """A value of the first sort key that at least `count` rows equal or beat; None is NULL."""

    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TopRows:
    """The first `count` rows by `column`.

    `has_more_keys`: further sort keys order the rows that are equal in `column`. `threshold`: proven from bounds while
    planning (`threshold_from_bounds`), for the whole table; None if bounds prove none.

    >>> top = TopRows(column=Column(1, ("a",), Primitive("int")), count=3, descending=True, nulls_first=False)
    >>> str(top.no_worse(Threshold(7)))
    'a >= 7'
    """

    column: Column
    count: int
    descending: bool
    nulls_first: bool
    has_more_keys: bool = False
    threshold: Threshold | None = None

    def __str__(self) -> str:
        direction, nulls = "DESC" if self.descending else "ASC", "FIRST" if self.nulls_first else "LAST"
        return (
            f"{self.column} {direction} NULLS {nulls}{', …' if self.has_more_keys else ''} LIMIT {self.count}"
        )

    def no_worse(self, threshold: Threshold | None) -> Predicate:
        """Return the predicate of the rows that equal or beat a threshold; TRUE for None."""
        if threshold is None:
            return TRUE
        is_null = IsNull(self.column)
        if threshold.value is None:
            return is_null if self.nulls_first else TRUE
        values = Compare(">=" if self.descending else "<=", self.column, threshold.value)
        return either(is_null, values) if self.nulls_first else values

    def better(self, threshold: Threshold) -> Predicate:
        """Return the predicate of the rows that are strictly better than a threshold."""
        is_null = IsNull(self.column)
        if threshold.value is None:
            return FALSE if self.nulls_first else Not(is_null)
        values = Compare(">" if self.descending else "<", self.column, threshold.value)
        return either(is_null, values) if self.nulls_first else values

    def is_better(self, one: Threshold, other: Threshold) -> bool:
        """Return whether `one` sorts strictly before `other`."""
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
        """Sort files or row groups by the best value that each may contain; those without a bound come last.

        Args:
            items: Files or row groups.
            known: Returns an item's bounds by field id, and its number of rows if known.
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


def threshold_from_bounds(
    top: TopRows, files: Sequence[tuple[Callable[[int], Bounds | None], int | None, int]]
) -> tuple[Threshold, int] | None:
    """Return a value that at least `count` rows equal or beat, and the number of files that prove it.

    Args:
        top: The limit and its first sort key.
        files: For each file whose rows all match the predicate: its bounds by field id, its number of rows if known,
            and an upper limit of the number of deleted rows.

    Returns:
        None if the bounds prove no threshold.
    """
    nulls = null_files = 0
    values: list[tuple[Any, int]] = []
    for bounds_of, rows, num_deleted in files:
        if rows is None:
            continue
        found = value_range(top.column, bounds_of, rows)
        bounds = bounds_of(top.column.field_id)
        worst = found.lower if top.descending else found.upper
        num_nulls = None if bounds is None else bounds.null_count
        if not found.may_value:
            nulls, null_files = nulls + max(0, rows - num_deleted), null_files + 1
        elif worst is None or num_nulls is None or not 0 <= num_nulls <= rows:
            continue
        elif bounds is None or (bounds.value_count is None and len(top.column.path) > 1):
            continue  # the rows in which a field's struct is NULL were not counted
        elif bounds.value_count in (None, rows):
            if num_nulls:
                nulls, null_files = nulls + max(0, num_nulls - num_deleted), null_files + 1
            values.append((worst, max(0, rows - num_nulls - num_deleted)))
    if top.nulls_first and nulls >= top.count:
        return Threshold(None), null_files
    num_rows = nulls if top.nulls_first else 0
    values.sort(key=lambda pair: pair[0], reverse=top.descending)
    for place, (worst, rows) in enumerate(values):
        num_rows += rows
        if num_rows >= top.count:
            return Threshold(_value_of(top, worst)), place + 1
    return None


def _value_of(top: TopRows, key: Any) -> Any:
    """Return the value whose order key is `key`."""
    assert isinstance(top.column.type, Primitive)
    if top.column.type.name in ("float", "double"):
        return math.nan if key[0] else key[1]
    return key
