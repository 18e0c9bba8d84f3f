"""The indexes of many data files as the driver uses them: each file in a thread of its own, where that takes requests.

Takes data files and what to ask their indexes; gives the answers, in the files' order. The rules: an index serves only the data
file that is there now, whose version is requested along with the index's first bytes; and no file waits for another's requests.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from twostage.indexes.open_index import ask_indexes, open_index, open_index_of
from twostage.storage.driver_reads import driver_reads
from twostage.storage.location import parse_location
from twostage.storage.ranged_object import RangedObject
from twostage.storage.ranges import cost_of
from twostage.storage.task_reads import MOST_IN_FLIGHT

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from twostage.indexes.data_file_index import DataFileIndex
    from twostage.indexes.of_scan import ScanIndexes
    from twostage.indexes.place import IndexGroup
    from twostage.metrics import Metrics
    from twostage.storage.task_reads import TaskReads
    from twostage.task import ScanContext, ScanTask

Item = TypeVar("Item")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, eq=False)
class FileIndexes:
    """The indexes of one data file; the ends of remote ones are already requested."""

    _context: ScanContext
    _task: ScanTask
    _asked: Mapping[str, RangedObject]
    _data_file: RangedObject | None
    """None: it is local, and its index has its change time."""
    reads: TaskReads | None = None
    """Reads all files; None: nothing is remote."""

    @staticmethod
    def ask(context: ScanContext, task: ScanTask, reads: TaskReads | None) -> FileIndexes:
        """Request the ends of a data file's indexes, and its version; returns at once.

        Args:
            context: The scan, with the indexes.
            task: The data file.
            reads: None: nothing is remote.
        """
        if reads is None:
            return FileIndexes(context, task, {}, None)
        asked = ask_indexes(context, task, reads)
        data_file = None
        if not parse_location(task.path).is_local:
            data_file = RangedObject(reads, context.storage, task.path)
            if asked:  # else there may be no index to compare it with
                data_file.ask_version()
        return FileIndexes(context, task, asked, data_file, reads)

    def open(self, group: IndexGroup, metrics: Metrics) -> DataFileIndex | None:
        """Return the index of some columns; None if there is none, or none of the file as it is now.

        Raises:
            MissingFileError: There is an index of a data file that is not there.
            StorageError: The transport failed.
        """
        place = self._context.indexes.place
        found = open_index(self._context, place, group, self._task, metrics, self._asked)
        if found is None:
            return None
        version = b"" if self._data_file is None else self._data_file.version()
        if not found.is_of(version):
            return open_index_of(self._context, place, group, self._task, metrics, version)
        return found


def ask_files(
    context: ScanContext,
    indexes: ScanIndexes,
    items: Sequence[Item],
    task_of: Callable[[Item], ScanTask],
    work: Callable[[Item, FileIndexes], Answer],
) -> Generator[Answer, None, None]:
    """Yield what `work` makes of each item and the indexes of its data file, in the items' order.

    Args:
        context: The scan.
        indexes: The table's.
        items: What stands for the data files.
        task_of: Returns an item's data file.
        work: Called in several threads at the same time, if anything is remote.
    """
    context = replace(context, indexes=indexes)
    paths = (task_of(item).path for item in items)
    if not indexes.place.is_remote and all(parse_location(path).is_local for path in paths):
        for item in items:
            yield work(item, FileIndexes.ask(context, task_of(item), None))
        return
    settings = context.settings
    parallel = min(len(items), settings.parallel_requests or MOST_IN_FLIGHT, MOST_IN_FLIGHT)
    # The reads are closed first, so that no thread is left waiting for them.
    with (
        ThreadPoolExecutor(max(1, parallel), "twostage-index") as pool,
        driver_reads(
            cost=cost_of(settings.merge_gap, None, is_remote=True),
            most_in_flight=settings.parallel_requests or MOST_IN_FLIGHT,
            most_bytes=settings.memory_budget // 2,
        ) as reads,
    ):
        yield from pool.map(lambda item: work(item, FileIndexes.ask(context, task_of(item), reads)), items)
