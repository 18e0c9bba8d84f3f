"""Sets of hashed members, prepared once and searched by kernels and their twins alike.

Takes the members' 64-bit hashes (uint64); returns plain arrays: a one-hash Bloom filter (uint8, eight bits
each), which few non-members pass, and an open-addressing table with linear probing (int64) for the values
that pass. The rule: a value that the table finds is compared with the member itself, so that hashes decide
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bools = NDArray[np.bool_]
    Bits = NDArray[np.uint8]
    Longs = NDArray[np.int64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SMALL_BITS = 17  # 16 KiB, which a first-level cache holds beside the values
_LARGE_BITS = 21  # 256 KiB, which a second-level cache holds


def number_table(hashes: NDArray[np.uint64]) -> Longs:
    """Return a hash table from the top bits of a hash to the number of the member with it; -1: an empty slot."""
    table = np.full(1 << table_bits(len(hashes)), -1, np.int64)
    fill(table, np.int64(-1), hashes, np.arange(len(hashes), dtype=np.int64))
    return frozen(table)


def bit_map(hashes: NDArray[np.uint64]) -> Bits:
    """Return the Bloom filter: the bits that the top bits of the hashes stand for are set."""
    count_bits = len(hashes).bit_length()
    # 1 bit in 64 to 128 is set while the first-level cache holds the filter, else 1 in 16 to 32; 1 in 4 to 8 if
    # it would outgrow the second-level cache.
    bits = max(6, count_bits + 2, min(_LARGE_BITS, count_bits + 4), min(_SMALL_BITS, count_bits + 6))
    flags = np.zeros(1 << bits, np.bool_)
    flags[(hashes >> np.uint64(64 - bits)).view(np.int64)] = True
    return packed(flags)


def fill(table: Longs, empty: np.int64, hashes: NDArray[np.uint64], entries: Longs) -> None:
    """Put each entry in the first free slot from its hash's on: all at once; those that find it taken move on."""
    bits = len(table).bit_length() - 1
    slots = (hashes >> np.uint64(64 - bits)).view(np.int64)
    while len(entries):
        free = table[slots] == empty
        table[slots[free]] = entries[free]
        lost = table[slots] != entries
        entries, slots = entries[lost], (slots[lost] + 1) & (len(table) - 1)


def packed(flags: Bools) -> Bits:
    """Return flags as a bitmap, least significant bit first."""
    return frozen(np.packbits(flags, bitorder="little"))


def frozen(values: NDArray[Any]) -> NDArray[Any]:
    """Make an array, of any shape and dtype, read-only: so that a kernel is compiled for read-only arrays alone."""
    values.flags.writeable = False
    return values


def table_bits(num_members: int) -> int:
    """Return log2 of a table's size: 1 slot in 2 to 4 is taken. Most non-members do not pass the filter."""
    return num_members.bit_length() + 1
