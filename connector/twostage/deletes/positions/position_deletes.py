"""Deleted positions of a data file, from positional delete files or a deletion vector.

Takes a `ScanTask` with its deletes; gives `DeletedPositions`. The rules: the path in a delete file names the
data file as `location.canonical` compares paths, not byte by byte; where a vector applies, positional files
do not; a position past the end of the data file deletes nothing (as in Iceberg-Java); a negative or absent
one means a damaged file. A delete file is opened once per worker process and kept as bitmaps, within the
task's memory; a large one is read for one data file at a time, skipping row groups by its path statistics.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from os.path import commonprefix
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from twostage.deletes.cache.memory import CACHE
from twostage.deletes.files.columns import are_remote, fetch_ahead, read_columns
from twostage.deletes.files.wanted_fields import WantedField, corrupt
from twostage.deletes.positions.deletion_vector import read_vector
from twostage.errors import ResourceLimitError
from twostage.storage import files
from twostage.storage.location import parse_location

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from numpy.typing import NDArray

    from twostage.metrics import Metrics
    from twostage.predicates.bounds import Bounds
    from twostage.task import DeleteFile, ScanContext, ScanTask

FILE_PATH = WantedField(field_id=2147483546, names=("file_path",), named=True, dictionary=True)
POSITION = WantedField(field_id=2147483545, names=("pos",), named=True)
LARGE_ROWS = 4 * 2**20
"""A delete file of more rows is read for one data file at a time, not whole: about 1 s of decoding."""
_FLUSH_ROWS = 2**20
_CONTAINER_OVERHEAD = 32
_BITMAP_OVERHEAD = 400
"""Bytes of an empty bitmap with its dictionary entry."""


@dataclass(frozen=True, slots=True, eq=False)
class DeletedPositions:
    """The deleted rows of one data file.

    Attributes:
        kind: ``position`` or ``vector``: what deleted them.
        count: How many rows of the data file are deleted.

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
        """Return the deleted rows among ``start … start + length - 1``, relative to `start`, ascending."""
        if not self.bitmap or length <= 0:
            return np.zeros(0, np.int64)
        part = BitMap64()
        part.add_range(start, start + length)
        part &= self.bitmap
        return np.frombuffer(part.to_array(), np.int64) - start


def load_positions(context: ScanContext, task: ScanTask, metrics: Metrics) -> DeletedPositions:
    """Return the positions that the task's positional deletes and vectors delete.

    Raises:
        CorruptFileError: A delete file's bytes or values are wrong.
        ResourceLimitError: The positions take more than the task's memory.
    """
    vectors = [delete for delete in task.deletes if delete.content == "vector"]
    if vectors:
        if len(vectors) > 1:
            raise corrupt(vectors[1], f"Data file has {len(vectors)} deletion vectors: {task.written_path}")
        return _counted("vector", _load_vector(context, task, vectors[0], metrics), task)
    delete_files = [delete for delete in task.deletes if delete.content == "position"]
    missing = [delete for delete in delete_files if CACHE.get(_file_key(context, task, delete)) is None]
    found = []
    with closing(fetch_ahead(context, missing)) as fetched:
        contents = {id(delete) for delete in missing}
        for delete in delete_files:
            content = next(fetched)[1] if id(delete) in contents else None
            if (bitmap := _load_file(context, task, delete, content, metrics)) is not None:
                found.append(bitmap)
    if not found:
        return DeletedPositions()
    return _counted("position", found[0] if len(found) == 1 else BitMap64.union(*found), task)


def keep_ahead(context: ScanContext, tasks: Iterable[ScanTask], metrics: Metrics) -> None:
    """Read the remote positional delete files of several data files into the cache, many at the same time.

    `load_positions` fetches those of one data file together, and would wait once for each data file.

    Raises:
        CorruptFileError: A delete file's bytes or values are wrong.
        ResourceLimitError: The positions take more than the task's memory.
    """
    first: dict[str, tuple[ScanTask, DeleteFile]] = {}
    for task in tasks:
        if are_remote(task.deletes) and all(delete.content == "position" for delete in task.deletes):
            for delete in task.deletes:
                if delete.path not in first and delete.record_count <= LARGE_ROWS:
                    first[delete.path] = task, delete
    wanted = [(task, one) for task, one in first.values() if CACHE.get(_file_key(context, task, one)) is None]
    with closing(fetch_ahead(context, [delete for _, delete in wanted])) as fetched:
        for (task, delete), (_, content) in zip(wanted, fetched, strict=True):
            _load_file(context, task, delete, content, metrics)


def _counted(kind: str, bitmap: BitMap64, task: ScanTask) -> DeletedPositions:
    return DeletedPositions(kind, bitmap, bitmap.range_cardinality(0, max(0, task.record_count)))


def _load_vector(context: ScanContext, task: ScanTask, delete: DeleteFile, metrics: Metrics) -> BitMap64:
    place = (delete.content_offset, delete.content_size, delete.record_count, delete.referenced_data_file)
    version = (delete.file_size, files.modified(delete.path))
    key = ("vector", delete.path, *version, *place, task.written_path, task.record_count)
    bitmap = CACHE.get(key)
    if bitmap is not None:
        metrics.add("delete_files.cached")
    else:
        bitmap = read_vector(context, task, delete, metrics)
        CACHE.put(key, bitmap, _size(bitmap), limit=context.settings.memory_budget)
    assert isinstance(bitmap, BitMap64)
    return bitmap


def _target(context: ScanContext, task: ScanTask, delete: DeleteFile) -> tuple[str, str | None]:
    """Return the data file's canonical path; and again if the delete file is to be read for it alone."""
    target = files.canonical_for(context.storage)(task.written_path)
    return target, target if delete.record_count > LARGE_ROWS else None


def _file_key(context: ScanContext, task: ScanTask, delete: DeleteFile) -> Hashable:
    """Name what is kept of a delete file."""
    canonical = files.canonical_for(context.storage)
    version = (delete.file_size, delete.record_count, files.modified(delete.path))
    # What was read unverified must not serve a scan that verifies.
    verified = context.settings.verify_checksums
    return (
        "position",
        delete.path,
        *version,
        canonical.__name__,
        _target(context, task, delete)[1],
        verified,
    )


def _load_file(
    context: ScanContext, task: ScanTask, delete: DeleteFile, content: bytes | None, metrics: Metrics
) -> BitMap64 | None:
    """Return one delete file's positions of the task's data file; None if it has none."""
    canonical = files.canonical_for(context.storage)
    target, only = _target(context, task, delete)
    key = _file_key(context, task, delete)
    with CACHE.turn(key):  # a large one keeps nobody waiting who wants another
        by_path = CACHE.get(key)
        if by_path is not None:
            metrics.add("delete_files.cached")
        else:
            reader = _PositionReader(context, delete, canonical, only, content)
            by_path = reader.read(metrics)
            CACHE.put(key, by_path, reader.nbytes, limit=context.settings.memory_budget)
    bitmap = by_path.get(target)
    assert bitmap is None or isinstance(bitmap, BitMap64)
    return bitmap


def _size(bitmap: BitMap64) -> int:
    statistics = bitmap.get_statistics()
    content = (
        statistics["n_bytes_array_containers"]
        + statistics["n_bytes_run_containers"]
        + statistics["n_bytes_bitset_containers"]
    )
    return _BITMAP_OVERHEAD + _CONTAINER_OVERHEAD * statistics["n_containers"] + content


class _PositionReader:
    """Reads one positional delete file into bitmaps by canonical path."""

    def __init__(
        self,
        context: ScanContext,
        delete: DeleteFile,
        canonical: Callable[[str], str],
        only: str | None,
        content: bytes | None = None,
    ) -> None:
        self._content = content
        self._context = context
        self._delete = delete
        self._canonical = canonical
        self._only = only
        self._names: dict[str, str] = {}
        self._bitmaps: dict[str, BitMap64] = {}
        self._waiting: dict[str, list[NDArray[Any]]] = {}
        self._waiting_rows = 0
        self.nbytes = 0

    def read(self, metrics: Metrics) -> dict[str, BitMap64]:
        """Return the positions by canonical path: of all data files, or of the only one asked for."""
        wanted = (FILE_PATH, POSITION)
        may_hold = None if self._only is None else self._may_hold
        batches = read_columns(
            self._context, self._delete, wanted, metrics, may_hold=may_hold, content=self._content
        )
        for _, (paths, positions) in batches:
            if paths is None or positions is None:
                raise corrupt(self._delete, "Positional delete file lacks the column file_path or pos")
            if paths.null_count or positions.null_count:
                raise corrupt(self._delete, "Positional delete file holds a NULL path or position")
            self._add(paths, self._checked(positions))
            if self._waiting_rows >= _FLUSH_ROWS:
                self._flush()
        self._flush()
        return self._bitmaps

    def _checked(self, positions: pa.Array) -> NDArray[np.int64]:
        if not pa.types.is_signed_integer(positions.type):
            raise corrupt(self._delete, f"Positional delete file has positions of type {positions.type}")
        numbers: NDArray[np.int64] = positions.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        if len(numbers) and int(numbers.min()) < 0:
            raise corrupt(self._delete, f"Positional delete file holds a negative position: {numbers.min()}")
        return numbers

    def _add(self, paths: pa.Array, positions: NDArray[np.int64]) -> None:
        """Queue a batch's positions by path; a path is compared once a batch, not once a row."""
        encoded = paths if pa.types.is_dictionary(paths.type) else pc.dictionary_encode(paths)
        try:
            names = encoded.dictionary.to_pylist()
        except UnicodeDecodeError:
            raise corrupt(self._delete, "Positional delete file holds a path that is no UTF-8") from None
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        order, groups = None, [(0, 0, len(codes))] if len(codes) else []
        if len(names) > 1:
            order = np.argsort(codes, kind="stable")
            bounds = np.searchsorted(codes[order], np.arange(len(names) + 1))
            groups = [(code, bounds[code], bounds[code + 1]) for code in range(len(names))]
        for code, start, end in groups:
            if start == end:
                continue
            name = self._name(names[code])
            if self._only is None or name == self._only:
                part = positions[start:end] if order is None else positions[order[start:end]]
                self._waiting.setdefault(name, []).append(part)
                self._waiting_rows += len(part)

    def _name(self, path: Any) -> str:
        text = path.decode("utf-8", "surrogateescape") if isinstance(path, bytes) else str(path)
        if text not in self._names:
            self._names[text] = self._canonical(text)
        return self._names[text]

    def _flush(self) -> None:
        """Move what waits into the bitmaps; sorted input builds them ten times faster."""
        for name, parts in self._waiting.items():
            positions = np.concatenate(parts)
            if (positions[1:] < positions[:-1]).any():
                positions.sort()
            bitmap = self._bitmaps.get(name)
            before = 0 if bitmap is None else _size(bitmap)
            if bitmap is None:
                bitmap = self._bitmaps[name] = BitMap64(positions.view(np.uint64))
            else:
                bitmap |= BitMap64(positions.view(np.uint64))
                self._bitmaps[name] = bitmap
            bitmap.run_optimize()
            self.nbytes += _size(bitmap) - before
        self._waiting, self._waiting_rows = {}, 0
        limit = self._context.settings.memory_budget
        if self.nbytes > limit:
            raise ResourceLimitError(
                "DELETED_POSITIONS_TOO_LARGE",
                f"Deleted positions need more memory than the task's budget of {limit} bytes: {self.nbytes}",
                path=self._delete.path,
                stage="deletes",
                hint="Raise the option 'task-memory', or compact the table's deletes.",
            )

    def _may_hold(self, bounds: Bounds) -> bool:
        """Tell whether paths between these bounds may name the data file; True when in doubt.

        All paths between two bounds begin with what the bounds have in common. Where that goes past scheme
        and authority, a path that means the data file is either the one that starts so, or leaves it
        after some ``/`` with ``/`` or ``.`` (``a//b``, ``a/./b``), which sort before every digit and letter.
        """
        low, high = bounds.lower, bounds.upper
        if not isinstance(low, str) or not isinstance(high, str) or self._only is None:
            return True
        prefix = commonprefix((low, high))  # noqa: RUF071 - letter by letter is what is meant
        start, path = parse_location(prefix).path, parse_location(self._only).path
        if not start.startswith("/") or not path.startswith("/"):
            return True
        head = prefix.removesuffix(start)
        if self._canonical(head + path) != self._only:
            return False
        if low < f"{head}{path}0" and head + path <= high:
            return True
        folders = (head + path[: place + 1] for place, letter in enumerate(path) if letter == "/")
        return any(low < f"{folder}0" and f"{folder}." <= high for folder in folders)
