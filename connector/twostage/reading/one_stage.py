"""The one-stage read: every column of a row group is decoded once, batch by batch.

Takes an open data file, a row group and the rows that positions did not delete; yields the same batches as
filter and fetch together. Used with the option ``two-stage=false`` and for filters that keep nearly all rows.
It streams: only one batch is in memory.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pyarrow as pa

from twostage.columns import arrow_schema, without_columns
from twostage.data_files.data_file import descend
from twostage.reading.aligned_columns import LiveColumns
from twostage.reading.filter import filter_rows
from twostage.reading.stage_two import joined, only
from twostage.reading.subtract_deletes import probe_keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from twostage.data_files.data_file import DataFile
    from twostage.data_files.row_group import RowGroup
    from twostage.deletes.anti_join.choose import EqualityAntiJoin
    from twostage.deletes.compiled.recorder import Recorder
    from twostage.metrics import Metrics
    from twostage.reading.filter import RowFilter
    from twostage.selection import Selection


def read_one_stage(
    data_file: DataFile,
    row_group: RowGroup,
    row_filter: RowFilter,
    selection: Selection,
    equality: EqualityAntiJoin,
    metrics: Metrics,
    recorder: Recorder | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the projection of the live, matching rows, in file order.

    Args:
        data_file: The open file.
        row_group: Its row group.
        row_filter: The filter.
        selection: The rows to consider.
        equality: The equality deletes that may hold keys of the row group.
        metrics: Gains the filtered and deleted rows.
        recorder: Records the deleted rows, to compile the deletes; None: they are not compiled.
    """
    context = data_file.context
    projection, batch_size = context.projection, context.settings.batch_size
    schema = arrow_schema(projection)
    if selection.count == 0:
        return
    wanted = {field_id for conjunct in row_filter.conjuncts for field_id in conjunct.field_ids}
    wanted.update(equality.field_ids)
    # Keys that were dropped from the table are in no schema that the stream can read by.
    dropped = {i: data_file.read_leaf(row_group, i) for i in sorted(wanted) if i not in context.schema}
    leaf_ids = sorted(wanted - dropped.keys())
    leaves = [data_file.leaf_target(field_id) for field_id in leaf_ids]
    targets = [*projection, *(target for target, _ in leaves)]
    counted = 0

    def survivors() -> Iterator[pa.RecordBatch]:
        nonlocal counted
        start = 0
        for arrays in data_file.stream(row_group, targets, batch_size):
            # Shorter than `batch_size` where text would pass 2 GiB; without arrays there is no column at all.
            length = len(arrays[0]) if arrays else min(batch_size, row_group.num_rows - start)
            columns = {i: array.slice(start, length) for i, array in dropped.items()}
            for field_id, (_, depth), array in zip(leaf_ids, leaves, arrays[len(projection) :], strict=True):
                columns[field_id] = descend(array, depth)
            live = selection.slice(start, length)
            first_row = row_group.first_row + start
            start += length
            rows = LiveColumns(live, functools.partial(_cut, columns))
            filter_rows(row_filter, rows, metrics)
            probe_keys(equality, rows, first_row, recorder, metrics)
            live = rows.selection()
            counted += live.count
            if live.count and projection:
                yield only(pa.RecordBatch.from_arrays(arrays[: len(projection)], schema=schema), live)

    metrics.add("row_groups.read")
    yield from metrics.timed_steps("fetch", joined(survivors(), batch_size))
    if not projection:
        yield from without_columns(counted, batch_size)


def _cut(columns: dict[int, pa.Array], field_id: int, rows: Selection) -> pa.Array:
    """Return a column of a batch for some rows of it."""
    return columns[field_id] if rows.is_all else columns[field_id].take(pa.array(rows.indices()))
