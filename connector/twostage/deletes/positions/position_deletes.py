"""The deleted positions of a data file, from positional delete files or a deletion vector.

Takes a `DataFileWithDeletes` with its deletes; returns `DeletedPositions`. The rules: the path in a delete
file is matched with the data file's by `location.canonical`, not byte by byte; if a vector applies,
positional files do not; a position past the end of the data file deletes nothing (as in Iceberg-Java). A
delete file is opened once per worker process and cached as bitmaps, within the task's memory; a large one is
read for one data file at a time.
Source: Iceberg table spec, "Position Delete Files" and "Deletion Vectors".
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap64

from twostage.deletes.cache import fingerprint
from twostage.deletes.cache.memory import CACHE
from twostage.deletes.files.contents import fetch_ahead
from twostage.deletes.files.wanted_fields import corrupt
from twostage.deletes.positions.deletion_vector import read_vector
from twostage.deletes.positions.position_file import PositionReader, bitmap_bytes
from twostage.storage import files

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    from twostage.deletes.files.contents import DeleteContents
    from twostage.metrics import Metrics
    from twostage.task import DataFileWithDeletes, DeleteFile, TableContext

MAX_ROWS_TO_READ_WHOLE = 4 * 2**20
"""A delete file with more rows is read for one data file at a time: decoding it whole would take over 1 s."""


@dataclass(frozen=True, slots=True, eq=False)
class DeletedPositions:
    """The deleted rows of one data file.

    Attributes:
        kind: What deleted them: ``position``, ``vector`` or ``compiled``.
        bitmap: Their positions in the data file.
        count: How many rows of the data file are deleted: positions past its end do not count.

    >>> DeletedPositions("position", BitMap64([3, 5, 9]), 3).within(4, 4)
    array([1])
    """

    kind: str = "position"
    bitmap: BitMap64 = field(default_factory=BitMap64)
    count: int = 0

    def __bool__(self) -> bool:
        return bool(self.bitmap)

    def __or__(self, other: DeletedPositions) -> DeletedPositions:
        """Return what either deletes."""
        if not self or not other:
            return self or other
        bitmap = self.bitmap | other.bitmap
        return DeletedPositions(self.kind, bitmap, len(bitmap))

    def within(self, start: int, length: int) -> NDArray[np.int64]:
        """Return the deleted rows among ``start … start + length - 1``, relative to `start`: int64, ascending."""
        if not self.bitmap or length <= 0:
            return np.zeros(0, np.int64)
        part = BitMap64()
        part.add_range(start, start + length)
        part &= self.bitmap
        return np.frombuffer(part.to_array(), np.int64) - start


def load_positions(
    context: TableContext,
    task: DataFileWithDeletes,
    metrics: Metrics,
    contents: DeleteContents | None = None,
) -> DeletedPositions:
    """Return the positions that the task's positional deletes and vectors delete.

    Args:
        context: Storage and settings.
        task: The data file with its deletes.
        metrics: Gains ``delete_files.*``.
        contents: Reads remote delete files, if the task schedules its own reads.

    Raises:
        CorruptFileError: A delete file's bytes or values are wrong.
        ResourceLimitError: The positions take more than the task's memory.
    """
    vectors = [delete for delete in task.deletes if delete.content == "vector"]
    if len(vectors) > 1:
        raise corrupt(vectors[1], f"Data file has {len(vectors)} deletion vectors: {task.written_path}")
    if vectors:
        kind, found = "vector", [_load_vector(context, task, vectors[0], metrics, contents)]
    else:
        kind, found = "position", _load_files(context, task, metrics, contents)
    if not found:
        return DeletedPositions()
    bitmap = found[0] if len(found) == 1 else BitMap64.union(*found)
    return DeletedPositions(kind, bitmap, bitmap.range_cardinality(0, max(0, task.record_count)))


def ask_for_positions(context: TableContext, task: DataFileWithDeletes, contents: DeleteContents) -> None:
    """Request what `load_positions` will read from a data file's remote delete files; returns at once."""
    for delete in task.deletes:
        if delete.content == "equality" or CACHE.get(_key(context, task, delete)) is not None:
            continue
        if delete.content == "position":
            contents.ask([delete])
        elif contents.has(delete) and contents.is_sound(delete):
            contents.ask_vector(delete)


def _key(context: TableContext, task: DataFileWithDeletes, delete: DeleteFile) -> Hashable:
    """Return the key of a delete file's bitmaps, or of a vector's, in the worker's memory."""
    facts: tuple[Hashable, ...]
    if delete.content == "vector":  # reading also checks it against the data file
        facts = fingerprint.of_positions(delete), task.written_path, task.record_count
    else:
        # What was read without verification must not be used by a scan that verifies.
        verified, compared_by = (
            context.settings.verify_checksums,
            files.canonical_for(context.storage).__name__,
        )
        facts = fingerprint.of_delete(delete), compared_by, _only(context, task, delete), verified
    return delete.content, fingerprint.of_store(context.storage), delete.path, *facts


def _only(context: TableContext, task: DataFileWithDeletes, delete: DeleteFile) -> str | None:
    """Return the canonical path of the data file if the delete file is read for it alone, else None."""
    is_large = delete.record_count > MAX_ROWS_TO_READ_WHOLE
    return files.canonical_for(context.storage)(task.written_path) if is_large else None


def _load_vector(
    context: TableContext,
    task: DataFileWithDeletes,
    delete: DeleteFile,
    metrics: Metrics,
    contents: DeleteContents | None,
) -> BitMap64:
    key = _key(context, task, delete)
    bitmap = CACHE.get(key)
    if bitmap is not None:
        metrics.add("delete_files.cached")
    else:
        bitmap = read_vector(context, task, delete, metrics, contents)
        CACHE.put(key, bitmap, bitmap_bytes(bitmap), limit=context.settings.memory_budget)
    assert isinstance(bitmap, BitMap64)
    return bitmap


def _load_files(
    context: TableContext, task: DataFileWithDeletes, metrics: Metrics, contents: DeleteContents | None
) -> list[BitMap64]:
    """Return the positions of the task's data file in each positional delete file that has some."""
    deletes = [delete for delete in task.deletes if delete.content == "position"]
    if not deletes:
        return []
    keys = [(delete, _key(context, task, delete), _only(context, task, delete)) for delete in deletes]
    missing = [delete for delete, key, _ in keys if CACHE.get(key) is None]
    if contents is not None:
        contents.ask(missing)
    canonical, limit = files.canonical_for(context.storage), context.settings.memory_budget
    target = canonical(task.written_path)
    found, is_missing = [], {id(delete) for delete in missing}
    with closing(fetch_ahead(context, missing, contents)) as fetched:
        for delete, key, only in keys:
            content = next(fetched)[1] if id(delete) in is_missing else None
            with CACHE.exclusive(key):  # threads that need another file do not wait for this one
                by_path = CACHE.get(key)
                if by_path is not None:
                    metrics.add("delete_files.cached")
                else:
                    reader = PositionReader(context, delete, canonical, only, content)
                    by_path = reader.read(metrics)
                    CACHE.put(key, by_path, reader.nbytes, limit=limit)
            bitmap = by_path.get(target)
            assert bitmap is None or isinstance(bitmap, BitMap64)
            if bitmap is not None:
                found.append(bitmap)
    return found
