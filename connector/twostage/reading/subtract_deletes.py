"""Applies deletes to the rows of a row group: the only place where they remove rows, and where that is recorded.

Takes a row group's rows and the deletes of its file; removes the deleted rows. Positions come first, because
they need no column; equality deletes are probed with the keys of the rows that the filter kept. If delete
files are to be streamed instead of loaded, nothing is removed yet, and the keys are returned, to wait for
those of other row groups (see `waiting`). The rules: keys are not read for rows that bounds or page indexes
decide; if deletes are compiled, each row that equality deletes decide is recorded once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twostage.deletes.anti_join.build_from_deletes import EqualityDeletes
from twostage.reading.aligned_columns import plain
from twostage.reading.prove_deletes import KeyProof
from twostage.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Container

    import pyarrow as pa
    from numpy.typing import NDArray

    from twostage.data_files.row_group import RowGroup
    from twostage.deletes.anti_join.build_from_rows import RemainingRows
    from twostage.deletes.anti_join.choose import EqualityAntiJoin
    from twostage.deletes.compiled.recorder import Recorder
    from twostage.metrics import Metrics
    from twostage.reading.aligned_columns import LiveColumns
    from twostage.reading.expect_columns import ExpectedColumns
    from twostage.reading.task_state import OpenFile
    from twostage.task import DeleteFile

MAX_ROWS_TO_PROBE_AT_ONCE = 4096
"""Rows whose keys, if already in memory, are probed as fast as key pages are compared."""


def subtract_positions(file: OpenFile, row_group: RowGroup, metrics: Metrics) -> Selection:
    """Return the rows of a row group that no position deletes."""
    selection = Selection.all(row_group.num_rows)
    for positions in (file.deletes.positions, file.deletes.compiled_positions):
        before = selection.count
        selection = selection.without(positions.within(row_group.first_row, row_group.num_rows))
        metrics.add(f"rows.deleted.{positions.kind}", before - selection.count)
    return selection


def subtract_equality(
    file: OpenFile,
    row_group: RowGroup,
    columns: LiveColumns,
    metrics: Metrics,
    expected: ExpectedColumns | None = None,
) -> RemainingRows | None:
    """Remove the rows that equality deletes delete; return the keys to probe if delete files are to be streamed.

    `expected` requests columns along with the data that is waited for here.
    """
    deletes, recorder = file.deletes.equality, file.deletes.compiled.recorder
    if not deletes or columns.live.count == 0:
        return None
    applicable = deletes.overlapping(file.data_file, row_group)
    proof = None
    if columns.live.count > MAX_ROWS_TO_PROBE_AT_ONCE or not _has_keys(file, applicable, columns):
        proof = KeyProof.by_bounds(file, row_group, applicable, columns.selection(), metrics)
    num_rows = columns.live.count if proof is None else proof.unproven.count
    if num_rows == 0:
        applicable = ()
    elif applicable and expected is not None:
        expected.ask_before_deletes(applicable, columns.selection() if proof is None else proof.unproven)
    equality = deletes.choose(applicable, num_rows)
    # By bounds: True if all rows are deleted, False if none is, None if keys must be probed.
    whole = (
        deletes.all_or_none_deleted(file.data_file, row_group, equality, num_rows) if applicable else False
    )
    metrics.add("row_groups.untouched", whole is False)
    if whole is not None:
        if whole:
            columns.forget_all_but(set())
        if whole or recorder is not None:
            columns.condense(force=True)
            _remove(columns, np.full(columns.base.count, whole), row_group.first_row, recorder, metrics)
    elif not isinstance(equality, EqualityDeletes):
        columns.condense(force=True)
        return equality.remaining_rows(_keys_of(columns, equality), columns.base.count)
    else:
        unproven = None
        if proof is not None:
            unproven = _remove_proven(file, row_group, proof, equality, columns, metrics)
        if expected is not None and (unproven is None or unproven.any()):
            expected.ask_before_keys(equality.field_ids)
        # Columns that stage two would read for all rows are read now, and not again.
        selected = {field.id for field in file.data_file.context.projection}
        probe_keys(
            equality, columns, row_group.first_row, recorder, metrics, probed=unproven, selected=selected
        )
    return None


def _remove_proven(
    file: OpenFile,
    row_group: RowGroup,
    proof: KeyProof,
    equality: EqualityDeletes,
    columns: LiveColumns,
    metrics: Metrics,
) -> NDArray[np.bool_] | None:
    """Remove the rows that pages prove to be deleted; return which rows of the base must be probed, None for all."""
    proven = proof.by_keys(equality, file.learned.payoffs.key_pages, metrics)
    if proven is None:
        return None
    columns.condense(force=True)
    unproven, deleted = columns.base.marks(proven.unproven), columns.base.marks(proven.deleted)
    recorder = file.deletes.compiled.recorder
    _remove(columns, deleted[~unproven], row_group.first_row, recorder, metrics, of=~unproven)
    columns.condense(force=True)
    return unproven[~deleted]


def probe_keys(
    equality: EqualityAntiJoin,
    columns: LiveColumns,
    first_row: int,
    recorder: Recorder | None,
    metrics: Metrics,
    *,
    probed: NDArray[np.bool_] | None = None,
    selected: Container[int] = (),
) -> None:
    """Remove the rows whose keys are in equality deletes; keys are read for live rows only.

    Args:
        equality: The deletes.
        columns: The rows, with a way to read their key columns.
        first_row: The position in the file of the columns' first row.
        recorder: Records the deleted rows, to compile the deletes; None: they are not compiled.
        metrics: Gains ``rows.deleted.equality``.
        probed: The rows that may be deleted (bool, one for each row of the base, all live); None: all.
        selected: Columns that stage two reads: they are read for all rows.
    """
    if not equality or columns.live.count == 0 or (probed is not None and not probed.any()):
        return
    columns.condense(force=True)
    if probed is None:
        deleted = equality.deleted(_keys_of(columns, equality), columns.base.count)
    else:
        keys = {
            field_id: plain(columns.some(field_id, probed, whole=field_id in selected))
            for field_id in equality.field_ids
        }
        deleted = equality.deleted(keys, int(np.count_nonzero(probed)))
    _remove(columns, deleted, first_row, recorder, metrics, of=probed)


def remove_deleted(
    file: OpenFile, row_group: RowGroup, columns: LiveColumns, deleted: NDArray[np.bool_], metrics: Metrics
) -> None:
    """Remove rows that streamed delete files delete: `deleted` is a bool for each row of the base, all live."""
    _remove(columns, deleted, row_group.first_row, file.deletes.compiled.recorder, metrics)


def _keys_of(columns: LiveColumns, equality: EqualityAntiJoin) -> dict[int, pa.Array]:
    return {field_id: plain(columns.column(field_id)) for field_id in equality.field_ids}


def _remove(
    columns: LiveColumns,
    deleted: NDArray[np.bool_],
    first_row: int,
    recorder: Recorder | None,
    metrics: Metrics,
    of: NDArray[np.bool_] | None = None,
) -> None:
    """Remove and record rows that equality deletes delete.

    Args:
        columns: The rows; all rows of the base are live.
        deleted: Which are deleted: a bool for each row of the base, or for each chosen row.
        first_row: The position in the file of the columns' first row.
        recorder: Records the deleted rows, to compile the deletes; None: they are not compiled.
        metrics: Gains ``rows.deleted.equality``.
        of: The chosen rows (bool, one for each row of the base); the others are undecided. None: all.
    """
    if recorder is not None:
        decided = columns.base if of is None else columns.base.keep(of)
        recorder.add(first_row, decided, deleted)
    remaining = ~deleted
    if of is not None:
        remaining = np.ones(columns.base.count, np.bool_)
        remaining[of] = ~deleted
    columns.keep(remaining)
    metrics.add("rows.deleted.equality", int(np.count_nonzero(deleted)))


def _has_keys(file: OpenFile, deletes: tuple[DeleteFile, ...], columns: LiveColumns) -> bool:
    """Tell whether the filter has read all key columns, so that probing a few rows costs nothing."""
    read = columns.read_columns().keys() | file.data_file.task.constants.keys()
    return all(read.issuperset(delete.equality_ids) for delete in deletes)
