"""Sets of hashed members, prepared once and searched by kernels and their twins alike.

Takes the members' 64-bit hashes; gives plain arrays: a bit map, which few values pass that are no members, and
an open-addressing table with linear probing for those that pass. The rule: whoever is found by the table is
compared with the member itself, so that hashes decide nothing.
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
_SMALL_BITS = 17  # 16 KiB, which any first cache holds beside the values
_LARGE_BITS = 21  # 256 KiB, which a second cache holds


def number_table(hashes: NDArray[np.uint64]) -> Longs:
    """Return a table that leads from a hash's top bits to the numbers of the members that have it; -1: none."""
    table = np.full(1 << table_bits(len(hashes)), -1, np.int64)
    fill(table, np.int64(-1), hashes, np.arange(len(hashes), dtype=np.int64))
    return frozen(table)


def bit_map(hashes: NDArray[np.uint64]) -> Bits:
    """Return a map in which the bits at the hashes' top bits are set."""
    count_bits = len(hashes).bit_length()
    # 1 in 64 to 128 is set while the first cache holds that, else 1 in 16 to 32; 1 in 4 to 8 where the map would
    # outgrow the second one.
    bits = max(6, count_bits + 2, min(_LARGE_BITS, count_bits + 4), min(_SMALL_BITS, count_bits + 6))
    flags = np.zeros(1 << bits, np.bool_)
    flags[(hashes >> np.uint64(64 - bits)).view(np.int64)] = True
    return packed(flags)


def fill(table: Longs, empty: np.int64, hashes: NDArray[np.uint64], entries: Longs) -> None:
    """Put each entry in the first free slot from its hash's on; all at once, those that lose a slot move on."""
    bits = len(table).bit_length() - 1
    slots = (hashes >> np.uint64(64 - bits)).view(np.int64)
    while len(entries):
        free = table[slots] == empty
        table[slots[free]] = entries[free]
        lost = table[slots] != entries
        entries, slots = entries[lost], (slots[lost] + 1) & (len(table) - 1)


def packed(flags: Bools) -> Bits:
    """Return flags as a bit map, least significant bit first."""
    return frozen(np.packbits(flags, bitorder="little"))


def frozen(values: NDArray[Any]) -> NDArray[Any]:
    """Make an array read-only, so that a kernel is compiled once and not once for each."""
    values.flags.writeable = False
    return values


def table_bits(num_members: int) -> int:
    """Return log2 of a table's size: 1 slot in 2 to 4 is taken. What the bit map keeps out never comes here."""
    return num_members.bit_length() + 1
