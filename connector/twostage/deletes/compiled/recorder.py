"""Records what equality deletes remove while a scan applies them.

Takes the rows that were probed, row group by row group, and which of them are deleted; gives a bitmap of positions.
The rule: it is complete only if every row of the data file was probed or is deleted by position.
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
    """Collects which rows equality deletes remove, and whether every row was asked about.

    Args:
        gone: Rows that positions delete, which nobody has to ask about.
    """

    def __init__(self, gone: BitMap64 | None = None) -> None:
        self._bitmap = BitMap64()
        self._lock = threading.Lock()
        self._expected = BitMap64()
        self._asked = BitMap64()
        self._gone = BitMap64() if gone is None else gone

    def counted(self, row_groups: Iterable[RowGroup]) -> Iterator[RowGroup]:
        """Yield the row groups whose rows are all to be asked about."""
        for row_group in row_groups:
            self._expected.add_range(row_group.first_row, row_group.first_row + row_group.num_rows)
            yield row_group

    def add(self, first_row: int, rows: Selection, deleted: NDArray[np.bool_]) -> None:
        """Note that these rows, counted from `first_row` of the file, were asked about, and which are deleted."""
        found = first_row + rows.indices()[deleted] if deleted.any() else np.zeros(0, np.int64)
        with self._lock:  # two row groups may be decided at once
            if rows.is_all:
                self._asked.add_range(first_row, first_row + rows.num_rows)
            else:
                self._asked.update((first_row + rows.indices()).astype(np.uint64))
            self._bitmap.update(found.astype(np.uint64))

    @property
    def is_complete(self) -> bool:
        """Whether every row was asked about."""
        return bool(self._expected) and not self._expected - self._asked - self._gone

    @property
    def bitmap(self) -> BitMap64:
        """The deleted rows' positions."""
        return self._bitmap
