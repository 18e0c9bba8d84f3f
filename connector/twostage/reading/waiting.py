"""Row groups whose rows wait for delete files, streamed past all of them at once, or for better rows.

Takes row groups of several data files, which stay open, with the rows that stage one kept; returns the row
groups that still have rows after streaming the delete files, without rows that later top rows have beaten.
The rule: rows are returned in their original order, and nothing waits that a limit could make unnecessary.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from twostage.deletes.anti_join.build_from_rows import reverse_anti_join
from twostage.deletes.files.contents import are_remote
from twostage.reading.subtract_deletes import remove_deleted
from twostage.reading.task_state import AwaitDeletes, Fetch, OpenFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from twostage.deletes.files.contents import DeleteContents
    from twostage.metrics import Metrics
    from twostage.task import ScanContext

MAX_OPEN_FILES = 64
"""Data files that stay open while their rows wait."""
WAITING_BUDGET_DIVISOR = 4
"""The columns of waiting rows may take the task's memory divided by this."""
EXPECTED_BUDGET_DIVISOR = 8
"""The same for columns requested before it is known whether their rows are deleted: half of the above, so the
rest is left for columns already read, and delete files are streamed at most twice as often."""


class WaitingRowGroups:
    """The row groups of a Spark task that wait. Use it as a context manager: it closes their files.

    Args:
        context: The scan.
        contents: Reads remote delete files, if the task schedules its own reads.
    """

    def __init__(self, context: ScanContext, contents: DeleteContents | None = None) -> None:
        self._context = context
        self._contents = contents
        self._files = contextlib.ExitStack()
        self._num_files = 0
        self._items: list[tuple[OpenFile, Fetch | AwaitDeletes]] = []
        self._size = self._expected = 0

    def __enter__(self) -> WaitingRowGroups:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.__exit__(kind, error, trace)

    def add(self, file: OpenFile, plan: Fetch | AwaitDeletes) -> None:
        """Add a row group that waits."""
        self._items.append((file, plan))
        if isinstance(plan, Fetch):
            reused = {field.id for field in self._context.projection}
            if self._context.top is not None:
                reused.add(self._context.top.column.field_id)
            plan.columns.forget_all_but(reused)
            plan.columns.condense(force=True)
        columns = plan.columns.read_columns().values()
        self._size += sum(int(array.nbytes) for array in columns) + plan.row_group.num_rows
        self._count_expected(file, plan)

    def _count_expected(self, file: OpenFile, plan: Fetch | AwaitDeletes) -> None:
        """Count a row group's requested bytes; discard them if too many: a new request costs less than streaming."""
        most = self._context.settings.memory_budget // EXPECTED_BUDGET_DIVISOR
        expected = file.data_file.expected_bytes(plan.row_group)
        if self._expected + expected > most:
            file.data_file.expect(plan.row_group, ())
            expected = 0
        self._expected += expected
        self._size += expected
        file.learned.holds_enough = self._expected > most // 2

    @property
    def await_deletes(self) -> bool:
        """Whether rows wait for deletes."""
        return any(isinstance(plan, AwaitDeletes) for _, plan in self._items)

    @property
    def is_full(self) -> bool:
        """Whether nothing more should wait."""
        is_limited = self._context.limit is not None
        max_bytes = self._context.settings.memory_budget // WAITING_BUDGET_DIVISOR
        return bool(self._items) and (
            is_limited or self._size > max_bytes or self._num_files >= MAX_OPEN_FILES
        )

    def keep_open(self, file: OpenFile, opened: contextlib.ExitStack) -> None:
        """Keep a data file open if rows of it wait; else close it."""
        with opened:
            if any(waiting is file for waiting, _ in self._items):
                self._files.enter_context(opened.pop_all())
                self._num_files += 1

    def release(self, metrics: Metrics) -> Iterator[tuple[OpenFile, Fetch]]:
        """Yield the row groups with remaining rows, in order; `close` then closes their files."""
        items, self._items = self._items, []
        self._size = self._expected = 0
        for file, _ in items:
            file.learned.holds_enough = False
        self._stream_deletes(
            [(file, plan) for file, plan in items if isinstance(plan, AwaitDeletes)], metrics
        )
        for file, plan in items:
            columns, best = plan.columns, file.learned.best
            if best is not None:
                best.cut(columns, metrics)
            if columns.live.count:
                yield file, Fetch(plan.row_group, columns)

    def close(self) -> None:
        """Close the files of row groups that were released."""
        self._files.close()
        self._num_files = 0

    def _stream_deletes(self, items: list[tuple[OpenFile, AwaitDeletes]], metrics: Metrics) -> None:
        """Stream the delete files past the rows that wait for them, and remove the rows that they delete."""
        if not items:
            return
        with metrics.timed("deletes"):
            # For local files, CPU time: the load of other processes on this machine must not count as
            # streaming cost.
            clock = time.perf_counter if are_remote(items[0][1].probe.deletes) else time.thread_time
            started = clock()
            results = reverse_anti_join(
                self._context, [plan.probe for _, plan in items], metrics, self._contents
            )
            items[0][0].deletes.equality.add_streaming_cost(clock() - started)
        for (file, plan), deleted in zip(items, results, strict=True):
            columns, learned = plan.columns, file.learned
            remove_deleted(file, plan.row_group, columns, deleted, metrics)
            plan.learn(metrics)
            metrics.add("row_groups.pruned.deletes", columns.live.count == 0)
            if learned.best is not None:
                learned.best.admit_row_group(columns, learned.row_filter, metrics)
