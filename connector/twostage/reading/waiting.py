"""Row groups whose rows wait: for delete files that are streamed past all of them at once, or for better rows.

Takes row groups with the rows that stage one left, of several data files, which stay open; gives those that still have
rows once the delete files have passed, less what is not among the top rows found meanwhile. The rule: rows come out in the order in which they waited, and nothing waits that a limit could make needless.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from twostage.deletes.anti_join.build_from_rows import stream_deleted
from twostage.deletes.files.columns import are_remote
from twostage.reading.task_state import AwaitDeletes, Fetch, OpenTask

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from twostage.metrics import Metrics
    from twostage.task import ScanContext

MOST_FILES = 64
"""Data files that are held open while their rows wait."""
SHARE = 4
"""Of the budget that the columns of waiting rows may take."""


class Held:
    """The row groups of a task that wait. Use it as a context manager: it closes their files."""

    def __init__(self, context: ScanContext) -> None:
        self._context = context
        self._files = contextlib.ExitStack()
        self._num_files = 0
        self._items: list[tuple[OpenTask, Fetch | AwaitDeletes]] = []
        self._size = 0

    def __enter__(self) -> Held:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.__exit__(kind, error, trace)

    def add(self, file: OpenTask, plan: Fetch | AwaitDeletes) -> None:
        """Let a row group wait."""
        self._items.append((file, plan))
        if isinstance(plan, Fetch):
            wanted = {field.id for field in self._context.projection}
            if self._context.top is not None:
                wanted.add(self._context.top.column.field_id)
            plan.columns.forget_all_but(wanted)
            plan.columns.condense(to_the_rows=True)
        columns = plan.columns.read_columns().values()
        self._size += sum(int(array.nbytes) for array in columns) + plan.row_group.num_rows

    @property
    def has_questions(self) -> bool:
        """Whether rows wait for deletes."""
        return any(isinstance(plan, AwaitDeletes) for _, plan in self._items)

    @property
    def is_full(self) -> bool:
        """Whether nothing more should wait."""
        is_limited = self._context.limit is not None
        most = self._context.settings.memory_budget // SHARE
        return bool(self._items) and (is_limited or self._size > most or self._num_files >= MOST_FILES)

    def keep_open(self, file: OpenTask, opened: contextlib.ExitStack) -> None:
        """Take over what keeps a data file open, if rows of it wait."""
        if any(waiting is file for waiting, _ in self._items):
            self._files.enter_context(opened.pop_all())
            self._num_files += 1

    def release(self, metrics: Metrics) -> Iterator[tuple[OpenTask, Fetch]]:
        """Let the delete files pass; yield the row groups that have rows left, in order. Then close the files."""
        items, self._items, self._size = self._items, [], 0
        asked = [(file, plan) for file, plan in items if isinstance(plan, AwaitDeletes)]
        if asked:
            self._ask(asked, metrics)
        for file, plan in items:
            columns, best = plan.columns, file.learned.best
            if best is not None and columns.alive.count:
                best.cut(columns, metrics)
                metrics.add("row_groups.pruned.top-n", columns.alive.count == 0)
            if columns.alive.count:
                yield file, Fetch(plan.row_group, columns)
        self._files.close()
        self._num_files = 0

    def _ask(self, items: list[tuple[OpenTask, AwaitDeletes]], metrics: Metrics) -> None:
        """Let the delete files pass, and take away the rows that they delete."""
        with metrics.timed("deletes"):
            # Where bytes are at hand, what others do on this machine is not streaming's fault.
            clock = time.perf_counter if are_remote(items[0][1].asked.deletes) else time.thread_time
            started = clock()
            results = stream_deleted(self._context, [plan.asked for _, plan in items], metrics)
            items[0][0].equality.count_streamed(clock() - started)
        for (file, plan), deleted in zip(items, results, strict=True):
            columns, learned = plan.columns, file.learned
            recorder = file.equality.recorder
            if recorder is not None:
                recorder.add(plan.row_group.first_row, columns.base, deleted)
            columns.keep(~deleted)
            metrics.add("rows.deleted.equality", int(deleted.sum()))
            metrics.add("row_groups.pruned.deletes", columns.alive.count == 0)
            if learned.best is not None and columns.alive.count:
                learned.best.admit(columns, learned.row_filter, metrics)
                metrics.add("row_groups.pruned.top-n", columns.alive.count == 0)
