"""Opens the index of a data file: once in a worker, as long as its memory has room.

Takes a task and a group of indexed columns; gives a `DataFileIndex`, or None if there is none, or one that cannot be used:
that is counted as a warning and changes no row. The rule: the index file's name is the data file's fingerprint, and its
footer must state the same fingerprint and rows and, on the host that built it, the same change time, so that an index serves only
the file that it was built from.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

from twostage.deletes.cache import fingerprint
from twostage.deletes.cache.memory import CACHE
from twostage.errors import MissingFileError, TwoStageError
from twostage.indexes.data_file_index import DataFileIndex
from twostage.indexes.file_stamp import file_stamp
from twostage.indexes.place import warn
from twostage.indexes.puffin import BadIndexError, read_footer
from twostage.storage import files
from twostage.storage.ranged_object import RangedObject

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from twostage.indexes.place import IndexGroup, IndexPlace
    from twostage.indexes.puffin import PuffinFooter
    from twostage.metrics import Metrics
    from twostage.storage.task_reads import TaskReads
    from twostage.task import ScanContext, ScanTask

_ABSENT_BYTES = 200
MIN_REMOTE_BYTES = 256 * 2**10
"""A smaller remote data file is read whole with one request, which takes no longer than the one for its index: 10,000 files of 66 kB
were read in 21.6 s without their indexes, and in 31 s with them."""
REPLACED = "the data file was replaced, or its owner or mode changed, since it was indexed"
"""Why an index is not used that names the right file, size and time."""
OTHER_VERSION = "the data file was replaced since it was indexed"
"""The same for an object, by its ETag."""


def is_worth_asking(context: ScanContext, task: ScanTask) -> bool:
    """Tell whether a task should look for indexes of its data file: there may be some, and they may save a request."""
    indexes = context.indexes
    return indexes is not None and not (indexes.place.is_remote and task.file_size < MIN_REMOTE_BYTES)


def ask_indexes(context: ScanContext, task: ScanTask, reads: TaskReads) -> dict[str, RangedObject]:
    """Request the ends of the remote index files of a task's data file; returns at once.

    Args:
        context: The scan.
        task: Of the data file.
        reads: Of the task.

    Returns:
        By path, for `open_index`. Those that this process has cached are not requested.
    """
    indexes = context.indexes
    if indexes is None or not indexes.place.is_remote:
        return {}
    asked = {}
    for group in indexes.groups:
        known = _keys(context, indexes.place, group, task)
        if CACHE.get(known.absent) is None:
            found: DataFileIndex | None = CACHE.get(known.found)
            if found is not None and found.is_bad:
                continue  # `open_index` reads none in this scan
            if found is not None and not found.is_in_place(file_stamp(task.path)):
                found = None  # it reads another one, of another size
            size = None if found is None else found.file_size
            asked[known.path] = RangedObject(reads, indexes.place.storage, known.path, size)
            if found is None:
                asked[known.path].ask_end()
    return asked


class _Keys(NamedTuple):
    """Where an index is, and the keys under which a worker caches it, and, per scan, that there is none.

    One may be built while the worker lives.
    """

    path: str
    found: tuple[Hashable, ...]
    absent: tuple[Hashable, ...]


def _keys(context: ScanContext, place: IndexPlace, group: IndexGroup, task: ScanTask) -> _Keys:
    store, path = place.store, place.index_file(group, task)
    return _Keys(path, ("index", store, path), ("index", store, path, context.scan_id))


def open_index(
    context: ScanContext,
    place: IndexPlace,
    group: IndexGroup,
    task: ScanTask,
    metrics: Metrics,
    asked: Mapping[str, RangedObject] | None = None,
) -> DataFileIndex | None:
    """Return the index of a task's data file; None if there is none that can be used.

    Args:
        context: The scan.
        place: Where the table's indexes are.
        group: The columns.
        task: Of the data file, or of a part of it: positions are those in the file.
        metrics: Gains ``indexes.ignored`` for one that is bad.
        asked: What `ask_indexes` gave: the index is read with the task's requests.
    """
    keys, limit = _keys(context, place, group, task), context.settings.memory_budget
    file = None if asked is None else asked.get(keys.path)
    # A thread that waits for the task's requests hands its turn on, so it may hold no lock: the index is read twice at worst.
    with contextlib.nullcontext() if file is not None else CACHE.exclusive(keys.found):
        found: DataFileIndex | None = CACHE.get(keys.found)
        if found is not None and found.is_bad:
            CACHE.drop(keys.found)  # the next scan looks whether it was built again
            CACHE.put(keys.absent, value=True, nbytes=_ABSENT_BYTES, limit=limit)
            return None
        if found is not None and not found.is_in_place(file_stamp(task.path)):
            CACHE.drop(keys.found)  # it may have been built again
            found = None
        if found is None:
            if CACHE.get(keys.absent):
                return None
            found = read_index(place, keys.path, task, metrics, file)
            if found is None:
                CACHE.put(keys.absent, value=True, nbytes=_ABSENT_BYTES, limit=limit)
                return None
            CACHE.put(keys.found, found, found.nbytes, limit=limit)
    return found if file is None else found.through(file)


def open_index_of(
    context: ScanContext,
    place: IndexPlace,
    group: IndexGroup,
    task: ScanTask,
    metrics: Metrics,
    version: bytes,
) -> DataFileIndex | None:
    """Return the index of the object that is there now, where `open_index` returned that of an earlier one.

    The worker may have cached that one, and the index may have been built again since: it is read once more in a scan.

    Args:
        context: The scan.
        place: Where the table's indexes are.
        group: The columns.
        task: Of the data file, or of a part of it.
        metrics: Gains ``indexes.ignored`` if it was not built again.
        version: The object's ETag.
    """
    keys, limit = _keys(context, place, group, task), context.settings.memory_budget
    with CACHE.exclusive(keys.found):
        found: DataFileIndex | None = CACHE.get(keys.found)
        if found is not None and found.is_of(version):
            return found
        CACHE.drop(keys.found)
        if CACHE.get(keys.absent):
            return None
        found = read_index(place, keys.path, task, metrics)
        if found is not None and found.is_of(version):
            CACHE.put(keys.found, found, found.nbytes, limit=limit)
            return found
        if found is not None:
            warn(metrics, "ignored", f"an index was ignored: {OTHER_VERSION}")
        CACHE.put(keys.absent, value=True, nbytes=_ABSENT_BYTES, limit=limit)
        return None


def read_index(
    place: IndexPlace, path: str, task: ScanTask, metrics: Metrics, asked: RangedObject | None = None
) -> DataFileIndex | None:
    """Read an index file's footer, whatever this process has cached; None as for `open_index`."""
    try:
        with contextlib.ExitStack() as opened:
            file = asked or opened.enter_context(files.open_file(place.storage, path))
            opened.enter_context(files.translate_errors(path, "index"))
            footer, _ = read_footer(file)
        return _of_task(DataFileIndex(place.storage, path, footer), footer, task)
    except MissingFileError:
        return None
    except (BadIndexError, TwoStageError, MemoryError) as error:
        warn(metrics, "ignored", f"an index was ignored: {error}")
        return None


def _of_task(found: DataFileIndex, footer: PuffinFooter, task: ScanTask) -> DataFileIndex:
    if footer.properties.get("data-file") != fingerprint.of_data_file(task):
        raise BadIndexError("it is of another data file")
    if found.num_rows != task.record_count:
        raise BadIndexError(f"it is of {found.num_rows} rows, the data file has {task.record_count}")
    if not found.is_in_place(file_stamp(task.path)):
        raise BadIndexError(REPLACED)
    return found
