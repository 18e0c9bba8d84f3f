"""A prefilter for hash tables: a one-hash Bloom filter, 32 bits a key; no false negatives.

Takes the keys of a table (uint64 words; or slots and records), then rows (`KeyRows`); returns the numbers of
the rows that may hold a key; only these are probed. The rule: a row that holds a key always passes; of the
others, about one in 32 does.

With many rows and few keys, almost all rows are dropped here: NumPy takes 4 ns for a number, 5 for a text of
16 bytes, 12 for texts of any length, a fifth of hashing and probing; and no kernel needs to be loaded, which
takes a new worker 0.3 s. The hash covers the words, and a text's first and last eight bytes: if too many keys
are equal in these, there is no prefilter.

Source: Bloom, "Space/time trade-offs in hash coding with allowable errors", 1970, with k = 1.
Benefit: "prefilter" in docs/benchmarks-deletes.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from twostage.deletes.keys.budget import Budget
    from twostage.deletes.keys.encoding import KeyRows

    Words = NDArray[np.uint64]

MAX_KEYS = 2**22
"""The bits of more keys would exceed a processor's cache, and rarely are there enough rows for so many
keys."""
MIN_ROWS_PER_KEY = 2
"""Probed rows per key, from which a prefilter is built: that takes 50 ns a key."""
MIN_ROWS_TO_FILTER = 2**14
"""Probed rows from which a prefilter is built, however few the keys."""
MAX_PASSING_FRACTION = 0.25
"""If a larger fraction of the rows passes, all are probed without it."""
FREE_BUDGET_FACTOR = 8
"""A prefilter is built only if this many times its bytes are free in the budget."""
BITS_PER_KEY = 32
_MIN_LOG2_BITS = 19
_BUILD_BYTES_PER_KEY = 16
"""Temporary memory while it is built."""
_BLOCK_ROWS = 2**15
"""Rows or keys per block: their intermediate arrays stay in the processor's cache."""
_MIN_SET_BITS_PER_KEY = 0.5
"""If fewer bits are set, too many keys have the same hash."""
_MIX = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _LAST = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_HALF, _LOG2_BYTE = np.uint64(32), np.uint64(3)
_BYTES = 8
_LOW_HALF = np.uint64(2**32 - 1)
_ONES = np.array([number.bit_count() for number in range(256)], np.uint8)
_MASKS = np.array([2 ** (8 * size) - 1 for size in range(_BYTES + 1)], np.uint64)


class Prefilter:
    """A bit array of ``2 ** bits`` bits, with one set for each key."""

    def __init__(self, bits: int) -> None:
        self._shift = np.uint64(64 - bits)
        self._bits = np.zeros(2 ** (bits - 3), np.uint8)

    @property
    def nbytes(self) -> int:
        """Return the bytes of private memory that it takes."""
        return self._bits.nbytes

    @staticmethod
    def of(
        arrays: Sequence[NDArray[Any]], count: int, num_words: int | None, budget: Budget
    ) -> Prefilter | None:
        """Return the prefilter of a table; None if it would filter little or take too much memory.

        Args:
            arrays: The slots, shape (slots,), and records, shape (words,), of a record table; or the words of a word table,
                shape (keys,). All uint64.
            count: How many keys there are.
            num_words: How many words, excluding text, the keys of a record table have; None for a word table.
            budget: The table's budget.
        """
        bits = max(_MIN_LOG2_BITS, (BITS_PER_KEY * count - 1).bit_length())
        if not 0 < count <= MAX_KEYS or not budget.allows(
            FREE_BUDGET_FACTOR * 2 ** (bits - 3) + _BUILD_BYTES_PER_KEY * count
        ):
            return None
        made = Prefilter(bits)
        if num_words is None:
            for start in range(0, len(arrays[0]), _BLOCK_ROWS):
                made._add(_sum([arrays[0][start : start + _BLOCK_ROWS]]))
        else:
            slots, records = arrays
            heads = slots[slots != 0]
            heads &= _LOW_HALF
            heads.sort()  # in order, records are read three times as fast
            places = heads.view(np.int64)
            places -= 1
            for start in range(0, len(places), _BLOCK_ROWS):
                made._add(_of_records(records, places[start : start + _BLOCK_ROWS], num_words))
        return made if int(_ONES[made._bits].sum()) >= _MIN_SET_BITS_PER_KEY * count else None

    def _places(self, hashes: Words) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Return the byte and the bit in it that each hash maps to; overwrites the hashes."""
        # Numbers that differ only in their upper bits, as doubles may, must set different bits too.
        hashes ^= hashes >> _HALF
        hashes *= _MIX
        hashes >>= self._shift
        bits = hashes.astype(np.uint8)
        bits &= 7
        hashes >>= _LOG2_BYTE
        return hashes.view(np.int64), bits

    def _add(self, hashes: Words) -> None:
        places, bits = self._places(hashes)
        for bit in range(8):
            self._bits[places[bits == bit]] |= 1 << bit

    def _may_hold(self, hashes: Words) -> NDArray[np.bool_]:
        places, bits = self._places(hashes)
        taken = self._bits[places]
        taken >>= bits
        taken &= 1
        return taken.view(np.bool_)

    def rows(self, keys: KeyRows) -> NDArray[np.int64] | None:
        """Return the numbers of the rows that may hold a key, ascending; None if too many pass."""
        found, passed = [np.zeros(0, np.int64)], 0
        for start in range(0, len(keys.words), _BLOCK_ROWS):
            end = min(start + _BLOCK_ROWS, len(keys.words))
            some = np.flatnonzero(self._may_hold(_of_rows(keys, start, end)))
            passed += len(some)
            if passed > MAX_PASSING_FRACTION * end:
                return None
            some += start
            found.append(some)
        return np.concatenate(found)


def _of_rows(keys: KeyRows, start: int, end: int) -> Words:
    words = [keys.words[start:end, column] for column in range(keys.words.shape[1])]
    if not len(keys.offsets):
        return _sum(words)
    return _sum(words, *_ends(keys.offsets[start : end + 1], keys.data))


def _sum(words: Sequence[Words], first: Words | None = None, last: Words | None = None) -> Words:
    """Return the hashes, a new array, of keys with these words and texts with these first and last eight bytes."""
    factors = [np.uint64(int(_MIX) * (2 * place + 1) % 2**64) for place in range(len(words))]
    parts = [*zip(words, factors, strict=True)]
    if first is not None and last is not None:
        parts += [(first, _FIRST), (last, _LAST)]
    result: Words = parts[0][0] * parts[0][1]
    for part, factor in parts[1:]:
        result += part * factor
    return result


def _ends(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> tuple[Words, Words]:
    """Return texts' first and last eight bytes as words; shorter texts are zero-padded, with a last word of 0."""
    starts, ends = offsets[:-1], offsets[1:]
    lengths = ends - starts
    shortest, longest = int(lengths.min(initial=0)), int(lengths.max(initial=0))
    if shortest == longest == 2 * _BYTES:
        pairs = data[starts[0] : ends[-1]].view("<u8").reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]
    if len(data) < _BYTES:
        data = np.concatenate([data, np.zeros(_BYTES, np.uint8)])
    windows: Words = np.ndarray(len(data) - _BYTES + 1, "<u8", data, strides=(1,))
    if shortest >= _BYTES:
        return windows[starts], windows[ends - _BYTES]
    places = np.minimum(starts, len(windows) - 1)
    beyond = np.minimum(starts - places, _BYTES - 1).astype(np.uint64)  # 8 only for an empty text
    first = windows[places] >> (np.uint64(8) * beyond)
    first &= _MASKS[np.minimum(lengths, _BYTES)]
    last = np.where(lengths >= _BYTES, windows[np.maximum(ends - _BYTES, 0)], np.uint64(0))
    return first, last


def _of_records(records: Words, places: NDArray[np.int64], num_words: int) -> Words:
    """Return the hashes of the records at these places; a record is a header with its length, words, and bytes."""
    words = [records[places + 1 + column] for column in range(num_words)]
    lengths = (records[places] >> _HALF).view(np.int64)
    if not lengths.any():
        return _sum(words) if words else np.zeros(len(places), np.uint64)
    begin = places + 1 + num_words
    end = begin + (lengths + _BYTES - 1) // _BYTES
    first = np.where(lengths > 0, records[np.minimum(begin, len(records) - 1)], np.uint64(0))
    rest = (lengths % _BYTES).astype(np.uint64) * np.uint64(8)
    whole = records[np.maximum(end - 1, 0)]
    split = (records[np.maximum(end - 2, 0)] >> rest) | (whole << ((np.uint64(64) - rest) & np.uint64(63)))
    last = np.where(lengths < _BYTES, np.uint64(0), np.where(rest == 0, whole, split))
    return _sum(words, first, last)
