"""The metadata column `_deleted`: whether deletes of any kind remove a row.

Takes an open data file with its deletes; returns a bool for each row of a row group. The rule: a scan that
uses the column gets every row, and each kind of delete marks the rows that it would otherwise remove.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from twostage.data_files.computed_columns import DELETED
from twostage.predicates import predicate as tree

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from twostage.data_files.data_file import DataFile
    from twostage.data_files.row_group import RowGroup
    from twostage.reading.file_deletes import FileDeletes
    from twostage.task import ScanContext


def shows_deleted(context: ScanContext) -> bool:
    """Tell whether a scan uses `_deleted`: then it also returns deleted rows, marked."""
    named = {field.id for field in context.projection}
    named.update(column.field_id for column in tree.columns(context.predicate))
    return DELETED in named


class DeletedColumn:
    """The column `_deleted` of a data file; caches the last row group's.

    Args:
        data_file: The file; equality deletes read their key columns from it.
        deletes: Its deletes.
    """

    def __init__(self, data_file: DataFile, deletes: FileDeletes) -> None:
        self._data_file = data_file
        self._positions = deletes.positions | deletes.compiled_positions
        self._equality = deletes.equality
        self._last: tuple[int, pa.Array] | None = None

    def __call__(self, row_group: RowGroup) -> pa.Array:
        """Return a bool for each row of the row group."""
        last = self._last  # two threads may read two row groups
        if last is None or last[0] != row_group.index:
            self._last = last = (row_group.index, pa.array(self._mask(row_group)))
        return last[1]

    def _mask(self, row_group: RowGroup) -> NDArray[np.bool_]:
        deleted = np.zeros(row_group.num_rows, np.bool_)
        deleted[self._positions.within(row_group.first_row, row_group.num_rows)] = True
        equality = self._equality.choose_for_file()
        if equality:
            keys = {i: self._data_file.read_leaf(row_group, i) for i in equality.field_ids}
            deleted |= equality.deleted(keys, row_group.num_rows)
        return deleted
