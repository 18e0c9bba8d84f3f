"""Bitmaps of row positions as bytes: RoaringBitmap's portable format of 32 bits, and bits of all rows side by side.

Takes bytes from an index file; gives pyroaring's `BitMap`, or a refusal. The rule: what a bitmap claims is compared with
its size and with the file's rows before anything trusts it.
Source: RoaringFormatSpec, "Standard 32-bit Roaring Bitmap".
"""

from __future__ import annotations

import struct
import zlib
from array import array
from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap

from twostage.indexes.puffin import BadIndexError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_COOKIE = 12346
"""Marks bitmaps without runs."""
_CONTAINER_ROWS, _CONTAINER_WORDS = 2**16, 2**10
_MAX_ARRAY_ROWS = 4096
"""A container of more rows is a bitmap."""


def serialize(bitmap: BitMap) -> bytes:
    """Return a bitmap's bytes, with runs where these are smaller."""
    bitmap.run_optimize()
    return bytes(bitmap.serialize())


def checksum(data: bytes) -> int:
    """Return the checksum that a directory keeps of a bitmap's bytes (`puffin.checked`)."""
    return zlib.crc32(data)


def deserialize(data: bytes, num_rows: int) -> BitMap:
    """Return the bitmap of some bytes.

    Raises:
        BadIndexError: They are no bitmap, or have a position beyond the file's rows.
    """
    try:
        bitmap = BitMap.deserialize(data)
    except (ValueError, IndexError) as error:
        raise BadIndexError(f"a bitmap is malformed: {error}") from None
    if bitmap and bitmap.max() >= num_rows:
        raise BadIndexError(f"a bitmap has row {bitmap.max()} of {num_rows}")
    return bitmap


def of_rows(rows: NDArray[np.integer]) -> BitMap:
    """Return the bitmap of row positions.

    pyroaring takes an `array` as it is, 5 to 13 ns a sorted position; from a NumPy array it makes Python ints, 120 to 250 ns each.
    """
    return BitMap(array("I", np.ascontiguousarray(rows, np.uint32).tobytes()))


def of_words(words: NDArray[np.uint64], num_rows: int) -> BitMap:
    """Return the bitmap of the rows whose bit is set, 64 to a word, lowest bit first; bits beyond the last row do not count.

    The words already are containers of the format, so that 65,536 rows take 2 µs instead of 300.
    """
    count = -(-num_rows // _CONTAINER_ROWS)
    padded = np.zeros(count * _CONTAINER_WORDS, np.uint64)
    padded[: min(len(words), len(padded))] = words[: len(padded)]
    if num_rows % 64:
        padded[num_rows // 64] &= (np.uint64(1) << np.uint64(num_rows % 64)) - np.uint64(1)
    padded[-(-num_rows // 64) :] = 0
    blocks = padded.reshape(count, _CONTAINER_WORDS)
    sizes = np.bitwise_count(blocks).sum(axis=1, dtype=np.int64)
    keys = np.flatnonzero(sizes)
    bodies = [
        blocks[key].tobytes() if sizes[key] > _MAX_ARRAY_ROWS else _array_container(blocks[key])
        for key in keys.tolist()
    ]
    header = np.column_stack([keys, sizes[keys] - 1]).astype("<u2").tobytes()
    lengths = np.array([len(body) for body in bodies], np.int64)
    first = 8 + 8 * len(keys)
    offsets = (first + np.cumsum(lengths) - lengths).astype("<u4").tobytes()
    head = struct.pack("<II", _COOKIE, len(keys))
    return BitMap.deserialize(b"".join((head, header, offsets, *bodies)))


def _array_container(words: NDArray[np.uint64]) -> bytes:
    flags = np.unpackbits(words.view(np.uint8), bitorder="little")
    return bytes(np.flatnonzero(flags).astype("<u2"))


def whole(num_rows: int) -> BitMap:
    """Return the bitmap of all rows."""
    return between(0, num_rows)


def between(first: int, end: int) -> BitMap:
    """Return the bitmap of the rows ``first … end - 1``."""
    bitmap = BitMap()
    bitmap.add_range(first, end)
    return bitmap
