"""Whether a scan may return most of its rows despite join keys.

Takes the scan's predicate, the join keys among its conjuncts, and the bounds of the chosen data files. It
decides how many tasks read them, never which rows are returned. The rule: many keys are assumed to match most
rows; a few only if they are a large share of the integers between a file's bounds, such as the keys of a
retailer's twelve shops.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from twostage.planning.estimates import drops_rows
from twostage.predicates.predicate import In, InBloom, InKeys, InTuples, conjuncts
from twostage.predicates.value_range import value_range

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twostage.predicates.predicate import Predicate
    from twostage.predicates.value_range import BoundsOf

MAX_SELECTIVE_KEYS = 100
"""Up to this many join keys are assumed to be selective: a few customers keep a few rows of a table, a year's
dates a fifth of TPC-DS's."""
MIN_LISTED_SHARE = 0.4
"""Of the integers between a file's bounds, above which a few keys are assumed to match most rows: in TPC-DS
query 43 at scale 1, the keys of all twelve shops put 966,000 rows of three files into one task."""
MAX_FILES_COMPARED = 64
"""Files whose bounds are compared: with more, their bytes determine the number of tasks."""
_WHOLE = frozenset(("int", "long", "date"))


class JoinSelectivity:
    """Collects, from the chosen files' bounds, the share of rows that join keys keep.

    Args:
        predicate: The scan's filter.
        keys: Its conjuncts that are join keys.
    """

    def __init__(self, predicate: Predicate, keys: Sequence[Predicate]) -> None:
        own = [part for part in conjuncts(predicate) if part not in keys]
        few = [part for part in keys if _num_keys(part) <= MAX_SELECTIVE_KEYS]
        self._lists = [part for part in few if isinstance(part, In) and _is_whole(part)]
        self._is_selective = any(drops_rows(part) for part in own) or len(self._lists) < len(few)
        self._sorted = {id(part): sorted(set(part.values)) for part in self._lists}
        self._num_files = 0
        self._rows = 0
        self._kept = 0.0

    def add(self, rows: int, bounds_of: BoundsOf) -> None:
        """Add a data file: its row count, and a function from field id to the column's bounds."""
        if self._is_selective or not self._lists or self._num_files == MAX_FILES_COMPARED:
            return
        self._num_files += 1
        self._rows += rows
        self._kept += rows * min(self._share(part, bounds_of) for part in self._lists)

    @property
    def may_keep_most_rows(self) -> bool:
        """Whether the scan may return most rows of the files."""
        return not self._is_selective and (not self._lists or self._kept > self._rows * MIN_LISTED_SHARE)

    def _share(self, part: In, bounds_of: BoundsOf) -> float:
        """Return the share of the integers between a column's bounds that are listed; 0 without bounds."""
        values = value_range(part.column, bounds_of, None)
        if values.lower is None or values.upper is None or not part.values:
            return 0.0
        keys = self._sorted[id(part)]
        listed = bisect_right(keys, values.upper) - bisect_left(keys, values.lower)
        return listed / float(max(1, values.upper - values.lower + 1))


def _num_keys(part: Predicate) -> float:
    """Return how many join keys a conjunct has; infinity if it is not a key set, such as a range."""
    if isinstance(part, In):
        return len(part.values)
    if isinstance(part, InBloom):
        return part.bloom.count
    return part.keys.count if isinstance(part, InKeys | InTuples) else float("inf")


def _is_whole(part: In) -> bool:
    return str(part.column.value_type) in _WHOLE and str(part.column.type) in _WHOLE
