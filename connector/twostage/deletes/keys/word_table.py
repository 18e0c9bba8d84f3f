"""A hash table of keys that are one 64-bit word each, with a code for the highest sequence number of each key.

Takes encoded keys (`KeyRows` with words of shape (rows, 1), uint64) and a code for each sequence number;
returns a bool for each probed row: whether the table holds its key under a code that applies. Open addressing
with linear probing: keys (uint64) and codes (uint16, or uint32 beyond 65,535 sequence numbers; 0: empty) by
slot. See `hash_table` for the rules.

Measured: 10 M int64 keys take 167 MB (10 bytes a slot at a load of 0.6), are inserted in 0.3 s, and 10 M rows
are probed in 0.4 s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from twostage.deletes.keys.hash_table import (
    COPIED_LOAD,
    MAX_KEYS_TO_COMPARE,
    MIN_SLOTS,
    PROBE_ROWS,
    WORD_LOAD,
    frozen,
    plan_capacity,
    run,
    scratch,
)
from twostage_native import probe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from twostage.deletes.keys.budget import Budget
    from twostage.deletes.keys.encoding import KeyRows


class WordTable:
    """Keys that are one 64-bit word each.

    Args:
        expected: How many keys will be added.
        budget: For its arrays.
        kernels: Whether compiled kernels may run.
    """

    kind = "words"

    def __init__(self, expected: int, budget: Budget, *, kernels: bool) -> None:
        self.budget = budget
        self._kernels = kernels
        self._count = 0
        self._is_mapped = False
        self._keys = np.empty(0, np.uint64)
        self._codes: NDArray[Any] = np.empty(0, np.uint16)
        affordable = (budget.limit - budget.in_use()) // self._slot_bytes
        self._resize(max(MIN_SLOTS, min(int(expected / WORD_LOAD) + 1, affordable)))

    @property
    def _slot_bytes(self) -> int:
        return 8 + self._codes.itemsize

    @classmethod
    def restored(
        cls, count: int, arrays: Sequence[NDArray[Any]], budget: Budget, *, kernels: bool
    ) -> WordTable:
        """Restore a table of `count` keys from the result of `arrays`: see there for shapes and dtypes."""
        table = cls(0, budget, kernels=kernels)
        table.map(count, arrays)
        return table

    def map(self, count: int, arrays: Sequence[NDArray[Any]]) -> None:
        """Use these arrays, read-only, with the shapes and dtypes of `arrays`."""
        self._count, self._is_mapped = count, True
        self._keys, self._codes = arrays

    @property
    def nbytes(self) -> int:
        """Return the bytes of private memory that the table takes."""
        return 0 if self._is_mapped else self._keys.nbytes + self._codes.nbytes

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Return the table's arrays, to be written; empty slots are zeroed, so that no old memory is written.

        Returns:
            Keys (uint64) and codes (uint16 or uint32; 0: an empty slot), both of shape (slots,).
        """
        if not self._is_mapped:
            self._keys[self._codes == 0] = 0
        return self._keys, self._codes

    def column(self, word: int, slots: int | None = None) -> NDArray[np.uint64]:
        """Return the only word of all keys, or of the keys in the first slots."""
        assert word == 0
        keys: NDArray[np.uint64] = self._keys[:slots][self._codes[:slots] != 0]
        return keys

    @property
    def count(self) -> int:
        """Return the number of keys."""
        return self._count

    def _resize(self, capacity: int) -> None:
        keys, codes = np.empty(capacity, np.uint64), np.zeros(capacity, self._codes.dtype)
        if self._count:
            arguments = (self._keys, self._codes, keys, codes)
            run(probe.rehash_words, self._kernels, *arguments, keys=self._count)
        self._keys, self._codes, self._is_mapped = keys, codes, False

    def insert(self, keys: KeyRows, code: int, sequences: NDArray[np.int64]) -> None:
        """Add keys under `code`; for a key already present, the code of the higher sequence number stays."""
        words = keys.words[:, 0]
        capacity = len(self._keys)
        planned = plan_capacity(self._count + len(words), capacity, self._slot_bytes, 0, self.budget)
        if self._is_mapped:
            if self._count + len(words) <= capacity * COPIED_LOAD:
                planned = capacity
            if not self.budget.allows(planned * self._slot_bytes):
                raise self.budget.refuse(planned * self._slot_bytes)
            if planned == capacity:
                self._keys, self._codes, self._is_mapped = self._keys.copy(), self._codes.copy(), False
        if planned != capacity:
            self._resize(planned)
        arguments = (self._keys, self._codes, words, code, sequences, scratch())
        self._count += run(
            probe.insert_words, self._kernels, *arguments, keys=int(len(self._keys) * WORD_LOAD)
        )

    def adopt(self, words: NDArray[np.uint64], codes: NDArray[Any]) -> None:
        """Add distinct keys that are not in the table, each under its own code.

        Args:
            words: The keys, shape (keys,).
            codes: Of the same shape, unsigned; never 0.
        """
        planned = plan_capacity(self._count + len(words), len(self._keys), self._slot_bytes, 0, self.budget)
        if planned != len(self._keys):
            self._resize(planned)
        arguments = (words, codes.astype(self._codes.dtype), self._keys, self._codes)
        run(probe.rehash_words, self._kernels, *arguments)
        self._count += len(words)

    def probe(self, keys: KeyRows, applies: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which keys are in the table under a code that applies."""
        words = keys.words[:, 0]
        if self._count <= MAX_KEYS_TO_COMPARE and len(self._codes) <= 4 * MIN_SLOTS:
            found = np.zeros(len(words), np.bool_)
            for slot in np.flatnonzero(self._codes).tolist():
                if applies[self._codes[slot]]:
                    found |= words == self._keys[slot]
            return found
        found = np.empty(len(words), np.bool_)
        table, loaded = (frozen(self._keys), frozen(self._codes)), scratch()
        for start in range(0, len(words), PROBE_ROWS):
            part = slice(start, start + PROBE_ROWS)
            run(probe.probe_words, self._kernels, *table, applies, words[part], loaded, found[part])
        return found

    def widen_codes(self) -> None:
        """Make room for more than 65,535 sequence numbers."""
        if self._is_mapped:
            self._resize(len(self._keys))
        self._codes = self._codes.astype(np.uint32)
