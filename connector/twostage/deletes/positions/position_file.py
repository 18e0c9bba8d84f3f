"""One positional delete file as bitmaps of positions, by data file.

Takes a `DeleteFile` (Parquet, ORC or Avro); returns a `BitMap64` for each canonical path. The rules: a
missing, malformed or negative path or position means that the file is damaged; row groups are skipped only if
statistics prove that they hold no position of the one data file that is needed.
Source: Iceberg table spec, "Position Delete Files" (field ids 2147483546 and 2147483545).
"""

from __future__ import annotations

from os.path import commonprefix
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from twostage.deletes.files.columns import read_columns
from twostage.deletes.files.wanted_fields import NeededRows, WantedField, corrupt
from twostage.errors import ResourceLimitError
from twostage.storage.location import parse_location

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from twostage.metrics import Metrics
    from twostage.predicates.bounds import Bounds
    from twostage.task import DeleteFile, TableContext

FILE_PATH = WantedField(field_id=2147483546, names=("file_path",), named=True, dictionary=True)
POSITION = WantedField(field_id=2147483545, names=("pos",), named=True)
_FLUSH_ROWS = 2**20
"""Queued positions that are added to the bitmaps at once."""
_CONTAINER_OVERHEAD = 32
"""Bytes of a container besides its content."""
_BITMAP_OVERHEAD = 400
"""Bytes of an empty bitmap, including its dictionary entry."""


class PositionReader:
    """Reads one positional delete file into bitmaps.

    Args:
        context: Storage, name mapping and settings.
        delete: The file.
        canonical: The form in which paths compare.
        only: The canonical path of the one data file that is needed; None: all are.
        content: The file's bytes, if they were fetched ahead.

    Attributes:
        nbytes: Bytes that the bitmaps take so far.
    """

    def __init__(
        self,
        context: TableContext,
        delete: DeleteFile,
        canonical: Callable[[str], str],
        only: str | None,
        content: bytes | memoryview | None = None,
    ) -> None:
        self._content = content
        self._context = context
        self._delete = delete
        self._canonical = canonical
        self._only = only
        self._names: dict[str, str] = {}
        self._bitmaps: dict[str, BitMap64] = {}
        self._pending: dict[str, list[NDArray[Any]]] = {}
        self._pending_rows = 0
        self.nbytes = 0

    def read(self, metrics: Metrics) -> dict[str, BitMap64]:
        """Return the positions by canonical path: of all data files, or of the only one needed.

        Raises:
            CorruptFileError: A column is missing, or a path or position is NULL, malformed or negative.
            ResourceLimitError: The positions take more than the task's memory.
        """
        may_hold = None if self._only is None else self._may_hold
        batches = read_columns(
            self._context,
            self._delete,
            (FILE_PATH, POSITION),
            metrics,
            needed=NeededRows(may_hold=may_hold),
            content=self._content,
        )
        for _, (paths, positions) in batches:
            if paths is None or positions is None:
                raise corrupt(self._delete, "Positional delete file lacks the column file_path or pos")
            if paths.null_count or positions.null_count:
                raise corrupt(self._delete, "Positional delete file holds a NULL path or position")
            self._add(paths, self._checked(positions))
            if self._pending_rows >= _FLUSH_ROWS:
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
        """Queue a batch's positions by path; paths are compared once a batch, not once a row."""
        encoded = paths if pa.types.is_dictionary(paths.type) else pc.dictionary_encode(paths)
        try:
            names = encoded.dictionary.to_pylist()
        except UnicodeDecodeError:
            raise corrupt(self._delete, "Positional delete file holds a path that is not UTF-8") from None
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
                self._pending.setdefault(name, []).append(part)
                self._pending_rows += len(part)

    def _name(self, path: Any) -> str:
        text = path.decode("utf-8", "surrogateescape") if isinstance(path, bytes) else str(path)
        if text not in self._names:
            self._names[text] = self._canonical(text)
        return self._names[text]

    def _flush(self) -> None:
        """Move the queued positions into the bitmaps; sorted ones are added ten times faster."""
        for name, parts in self._pending.items():
            positions = np.concatenate(parts)
            if (positions[1:] < positions[:-1]).any():
                positions.sort()
            bitmap = self._bitmaps.get(name)
            before = 0 if bitmap is None else bitmap_bytes(bitmap)
            if bitmap is None:
                bitmap = self._bitmaps[name] = BitMap64(positions.view(np.uint64))
            else:
                bitmap |= BitMap64(positions.view(np.uint64))
                self._bitmaps[name] = bitmap
            bitmap.run_optimize()
            self.nbytes += bitmap_bytes(bitmap) - before
        self._pending, self._pending_rows = {}, 0
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

        All paths between two bounds start with the bounds' common prefix. If that extends past scheme and
        authority, a path of the data file either is the canonical one, or differs from it after some ``/`` by
        ``/`` or ``.`` (``a//b``, ``a/./b``), which sort before every digit and letter.
        """
        low, high = bounds.lower, bounds.upper
        if not isinstance(low, str) or not isinstance(high, str) or self._only is None:
            return True
        prefix = commonprefix((low, high))  # noqa: RUF071 - character by character is intended
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


def bitmap_bytes(bitmap: BitMap64) -> int:
    """Estimate the bytes that a bitmap takes in memory, including its dictionary entry."""
    statistics = bitmap.get_statistics()
    content = (
        statistics["n_bytes_array_containers"]
        + statistics["n_bytes_run_containers"]
        + statistics["n_bytes_bitset_containers"]
    )
    return _BITMAP_OVERHEAD + _CONTAINER_OVERHEAD * statistics["n_containers"] + content
