"""Which rows of one row range are live.

A `Selection` covers `num_rows` consecutive rows of a file (a row group, usually). Each stage returns a smaller one.
Invariants: immutable; `mask` is a read-only bool array of length `num_rows`, or None if every row is live; `count` is the
number of live rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The live rows among `num_rows`; build it with `all`, `none` or `of`.

    >>> Selection.of(np.array([True, False, True])).indices()
    array([0, 2])
    """

    num_rows: int
    mask: NDArray[np.bool_] | None
    count: int

    @staticmethod
    def all(num_rows: int) -> Selection:
        """Return the selection of every row."""
        return Selection(num_rows, None, num_rows)

    @staticmethod
    def none(num_rows: int) -> Selection:
        """Return the selection of no row."""
        return Selection.of(np.zeros(num_rows, np.bool_))

    @staticmethod
    def of(mask: NDArray[np.bool_]) -> Selection:
        """Return the selection of the rows where `mask` (bool, one per row) is true."""
        count = int(np.count_nonzero(mask))
        if count == len(mask):
            return Selection.all(len(mask))
        mask = mask.view()
        mask.flags.writeable = False
        return Selection(len(mask), mask, count)

    @property
    def is_all(self) -> bool:
        """Whether every row is live."""
        return self.count == self.num_rows

    def __and__(self, other: Selection) -> Selection:
        if other.mask is None:
            return self
        return other if self.mask is None else Selection.of(self.mask & other.mask)

    def __or__(self, other: Selection) -> Selection:
        if self.mask is None or other.mask is None:
            return Selection.all(self.num_rows)
        return Selection.of(self.mask | other.mask)

    def __sub__(self, other: Selection) -> Selection:
        """Return the rows that are live here and not in `other`."""
        if other.mask is None:
            return Selection.none(self.num_rows)
        return Selection.of(~other.mask if self.mask is None else self.mask & ~other.mask)

    def without(self, positions: NDArray[np.integer]) -> Selection:
        """Return the selection less these row positions (int, within the range, any order)."""
        if len(positions) == 0:
            return self
        mask = np.ones(self.num_rows, np.bool_) if self.mask is None else self.mask.copy()
        mask[positions] = False
        return Selection.of(mask)

    def keep(self, live: NDArray[np.bool_]) -> Selection:
        """Return the selection after a test of the live rows only (bool, length `count`, in row order)."""
        if self.mask is None:
            return Selection.of(live)
        mask = self.mask.copy()
        mask[self.mask] = live
        return Selection.of(mask)

    def marks(self, other: Selection) -> NDArray[np.bool_]:
        """Tell for each live row whether it is also live in `other` (bool, length `count`, in row order)."""
        mask = np.ones(self.num_rows, np.bool_) if other.mask is None else other.mask
        return mask if self.mask is None else mask[self.mask]

    def first(self, count: int) -> Selection:
        """Return the first `count` of the live rows; all if there are no more."""
        if count >= self.count:
            return self
        mask = np.zeros(self.num_rows, np.bool_)
        mask[self.indices()[:count]] = True
        return Selection.of(mask)

    def slice(self, start: int, length: int) -> Selection:
        """Return the part that covers rows ``start … start + length - 1``."""
        if self.mask is None:
            return Selection.all(min(length, self.num_rows - start))
        return Selection.of(self.mask[start : start + length])

    def indices(self) -> NDArray[np.int64]:
        """Return the live rows' positions in the range: int64, ascending."""
        if self.mask is None:
            return np.arange(self.num_rows, dtype=np.int64)
        return np.flatnonzero(self.mask).astype(np.int64, copy=False)

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices().tolist())
