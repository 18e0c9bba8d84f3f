"""The values that keys may have in one column: NULL, NaN, and intervals.

Takes the bounds of rows or delete files, or the numbers (int64) that a key table holds; tells whether rows
between some bounds can have a key. The rule: intervals may cover more than the keys, never less.

Benefit: "intervals of keys" in docs/benchmarks-deletes.md (``prune.pages``).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from twostage.predicates.bounds import Bounds
from twostage.predicates.value_range import order_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from twostage.schema import Primitive


MAX_INTERVALS = 16_384
"""Intervals of a column, separated by the widest gaps between keys: 256 KiB, and finer than pages."""
SAMPLED_GAPS = 16
"""Of many gaps, one in this many is sampled to tell which are narrow: examining all takes three times as
long."""


@dataclass(frozen=True, slots=True, eq=False)
class KeyDomain:
    """The values that keys may have in a column.

    Attributes:
        may_null: Some key may be NULL there.
        may_nan: Some key may be NaN there.
        lowers: Where intervals of values begin: order keys, ascending.
        uppers: Where they end, inclusive; no two overlap. None: keys may have any value.
    """

    may_null: bool
    may_nan: bool
    lowers: Sequence[Any] | NDArray[np.int64]
    uppers: Sequence[Any] | NDArray[np.int64] | None

    @staticmethod
    def of_files(ranges: Iterable[DeleteKeyRange]) -> KeyDomain:
        """Return the domain of delete files whose keys are in these ranges."""
        ranges = list(ranges)
        may_null = any(one.may_null for one in ranges)
        may_nan = any(one.may_nan for one in ranges)
        valued = [one for one in ranges if one.may_value]
        if any(one.lower is None or one.upper is None for one in valued):
            return KeyDomain(may_null, may_nan, (), None)
        lowers: list[Any] = []
        uppers: list[Any] = []
        for lower, upper in sorted((one.lower, one.upper) for one in valued):
            if uppers and lower <= uppers[-1]:
                uppers[-1] = max(uppers[-1], upper)
            else:
                lowers.append(lower)
                uppers.append(upper)
        return KeyDomain(may_null, may_nan, lowers, uppers)

    def is_disjoint(self, rows: DeleteKeyRange) -> bool:
        """Tell whether no row within these bounds can have a key's value."""
        if (self.may_null and rows.may_null) or (self.may_nan and rows.may_nan):
            return False
        if not rows.may_value:
            return True
        if self.uppers is None:
            return False
        if rows.lower is not None and rows.upper is not None and rows.lower > rows.upper:
            return False  # bounds that contradict each other prove nothing
        place = 0 if rows.lower is None else bisect_left(self.uppers, rows.lower)
        if place == len(self.uppers):
            return True
        return rows.upper is not None and bool(rows.upper < self.lowers[place])


def intervals_of(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return lowers and uppers (int64) of intervals that cover one or more numbers, which are sorted in place."""
    numbers.sort()
    gaps = numbers[1:].view(np.uint64) - numbers[:-1].view(np.uint64)
    cuts = np.zeros(0, np.int64)
    if len(gaps) >= 4 * SAMPLED_GAPS * MAX_INTERVALS:
        narrowest = _from_widest(gaps[::SAMPLED_GAPS], 1 + 2 * MAX_INTERVALS // SAMPLED_GAPS)
        cuts = np.flatnonzero(gaps >= max(narrowest, np.uint64(2)))
    if len(cuts) < MAX_INTERVALS:
        cuts = np.flatnonzero(gaps > 1)
    if len(cuts) >= MAX_INTERVALS:
        wide = gaps[cuts]
        cuts = cuts[wide > _from_widest(wide, MAX_INTERVALS)]
    return numbers[np.append(0, cuts + 1)], numbers[np.append(cuts, len(numbers) - 1)]


def _from_widest(gaps: NDArray[np.uint64], number: int) -> np.uint64:
    """Return the `number`-th widest gap."""
    rank = len(gaps) - number
    found: np.uint64 = np.partition(gaps, rank)[rank]
    return found


def intervals_in(low: int, codes: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the lowers and uppers (int64) of intervals of a direct table's keys: `low` is the first code's number."""
    size = max(1, -(-len(codes) // MAX_INTERVALS))
    whole = len(codes) // size * size
    taken = codes[:whole].reshape(-1, size).any(axis=1)
    if whole < len(codes):
        taken = np.append(taken, codes[whole:].any())
    edges = np.diff(taken.astype(np.int8), prepend=0, append=0)
    starts, ends = np.flatnonzero(edges == 1) * size, np.flatnonzero(edges == -1) * size
    return low + starts.astype(np.int64), low + np.minimum(ends, len(codes)).astype(np.int64) - 1


_FLOATS = ("float", "double")


class DeleteKeyRange:
    """The values that one key column may have in some rows.

    Args:
        kind: The column's type.
        bounds: The column's bounds; None: nothing is known.
        num_rows: How many rows; None: unknown.
        counted: Whether the counts in `bounds` are of all rows. For a field of a struct, some formats count a NULL
            struct as NULL and others do not count it.
    """

    __slots__ = ("bounds", "lower", "may_nan", "may_null", "may_value", "upper")

    def __init__(
        self, kind: Primitive, bounds: Bounds | None, num_rows: int | None, *, counted: bool = True
    ) -> None:
        self.bounds = bounds = bounds or Bounds()
        nulls, values = bounds.null_count, bounds.value_count
        if num_rows is None or not counted:
            nulls = values = None
        rows = num_rows or 0
        self.may_null = nulls != 0 or (values is not None and values < rows)
        self.may_value = nulls is None or nulls < rows or bounds.lower is not None
        self.may_nan = kind.name in _FLOATS and bounds.nan_count != 0
        self.lower = order_key(kind, bounds.lower)
        self.upper = order_key(kind, bounds.upper)

    def is_disjoint(self, other: DeleteKeyRange) -> bool:
        """Tell whether no value here can equal one there."""
        if (self.may_null and other.may_null) or (self.may_nan and other.may_nan):
            return False
        if not self.may_value or not other.may_value:
            return True
        return _before(self.upper, other.lower) or _before(other.upper, self.lower)


def _before(upper: Any, lower: Any) -> bool:
    return upper is not None and lower is not None and bool(upper < lower)
