"""A direct table: an array with one code for each number between the lowest key and the highest.

Takes encoded keys of one 64-bit word (`KeyRows` with words of shape (rows, 1), uint64, compared as int64) and
a code for each sequence number; returns a bool for each probed row: whether the table holds its key under a
code that applies. The codes are uint8, uint16 or uint32, depending on their number; 0 marks a number that is
not a key. The rules: the answer is the same as a hash table's; the array is used only if it takes little more
memory than a hash table would, and never beyond the budget; `reserve` decides that before keys are added.

Benefit: "direct table" in docs/benchmarks-deletes.md (``deletes.dense``). Measured: 10 M of 20 M numbers take
22 MB instead of 167, are inserted in 0.1 s instead of 0.3, and 10 M sorted rows are probed in 0.05 s instead
of 0.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from twostage.deletes.keys.budget import Budget
    from twostage.deletes.keys.encoding import KeyRows

MAX_BYTES_PER_KEY = 14
"""The memory of a key in a hash table: a direct table may take as much."""
MAX_SPARSE_BYTES_PER_KEY = 32
MAX_SPARSE_TABLE_BYTES = 32 * 2**20
"""A direct table of at most this size may take `MAX_SPARSE_BYTES_PER_KEY`: it needs no kernel, whose loading
costs more than the memory."""
MIN_TABLE_BYTES = 8192
"""A direct table may always take this much: no hash table takes less."""
_FIRST_MARGIN_DIVISOR = 16
_GROWTH_MARGIN_DIVISOR = 4
"""A new table extends beyond its first keys by 1/16 of their range, a growing one by 1/4 of its own: zeroed
pages that are never written take no memory."""
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1
_CHUNK_SLOTS = 2**20
_BLOCK_ROWS = 2**15
"""Rows per block: their intermediate arrays stay in the processor's cache. NumPy only, because a compiled
loop is just as memory-bound, and loading Numba takes 0.3 s and 80 MB."""


class DirectTable:
    """Keys of one 64-bit word each that are close together as signed integers."""

    kind = "dense"

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._is_mapped = False
        self._low = 0
        self._codes: NDArray[Any] = np.zeros(0, np.uint8)

    @classmethod
    def restored(cls, low: int, arrays: Sequence[NDArray[Any]], budget: Budget) -> DirectTable:
        """Make a table from the result of `arrays`, read-only.

        Args:
            low: The number that the array's first element stands for.
            arrays: One array of codes, shape (numbers,): uint8, uint16 or uint32.
            budget: For its own arrays, if keys are added.

        Raises:
            ValueError: The arrays cannot be a table.
        """
        (codes,) = arrays
        if codes.ndim != 1 or codes.dtype not in (np.uint8, np.uint16, np.uint32):
            raise ValueError("a dense table of another shape")
        if not _LOWEST <= low <= _HIGHEST - max(0, len(codes) - 1):
            raise ValueError("a dense table's range")
        table = cls(budget)
        table._low, table._codes, table._is_mapped = low, codes, True
        return table

    @property
    def low(self) -> int:
        """Return the number that the array's first element stands for."""
        return self._low

    @property
    def nbytes(self) -> int:
        """Return the bytes of private memory that the table takes."""
        return 0 if self._is_mapped else self._codes.nbytes

    @property
    def count(self) -> int:
        """Return the number of keys."""
        return int(np.count_nonzero(self._codes))

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Return the table's array, to be written: codes, shape (numbers,), uint8, uint16 or uint32."""
        return (self._codes,)

    def column(self, word: int, slots: int | None = None) -> NDArray[np.uint64]:
        """Return the only word of all keys, or of those in the first `slots` elements."""
        assert word == 0
        return np.concatenate([np.zeros(0, np.uint64), *(words for words, _ in self.parts(slots))])

    def reserve(self, keys: KeyRows, code: int, expected: int) -> bool:
        """Make room for these keys, of `expected` still to come; return whether the table may hold them."""
        numbers = keys.words[:, 0].view(np.int64)
        low, high = int(numbers.min()), int(numbers.max())
        dtype = np.promote_types(self._codes.dtype, np.min_scalar_type(code))
        size, first = len(self._codes), self._low
        last = first + size - 1
        if size and first <= low and high <= last and dtype == self._codes.dtype and not self._is_mapped:
            return True
        if size:
            low, high = min(low, first), max(high, last)
        total = expected + self.count
        usual = max(MAX_BYTES_PER_KEY * total, min(MAX_SPARSE_TABLE_BYTES, MAX_SPARSE_BYTES_PER_KEY * total))
        max_length = max(MIN_TABLE_BYTES, self._codes.nbytes, usual) // dtype.itemsize
        span = high - low + 1
        # A margin on the sides where keys grow, so that the table does not grow with each delete file.
        margin = span // (_GROWTH_MARGIN_DIVISOR if size else _FIRST_MARGIN_DIVISOR)
        for more in (margin, margin // 8, 0):
            below = more if not size or low < first else 0
            above = more if not size or high > last else 0
            start, end = max(_LOWEST, low - below), min(_HIGHEST, high + above)
            length = end - start + 1
            if length <= max_length and self.budget.allows(length * dtype.itemsize):
                self._move(start, length, dtype)
                return True
        return False

    def _move(self, low: int, length: int, dtype: np.dtype[Any]) -> None:
        codes = np.zeros(length, dtype)
        place = self._low - low
        if len(self._codes):
            codes[place : place + len(self._codes)] = self._codes
        self._low, self._codes, self._is_mapped = low, codes, False

    def insert(self, keys: KeyRows, code: int, sequences: NDArray[np.int64]) -> None:
        """Add keys under `code`, after `reserve`; a key keeps the code with the higher sequence number."""
        words, lowest = keys.words[:, 0], self._word
        is_newest = bool(sequences[code] == sequences.max())
        for start in range(0, len(words), _BLOCK_ROWS):
            # NumPy uses signed indices directly, and converts others on each access: 1.5 ns a row instead of
            # 4.
            places = (words[start : start + _BLOCK_ROWS] - lowest).view(np.int64)
            if not is_newest:
                places = places[sequences[self._codes[places]] < sequences[code]]
            self._codes[places] = code

    def widen_codes(self) -> None:
        """Do nothing: `reserve` widens the codes when one is too large."""

    @property
    def _word(self) -> np.uint64:
        """Return the lowest number as a word: unsigned distances from it do not overflow."""
        return np.uint64(self._low % 2**64)

    def probe(self, keys: KeyRows, applies: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which keys are in the table under a code that applies."""
        codes, words, lowest = self._codes, keys.words[:, 0], self._word
        result = np.zeros(len(words), np.bool_)
        all_apply = bool(applies[1:].all())
        for start in range(0, len(words), _BLOCK_ROWS):
            places = words[start : start + _BLOCK_ROWS] - lowest
            inside = places < np.uint64(len(codes))
            if inside.all():
                found = codes[places.view(np.int64)]
                result[start : start + _BLOCK_ROWS] = found != 0 if all_apply else applies[found]
            elif inside.any():
                result[start : start + _BLOCK_ROWS][inside] = applies[codes[places[inside].view(np.int64)]]
        return result

    def none_between(self, low: int, high: int) -> bool:
        """Tell whether it holds no number from `low` to `high`."""
        start, end = max(0, low - self._low), min(len(self._codes), high - self._low + 1)
        return start >= end or not self._codes[start:end].any()

    def parts(self, slots: int | None = None) -> Iterator[tuple[NDArray[np.uint64], NDArray[Any]]]:
        """Yield all keys as words, or those in the first `slots` elements, with their codes.

        Yields:
            Words (uint64) and codes (uint8, uint16 or uint32), both of shape (keys,), at most 2**20 at a time.
        """
        end = len(self._codes) if slots is None else min(slots, len(self._codes))
        for start in range(0, end, _CHUNK_SLOTS):
            codes = self._codes[start : min(start + _CHUNK_SLOTS, end)]
            places = np.flatnonzero(codes)
            yield places.astype(np.uint64) + np.uint64((self._low + start) % 2**64), codes[places]
