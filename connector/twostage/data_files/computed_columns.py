"""Columns that no file holds as they are: positions and row lineage.

Takes a task, a row group and what the file stores, if anything; returns Arrow arrays. The rules: a row's
position counts all rows of its file, deleted ones too; a stored `_row_id` or sequence number is kept, a NULL
one is inherited, and if the file has no first row id (tables before version 3) both are NULL.
Source: Iceberg table spec, "Row Lineage".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from twostage.predicates import predicate as tree

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from twostage.predicates.predicate import Predicate
    from twostage.task import ScanTask

POSITION, DELETED, ROW_ID, LAST_UPDATED = 2_147_483_645, 2_147_483_644, 2_147_483_540, 2_147_483_539
COMPUTED = frozenset((POSITION, DELETED, ROW_ID, LAST_UPDATED))
STORABLE = frozenset((ROW_ID, LAST_UPDATED))
"""Those that a file may hold for some of its rows."""


def compute_column(
    field_id: int, stored: pa.Array | None, task: ScanTask, positions: NDArray[np.int64]
) -> pa.Array:
    """Return a computed column other than `_deleted` for some rows of a file.

    Args:
        field_id: Which column.
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


def stored_part(predicate: Predicate) -> Predicate:
    """Return what `predicate` implies about columns that files store."""
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
