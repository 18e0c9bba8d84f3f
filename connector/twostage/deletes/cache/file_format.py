"""The format of the host cache's files and of compiled deletes: a JSON description and arrays, all with checksums.

Takes a kind, a key, plain values and arrays (of one or two dimensions, dtypes in `DTYPES`); returns the bytes
to write, and from a file its values and arrays. The rules: a changed, lost or added byte is detected before
any of the file is used (lengths and CRC-32 of header, description and every array), and nothing is unpickled
or executed.

Layout: magic (8 bytes), format version, length and CRC-32 of the description (unsigned 32 bits each), size of
the file (64 bits), CRC-32 of all this; the description (JSON: kind, key, values, and for each array dtype,
shape, offset and CRC-32); the arrays, each at a multiple of 64 bytes, zeros between. Numbers are
little-endian.

Why not Arrow IPC, which can also be mapped: it has no checksums, and here a flipped bit is a wrong row; its
reader trusts the metadata. With our own checksums around it, it saves nothing. Measured with 1 M keys (long:
16.7 MB in both formats; string: 47.9 MB), CPU, `benchmarks/delete_cache_formats.py`: mapping unchecked
0.04 ms (IPC 0.1 to 0.3), checked 6.5 and 19 ms (IPC with CRC-32 7 and 20), writing 12 and 32 ms (IPC without
checksums 5 and 15).
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    ReadAt = Callable[[int, int], bytes]

MAGIC = b"\x89TWOSTG\n"
FORMAT = 4
"""Version of this layout and of everything stored in it: increment it when either changes."""
DTYPES = ("<u8", "<i8", "<u4", "<u2", "|u1")
MAX_DESCRIPTION_BYTES = 64 * 2**20
_HEADER = struct.Struct("<8sIIIQ")
_CRC = struct.Struct("<I")
HEADER_BYTES = _HEADER.size + _CRC.size
"""The start of a file, which `is_older` inspects."""
_ALIGNMENT_BYTES = 64
_CHUNK_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A file's description: checked, except for the arrays' own bytes."""

    kind: str
    key: str
    values: dict[str, Any]
    arrays: tuple[tuple[str, tuple[int, ...], int, int], ...]
    """For each array: dtype, shape, offset in the file and CRC-32."""
    size: int
    """Size of the file in bytes."""


def encode(
    kind: str, key: str, values: dict[str, Any], arrays: Sequence[NDArray[Any]]
) -> tuple[int, Iterator[bytes | memoryview]]:
    """Return a file's size and its bytes in parts; contiguous arrays are not copied."""
    flat = [np.ascontiguousarray(array) for array in arrays]
    sums = [zlib.crc32(_bytes_of(array)) for array in flat]
    description, length = b"", 0
    while True:  # offsets depend on the description's length, which depends on their digits
        start = _aligned(HEADER_BYTES + length)
        listed = []
        for array, checksum in zip(flat, sums, strict=True):
            listed.append([array.dtype.newbyteorder("<").str, list(array.shape), start, checksum])
            start = _aligned(start + array.nbytes)
        plain = {"kind": kind, "key": key, "values": values, "arrays": listed}
        description = json.dumps(plain, separators=(",", ":")).encode()
        if len(description) <= length:
            description = description.ljust(length)
            break
        length = len(description) + 8 * len(flat)
    header = _HEADER.pack(MAGIC, FORMAT, len(description), zlib.crc32(description), start)

    def parts() -> Iterator[bytes | memoryview]:
        written = HEADER_BYTES + len(description)
        yield header + _CRC.pack(zlib.crc32(header)) + description
        for array in flat:
            yield bytes(_aligned(written) - written)
            yield _bytes_of(array)
            written = _aligned(written) + array.nbytes
        yield bytes(start - written)

    return start, parts()


def describe(read_at: ReadAt, size: int) -> Description:
    """Read the description of a file of `size` bytes.

    Args:
        read_at: Takes an offset and a length; returns these bytes, fewer at the end of the file.
        size: The file's size in bytes.

    Raises:
        ValueError: It is not such a file, has another format version, or is damaged.
    """
    head = read_at(0, HEADER_BYTES)
    if len(head) != HEADER_BYTES or head[: len(MAGIC)] != MAGIC:
        raise ValueError("not a file of this cache")
    magic_to_size = head[: _HEADER.size]
    if zlib.crc32(magic_to_size) != _CRC.unpack(head[_HEADER.size :])[0]:
        raise ValueError("the header's checksum does not match")
    _, version, length, checksum, stated = _HEADER.unpack(magic_to_size)
    if version != FORMAT:
        raise ValueError(f"format version {version}")
    if stated != size or length > min(size, MAX_DESCRIPTION_BYTES):
        raise ValueError(f"{size} bytes instead of {stated}")
    text = read_at(HEADER_BYTES, length)
    if len(text) != length or zlib.crc32(text) != checksum:
        raise ValueError("the description's checksum does not match")
    try:
        plain = json.loads(text)
        arrays = tuple(
            (str(dtype), tuple(map(int, shape)), int(start), int(crc))
            for dtype, shape, start, crc in plain["arrays"]
        )
        found = Description(
            kind=str(plain["kind"]),
            key=str(plain["key"]),
            values=dict(plain["values"]),
            arrays=arrays,
            size=size,
        )
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"the description is malformed: {error!r}") from None
    for dtype, shape, start, _ in arrays:
        fits = dtype in DTYPES and len(shape) in (1, 2) and min(shape) >= 0
        if not fits or start < 0 or start + math.prod(shape) * np.dtype(dtype).itemsize > size:
            raise ValueError("an array lies outside the file")
    return found


def is_older(head: bytes) -> bool:
    """Tell from a file's first `HEADER_BYTES` whether it is obsolete: of an earlier format version, or damaged.

    Not obsolete are files of a later format version, which other versions of this program may read.
    """
    if len(head) < HEADER_BYTES or head[: len(MAGIC)] != MAGIC:
        return True
    stated = _HEADER.unpack(head[: _HEADER.size])
    is_intact = zlib.crc32(head[: _HEADER.size]) == _CRC.unpack(head[_HEADER.size : HEADER_BYTES])[0]
    return not is_intact or stated[1] < FORMAT


def verify(read_at: ReadAt, description: Description) -> None:
    """Compare every array's bytes with its checksum, 4 MiB at a time.

    Raises:
        ValueError: They differ.
    """
    for dtype, shape, start, expected in description.arrays:
        remaining, found = math.prod(shape) * np.dtype(dtype).itemsize, 0
        while remaining:
            part = read_at(start, min(remaining, _CHUNK_BYTES))
            if not part:
                raise ValueError("the file ends early")
            found = zlib.crc32(part, found)
            start += len(part)  # noqa: PLW2901
            remaining -= len(part)
        if found != expected:
            raise ValueError("an array's checksum does not match")


def arrays_in(buffer: Any, description: Description) -> list[NDArray[Any]]:
    """Return the arrays as views of the file's bytes, read-only if the bytes are."""
    return [
        np.frombuffer(buffer, dtype, count=math.prod(shape), offset=start if math.prod(shape) else 0).reshape(
            shape
        )
        for dtype, shape, start, _ in description.arrays
    ]


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES


def _bytes_of(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")
