"""Unsigned numbers of a fixed width, packed into bytes, and bits of many numbers side by side (bit slices).

Takes numbers below ``2**width``; returns their bytes, least significant bits first, and back. Plain NumPy:
blocks of a thousand numbers take 10 µs to unpack, and a look-up unpacks a few.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]
    Words = NDArray[np.uint64]

_ROWS_AT_ONCE = 1 << 16
MAX_WIDTH = 56
"""Bits: a number of this width lies within the eight bytes from its first bit's byte on."""


def packed_bytes(count: int, width: int) -> int:
    """Return how many bytes `count` numbers take."""
    return (count * width + 7) // 8


def pack(values: Words, width: int) -> Bytes:
    """Return numbers as bytes.

    Args:
        values: uint64, shape (n,), each below ``2**width``.
        width: 0 to `MAX_WIDTH` bits.

    >>> pack(np.array([1, 2, 3], np.uint64), 4)
    array([33,  3], dtype=uint8)
    """
    count = len(values)
    if not count or not width:
        return np.zeros(0, np.uint8)
    shift, firsts, filled, over, after = _places(count, width)
    words = np.zeros((count * width + 63) // 64 + 1, np.uint64)
    # Numbers that begin in one word are neighbours, and their bits are disjoint: a sum joins them.
    words[filled] = np.add.reduceat(values << shift, firsts)
    words[after] |= values[over] >> (np.uint64(64) - shift[over])
    return words.view(np.uint8)[: packed_bytes(count, width)]


@lru_cache(64)
def _places(count: int, width: int) -> tuple[NDArray[Any], ...]:
    """Return where numbers begin, for `pack`.

    Returns:
        Their first bits within their words; the first number of each word, and that word; and the numbers
        that run over into the next word, and that word.
    """
    at = np.arange(count, dtype=np.uint64) * np.uint64(width)
    word, shift = (at >> np.uint64(6)).astype(np.int64), at & np.uint64(63)
    firsts = np.flatnonzero(np.diff(word, prepend=-1))
    over = np.flatnonzero(shift + np.uint64(width) > np.uint64(64))
    return shift, firsts, word[firsts], over, word[over] + 1


def unpack(data: Bytes, count: int, width: int) -> Words:
    """Return `count` numbers of `width` bits: uint64.

    Raises:
        ValueError: There are fewer bytes than they take.
    """
    if not 0 <= width <= MAX_WIDTH or count < 0 or len(data) < packed_bytes(count, width):
        raise ValueError(f"{count} numbers of {width} bits in {len(data)} bytes")
    if not count or not width:
        return np.zeros(count, np.uint64)
    padded = np.zeros(packed_bytes(count, width) + 8, np.uint8)
    padded[:-8] = data[: len(padded) - 8]
    first, shift = _bytes_of(count, width)
    words = np.take(padded, first).view(np.uint64).reshape(-1)
    found: Words = (words >> shift) & np.uint64((1 << width) - 1)
    return found


@lru_cache(64)
def _bytes_of(count: int, width: int) -> tuple[NDArray[np.int64], Words]:
    """Return the eight bytes that each number lies in, shape (count, 8), and at which bit of them it begins."""
    at = np.arange(count, dtype=np.int64) * width
    return (at >> 3)[:, None] + np.arange(8), (at & 7).astype(np.uint64)


def slice_bits(values: Words, bits: int) -> Bytes:
    """Return bit slices, the most significant first: bit `row` of slice `s` is bit ``bits - 1 - s`` of the row's number.

    Returns:
        uint8, shape (bits, bytes), bytes a multiple of 8.
    """
    count = len(values)
    sliced = np.zeros((bits, (count + 63) // 64 * 8), np.uint8)
    for number in range(bits):
        flags = ((values >> np.uint64(bits - 1 - number)) & np.uint64(1)).astype(np.uint8)
        packed = np.packbits(flags, bitorder="little")
        sliced[number, : len(packed)] = packed
    return sliced


def pack_slices(chunks: Iterable[Words], bits: int, num_rows: int) -> Bytes:
    """Return the bit slices of numbers that come in chunks of any length.

    Args:
        chunks: uint64, `num_rows` numbers in all; bits above the lowest `bits` do not count.
        bits: How many slices.
        num_rows: How many numbers.

    Returns:
        uint8, shape (bits, bytes), bytes a multiple of 8: as `slice_bits` returns them.
    """
    slices = np.zeros((bits, (num_rows + 63) // 64 * 8), np.uint8)
    held, start = np.zeros(0, np.uint64), 0

    def add(codes: Words) -> None:
        nonlocal start
        part = slice_bits(codes, bits)
        slices[:, start // 8 : start // 8 + part.shape[1]] = part
        start += len(codes)

    for chunk in chunks:
        held = np.concatenate([held, chunk])
        end = len(held) // 64 * 64
        for place in range(0, end, _ROWS_AT_ONCE):
            add(held[place : min(place + _ROWS_AT_ONCE, end)])
        held = held[end:]
    if len(held):
        add(held)
    return slices


def less_equal(slices: Words, bound: int) -> Words:
    """Return the rows whose number is at most `bound`, as bits.

    Args:
        slices: uint64, shape (bits, words): what `slice_bits` returned, seen as words.
        bound: Below ``2**bits``.

    Source: O'Neil and Quass, Improved Query Performance with Variant Indexes, 1997.
    """
    bits, words = slices.shape
    less, equal = np.zeros(words, np.uint64), np.full(words, ~np.uint64(0))
    for number in range(bits):
        if bound >> (bits - 1 - number) & 1:
            less |= equal & ~slices[number]
            equal &= slices[number]
        else:
            equal &= ~slices[number]
    return less | equal
