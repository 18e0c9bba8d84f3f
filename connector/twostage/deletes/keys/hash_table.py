"""Keys in compact hash tables: key to the code of its highest sequence number.

Takes encoded keys that are NULL in the same columns, with a code for each sequence number; answers which of the
asked keys a table holds under a code that applies. The rule: the answer is exact, never probabilistic, and a
table never grows past its budget. A table can be made again from read-only arrays (a mapped file's, which take
no private memory); these are copied, within the budget, before a key is added to them.

Measured: 10 M int64 keys take 167 MB (10 bytes a slot at a load of 0.6) and are added in 0.3 s, 10 M rows are asked
about in 0.4 s; for 10 M strings of 16 bytes it is 400 MB, 0.4 s and 0.5 s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from twostage.deletes.keys.encoding import KeyRows
from twostage_native import probe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from twostage.deletes.keys.budget import Budget
    from twostage_native._jit import Kernel

LOAD = 0.6
RECORD_LOAD = 0.5
"""Of record tables: a search for a key that is not there takes 2.5 steps, not 6, and 10 M slots take 46 MB more."""
COPIED_LOAD = 0.8
"""A mapped table is copied as it is if it stays below: filling a larger one takes three times as long."""
FULL = 0.9
"""A table this full is refused rather than left to probe ever longer runs of slots."""
MOST_WORDS = 2**32 - 2
"""Of all records, 32 GiB: 32 bits say where one begins, and how many bytes it has."""
_GROWTH = 1.5
_STRETCH = 1.125
_SMALLEST = 1024
_COMPILE_FROM = 2**20
"""Keys: with so many, the kernel's twin would take a second and several times the table's memory."""
FEW = 16
"""So few keys are compared one by one: 0.2 ms for 50,000 rows, a tenth of what the kernel's twin takes, and no
kernel is compiled where a few rows are left of a scan."""
PROBED = 2**18
"""Rows that are asked about at once: the twins take ten times the bytes of the rows meanwhile."""


def run(kernel: Kernel, kernels: bool, *arguments: Any, keys: int = 0) -> Any:  # noqa: FBT001 - a switch, not a mode
    """Run a kernel, or its twin where kernels are switched off; with many `keys` the kernel compiles at once."""
    if not kernels:
        return kernel.twin(*arguments)
    if keys >= _COMPILE_FROM:
        kernel.compiled(*arguments)
    return kernel(*arguments)


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view: a probe kernel is compiled once, whether a table is mapped or not."""
    array = array.view()
    array.flags.writeable = False
    return array


def _plan_capacity(
    count: int, capacity: int, slot_bytes: int, extra: int, budget: Budget, load: float = LOAD
) -> int:
    """Return the capacity for `count` keys: the present one while it holds them, else a larger one.

    The old slots stay until the new ones are filled, so both must fit. Near the budget the table grows to
    what is needed, then fills up to FULL, before it is refused.
    """
    if count <= capacity * load:
        return capacity
    needed = max(_SMALLEST, int(count / load) + 1)
    for wanted in (max(needed, int(capacity * _GROWTH)), needed):
        if budget.allows(wanted * slot_bytes + extra):
            return wanted
    if count < capacity * FULL:
        return capacity
    raise budget.refuse(needed * slot_bytes + extra)


class WordTable:
    """Keys that are one 64-bit word each."""

    kind = "words"

    def __init__(self, expected: int, budget: Budget, *, kernels: bool) -> None:
        self.budget = budget
        self._kernels = kernels
        self._count = 0
        self._is_mapped = False
        self._keys = np.empty(0, np.uint64)
        self._codes: NDArray[Any] = np.empty(0, np.uint16)
        affordable = (budget.limit - budget.in_use()) // self._slot_bytes
        self._resize(max(_SMALLEST, min(int(expected / LOAD) + 1, affordable)))

    @property
    def _slot_bytes(self) -> int:
        return 8 + self._codes.itemsize

    @classmethod
    def restored(
        cls, count: int, arrays: Sequence[NDArray[Any]], budget: Budget, *, kernels: bool
    ) -> WordTable:
        """Make a table of what `arrays` gave."""
        table = cls(0, budget, kernels=kernels)
        table.map(count, arrays)
        return table

    def map(self, count: int, arrays: Sequence[NDArray[Any]]) -> None:
        """Use these arrays, read-only."""
        self._count, self._is_mapped = count, True
        self._keys, self._codes = arrays

    @property
    def nbytes(self) -> int:
        """Return the bytes of private memory that the table takes."""
        return 0 if self._is_mapped else self._keys.nbytes + self._codes.nbytes

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Return the table's arrays, to be written; empty slots hold zeros, not what memory held before."""
        if not self._is_mapped:
            self._keys[self._codes == 0] = 0
        return self._keys, self._codes

    def column(self, word: int, slots: int | None = None) -> NDArray[np.uint64]:
        """Return one word, their only one, of all keys or of those in the first slots."""
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
        """Add keys under `code`; for a key already there, the code of the higher sequence number stays."""
        words = keys.words[:, 0]
        capacity = len(self._keys)
        planned = _plan_capacity(self._count + len(words), capacity, self._slot_bytes, 0, self.budget)
        if self._is_mapped:
            if self._count + len(words) <= capacity * COPIED_LOAD:
                planned = capacity
            if not self.budget.allows(planned * self._slot_bytes):
                raise self.budget.refuse(planned * self._slot_bytes)
            if planned == capacity:
                self._keys, self._codes, self._is_mapped = self._keys.copy(), self._codes.copy(), False
        if planned != capacity:
            self._resize(planned)
        arguments = (self._keys, self._codes, words, code, sequences, _scratch())
        self._count += run(probe.insert_words, self._kernels, *arguments, keys=int(len(self._keys) * LOAD))

    def adopt(self, words: NDArray[np.uint64], codes: NDArray[Any]) -> None:
        """Add different keys that are not in the table, each under its own code."""
        planned = _plan_capacity(self._count + len(words), len(self._keys), self._slot_bytes, 0, self.budget)
        if planned != len(self._keys):
            self._resize(planned)
        arguments = (words, codes.astype(self._codes.dtype), self._keys, self._codes)
        run(probe.rehash_words, self._kernels, *arguments)
        self._count += len(words)

    def probe(self, keys: KeyRows, applies: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which keys are in the table under a code that applies."""
        words = keys.words[:, 0]
        if self._count <= FEW and len(self._codes) <= 4 * _SMALLEST:
            found = np.zeros(len(words), np.bool_)
            for slot in np.flatnonzero(self._codes).tolist():
                if applies[self._codes[slot]]:
                    found |= words == self._keys[slot]
            return found
        found = np.empty(len(words), np.bool_)
        table, scratch = (frozen(self._keys), frozen(self._codes)), _scratch()
        for start in range(0, len(words), PROBED):
            part = slice(start, start + PROBED)
            run(probe.probe_words, self._kernels, *table, applies, words[part], scratch, found[part])
        return found

    def widen_codes(self) -> None:
        """Make room for more than 65,535 sequence numbers."""
        if self._is_mapped:
            self._resize(len(self._keys))
        self._codes = self._codes.astype(np.uint32)


class RecordTable:
    """Keys of several words, of bytes, or of both."""

    kind = "records"

    def __init__(self, expected: int, keys: KeyRows, budget: Budget, *, kernels: bool) -> None:
        self.budget = budget
        self._kernels = kernels
        self._count = 0
        self._used = 0
        self._is_mapped = False
        # The first keys tell how long the others may be; memory that is not written to is not taken.
        size = _words_of(keys) / max(1, len(keys.words))
        affordable = (budget.limit - budget.in_use()) / (8 * size + 8 / RECORD_LOAD)
        rows = max(0, min(expected, int(affordable)))
        self._records = np.empty(int(rows * size), np.uint64)
        self._slots = np.zeros(max(_SMALLEST, int(rows / RECORD_LOAD) + 1), np.uint64)

    @classmethod
    def restored(
        cls, count: int, arrays: Sequence[NDArray[Any]], budget: Budget, *, kernels: bool
    ) -> RecordTable:
        """Make a table of what `arrays` gave."""
        nothing = KeyRows(0, None, np.zeros((0, 0), np.uint64), np.zeros(0, np.int64), np.zeros(0, np.uint8))
        table = cls(0, nothing, budget, kernels=kernels)
        table.map(count, arrays)
        return table

    def map(self, count: int, arrays: Sequence[NDArray[Any]]) -> None:
        """Use these arrays, read-only."""
        self._count, self._is_mapped = count, True
        self._slots, self._records = arrays
        self._used = len(self._records)

    @property
    def nbytes(self) -> int:
        """Return the bytes of private memory that the table takes."""
        return 0 if self._is_mapped else self._slots.nbytes + self._records.nbytes

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Return the table's arrays, to be written; only what is in use of them."""
        return self._slots, self._records[: self._used]

    def column(self, word: int, slots: int | None = None) -> NDArray[np.uint64]:
        """Return one word of all keys, or of those in the first slots."""
        # A slot holds the place of a record's head, plus one: where the record's words begin.
        starts = self._slots[:slots][self._slots[:slots] != 0]
        starts &= np.uint64(2**32 - 1)
        starts.sort()  # in order, records are read three times as fast
        places = starts.view(np.int64)
        places += word
        found: NDArray[np.uint64] = self._records[places]
        return found

    @property
    def count(self) -> int:
        """Return the number of keys."""
        return self._count

    def _own(self) -> None:
        """Copy the mapped arrays, which are read-only, into memory."""
        if not self._is_mapped:
            return
        total = self._slots.nbytes + self._records.nbytes
        if not self.budget.allows(total):
            raise self.budget.refuse(total)
        self._slots, self._records = np.array(self._slots), np.array(self._records)
        self._is_mapped = False

    def _reserve(self, rows: int, size: int) -> None:
        """Make room for `rows` more keys whose records take `size` more words, slots included."""
        self._own()
        count, needed = self._count + rows, self._used + size
        extra = 8 * max(0, needed - len(self._records))
        if needed > MOST_WORDS:
            raise self.budget.refuse(extra)
        capacity = _plan_capacity(count, len(self._slots), 8, extra, self.budget, RECORD_LOAD)
        if capacity == len(self._slots) and extra and not self.budget.allows(extra):
            raise self.budget.refuse(extra)
        if capacity != len(self._slots):
            slots = np.zeros(capacity, np.uint64)
            run(probe.rehash_records, self._kernels, self._slots, slots, keys=self._count)
            self._slots = slots
        if extra:
            # Growing in place moves pages, not bytes (mremap), but it writes zeros: little slack at a time.
            roomy = max(needed, int(len(self._records) * _STRETCH))
            fits = self.budget.allows(8 * (roomy - len(self._records)))
            self._records.resize(roomy if fits else needed, refcheck=False)

    def insert(self, keys: KeyRows, code: int, sequences: NDArray[np.int64]) -> None:
        """Add keys under `code`; for a key already there, the code of the higher sequence number stays."""
        self._reserve(len(keys.words), _words_of(keys))
        many = int(len(self._slots) * RECORD_LOAD)
        asked = keys.words, keys.offsets, keys.data
        hashes = run(probe.hash_records, self._kernels, *asked, keys=many)
        table = self._slots, self._records, self._used
        last = code, sequences, _scratch()
        self._used, added = run(probe.insert_records, self._kernels, *table, hashes, *asked, *last, keys=many)
        self._count += added

    def probe(self, keys: KeyRows, applies: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which keys are in the table under a code that applies."""
        found = np.zeros(len(keys.words), np.bool_)
        table, scratch = (frozen(self._slots), frozen(self._records)), _scratch()
        for start in range(0, len(found), PROBED):
            end = start + PROBED
            part = keys.words[start:end], keys.offsets[start : end + 1], keys.data
            hashes = run(probe.hash_records, self._kernels, *part, keys=self._count)
            arguments = *table, applies, hashes, *part, scratch, found[start:end]
            run(probe.probe_records, self._kernels, *arguments, keys=self._count)
        return found

    def widen_codes(self) -> None:
        """Do nothing: a record has room for 2**32 codes."""


def get_ready(num_words: int, *, has_text: bool, count: int, kernels: bool) -> None:
    """Load the kernels that will ask a table of about so many keys about rows: in a new process 0.3 s.

    Args:
        num_words: How many words a key has.
        has_text: Whether it has bytes as well; single words may come into a table that needs no kernel.
        count: How many keys.
        kernels: Whether compiled kernels may run.
    """
    if not kernels or count < _COMPILE_FROM or (num_words <= 1 and not has_text):
        return
    words, offsets = np.zeros((1, num_words), np.uint64), np.zeros(2 * has_text, np.int64)
    keys = frozen(words), frozen(offsets), frozen(np.zeros(0, np.uint8))
    probe.hash_records.compiled(*keys)
    table = frozen(np.zeros(1, np.uint64)), frozen(np.zeros(1, np.uint64))
    found = np.zeros(1, np.bool_)
    probe.probe_records.compiled(*table, found, np.zeros(1, np.uint64), *keys, _scratch(), found)


def _scratch() -> NDArray[np.uint64]:
    return np.empty((3, probe.BLOCK), np.uint64)


def _words_of(keys: KeyRows) -> int:
    """Return how many words the records of these keys take: a head each, their words, their bytes.

    As many as no table holds if a key is too long for a record.
    """
    words = len(keys.words) * (1 + int(keys.words.shape[1]))
    if not len(keys.offsets):
        return words
    lengths = np.diff(keys.offsets)
    if lengths.max(initial=0) > MOST_WORDS:
        return MOST_WORDS + 1
    return words + int(((lengths + 7) >> 3).sum())
