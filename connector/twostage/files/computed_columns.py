"""Columns that no file holds as they are: positions, row lineage, and which rows are deleted.

Takes a task, a row group and what the file stores, if anything; gives Arrow arrays and bounds. The rules: a row's
position counts all rows of its file, deleted ones too; a stored `_row_id` or sequence number stands, a NULL one
is inherited, and where the file has no first row id (tables before version 3) both are NULL.
Source: Iceberg table spec, "Row Lineage".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twostage.predicates import predicate as tree
from twostage.predicates.bounds import Bounds

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from twostage.deletes.position import DeletedPositions
    from twostage.deletes.task_deletes import Equality
    from twostage.files.datafile import DataFile, RowGroup
    from twostage.predicates.predicate import Predicate
    from twostage.task import ScanContext, ScanTask

POSITION, DELETED, ROW_ID, LAST_UPDATED = 2_147_483_645, 2_147_483_644, 2_147_483_540, 2_147_483_539
COMPUTED = frozenset((POSITION, DELETED, ROW_ID, LAST_UPDATED))
STORABLE = frozenset((ROW_ID, LAST_UPDATED))
"""Those that a file may hold for some of its rows."""


def compute_column(
    field_id: int, stored: pa.Array | None, task: ScanTask, positions: NDArray[np.int64]
) -> pa.Array:
    """Return a computed column but `_deleted` for some rows of a file.

    Args:
        field_id: Which.
        stored: The file's own values of it, if it may have any.
        task: The file.
        positions: The rows' positions in the file: int64.
    """
    if field_id == POSITION:
        return pa.array(positions)
    first_id = task.first_row_id
    if first_id is None:
        return pa.nulls(len(positions), pa.int64())
    if field_id == ROW_ID:
        inherited = pa.array(first_id + positions)
    else:
        inherited = pa.repeat(pa.scalar(task.sequence_number, pa.int64()), len(positions))
    return inherited if stored is None else pc.coalesce(stored, inherited)


def computed_bounds(data_file: DataFile, row_group: RowGroup, field_id: int) -> Bounds | None:
    """Return what is known of a computed column in a row group."""
    task, rows = data_file.task, row_group.num_rows
    if field_id == DELETED or rows == 0:
        return None
    lower, upper = row_group.first_row, row_group.first_row + rows - 1
    if field_id != POSITION:
        if task.first_row_id is None:
            return Bounds(null_count=rows, value_count=rows)
        if data_file.holds(field_id):  # for some rows, perhaps
            return None
        lower, upper = lower + task.first_row_id, upper + task.first_row_id
        if field_id == LAST_UPDATED:
            lower = upper = task.sequence_number
    return Bounds(lower=lower, upper=upper, null_count=0, value_count=rows)


def stored_part(predicate: Predicate) -> Predicate:
    """Return what `predicate` implies of columns that files hold as they are."""
    if not any(column.field_id in COMPUTED for column in tree.columns(predicate)):
        return predicate
    return tree.weaken(_blank(predicate))


def _blank(predicate: Predicate) -> Predicate:
    match predicate:
        case tree.And(children):
            return tree.And(tuple(_blank(child) for child in children))
        case tree.Or(children):
            return tree.Or(tuple(_blank(child) for child in children))
        case tree.Not(child):
            return tree.Not(_blank(child))
    computed = any(column.field_id in COMPUTED for column in tree.columns(predicate))
    return tree.Unknown(str(predicate)) if computed else predicate


def shows_deleted(context: ScanContext) -> bool:
    """Tell whether a scan names `_deleted`: then it returns deleted rows too, marked."""
    named = {field.id for field in context.projection}
    named.update(column.field_id for column in tree.columns(context.predicate))
    return DELETED in named


class DeletedRows:
    """The column `_deleted` of a data file; keeps the last row group's.

    Args:
        data_file: The file; equality deletes read their key columns from it.
        positions: What positional deletes and vectors delete in it.
        equality_deletes: Loads its equality deletes.
    """

    def __init__(
        self,
        data_file: DataFile,
        positions: DeletedPositions,
        equality_deletes: Callable[[], Equality],
    ) -> None:
        self._data_file = data_file
        self._positions = positions
        self._equality_deletes = equality_deletes
        self._last: tuple[int, pa.Array] | None = None

    def __call__(self, row_group: RowGroup) -> pa.Array:
        """Return a bool for each row of the row group."""
        last = self._last  # two threads may ask for two row groups
        if last is None or last[0] != row_group.index:
            self._last = last = (row_group.index, pa.array(self._mask(row_group)))
        return last[1]

    def _mask(self, row_group: RowGroup) -> NDArray[np.bool_]:
        deleted = np.zeros(row_group.num_rows, np.bool_)
        deleted[self._positions.within(row_group.first_row, row_group.num_rows)] = True
        equality = self._equality_deletes()
        if equality:
            keys = {i: self._data_file.read_leaf(row_group, i) for i in equality.field_ids}
            deleted |= equality.deleted(keys, row_group.num_rows)
        return deleted
