"""The positional deletes and vectors of many data files, requested by the driver all at once.

Takes data files with their deletes; returns the `DeleteContents` for `load_positions`. The rule: all of them
take one round trip, however many there are; what the process has cached is not requested.
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
    """Request what `load_positions` will read from these data files' remote delete files.

    Args:
        context: Storage and settings.
        tasks: The data files, in the order in which they will be loaded.

    Yields:
        The contents to load them from; None if no delete file is remote.
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
    """The positional deletes and vectors of data files that several threads read.

    Args:
        context: Storage and settings.
        reads: The reads that all threads share.
        tasks: The data files.
    """

    def __init__(self, context: TableContext, reads: TaskReads, tasks: Sequence[DataFileWithDeletes]) -> None:
        self._context = context
        self._contents = DeleteContents(reads, context.storage, tasks)
        self._lock = threading.Lock()

    def ask(self, task: DataFileWithDeletes) -> None:
        """Request what `load` will read of a data file's delete files; waits only for another thread's `load`."""
        with self._lock:
            ask_for_positions(self._context, task, self._contents)

    def load(self, context: TableContext, task: DataFileWithDeletes, metrics: Metrics) -> DeletedPositions:
        """Return what `load_positions` does, one thread at a time: waiting for its bytes needs no other thread."""
        with self._lock:
            return load_positions(context, task, metrics, self._contents)
