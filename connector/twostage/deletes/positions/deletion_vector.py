"""Deletion vectors (Iceberg v3): one blob of a Puffin file becomes a bitmap of deleted positions.

Takes a `DeleteFile` that tells where the blob is, and the data file's row count; returns a `BitMap64`. The
rule: every byte of the blob is accounted for before the bitmap library sees it. Length, magic, CRC, counts,
the order of keys and values, and each container's own structure are checked, nothing is allocated for a count
that the blob merely claims, and any mismatch is a `CorruptFileError`.
Source: Puffin spec, ``deletion-vector-v1``; RoaringFormatSpec, standard and 64-bit portable formats.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from pyroaring import BitMap64

from twostage.errors import CorruptFileError, ResourceLimitError
from twostage.storage import files

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from twostage.deletes.files.contents import DeleteContents
    from twostage.metrics import Metrics
    from twostage.task import DataFileWithDeletes, DeleteFile, TableContext

MAGIC = b"\xd1\xd3\x39\x64"
MAX_KEY = 2**31 - 2
"""Highest upper half of a position: Iceberg allows positions below ``2^31 - 1`` times ``2^32``."""
_PUFFIN_MAGIC_BYTES = 4
_FRAME_BYTES = 12  # length, magic, CRC
_MIN_BITMAP_BYTES = 12  # key, cookie, container count
_COOKIE, _RUN_COOKIE = 12346, 12347
_MIN_CONTAINERS_FOR_OFFSETS = 4  # of a bitmap with runs
_MAX_ARRAY_VALUES = 4096
_CONTAINER_VALUES = 2**16
_BITMAP_BYTES = 8192


def read_vector(
    context: TableContext,
    task: DataFileWithDeletes,
    delete: DeleteFile,
    metrics: Metrics,
    contents: DeleteContents | None = None,
) -> BitMap64:
    """Read one deletion vector by its range, and check it against its metadata and the data file.

    Raises:
        CorruptFileError: ``CORRUPT_VECTOR``, naming the Puffin file.
        ResourceLimitError: The blob is larger than the task's memory.
    """
    canonical = files.canonical_for(context.storage)
    referenced = delete.referenced_data_file
    if referenced is not None and canonical(referenced) != canonical(task.written_path):
        _corrupt(delete.path, f"Deletion vector is for another data file: {referenced}")
    offset, size = delete.content_offset, delete.content_size
    if offset < _PUFFIN_MAGIC_BYTES or size < _FRAME_BYTES or offset + size > delete.file_size:
        _corrupt(
            delete.path,
            f"Deletion vector lies outside its file: {size} bytes at {offset} of {delete.file_size}",
        )
    if size > context.settings.memory_budget:
        raise ResourceLimitError(
            "VECTOR_TOO_LARGE",
            f"Deletion vector is larger than the task's budget: {size} bytes",
            path=delete.path,
            stage="deletes",
            hint="Raise the option 'task-memory'.",
        )
    metrics.add("delete_files.opened")
    try:
        if contents is not None and contents.has(delete):
            blob = contents.vector(delete)
        else:
            blob = files.read_range(context.storage, delete.path, offset, size)
    except CorruptFileError as error:  # the file is shorter than its metadata says
        if error.code == "FILE_CHANGED":
            raise
        _corrupt(delete.path, error.message)
    bitmap = decode_vector(blob, delete.path)
    if len(bitmap) != delete.record_count:
        _corrupt(
            delete.path,
            f"Deletion vector's cardinality does not match its metadata: {len(bitmap)}, {delete.record_count}",
        )
    if len(bitmap) and 0 <= task.record_count <= bitmap.max():
        _corrupt(
            delete.path,
            f"Deletion vector holds a position past the data file's {task.record_count} rows: {bitmap.max()}",
        )
    return bitmap


def decode_vector(blob: bytes, path: str) -> BitMap64:
    """Decode a ``deletion-vector-v1`` blob.

    Raises:
        CorruptFileError: The blob is not exactly one well-formed vector.
    """
    if len(blob) < _FRAME_BYTES + 8:
        _corrupt(path, f"Deletion vector is too short: {len(blob)} bytes")
    length = int.from_bytes(blob[:4], "big")
    if length != len(blob) - 8:
        _corrupt(path, f"Deletion vector's length does not match: {length} in a blob of {len(blob)} bytes")
    if blob[4:8] != MAGIC:
        _corrupt(path, f"Deletion vector's magic is wrong: {blob[4:8].hex()}")
    expected, found = int.from_bytes(blob[-4:], "big"), zlib.crc32(memoryview(blob)[4:-4])
    if expected != found:
        _corrupt(path, f"Deletion vector's CRC does not match: expected {expected:08x}, found {found:08x}")
    body = memoryview(blob)[8:-4]
    try:
        cardinality = _check_bitmaps(body)
    except (ValueError, struct.error, IndexError) as error:
        _corrupt(path, f"Deletion vector's bitmap is malformed: {error}")
    try:
        bitmap = BitMap64.deserialize(body)  # type: ignore[arg-type]  # any buffer; bytes would be a copy
    except ValueError as error:
        _corrupt(path, f"Deletion vector's bitmap is malformed: {error}")
    if len(bitmap) != cardinality:
        _corrupt(path, f"Deletion vector's cardinality does not add up: {len(bitmap)}, {cardinality}")
    return bitmap


def _corrupt(path: str, message: str) -> NoReturn:
    raise CorruptFileError("CORRUPT_VECTOR", message, path=path, stage="deletes") from None


def _check_bitmaps(body: memoryview) -> int:
    """Check a 64-bit bitmap, which must fill `body`; return its cardinality."""
    (count,) = struct.unpack_from("<Q", body)
    position = 8
    if count > (len(body) - position) // _MIN_BITMAP_BYTES:
        raise ValueError(f"{count} bitmaps in {len(body)} bytes")
    last_key, cardinality = -1, 0
    for _ in range(count):
        (key,) = struct.unpack_from("<I", body, position)
        if not last_key < key <= MAX_KEY:
            raise ValueError(f"key {key} after {last_key}")
        last_key = key
        size, values = _check_bitmap(body[position + 4 :])
        position += 4 + size
        cardinality += values
    if position != len(body):
        raise ValueError(f"{len(body) - position} bytes are left over")
    return cardinality


def _check_bitmap(data: memoryview) -> tuple[int, int]:
    """Check the 32-bit bitmap at the start of `data`; return its size and cardinality."""
    (cookie,) = struct.unpack_from("<I", data)
    position = 4
    has_runs = cookie & 0xFFFF == _RUN_COOKIE
    runs = np.zeros(0, np.uint8)
    if has_runs:
        count = (cookie >> 16) + 1
        flags = (count + 7) // 8
        runs = np.unpackbits(_array(data, position, flags, "u1").astype(np.uint8), bitorder="little")
        if runs[count:].any():
            raise ValueError("run flags beyond the last container")
        position += flags
    elif cookie == _COOKIE:
        (count,) = struct.unpack_from("<I", data, position)
        position += 4
        runs = np.zeros(min(count, _CONTAINER_VALUES), np.uint8)
    else:
        raise ValueError(f"unknown cookie {cookie}")
    if count > _CONTAINER_VALUES:
        raise ValueError(f"{count} containers")
    header = _array(data, position, 2 * count, "<u2").reshape(-1, 2)
    position += 4 * count
    _check_ascending(header[:, 0], "container keys")
    offsets = None
    if not has_runs or count >= _MIN_CONTAINERS_FOR_OFFSETS:
        offsets = _array(data, position, count, "<u4")
        position += 4 * count
    cardinality = 0
    for index in range(count):
        if offsets is not None and offsets[index] != position:
            raise ValueError(f"container {index} lies at {position}, not at {offsets[index]}")
        values = int(header[index, 1]) + 1
        position += _check_container(data, position, values, is_run=bool(runs[index]))
        cardinality += values
    return position, cardinality


def _check_container(data: memoryview, position: int, values: int, *, is_run: bool) -> int:
    """Check one container of `values` values; return its size in bytes."""
    if is_run:
        count = int(_array(data, position, 1, "<u2")[0])
        pairs = _array(data, position + 2, 2 * count, "<u2").reshape(-1, 2).astype(np.int64)
        starts, ends = pairs[:, 0], pairs.sum(axis=1)  # a run is its start and its length less one
        if not count or ends[-1] >= _CONTAINER_VALUES or (starts[1:] <= ends[:-1]).any():
            raise ValueError("runs are empty, overlap or are out of range")
        if int((ends - starts).sum()) + count != values:
            raise ValueError(f"runs do not hold {values} values")
        return 2 + 4 * count
    if values <= _MAX_ARRAY_VALUES:
        _check_ascending(_array(data, position, values, "<u2"), "values")
        return 2 * values
    bits = _array(data, position, _BITMAP_BYTES // 8, "<u8")
    if int(np.bitwise_count(bits).sum()) != values:
        raise ValueError(f"a bit map does not hold {values} values")
    return _BITMAP_BYTES


def _array(data: memoryview, position: int, count: int, dtype: str) -> NDArray[np.unsignedinteger[Any]]:
    if count * np.dtype(dtype).itemsize > len(data) - position:
        raise ValueError(f"{count} numbers announced, {len(data) - position} bytes left")
    return np.frombuffer(data, dtype, count=count, offset=position)


def _check_ascending(values: NDArray[np.unsignedinteger[Any]], name: str) -> None:
    if (values[1:] <= values[:-1]).any():
        raise ValueError(f"{name} do not ascend")
