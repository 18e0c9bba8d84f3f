"""IN lists of numbers: which values are members of a large list.

Takes values (integers of any width; int64 of shape (rows, 2) for 128-bit values), and members (int64) that
were prepared once; returns a bool for each value. Prepared members are plain arrays that the compiled kernels
and their twins read alike: a one-hash Bloom filter (0.4 to 0.6 ns a value), and for the values that pass it
an open-addressing hash table with linear probing. Members close to each other (dates, small numbers) need
only an exact bitmap. Floats come as canonical bits (`canonical_bits`). For a million values and 10,000
members, pyarrow's `is_in` takes 5 to 10 times as long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from twostage_native import reference
from twostage_native._jit import inner, kernel
from twostage_native.hash_sets import (
    GOLDEN,
    bit_map,
    fill,
    frozen,
    number_table,
    packed,
    table_bits,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bools = NDArray[np.bool_]
    Bits = NDArray[np.uint8]
    Longs = NDArray[np.int64]
    Integers = tuple[Longs, np.int64, Bits, np.int64]
    """Table, the number of its empty slots, bitmap, and the number that the bitmap's first bit stands for."""

MAX_COMPARED_MEMBERS = 8
"""Up to this many members are compared one by one: 0.13 ns for each value and member."""
MAX_BIT_MAP_SPAN = 1 << 21
"""The largest range of members, in numbers, for an exact bitmap: 256 KiB, which a processor's cache holds."""


def prepare_integers(members: Longs) -> Integers:
    """Prepare members (each once, ascending) for `in_integers`.

    >>> table, empty, bits, low = prepare_integers(np.array([3, 5]))
    >>> in_integers(np.array([3, 4, 5]), table, empty, bits, low)
    array([ True, False,  True])
    """
    none = frozen(np.zeros(0, np.uint8))
    if len(members) <= MAX_COMPARED_MEMBERS:
        return frozen(members.copy()), np.int64(0), none, np.int64(0)
    low = int(members[0])
    span = int(members[-1]) - low + 1
    if span <= MAX_BIT_MAP_SPAN:
        flags = np.zeros(-(-span // 8) * 8, np.bool_)
        flags[members - low] = True
        return frozen(np.zeros(0, np.int64)), np.int64(0), packed(flags), np.int64(low)
    hashes = members.view(np.uint64) * GOLDEN
    empty = _non_member(members)
    table = np.full(1 << table_bits(len(members)), empty, np.int64)
    fill(table, empty, hashes, members)
    return frozen(table), empty, bit_map(hashes), np.int64(0)


def prepare_wide(words: Longs) -> tuple[Longs, Longs, Bits]:
    """Prepare 128-bit members (words, each once) for `in_wide`: members, table of their numbers, bitmap."""
    hashes = (words[:, 0] ^ (words[:, 1] * np.int64(31))).view(np.uint64) * GOLDEN
    return words, number_table(hashes), bit_map(hashes)


def _non_member(members: Longs) -> np.int64:
    """Return a number that is not a member: of n + 1 remainders modulo n + 1, n members leave one out."""
    taken = np.zeros(len(members) + 1, np.bool_)
    taken[members % len(taken)] = True
    return np.int64(np.flatnonzero(~taken)[0])


def canonical_bits(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return float64 bits in which equal values (NaN, -0.0 = 0.0) have equal bits.

    Args:
        values: float32 or float64, shape (rows,).

    >>> canonical_bits(np.array([-0.0], np.float32))
    array([0])
    """
    wide = values.astype(np.float64) + 0.0  # -0.0 + 0.0 is 0.0
    wide[np.isnan(wide)] = np.nan
    bits = wide.view(np.int64)
    bits.flags.writeable = False
    return bits


# As in `strings`: machine code is cached by its source file, so that no kernel calls into another one.
@inner
def _is_set(bits: Bits, place: Any) -> bool:
    """Tell whether a bit of a map is set."""
    return bool((bits[np.int64(place >> np.uint64(3))] >> np.uint8(place & np.uint64(7))) & np.uint8(1))


@inner
def _log2(size: Any) -> Any:
    """Return log2 of a power of two."""
    bits = np.uint64(0)
    while (np.uint64(1) << bits) < np.uint64(size):
        bits += np.uint64(1)
    return bits


@kernel(reference.in_integers)
def in_integers(values: NDArray[Any], table: Longs, empty: np.int64, bits: Bits, low: np.int64) -> Bools:
    """Return which values are among the members that `prepare_integers` prepared.

    Args:
        values: Integers of 8 to 64 bits, shape (rows,).
        table: The first of the four prepared values; the others follow.
        empty: The number in its empty slots.
        bits: The bitmap, eight numbers or hashes in a byte.
        low: The number that its first bit is for.

    Returns:
        bool, shape (rows,).
    """
    if len(bits) == 0:
        hits = np.zeros(len(values), np.bool_)
        for member in table:
            for row in range(len(values)):
                hits[row] |= values[row] == member
        return hits
    hits = np.empty(len(values), np.bool_)
    if len(table) == 0:
        span = np.uint64(8 * len(bits))
        for row in range(len(values)):
            place = np.uint64(np.int64(values[row])) - np.uint64(low)
            inside = place < span  # no branch: if half of the values are inside, it takes 3 ns a row
            hits[row] = inside & _is_set(bits, place if inside else np.uint64(0))
        return hits
    top = np.uint64(64) - _log2(8 * len(bits))
    for row in range(len(values)):
        hits[row] = _is_set(bits, (np.uint64(np.int64(values[row])) * GOLDEN) >> top)
    shift, last = np.uint64(64) - _log2(len(table)), len(table) - 1
    for row in range(len(values)):
        if hits[row]:
            value = np.int64(values[row])
            slot = np.int64((np.uint64(value) * GOLDEN) >> shift)
            found = table[slot]
            while found != empty and found != value:  # noqa: PLR1714 - Numba compiles it, a tuple not
                slot = (slot + 1) & last
                found = table[slot]
            hits[row] = (found == value) & (found != empty)
    return hits


@kernel(reference.in_wide)
def in_wide(words: Longs, members: Longs, table: Longs, bits: Bits) -> Bools:
    """Return which 128-bit values, of shape (rows, 2), are among the members that `prepare_wide` prepared."""
    hits = np.empty(len(words), np.bool_)
    top = np.uint64(64) - _log2(8 * len(bits))
    for row in range(len(words)):
        mixed = np.uint64(words[row, 0] ^ (words[row, 1] * np.int64(31))) * GOLDEN
        hits[row] = _is_set(bits, mixed >> top)
    shift, last = np.uint64(64) - _log2(len(table)), len(table) - 1
    for row in range(len(words)):
        if hits[row]:
            low, high = words[row, 0], words[row, 1]
            slot = np.int64((np.uint64(low ^ (high * np.int64(31))) * GOLDEN) >> shift)
            index = table[slot]
            while index >= 0 and (members[index, 0] != low or members[index, 1] != high):
                slot = (slot + 1) & last
                index = table[slot]
            hits[row] = index >= 0
    return hits
