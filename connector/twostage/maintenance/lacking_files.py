"""Which data files of a table lack an index, for ``index create`` and ``index refresh``.

Takes data files and a listing of their indexes; returns those that lack an index file or are missing from a
run. The rule: an index that no scan could use, or of an object that was replaced, does not count, so that it
is built again.
"""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from twostage.deletes.cache import fingerprint
from twostage.errors import CorruptFileError, MissingFileError
from twostage.indexes.file_keys import FILES, ScannedFiles, file_key
from twostage.indexes.open_index import read_index
from twostage.indexes.place import SUFFIX
from twostage.maintenance.index_runs import covered_files
from twostage.metrics import Metrics
from twostage.storage import files
from twostage.storage.driver_reads import driver_reads
from twostage.storage.location import parse_location
from twostage.storage.ranged_object import RangedObject
from twostage.storage.ranges import cost_of
from twostage.storage.task_reads import MOST_IN_FLIGHT

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from twostage.indexes.place import IndexGroup, IndexPlace, TableIndexes
    from twostage.task import ScanContext, ScanTask


class ObjectVersions:
    """The current ETags of a table's remote data files, each requested once.

    Args:
        context: A scan of the table.
    """

    def __init__(self, context: ScanContext) -> None:
        self._context = context
        self._known: dict[str, bytes] = {}

    def of(self, tasks: Iterable[ScanTask]) -> Mapping[str, bytes]:
        """Return ETags by path, including those of these tasks' objects; missing and empty objects have none.

        Raises:
            StorageError: The store failed.
        """
        paths = {task.path for task in tasks if not parse_location(task.path).is_local} - self._known.keys()
        if paths:
            most = self._context.settings.parallel_requests or MOST_IN_FLIGHT
            with driver_reads(most_in_flight=most) as reads:
                objects = {path: RangedObject(reads, self._context.storage, path) for path in sorted(paths)}
                for one in objects.values():
                    one.ask_version()
                for path, one in objects.items():
                    with contextlib.suppress(MissingFileError, CorruptFileError):
                        self._known[path] = one.version()
        return self._known


def usable_files(
    place: IndexPlace,
    group: IndexGroup,
    context: ScanContext,
    tasks: Sequence[ScanTask],
    versions: ObjectVersions,
) -> set[str]:
    """Return the names of a group's index files that scans can use: each one's footer is read.

    Damage elsewhere goes unnoticed: `verify_indexes` reads all bytes.
    """
    listed = {entry.name for entry in files.list_folder(place.storage, place.path(group.name))}
    wanted = [task for task in tasks if fingerprint.of_data_file(task) + SUFFIX in listed]

    now = versions.of(wanted)

    def is_usable(task: ScanTask) -> bool:
        found = read_index(place, place.index_file(group, task), task, Metrics())
        return found is not None and found.is_of(now.get(task.path, b""))

    parallel = cost_of(None, context.settings.parallel_requests, is_remote=place.is_remote).parallel
    with ThreadPoolExecutor(max(1, parallel), "twostage-index") as pool:
        usable = list(pool.map(is_usable, wanted))
    return {
        fingerprint.of_data_file(task) + SUFFIX for task, found in zip(wanted, usable, strict=True) if found
    }


def lacking_files(
    place: IndexPlace,
    group: IndexGroup,
    context: ScanContext,
    tasks: Sequence[ScanTask],
    names: Container[str],
    indexes: TableIndexes,
    versions: ObjectVersions | None = None,
) -> list[tuple[ScanTask, bool, tuple[int, ...]]]:
    """Return the data files that lack something: whether an index file, and the columns whose runs lack them.

    Args:
        place: Where the indexes are.
        group: The columns; those no longer in the schema lack nothing.
        context: A scan of the table.
        tasks: Its data files, whole.
        names: The names of the group's index files.
        indexes: The table's, with the runs.
        versions: The data files', to be compared with those in the runs; None: not compared.
    """
    columns = [(i, kinds) for i, kinds in group.columns if i in context.schema]
    has_rows = any(kind != FILES for _, kinds in columns for kind in kinds)
    keys = {id(task): file_key(task) for task in tasks}
    paths = {keys[id(task)]: task.path for task in tasks}
    budget = context.settings.memory_budget
    keyed = [i for i, kinds in columns if FILES in kinds]
    now: Mapping[str, bytes] = {}
    if versions is not None and any(indexes.runs_of(i) for i in keyed):
        now = versions.of(tasks)
    scanned = ScannedFiles.at(paths, now)
    covered = {i: covered_files(place, indexes, i, scanned, budget) for i in keyed}
    found = []
    for task in tasks:
        lacks_index = has_rows and fingerprint.of_data_file(task) + SUFFIX not in names
        ids = tuple(i for i, known in covered.items() if keys[id(task)] not in known)
        if lacks_index or ids:
            found.append((task, lacks_index, ids))
    return found
