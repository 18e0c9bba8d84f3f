"""Ascending numbers in blocks, in little more than two bits each beyond what their mean distance takes.

Takes rows of ascending numbers; returns for each its lower bits, packed, and its upper bits as a bitmap in
which number i is bit ``upper + i``; and the numbers back. Plain NumPy: a block of a thousand numbers takes 20
µs to decode, and a look-up decodes a few.

Source: Elias, Efficient Storage and Retrieval by Content and Address of Static Files, 1974; Fano, On the Number of Bits
Required to Implement an Associative Memory, 1971.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twostage_native.bit_packing import pack, packed_bytes, unpack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]
    Words = NDArray[np.uint64]


def pack_ascending(rows: Words) -> tuple[list[bytes], list[int]]:
    """Return for each row of numbers its bytes, and how many bits of each number are lower bits.

    Args:
        rows: uint64, shape (rows, count), ascending in each row, at most 2**52 from its first to its last number; count
            is a multiple of 8 if there are several rows.

    Returns:
        The bytes of the numbers' distances to the first one of their row, and the `width` that
        `unpack_ascending` takes.

    >>> pack_ascending(np.array([[10, 12, 12, 19]], np.uint64))
    ([b'\\x08\\x8d'], [1])
    """
    num_rows, count = rows.shape
    distances = rows - rows[:, :1]
    # Of a number's bits, those that its mean distance to the next one has; np.frexp gives how many these are.
    lower = np.maximum(np.frexp((distances[:, -1] // np.uint64(count)).astype(np.float64))[1] - 1, 0)
    lows: list[bytes] = [b""] * num_rows
    for width in np.unique(lower).tolist():
        own = np.flatnonzero(lower == width)
        mask = np.uint64((1 << width) - 1)
        packed = pack((distances[own] & mask).reshape(-1), width).reshape(len(own), -1)
        for place, data in zip(own.tolist(), packed, strict=True):
            lows[place] = data.tobytes()
    places = (distances >> lower[:, None].astype(np.uint64)).astype(np.int64) + np.arange(count)
    ends = np.cumsum(places[:, -1] // 8 + 1)
    starts = np.concatenate([[0], ends[:-1]])
    bits = np.zeros(8 * int(ends[-1]), np.uint8)
    bits[(places + 8 * starts[:, None]).reshape(-1)] = 1
    highs = np.packbits(bits, bitorder="little").tobytes()
    limits = zip(lows, starts.tolist(), ends.tolist(), strict=True)
    return [low + highs[start:end] for low, start, end in limits], lower.tolist()


def unpack_ascending(data: Bytes, count: int, width: int) -> Words:
    """Return the `count` numbers of one row, as distances to its first one: uint64.

    Args:
        data: What `pack_ascending` returned.
        count: How many there are.
        width: How many bits of each are lower bits.

    Raises:
        ValueError: The bytes hold a different count.
    """
    split = packed_bytes(count, width)
    lows = unpack(data[:split], count, width)
    places = np.flatnonzero(np.unpackbits(data[split:], bitorder="little"))
    if len(places) != count:
        raise ValueError(f"{len(places)} numbers instead of {count}")
    return ((places - np.arange(count)).astype(np.uint64) << np.uint64(width)) | lows
