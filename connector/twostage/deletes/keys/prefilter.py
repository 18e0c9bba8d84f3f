"""Which rows may hold a key of a hash table: a bit for each of many places, by a cheap hash.

Takes the keys of a table, then rows; gives those of the rows that may hold a key, which the table itself is asked
about. The rule: a row that holds a key is never left out; one that holds none may be given.

Where rows are many and keys few, almost all rows end here: NumPy takes 4 ns for a number, 5 for a text of 16 bytes, 12
for texts of any length, a fifth of what hashing and looking up take, and no compiled loop needs to be loaded, which takes
a new worker 0.3 s. The hash is of numbers and a text's first and last eight bytes: keys that differ elsewhere
are not told apart, and have no sieve.
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

MOST_KEYS = 2**22
"""More are seldom few for the rows; their places would take more memory than a processor's cache."""
ROWS_FOR_KEY = 2
"""Rows asked about for each key, from which a sieve is made: it takes 50 ns a key."""
LEAST_ROWS = 2**14
MOST_PASS = 0.25
"""Of the rows: of more, the table is asked about all at once."""
SHARE = 8
"""Of the free budget, what a sieve may take."""
_PLACES = 32
"""For each key: of other rows one in so many passes."""
_LEAST_BITS = 19
_TAKEN_MEANWHILE = 16
"""Bytes a key while a sieve is made."""
_ROWS = 2**15
"""Rows or keys at once: what is made of them stays in the processor's cache."""
_FEWEST = 0.5
"""Places for each key that must be told apart."""
_MIX = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _LAST = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_HALF, _THREE = np.uint64(32), np.uint64(3)
_BYTES = 8
_PLACE = np.uint64(2**32 - 1)
_ONES = np.array([number.bit_count() for number in range(256)], np.uint8)
_MASKS = np.array([2 ** (8 * size) - 1 for size in range(_BYTES + 1)], np.uint64)


class Sieve:
    """What tells which rows may hold a key of a table."""

    def __init__(self, bits: int) -> None:
        self._shift = np.uint64(64 - bits)
        self._bits = np.zeros(2 ** (bits - 3), np.uint8)

    @property
    def nbytes(self) -> int:
        """Return the bytes of private memory that it takes."""
        return self._bits.nbytes

    @staticmethod
    def of(arrays: Sequence[NDArray[Any]], count: int, num_words: int | None, budget: Budget) -> Sieve | None:
        """Return the sieve of a table; None if it would tell little, or takes too much memory.

        Args:
            arrays: The slots and the records of a table of records, or an array of words.
            count: How many keys there are.
            num_words: How many words the keys of a table of records have besides their text.
            budget: What is free of it must be several times as much.
        """
        bits = max(_LEAST_BITS, (_PLACES * count - 1).bit_length())
        if not 0 < count <= MOST_KEYS or not budget.allows(
            SHARE * 2 ** (bits - 3) + _TAKEN_MEANWHILE * count
        ):
            return None
        made = Sieve(bits)
        if num_words is None:
            for start in range(0, len(arrays[0]), _ROWS):
                made._add(_sum([arrays[0][start : start + _ROWS]]))
        else:
            slots, records = arrays
            heads = slots[slots != 0]
            heads &= _PLACE
            heads.sort()  # in order, records are read three times as fast
            places = heads.view(np.int64)
            places -= 1
            for start in range(0, len(places), _ROWS):
                made._add(_of_records(records, places[start : start + _ROWS], num_words))
        return made if int(_ONES[made._bits].sum()) >= _FEWEST * count else None

    def _places(self, hashes: Words) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Return in which bytes the places of these hashes are, which change, and at which bits of these."""
        # Numbers that differ in their upper bits alone, as doubles do, must fall into different places too.
        hashes ^= hashes >> _HALF
        hashes *= _MIX
        hashes >>= self._shift
        bits = hashes.astype(np.uint8)
        bits &= 7
        hashes >>= _THREE
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
        """Return the rows that may hold a key, in order; None if they are too many to tell."""
        found, passed = [np.zeros(0, np.int64)], 0
        for start in range(0, len(keys.words), _ROWS):
            end = min(start + _ROWS, len(keys.words))
            some = np.flatnonzero(self._may_hold(_of_rows(keys, start, end)))
            passed += len(some)
            if passed > MOST_PASS * end:
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
    """Return a new array: the hashes of keys with these words, and with texts that begin and end so."""
    factors = [np.uint64(int(_MIX) * (2 * place + 1) % 2**64) for place in range(len(words))]
    parts = [*zip(words, factors, strict=True)]
    if first is not None and last is not None:
        parts += [(first, _FIRST), (last, _LAST)]
    result: Words = parts[0][0] * parts[0][1]
    for part, factor in parts[1:]:
        result += part * factor
    return result


def _ends(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> tuple[Words, Words]:
    """Return the first and last eight bytes of texts; what is shorter is padded with zeros, and has no last ones."""
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
    beyond = np.minimum(starts - places, _BYTES - 1).astype(np.uint64)  # by eight begins only an empty text
    first = windows[places] >> (np.uint64(8) * beyond)
    first &= _MASKS[np.minimum(lengths, _BYTES)]
    last = np.where(lengths >= _BYTES, windows[np.maximum(ends - _BYTES, 0)], np.uint64(0))
    return first, last


def _of_records(records: Words, places: NDArray[np.int64], num_words: int) -> Words:
    """Return the hashes of the records that begin at these places: a head with their length, words, and bytes."""
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
