"""The read of a task group, from data files to record batches.

For each data file: open it and load its deletes; for each of its row groups: prune -> positions -> filter -> equality
deletes -> top-n (`stage_one`), then fetch the select columns of the remaining rows (`stage_two`). The rule:
every live, matching row is returned exactly once, in file order, unless the scan is limited or returns the
first rows by some order.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING

from twostage.data_files.open_data_file import open_data_file
from twostage.deletes.anti_join.choose import NO_DELETES
from twostage.errors import CorruptFileError
from twostage.indexes.open_index import ask_indexes, is_worth_asking
from twostage.metadata_tables.rows import read_rows
from twostage.reading.deleted_column import DeletedColumn
from twostage.reading.file_deletes import DeleteLoader
from twostage.reading.files_ahead import FilesAhead, are_remote
from twostage.reading.filter import RowFilter
from twostage.reading.index_answers import FileAnswers
from twostage.reading.one_stage import read_one_stage
from twostage.reading.stage_one import find_live_rows, plan_row_group
from twostage.reading.stage_two import fetch_columns
from twostage.reading.task_state import (
    AwaitDeletes,
    Ended,
    Fetch,
    Learned,
    OpenFile,
    ReadWhole,
    ReadWindows,
    Skip,
    Waits,
)
from twostage.reading.waiting import WaitingRowGroups
from twostage.storage.files import name_snapshot
from twostage.storage.pending_write import PendingWrite

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    import pyarrow as pa

    from twostage.data_files.row_group import RowGroup
    from twostage.metrics import Metrics
    from twostage.reading.conditions.of_file import FileConditions
    from twostage.reading.task_state import RowGroupPlan, Step
    from twostage.task import ScanContext, ScanTask, TaskGroup

MAX_FILES_FOR_EARLY_REQUESTS = 8
"""Files of a task: with more, small select columns are not requested with the filter columns."""


def read_group(
    group: TaskGroup, metrics: Metrics, still_wanted: Callable[[], None] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task group, at most ``context.limit`` of them.

    `still_wanted` is called before each row group's rows are fetched; it raises if they are no longer wanted.
    """
    context, remaining = group.context, group.context.limit
    with name_snapshot(context.snapshot_id):
        if group.rows is None:
            batches = read_tasks(group, metrics, still_wanted)
        else:
            batches, remaining = read_rows(group.rows, metrics), None  # the plan has limited them
        for batch in batches:
            if remaining is not None:
                batch = batch.slice(0, remaining)  # noqa: PLW2901
                remaining -= batch.num_rows
            metrics.add("rows.fetched", batch.num_rows)
            yield batch
            if remaining == 0:
                metrics.add("tasks.limited")
                return


def read_tasks(
    group: TaskGroup, metrics: Metrics, still_wanted: Callable[[], None] | None
) -> Iterator[pa.RecordBatch]:
    """Yield the live, matching rows of all data files."""
    context, learned = group.context, Learned.of(group.context, metrics)
    steps: Generator[Step, None, None]
    if not are_remote(group):
        deletes = DeleteLoader(context, metrics)
        steps = (
            step
            for task in group.tasks
            for step in read_file(context, task, learned, deletes, metrics, None, still_wanted)
        )
        yield from emit(steps, context, deletes, metrics)
        return
    learned.has_few_files = len(group.tasks) <= MAX_FILES_FOR_EARLY_REQUESTS
    with FilesAhead(group, metrics) as ahead:
        deletes = DeleteLoader(context, metrics, ahead.deletes)
        steps = ahead.files(
            lambda task: read_remote_file(context, task, learned, deletes, metrics, ahead), still_wanted
        )
        yield from emit(steps, context, deletes, metrics, ahead)


def emit(
    steps: Generator[Step, None, None],
    context: ScanContext,
    deletes: DeleteLoader,
    metrics: Metrics,
    ahead: FilesAhead | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of data files, in order, while row groups wait for deletes or better rows.

    Deletes compiled meanwhile are written while other data files are read, and at the latest at the end.
    """
    written = deletes.compiled.writes.together(PendingWrite.block if ahead is None else ahead.turns.wait)
    with WaitingRowGroups(context, deletes.contents) as waiting, written, contextlib.closing(steps):
        for step in steps:
            match step:
                case Waits(file, plan):
                    waiting.add(file, plan)
                    if waiting.is_full:
                        yield from read_waiting(waiting, metrics, ahead)
                case Ended(file, opened):
                    if not file.data_file.reads_parts:  # it holds a decompressed row group: one at a time
                        yield from read_waiting(waiting, metrics, ahead)
                    waiting.keep_open(file, opened)
                case batch:
                    yield from read_waiting(waiting, metrics, ahead)  # first, so that rows stay in order
                    yield batch
        yield from read_waiting(waiting, metrics, ahead)


def read_remote_file(
    context: ScanContext,
    task: ScanTask,
    learned: Learned,
    deletes: DeleteLoader,
    metrics: Metrics,
    ahead: FilesAhead,
) -> Iterator[Step]:
    """Read a remote data file; once more if a cached footer turns out to be of an object that was replaced."""
    kept = ahead.footers.load(task)
    has_begun = False
    for is_again in (False, True):
        try:
            for step in read_file(context, task, learned, deletes, metrics, ahead):
                has_begun = True
                yield step
            break
        except CorruptFileError as error:
            if is_again or kept is None or has_begun or error.code != "FILE_CHANGED":
                raise
        ahead.footers.forget(task)
    if kept is None or is_again:
        ahead.footers.save(task)


def read_file(
    context: ScanContext,
    task: ScanTask,
    learned: Learned,
    loader: DeleteLoader,
    metrics: Metrics,
    ahead: FilesAhead | None = None,
    still_wanted: Callable[[], None] | None = None,
) -> Iterator[Step]:
    """Yield one data file's live, matching rows, in file order, and waiting row groups; finally `Ended`."""
    metrics.add("files.read")
    conditions: FileConditions | None = None

    def keep_conditions(ended: type[BaseException] | None, *_: object) -> None:
        if conditions is not None:
            conditions.finish(ended, metrics)

    loader.ask(task)  # before waiting for anything
    reads = None if ahead is None else ahead.reads
    asks_indexes = is_worth_asking(context, task)
    requested = {} if reads is None or not asks_indexes else ask_indexes(context, task, reads)
    with contextlib.ExitStack() as opened:
        opened.push(keep_conditions)  # pushed before the file, so called after it is closed
        data_file = opened.enter_context(open_data_file(context, task, metrics, reads))
        deletes = loader.load(task)
        if learned.shows_deleted:
            data_file.show_deleted(DeletedColumn(data_file, deletes))
            deletes = deletes.cleared()
        if learned.conditions is not None:
            conditions = learned.conditions.on(data_file)
        indexes = FileAnswers(data_file, learned.predicate, requested) if asks_indexes else None
        file = OpenFile(data_file, deletes, learned, loader.contents, conditions, indexes)
        with contextlib.closing(read_row_groups(file, metrics, ahead, still_wanted)) as steps:
            yield from steps
        opened.callback(deletes.finish, metrics)
        yield Ended(file, opened.pop_all())


def read_row_groups(
    file: OpenFile,
    metrics: Metrics,
    ahead: FilesAhead | None = None,
    still_wanted: Callable[[], None] | None = None,
) -> Generator[pa.RecordBatch | Waits, None, None]:
    """Yield the live, matching rows of a file's row groups, and those that wait."""
    data_file, best = file.data_file, file.learned.best
    row_groups: Iterable[RowGroup] = data_file.row_groups()
    # Avro's blocks have no bounds, and are found by reading.
    if best is not None and data_file.task.format != "avro":
        row_groups = best.best_first(data_file, row_groups)
    row_groups = file.deletes.recorded(row_groups)

    def read(row_group: RowGroup) -> Iterator[pa.RecordBatch | Waits]:
        plan = plan_row_group(file, row_group, metrics)
        if still_wanted is not None:
            still_wanted()
        return read_row_group(file, plan, metrics)

    # `_deleted` is cached for one row group; files that are not read in parts hold one decompressed row
    # group.
    if ahead is None or not data_file.reads_parts or file.learned.shows_deleted:
        for row_group in row_groups:
            yield from read(row_group)
        return
    yield from ahead.row_groups(data_file, row_groups, read)


def read_row_group(file: OpenFile, plan: RowGroupPlan, metrics: Metrics) -> Iterator[pa.RecordBatch | Waits]:
    """Yield the live, matching rows of a row group, or `Waits`."""
    # If better rows may follow, the rows found so far need not be fetched yet.
    may_be_beaten = file.learned.best is not None and file.data_file.reads_parts
    match plan:
        case Skip():
            return
        case AwaitDeletes():
            yield Waits(file, plan)
        case Fetch() if may_be_beaten:
            yield Waits(file, plan)
        case Fetch():
            yield from fetch_rows(file, plan, metrics)
        case ReadWindows():
            yield from read_windows(file, plan, metrics)
        case ReadWhole():
            yield from read_whole(file, plan, metrics)


def read_waiting(
    waiting: WaitingRowGroups, metrics: Metrics, ahead: FilesAhead | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the remaining rows of row groups that waited for equality deletes or better rows."""
    released = waiting.release(metrics)
    if ahead is None:
        for file, plan in released:
            yield from fetch_rows(file, plan, metrics)
    else:
        rows = (functools.partial(fetch_rows, file, plan, metrics) for file, plan in released)
        yield from ahead.waiting(rows)
    waiting.close()


def fetch_rows(file: OpenFile, plan: Fetch, metrics: Metrics) -> Iterator[pa.RecordBatch]:
    """Yield the select columns of a row group's live rows."""
    metrics.add("row_groups.read")
    yield from metrics.timed_steps("fetch", fetch_columns(file.data_file, plan.row_group, plan.columns))


def read_whole(file: OpenFile, plan: ReadWhole, metrics: Metrics) -> Iterator[pa.RecordBatch]:
    """Yield a row group's rows in one stage."""
    data_file, row_group, selection = file.data_file, plan.row_group, plan.selection
    applicable = file.deletes.equality.overlapping(data_file, row_group)
    equality = file.deletes.equality.choose(applicable, selection.count)
    if equality.is_streamed:  # once per row group, not per batch
        selection = find_live_rows(file, row_group, RowFilter(), selection, metrics).selection()
        equality = NO_DELETES
    recorder = file.deletes.compiled.recorder
    yield from read_one_stage(data_file, row_group, plan.row_filter, selection, equality, metrics, recorder)


def read_windows(file: OpenFile, plan: ReadWindows, metrics: Metrics) -> Iterator[pa.RecordBatch]:
    """Yield the select columns of a row group's live rows, window after window."""
    best, is_read = file.learned.best, False
    for window in plan.windows:
        columns = find_live_rows(file, plan.row_group, plan.row_filter, window, metrics, plan.conditions)
        if best is not None:
            best.admit(columns, file.learned.row_filter, metrics)
        if columns.live.count:
            metrics.add("row_groups.read", not is_read)
            is_read = True
            batches = fetch_columns(file.data_file, plan.row_group, columns)
            yield from metrics.timed_steps("fetch", batches)
    metrics.add("row_groups.pruned.filter", not is_read)
