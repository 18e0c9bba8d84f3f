"""IN lists of numbers: which values are among many.

Takes values and members; gives bools. An open-addressing hash set of int64, built within the call (5 ns a
member) and probed once a value; floats come as canonical bits (`canonical_bits`), 128-bit values as pairs
of words. Numba's loop takes 8-9 ns a row where pyarrow's `is_in` takes 27-29 and a binary search 84-92.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from twostage_native import reference
from twostage_native._jit import inner, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SMALL = 8
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@inner
def _capacity_bits(num_members: int) -> int:
    """Return log2 of a table's size: 1 slot in 8 taken, 1 in 2 where that no longer fits a cache.

    A taken slot costs a miss a mispredicted branch: 5 ns.
    """
    bits = 4
    while (1 << bits) < 8 * num_members and (bits < 16 or (1 << bits) < 2 * num_members):
        bits += 1
    return bits


@inner
def _slot(value: Any, shift: Any) -> int:
    """Return where the search for `value` begins: the top bits of a multiplicative hash."""
    return np.int64((np.uint64(value) * _GOLDEN) >> shift)  # type: ignore[return-value]


@inner
def _absentee(members: NDArray[np.int64]) -> Any:
    """Return a number that is no member: of n + 1 remainders modulo n + 1, n members leave one out."""
    modulus = len(members) + 1
    taken = np.zeros(modulus, np.bool_)
    for member in members:
        taken[member % modulus] = True
    for number in range(modulus):
        if not taken[number]:
            return np.int64(number)
    return np.int64(0)


def canonical_bits(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return float64 bits in which equal values (NaN, -0.0 = 0.0) have equal bits.

    >>> canonical_bits(np.array([-0.0], np.float32))
    array([0])
    """
    wide = values.astype(np.float64) + 0.0  # -0.0 + 0.0 is 0.0
    wide[np.isnan(wide)] = np.nan
    bits = wide.view(np.int64)
    bits.flags.writeable = False
    return bits


@kernel(reference.in_integers)
def in_integers(values: NDArray[Any], members: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which values are among `members`."""
    hits = np.zeros(len(values), np.bool_)
    if len(members) <= _SMALL:
        for member in members:
            for row in range(len(values)):
                hits[row] |= values[row] == member
        return hits
    bits = _capacity_bits(len(members))
    shift, last = np.uint64(64 - bits), (1 << bits) - 1
    # An empty slot holds a number that is no member, so that one look tells hit, miss and go on.
    empty = _absentee(members)
    table = np.full(1 << bits, empty, np.int64)
    for member in members:
        slot = _slot(member, shift)
        while table[slot] != empty and table[slot] != member:
            slot = (slot + 1) & last
        table[slot] = member
    for row in range(len(values)):
        value = np.int64(values[row])
        slot = _slot(value, shift)
        found = table[slot]
        while found != empty and found != value:  # noqa: PLR1714 - Numba compiles it, a tuple not
            slot = (slot + 1) & last
            found = table[slot]
        hits[row] = (found == value) & (found != empty)
    return hits


@kernel(reference.in_wide)
def in_wide(words: NDArray[np.int64], members: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which 128-bit values are among `members` (words too)."""
    hits = np.empty(len(words), np.bool_)
    bits = _capacity_bits(len(members))
    shift, last = np.uint64(64 - bits), (1 << bits) - 1
    table = np.full(1 << bits, -1, np.int64)
    for index in range(len(members)):
        slot = _slot(members[index, 0] ^ (members[index, 1] * np.int64(31)), shift)
        while table[slot] >= 0:
            slot = (slot + 1) & last
        table[slot] = index
    for row in range(len(words)):
        low, high = words[row, 0], words[row, 1]
        slot = _slot(low ^ (high * np.int64(31)), shift)
        index = table[slot]
        while index >= 0 and (members[index, 0] != low or members[index, 1] != high):
            slot = (slot + 1) & last
            index = table[slot]
        hits[row] = index >= 0
    return hits
