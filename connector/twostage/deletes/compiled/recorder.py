"""Records which rows equality deletes remove while a scan applies them.

Takes the rows that were probed, row group by row group, and a bool for each: whether it is deleted; returns a
bitmap of the deleted positions in the data file. The rule: it is complete only if every row was probed or is
deleted by position.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap64

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from twostage.data_files.row_group import RowGroup
    from twostage.selection import Selection


class Recorder:
    """Collects which rows equality deletes remove, and whether every row was probed.

    Args:
        deleted_by_position: Rows that positional deletes remove: these need not be probed.
    """

    def __init__(self, deleted_by_position: BitMap64 | None = None) -> None:
        self._bitmap = BitMap64()
        self._lock = threading.Lock()
        self._expected = BitMap64()
        self._probed = BitMap64()
        self._deleted_by_position = BitMap64() if deleted_by_position is None else deleted_by_position

    def counted(self, row_groups: Iterable[RowGroup]) -> Iterator[RowGroup]:
        """Yield row groups, and expect all of their rows to be probed."""
        for row_group in row_groups:
            self._expected.add_range(row_group.first_row, row_group.first_row + row_group.num_rows)
            yield row_group

    def add(self, first_row: int, rows: Selection, deleted: NDArray[np.bool_]) -> None:
        """Record which rows of a row group were probed, and which of them are deleted.

        Args:
            first_row: The position of the row group's first row in the file.
            rows: The rows that were probed.
            deleted: A bool for each of them.
        """
        found = first_row + rows.indices()[deleted] if deleted.any() else np.zeros(0, np.int64)
        with self._lock:  # two threads may have probed two row groups
            if rows.is_all:
                self._probed.add_range(first_row, first_row + rows.num_rows)
            else:
                self._probed.update((first_row + rows.indices()).astype(np.uint64))
            self._bitmap.update(found.astype(np.uint64))

    @property
    def is_complete(self) -> bool:
        """Whether every row was probed or is deleted by position."""
        return bool(self._expected) and not self._expected - self._probed - self._deleted_by_position

    @property
    def bitmap(self) -> BitMap64:
        """The deleted rows' positions."""
        return self._bitmap
