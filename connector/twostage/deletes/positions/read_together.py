"""The positional deletes and vectors of many data files, read by the driver: asked for together, before the first is used.

Takes data files with their deletes; gives what `load_positions` reads their remote delete files by. The rule: all of them
take one round trip, however many there are; what the process keeps is not asked for.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from twostage.deletes.files.contents import DeleteContents
from twostage.deletes.positions.position_deletes import ask_for_positions, load_positions
from twostage.storage.driver_reads import driver_reads
from twostage.storage.ranges import cost_of
from twostage.storage.task_reads import MOST_IN_FLIGHT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from twostage.deletes.positions.position_deletes import DeletedPositions
    from twostage.metrics import Metrics
    from twostage.storage.task_reads import TaskReads
    from twostage.task import DataFileWithDeletes, TableContext


@contextmanager
def read_together(
    context: TableContext, tasks: Sequence[DataFileWithDeletes]
) -> Iterator[DeleteContents | None]:
    """Ask for what `load_positions` is going to read of these data files' remote delete files.

    Args:
        context: Storage and settings.
        tasks: The data files, in the order in which they will be loaded.

    Yields:
        What to load them with; None if no delete file is remote.
    """
    if not any(DeleteContents.has(delete) for task in tasks for delete in task.deletes):
        yield None
        return
    settings = context.settings
    with driver_reads(
        cost=cost_of(settings.merge_gap, None, is_remote=True),
        most_in_flight=settings.parallel_requests or MOST_IN_FLIGHT,
        most_bytes=settings.memory_budget // 2,
    ) as reads:
        contents = DeleteContents(reads, context.storage, tasks)
        for task in tasks:
            ask_for_positions(context, task, contents)
        yield contents


class SharedDeletes:
    """What several threads read the positional deletes and vectors of their data files by.

    Args:
        context: Storage and settings.
        reads: What all of them read by.
        tasks: The data files.
    """

    def __init__(self, context: TableContext, reads: TaskReads, tasks: Sequence[DataFileWithDeletes]) -> None:
        self._context = context
        self._contents = DeleteContents(reads, context.storage, tasks)
        self._lock = threading.Lock()

    def ask(self, task: DataFileWithDeletes) -> None:
        """Ask for what `load` is going to read of a data file's delete files; returns at once, but for another thread's `load`."""
        with self._lock:
            ask_for_positions(self._context, task, self._contents)

    def load(self, context: TableContext, task: DataFileWithDeletes, metrics: Metrics) -> DeletedPositions:
        """Return what `load_positions` does, for one thread at a time: its bytes depend on no other thread."""
        with self._lock:
            return load_positions(context, task, metrics, self._contents)
