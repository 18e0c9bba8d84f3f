"""The pipeline: prune, positions, filter, equality deletes, fetch.

Takes a `TaskGroup`; gives the record batches of its live, matching rows. Positions and vectors need no
column, so they shrink the selection before stage one; equality deletes need key columns, so they run on
the survivors; the select columns are read last, for the rows that are left.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from twostage.deletes.equality import EqualityDeletes, load_equality
from twostage.deletes.position import DeletedPositions, load_positions
from twostage.files.avro_file import AvroDataFile
from twostage.files.computed_columns import DeletedRows, shows_deleted
from twostage.files.orc_file import OrcDataFile
from twostage.files.parquet_file import ParquetDataFile
from twostage.reading import filter as stage_one
from twostage.reading.fetch import fetch_columns
from twostage.reading.one_stage import read_one_stage
from twostage.reading.prune_row_groups import DictionaryRecord, Verdict, judge_row_group
from twostage.reading.selection import Selection
from twostage.table.metadata_rows import read_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from twostage.files.datafile import DataFile, RowGroup
    from twostage.metrics import Metrics
    from twostage.task import ScanContext, ScanTask, TaskGroup


FORMATS: dict[str, type[DataFile]] = {
    "parquet": ParquetDataFile,
    "orc": OrcDataFile,
    "avro": AvroDataFile,
}


def read_group(group: TaskGroup, metrics: Metrics) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task group, at most ``context.limit`` of them."""
    if group.rows is not None:
        yield from read_rows(group.rows, metrics)
        return
    row_filter = stage_one.RowFilter.of(group.context)
    dictionaries = DictionaryRecord()
    left = group.context.limit
    for task in group.tasks:
        for batch in read_task(group, task, row_filter, dictionaries, metrics):
            if left is not None:
                batch = batch.slice(0, left)  # noqa: PLW2901
                left -= batch.num_rows
            metrics.add("rows.fetched", batch.num_rows)
            yield batch
            if left == 0:
                return


def read_task(
    group: TaskGroup,
    task: ScanTask,
    row_filter: stage_one.RowFilter,
    dictionaries: DictionaryRecord,
    metrics: Metrics,
) -> Iterator[pa.RecordBatch]:
    """Yield the live, matching rows of one data file (or its part), in file order."""
    context = group.context
    metrics.add("files.read")
    with open_data_file(context, task, metrics) as data_file:
        with metrics.timed("deletes"):
            positions = load_positions(context, task, metrics)

        @functools.cache  # opens no delete file before a row is alive that it could remove
        def equality_deletes() -> EqualityDeletes:
            with metrics.timed("deletes"):
                return load_equality(context, task, metrics)

        subtracted: Callable[[], EqualityDeletes] = equality_deletes
        if shows_deleted(context):
            data_file.deleted_rows = DeletedRows(data_file, positions, equality_deletes)
            positions, subtracted = DeletedPositions(), functools.partial(EqualityDeletes, (), 0)

        for row_group in data_file.row_groups():
            metrics.add("row_groups.considered")
            metrics.add("rows.considered", row_group.num_rows)
            with metrics.timed("prune"):
                verdict = judge_row_group(data_file, row_group, dictionaries, metrics)
            if verdict is Verdict.SKIP:
                continue
            selection = _subtract_positions(row_group, positions, metrics)
            applied = row_filter if verdict is Verdict.FILTER else stage_one.RowFilter()
            steps = read_one_stage if not context.settings.two_stage else read_two_stages
            yield from steps(data_file, row_group, applied, selection, subtracted, metrics)


def read_two_stages(
    data_file: DataFile,
    row_group: RowGroup,
    row_filter: stage_one.RowFilter,
    selection: Selection,
    equality_deletes: Callable[[], EqualityDeletes],
    metrics: Metrics,
) -> Iterator[pa.RecordBatch]:
    """Decide which rows of a row group live, then yield their select columns."""
    decoded: dict[int, pa.Array] = {}

    def column_of(field_id: int) -> pa.Array:
        if field_id not in decoded:
            decoded[field_id] = data_file.read_leaf(row_group, field_id)
        return decoded[field_id]

    with metrics.timed("filter"):
        before = selection.count
        selection = stage_one.filter_rows(row_filter, selection, column_of, metrics)
        metrics.add("rows.filtered", before - selection.count)
    if selection.count and (equality := equality_deletes()):
        with metrics.timed("deletes"):
            selection = stage_one.subtract_equality(equality, selection, column_of, metrics)
    if selection.count == 0:
        metrics.add("row_groups.pruned.filter")
        return
    metrics.add("row_groups.read")
    yield from metrics.timed_steps("fetch", fetch_columns(data_file, row_group, selection, decoded))


def open_data_file(context: ScanContext, task: ScanTask, metrics: Metrics) -> DataFile:
    """Open the task's data file by its format."""
    return FORMATS[task.format](context, task, metrics)


def _subtract_positions(row_group: RowGroup, positions: DeletedPositions, metrics: Metrics) -> Selection:
    deleted = positions.within(row_group.first_row, row_group.num_rows)
    metrics.add(f"rows.deleted.{positions.kind}", len(deleted))
    return Selection.all(row_group.num_rows).without(deleted)
