"""The pipeline: prune, positions, filter, equality deletes, fetch.

Takes a `TaskGroup`; gives the record batches of its live, matching rows. Positions and vectors need no
column, so they shrink the selection before stage one; equality deletes need key columns, so they run on
the survivors; the select columns are read last, for the rows that are left.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING

from twostage.data_files.parquet_file import ParquetDataFile
from twostage.deletes.anti_join.choose import NONE, TaskDeletes
from twostage.deletes.compiled.store import find_compiled
from twostage.deletes.positions.position_deletes import DeletedPositions, load_positions
from twostage.metadata_tables.rows import read_rows
from twostage.reading.ahead import steps_ahead
from twostage.reading.deleted_column import DeletedRows, shows_deleted
from twostage.reading.filter import RowFilter
from twostage.reading.one_stage import read_one_stage
from twostage.reading.stage_one import live_columns, plan_row_group
from twostage.reading.stage_two import fetch_columns
from twostage.reading.task_state import AwaitDeletes, Fetch, Learned, OpenTask, ReadWhole, ReadWindows, Skip
from twostage.reading.top_rows import BestRows
from twostage.reading.waiting import Held
from twostage.storage.files import name_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    from twostage.data_files.data_file import DataFile
    from twostage.data_files.row_group import RowGroup
    from twostage.metrics import Metrics
    from twostage.task import ScanContext, ScanTask, TaskGroup


def read_group(
    group: TaskGroup, metrics: Metrics, still_wanted: Callable[[], None] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task group, at most ``context.limit`` of them.

    `still_wanted` is asked before each row group's rows are fetched; it raises if nobody wants them any more.
    """
    if group.rows is not None:
        yield from read_rows(group.rows, metrics)
        return
    left = group.context.limit
    with name_snapshot(group.context.snapshot_id):
        for batch in read_tasks(group, metrics, still_wanted):
            if left is not None:
                batch = batch.slice(0, left)  # noqa: PLW2901
                left -= batch.num_rows
            metrics.add("rows.fetched", batch.num_rows)
            yield batch
            if left == 0:
                metrics.add("tasks.limited")
                return


def read_tasks(
    group: TaskGroup, metrics: Metrics, still_wanted: Callable[[], None] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the live, matching rows of all data files."""
    top = group.context.top
    best = None if top is None else BestRows(top, kernels=group.context.settings.kernels)
    learned = Learned(RowFilter.of(group.context), best=best)
    with Held(group.context) as held:
        for task in group.tasks:
            yield from read_task(group, task, learned, held, metrics, still_wanted)
        yield from read_held(held, metrics)


def read_task(
    group: TaskGroup,
    task: ScanTask,
    learned: Learned,
    held: Held,
    metrics: Metrics,
    still_wanted: Callable[[], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the live, matching rows of one data file (or its part), in file order; some may wait in `held`."""
    context = group.context
    metrics.add("files.read")
    with contextlib.ExitStack() as opened:
        data_file = opened.enter_context(open_data_file(context, task, metrics))
        with metrics.timed("deletes"):
            positions = load_positions(context, task, metrics)
            compiled = find_compiled(context, task, metrics, positions)
        by_equality = compiled.positions or DeletedPositions()
        equality = TaskDeletes(context, task, metrics, compiled.recorder)
        if compiled.positions is not None:
            equality = TaskDeletes.none(context, task, metrics)
        if shows_deleted(context):
            data_file.deleted_rows = DeletedRows(data_file, positions | by_equality, equality.all_of)
            positions = by_equality = DeletedPositions()
            equality = TaskDeletes.none(context, task, metrics)

        file = OpenTask(data_file, positions, equality, learned, by_equality)
        row_groups: Iterable[RowGroup] = data_file.row_groups()
        # Avro's blocks have no bounds, and are found by reading.
        if learned.best is not None and task.format != "avro":
            row_groups = learned.best.best_first(data_file, row_groups)
        plans = steps_ahead(
            compiled.row_groups(row_groups),
            functools.partial(plan_row_group, file),
            metrics,
            # Equality deletes, and `_deleted` which asks them, belong to one thread.
            ahead=context.settings.prefetch
            and data_file.is_remote
            and not equality
            and data_file.deleted_rows is None
            and not (learned.best is not None and held.has_questions),
            alone=lambda plan: isinstance(plan, ReadWindows),
        )
        # Where better rows may come, those found so far need not be fetched yet.
        may_lose = learned.best is not None and data_file.reads_parts
        with contextlib.closing(plans):
            for plan in plans:
                if still_wanted is not None:
                    still_wanted()
                match plan:
                    case Skip():
                        continue
                    case AwaitDeletes():
                        held.add(file, plan)
                    case Fetch() if may_lose:
                        held.add(file, plan)
                    case Fetch():
                        yield from read_held(held, metrics)  # first, so that rows stay in order
                        yield from fetch_rows(file, plan, metrics)
                    case ReadWindows():
                        yield from read_held(held, metrics)
                        yield from read_windows(file, plan, metrics)
                    case ReadWhole():
                        yield from read_held(held, metrics)
                        yield from read_whole(file, plan, metrics)
                if held.is_full:
                    yield from read_held(held, metrics)
        if not data_file.reads_parts:  # such a file keeps a row group unpacked: one at a time
            yield from read_held(held, metrics)
        opened.callback(compiled.finish, metrics)
        held.keep_open(file, opened)


def read_held(held: Held, metrics: Metrics) -> Iterator[pa.RecordBatch]:
    """Yield the rows that waited for equality deletes or better rows, and are left."""
    for file, plan in held.release(metrics):
        yield from fetch_rows(file, plan, metrics)


def fetch_rows(file: OpenTask, plan: Fetch, metrics: Metrics) -> Iterator[pa.RecordBatch]:
    """Yield the select columns of a row group's live rows."""
    metrics.add("row_groups.read")
    yield from metrics.timed_steps("fetch", fetch_columns(file.data_file, plan.row_group, plan.columns))


def read_whole(file: OpenTask, plan: ReadWhole, metrics: Metrics) -> Iterator[pa.RecordBatch]:
    """Yield a row group's rows in one stage."""
    row_group, selection = plan.row_group, plan.selection
    equality = file.equality.choose(file.equality.meeting(file.data_file, row_group), selection.count)
    if equality.is_streamed:  # once for the row group, not for each batch
        selection = live_columns(file, row_group, RowFilter(), selection, metrics).selection()
        equality = NONE
    yield from read_one_stage(
        file.data_file, row_group, plan.row_filter, selection, lambda: equality, metrics
    )


def read_windows(file: OpenTask, plan: ReadWindows, metrics: Metrics) -> Iterator[pa.RecordBatch]:
    """Yield the select columns of a row group's live rows, window after window."""
    is_read = False
    for window in plan.windows:
        columns = live_columns(file, plan.row_group, plan.row_filter, window, metrics)
        if file.learned.best is not None:
            file.learned.best.admit(columns, file.learned.row_filter, metrics)
        if columns.alive.count:
            metrics.add("row_groups.read", not is_read)
            is_read = True
            batches = fetch_columns(file.data_file, plan.row_group, columns)
            yield from metrics.timed_steps("fetch", batches)
    metrics.add("row_groups.pruned.filter", not is_read)


def open_data_file(context: ScanContext, task: ScanTask, metrics: Metrics) -> DataFile:
    """Open the task's data file by its format."""
    return _reader_of(task.format)(context, task, metrics)


def _reader_of(name: str) -> type[DataFile]:
    """Return what reads a format; a worker loads only those that it meets."""
    if name == "orc":
        from twostage.data_files.orc_file import OrcDataFile  # noqa: PLC0415 - 15 ms, with what it loads

        return OrcDataFile
    if name == "avro":
        from twostage.data_files.avro_file import AvroDataFile  # noqa: PLC0415 - likewise

        return AvroDataFile
    return {"parquet": ParquetDataFile}[name]
