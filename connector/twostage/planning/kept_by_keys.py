"""Whether keys of joins may leave most rows of a scan.

Takes the scan's predicate, the keys among its conjuncts, and the bounds of the chosen data files. It decides how many tasks
read them, never which rows come back. The rule: many keys are taken for keys of most rows; a few only where they are a
large part of all whole numbers between a file's bounds, such as those of the twelve shops of a retailer.
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

FEW_KEYS = 100
"""Of a join: those of a few customers keep a few rows of a table, those of a year's dates a fifth of TPC-DS's."""
MIN_LISTED_SHARE = 0.4
"""Of the whole numbers between a file's bounds, from which on a few keys are taken for those of most rows: in TPC-DS query 43
at scale 1, all twelve shops' keys made 966,000 rows of three files one task."""
MAX_FILES_ASKED = 64
"""More files have so many bytes that these decide how many tasks there are."""
_WHOLE = frozenset(("int", "long", "date"))


class KeptByKeys:
    """Collects what the chosen files' bounds tell of the keys.

    Args:
        predicate: What the scan filters by.
        keys: Its conjuncts that are keys of joins.
    """

    def __init__(self, predicate: Predicate, keys: Sequence[Predicate]) -> None:
        own = [part for part in conjuncts(predicate) if part not in keys]
        few = [part for part in keys if _num_keys(part) <= FEW_KEYS]
        self._lists = [part for part in few if isinstance(part, In) and _is_whole(part)]
        self._is_thin = any(drops_rows(part) for part in own) or len(self._lists) < len(few)
        self._sorted = {id(part): sorted(set(part.values)) for part in self._lists}
        self._asked = 0
        self._rows = 0
        self._kept = 0.0

    def add(self, rows: int, bounds_of: BoundsOf) -> None:
        """Take in a data file: its rows, and what returns the bounds of a column by field id."""
        if self._is_thin or not self._lists or self._asked == MAX_FILES_ASKED:
            return
        self._asked += 1
        self._rows += rows
        self._kept += rows * min(self._share(part, bounds_of) for part in self._lists)

    @property
    def may_be_most(self) -> bool:
        """Whether most rows of the files may come back."""
        return not self._is_thin and (not self._lists or self._kept > self._rows * MIN_LISTED_SHARE)

    def _share(self, part: In, bounds_of: BoundsOf) -> float:
        """Return how many of the whole numbers between a column's bounds a list has; 0 where there are no bounds."""
        values = value_range(part.column, bounds_of, None)
        if values.lower is None or values.upper is None or not part.values:
            return 0.0
        keys = self._sorted[id(part)]
        listed = bisect_right(keys, values.upper) - bisect_left(keys, values.lower)
        return listed / float(max(1, values.upper - values.lower + 1))


def _num_keys(part: Predicate) -> float:
    """Return how many keys of a join a conjunct is; infinitely many of what is none, such as a range."""
    if isinstance(part, In):
        return len(part.values)
    if isinstance(part, InBloom):
        return part.bloom.count
    return part.keys.count if isinstance(part, InKeys | InTuples) else float("inf")


def _is_whole(part: In) -> bool:
    return str(part.column.value_type) in _WHOLE and str(part.column.type) in _WHOLE
