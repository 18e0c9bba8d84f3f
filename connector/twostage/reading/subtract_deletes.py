"""Equality deletes of a row group's survivors.

Takes columns with the rows that the filter left; takes away those that a delete file's key equals. Where delete
files are streamed rather than loaded it takes away nothing, and gives what is to be asked of them: such rows wait for
those of other row groups (see `waiting`). The rule: what page indexes and tables prove is not asked again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twostage.deletes.anti_join.build_from_deletes import EqualityDeletes
from twostage.reading.aligned_columns import plain
from twostage.reading.filter import subtract_equality
from twostage.reading.prove_deletes import KeyProof

if TYPE_CHECKING:
    from twostage.data_files.row_group import RowGroup
    from twostage.deletes.anti_join.build_from_rows import Asked
    from twostage.metrics import Metrics
    from twostage.reading.aligned_columns import LiveColumns
    from twostage.reading.task_state import OpenTask
    from twostage.task import DeleteFile

FEW = 4096
"""Rows that are asked about as fast as the pages of their keys, where these are in memory."""


def subtract(
    file: OpenTask, row_group: RowGroup, columns: LiveColumns, metrics: Metrics, *, may_wait: bool
) -> Asked | None:
    """Take away the rows that equality deletes remove; with `may_wait`, perhaps return what is to be asked later."""
    deletes, alive = file.equality, columns.alive.count
    if not deletes or alive == 0:
        return None
    meeting = deletes.meeting(file.data_file, row_group)
    proof = None
    if alive > FEW or not _holds_keys(file, meeting, columns):
        proof = KeyProof.of(file, row_group, meeting, columns.selection(), metrics)
    asked = alive if proof is None else proof.left.count
    meeting = meeting if asked else ()
    equality = deletes.choose(meeting, asked)
    whole = False if not meeting else deletes.whole(file.data_file, row_group, equality, asked)
    metrics.add("row_groups.untouched", whole is False)
    if whole is not None:
        gone = np.full(columns.base.count, whole)
        if deletes.recorder is not None:
            columns.condense(to_the_rows=True)
            deletes.recorder.add(row_group.first_row, columns.base, gone[: columns.base.count])
        if whole:
            columns.keep(~gone[: columns.base.count])
            metrics.add("rows.deleted.equality", alive)
        return None
    if isinstance(equality, EqualityDeletes):
        places = None if proof is None else proof.settle(file, equality, row_group, columns, metrics)
        if places is not None and not places.any():
            return None
        wanted = {field.id for field in file.data_file.context.projection}
        subtract_equality(equality, columns, row_group.first_row, metrics, asked=places, wanted=wanted)
        return None
    if not may_wait:
        subtract_equality(equality, columns, row_group.first_row, metrics)
        return None
    columns.condense(to_the_rows=True)
    keys = {field_id: plain(columns.column(field_id)) for field_id in equality.field_ids}
    return equality.asked(keys, columns.base.count)


def _holds_keys(file: OpenTask, deletes: tuple[DeleteFile, ...], columns: LiveColumns) -> bool:
    """Tell whether the filter has read all key columns: to ask about few rows costs nothing then."""
    read = columns.read_columns().keys() | file.data_file.task.constants.keys()
    return all(read.issuperset(delete.equality_ids) for delete in deletes)
