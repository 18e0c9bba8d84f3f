"""How many data files of a task are read at the same time, and what they share.

Takes a task group whose files are remote; yields the steps of each file in the files' order, while later
files wait for their bytes or are already being pruned and filtered (`turns`). The rules: files read ahead
must fit in the task's memory, estimated from the files before them and the sizes of their delete files; a
scan that may end early starts with few files, and reads more ahead with each that ends.
"""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from twostage.deletes.files.contents import DeleteContents, DeletesAhead
from twostage.reading.host_footers import Footers
from twostage.reading.turns import Turns
from twostage.storage.location import parse_location
from twostage.storage.ranges import cost_of
from twostage.storage.round_trips import RoundTrips
from twostage.storage.task_reads import TaskReads

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from twostage.data_files.data_file import DataFile
    from twostage.data_files.row_group import RowGroup
    from twostage.metrics import Metrics
    from twostage.task import ScanTask, TaskGroup

Item = TypeVar("Item")

MAX_FILES_AHEAD = 64
"""Files read at the same time by default. Twice as many requests at 30 ms gained 4 % in a model of the scan;
`make bench PAGES=object-store` measures 64."""
MAX_REQUESTS = 64
"""Requests of a task in flight by default."""
FIRST_FILES = 2
"""Files that a scan that may end early reads at the same time at first."""
MAX_ROW_GROUPS = 8
"""Row groups of one file that are read at the same time."""
FIRST_SHARE = 0.25
"""Of a file's bytes: the share that a scan is expected to read, until its first file is done."""
EXPANSION = 3
"""Bytes in memory for each byte read: encoded and decoded."""


def are_remote(group: TaskGroup) -> bool:
    """Tell whether a task's data files are in a store with high latency."""
    return any(not parse_location(task.path).is_local for task in group.tasks[:1])


class FilesAhead:
    """The files of a task that are read at the same time. Use it as a context manager: nothing runs after it exits.

    Args:
        group: The task's files, all remote.
        metrics: Gains ``time.waiting``; its clock stops for threads that do not have the turn.

    Attributes:
        reads: What the task has in flight.
        deletes: How its files' delete files are read.
        footers: Its files' footers, as far as this process or the host has them.
    """

    def __init__(self, group: TaskGroup, metrics: Metrics) -> None:
        context, settings = group.context, group.context.settings
        self._group = group
        self._metrics = metrics
        self.footers = Footers(context, metrics)
        budget = settings.memory_budget
        trips = RoundTrips()
        self.turns = Turns(budget // 8, _size_of, trips)
        self.reads = TaskReads(
            metrics,
            cost=cost_of(settings.merge_gap, None, is_remote=True),
            most_in_flight=settings.parallel_requests or MAX_REQUESTS,
            most_bytes=budget // 2,
            wait=self.turns.wait,
            trips=trips,
        )
        self._contents = DeleteContents(self.reads, context.storage, group.tasks, budget)
        self.deletes = DeletesAhead(self._contents, self.turns.keep)
        self._most = MAX_FILES_AHEAD if settings.files_ahead is None else 1 + settings.files_ahead
        self._may_end_early = context.limit is not None or context.top is not None
        self._max_bytes = budget // 2
        self._running: dict[int, int] = {}
        """By index among the tasks: the estimated bytes of each file that has begun and is not done."""
        self._begun = self._done = self._bytes_done = 0
        self._counted: set[str] = set()
        self._delete_bytes = self._deletes_of(0)
        """Bytes of the positional deletes of the next file to begin."""

    def __enter__(self) -> FilesAhead:
        self._metrics.clock = self.turns.clock
        return self

    def __exit__(self, *_: object) -> None:
        self.reads.close()
        self._metrics.clock = time.perf_counter_ns
        self._metrics.add("time.waiting", self.turns.idle)

    def files(
        self, read: Callable[[ScanTask], Iterator[Item]], still_wanted: Callable[[], None] | None = None
    ) -> Generator[Item, None, None]:
        """Yield what `read` yields for each file, in the files' order; `still_wanted` raises to stop early."""
        return self.turns.in_order(
            self._jobs(read),
            self._may_start,
            stop=self.reads.close,
            still_wanted=still_wanted or (lambda: None),
        )

    def row_groups(
        self, data_file: DataFile, row_groups: Iterable[RowGroup], read: Callable[[RowGroup], Iterator[Item]]
    ) -> Generator[Item, None, None]:
        """Yield what `read` yields for each row group of a file, in their order."""
        most = MAX_ROW_GROUPS if data_file.context.settings.prefetch and not self._may_end_early else 1
        largest = max(1, self._group.context.settings.memory_budget // (2 * EXPANSION))
        size = 0

        def jobs() -> Iterator[Callable[[], Iterator[Item]]]:
            nonlocal size
            for row_group in row_groups:
                size = max(size, row_group.num_bytes)
                yield functools.partial(read, row_group)

        return self.turns.in_order(jobs(), lambda running: running < most and (running + 1) * size <= largest)

    def waiting(self, rows: Iterable[Callable[[], Iterator[Item]]]) -> Generator[Item, None, None]:
        """Yield the rows of row groups whose bytes are requested at the same time."""
        return self.turns.in_order(rows, lambda running: running < self._most)

    def _jobs(self, read: Callable[[ScanTask], Iterator[Item]]) -> Iterator[Callable[[], Iterator[Item]]]:
        for number in range(len(self._group.tasks)):
            self._begun = number + 1
            self._running[number] = self._bytes_of(number)
            self._delete_bytes = self._deletes_of(number + 1)
            yield functools.partial(self._read, number, read)

    def _read(self, number: int, read: Callable[[ScanTask], Iterator[Item]]) -> Iterator[Item]:
        task = self._group.tasks[number]
        yield from read(task)
        self._contents.leave(task)
        del self._running[number]
        self._done += 1
        self._bytes_done += task.length

    def _bytes_of(self, number: int) -> int:
        """Estimate how many bytes the next file to begin takes in memory while it is read."""
        share = FIRST_SHARE
        if self._bytes_done:
            share = min(1.0, self._metrics.counters["store.bytes"] / self._bytes_done)
        return int(EXPANSION * share * self._group.tasks[number].length) + self._delete_bytes

    def _deletes_of(self, number: int) -> int:
        """Return the bytes of a file's positional deletes that no earlier file shares; call it once per file, in order."""
        total = 0
        for delete in self._group.tasks[number].deletes if number < len(self._group.tasks) else ():
            if delete.path not in self._counted:
                total += self._contents.num_bytes(delete)
                if delete.content == "position":
                    self._counted.add(delete.path)
        return total

    def _may_start(self, running: int) -> bool:
        """Tell whether the next file may begin while others run."""
        if self._begun >= len(self._group.tasks):
            return False
        most = self._most
        if self._may_end_early:
            most = min(most, FIRST_FILES * (1 + self._done))
        return running < most and sum(self._running.values()) + self._bytes_of(self._begun) <= self._max_bytes


def _size_of(item: Any) -> int:
    return int(item.nbytes) if isinstance(item, pa.RecordBatch) else 0
