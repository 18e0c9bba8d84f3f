"""Opens the index of a data file: once in a worker, as long as its memory has room.

Takes a task and a group of indexed columns; gives a `DataFileIndex`, or None if there is none, or one that cannot be used:
that is counted as a warning and changes no row. The rule: the index file's name is the data file's fingerprint, and its
footer must say the same path's size and rows, so that an index serves only what it was made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twostage.deletes.cache import fingerprint
from twostage.deletes.cache.memory import CACHE
from twostage.errors import MissingFileError, TwoStageError
from twostage.indexes.data_file_index import DataFileIndex
from twostage.indexes.place import warn
from twostage.indexes.puffin import BadIndexError, read_footer
from twostage.storage import files

if TYPE_CHECKING:
    from twostage.indexes.place import IndexGroup, IndexPlace
    from twostage.indexes.puffin import Footer
    from twostage.metrics import Metrics
    from twostage.task import ScanContext, ScanTask

_ABSENT_BYTES = 200


def open_index(
    context: ScanContext, place: IndexPlace, group: IndexGroup, task: ScanTask, metrics: Metrics
) -> DataFileIndex | None:
    """Return the index of a task's data file; None if there is none that can be used.

    Args:
        context: The scan.
        place: Where the table's indexes are.
        group: The columns.
        task: Of the data file, or of a part of it: positions are those in the file.
        metrics: Gains ``indexes.ignored`` for one that is bad.
    """
    path = place.index_file(group, task)
    key = ("index", path)
    absent = (*key, context.scan_id)  # one that is not there may be built while this worker lives
    limit = context.settings.memory_budget
    with CACHE.exclusive(key):
        found: DataFileIndex | None = CACHE.get(key)
        if found is None:
            if CACHE.get(absent):
                return None
            found = read_index(place, path, task, metrics)
            if found is None:
                CACHE.put(absent, value=True, nbytes=_ABSENT_BYTES, limit=limit)
                return None
            CACHE.put(key, found, found.nbytes, limit=limit)
    return None if found.is_bad else found


def read_index(place: IndexPlace, path: str, task: ScanTask, metrics: Metrics) -> DataFileIndex | None:
    """Read an index file's footer, whatever this process remembers; None as for `open_index`."""
    try:
        with files.open_file(place.storage, path) as file, files.translate_errors(path, "index"):
            footer, _ = read_footer(file)
        return _of_task(DataFileIndex(place.storage, path, footer), footer, task)
    except MissingFileError:
        return None
    except (BadIndexError, TwoStageError, MemoryError) as error:
        warn(metrics, "ignored", f"an index was ignored: {error}")
        return None


def _of_task(found: DataFileIndex, footer: Footer, task: ScanTask) -> DataFileIndex:
    if footer.properties.get("data-file") != fingerprint.of_data_file(task):
        raise BadIndexError("it is of another data file")
    if found.num_rows != task.record_count:
        raise BadIndexError(f"it is of {found.num_rows} rows, the data file has {task.record_count}")
    return found
