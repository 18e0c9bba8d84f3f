"""The pipeline: prune, positions, filter, equality deletes, fetch.

Takes a `TaskGroup`; gives the record batches of its live, matching rows. Positions and vectors need no
column, so they shrink the selection before stage one; equality deletes need key columns, so they run on
the survivors; the select columns are read last, for the rows that are left.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twostage.deletes.equality import EqualityDeletes, load_equality
from twostage.deletes.position import DeletedPositions, load_positions
from twostage.files.avro_file import AvroDataFile
from twostage.files.computed_columns import DeletedRows, shows_deleted
from twostage.files.orc_file import OrcDataFile
from twostage.files.parquet_file import ParquetDataFile
from twostage.reading import filter as stage_one
from twostage.reading.fetch import fetch_columns
from twostage.reading.live_columns import LiveColumns
from twostage.reading.one_stage import read_one_stage
from twostage.reading.payoff import Payoff
from twostage.reading.prune_pages import prune_pages
from twostage.reading.prune_row_groups import Verdict, judge_row_group
from twostage.reading.selection import Selection
from twostage.storage import name_snapshot
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


@dataclass(slots=True)
class Learned:
    """What a Spark task learns from row group to row group."""

    row_filter: stage_one.RowFilter
    dictionaries: Payoff = field(default_factory=Payoff)
    pages: Payoff = field(default_factory=Payoff)


def read_group(group: TaskGroup, metrics: Metrics) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task group, at most ``context.limit`` of them."""
    if group.rows is not None:
        yield from read_rows(group.rows, metrics)
        return
    learned = Learned(stage_one.RowFilter.of(group.context))
    left = group.context.limit
    with name_snapshot(group.context.snapshot_id):
        for task in group.tasks:
            for batch in read_task(group, task, learned, metrics):
                if left is not None:
                    batch = batch.slice(0, left)  # noqa: PLW2901
                    left -= batch.num_rows
                metrics.add("rows.fetched", batch.num_rows)
                yield batch
                if left == 0:
                    return


def read_task(
    group: TaskGroup, task: ScanTask, learned: Learned, metrics: Metrics
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
                verdict = judge_row_group(data_file, row_group, learned.dictionaries, metrics)
            if verdict is Verdict.SKIP:
                continue
            selection = _subtract_positions(row_group, positions, metrics)
            applied = learned.row_filter if verdict is Verdict.FILTER else stage_one.RowFilter()
            whole = context.settings.two_stage and _fits(data_file, row_group, applied)
            if whole and verdict is Verdict.FILTER:
                with metrics.timed("prune"):
                    selection = prune_pages(data_file, row_group, selection, learned.pages, metrics)
            steps = read_two_stages if whole else read_one_stage
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
    columns = LiveColumns(selection, functools.partial(data_file.read_leaf, row_group))
    with metrics.timed("filter"):
        stage_one.filter_rows(row_filter, columns, metrics)
        metrics.add("rows.filtered", selection.count - columns.alive.count)
    if columns.alive.count and (equality := equality_deletes()):
        with metrics.timed("deletes"):
            stage_one.subtract_equality(equality, columns, metrics)
    if columns.alive.count == 0:
        metrics.add("row_groups.pruned.filter")
        return
    metrics.add("row_groups.read")
    yield from metrics.timed_steps("fetch", fetch_columns(data_file, row_group, columns))


def open_data_file(context: ScanContext, task: ScanTask, metrics: Metrics) -> DataFile:
    """Open the task's data file by its format."""
    return FORMATS[task.format](context, task, metrics)


def _fits(data_file: DataFile, row_group: RowGroup, row_filter: stage_one.RowFilter) -> bool:
    """Tell whether what stage one may hold of a row group, whole columns, is within the task's memory."""
    wanted = {field_id for conjunct in row_filter.conjuncts for field_id in conjunct.field_ids}
    wanted.update(field_id for delete in data_file.task.deletes for field_id in delete.equality_ids)
    return data_file.decoded_bytes(row_group, wanted) <= data_file.context.settings.task_memory


def _subtract_positions(row_group: RowGroup, positions: DeletedPositions, metrics: Metrics) -> Selection:
    deleted = positions.within(row_group.first_row, row_group.num_rows)
    metrics.add(f"rows.deleted.{positions.kind}", len(deleted))
    return Selection.all(row_group.num_rows).without(deleted)
