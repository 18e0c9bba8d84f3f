"""The keys of many equality-delete files in one compact table: key to highest sequence number.

Takes encoded keys with the sequence number of their delete file; answers which keys are deleted for a data
file of some sequence number. The rule: a key is deleted exactly if a delete file with a strictly higher
sequence number holds it; the answer is exact, never probabilistic. A table never grows past its budget.
A set can be taken apart into arrays and made again from read-only ones (a mapped file's, which take no
private memory); these are copied, within the budget, before a key is added to them.

Measured: 10 M int64 keys take 143 MB (10 bytes a slot at a load of 0.7) and probing 1 M rows takes 0.1 s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from twostage.deletes.budget import Budget
from twostage.deletes.keys import KeyRows
from twostage_native import probe

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from twostage_native._jit import Kernel

__all__ = ["Budget", "KeySet", "RecordTable", "WordTable"]

LOAD = 0.7
COPIED_LOAD = 0.8
"""A mapped table is copied as it is if it stays below: filling a larger one takes three times as long."""
FULL = 0.9
"""A table this full is refused rather than left to probe ever longer runs of slots."""
_GROWTH = 1.5
_STRETCH = 1.125
_SMALLEST = 1024
_COMPILE_FROM = 2**20
"""Keys: with so many, the kernel's twin would take a second and several times the table's memory."""
_NARROW_CODES = 2**16 - 1


class _Table(Protocol):
    @property
    def nbytes(self) -> int: ...
    @property
    def count(self) -> int: ...
    def insert(self, keys: KeyRows, code: int, sequences: NDArray[np.int64]) -> None: ...
    def probe(self, keys: KeyRows, applies: NDArray[np.bool_]) -> NDArray[np.bool_]: ...
    def widen_codes(self) -> None: ...
    def arrays(self) -> tuple[NDArray[Any], ...]: ...


def _run(kernel: Kernel, kernels: bool, *arguments: Any) -> Any:  # noqa: FBT001 - a switch, not a mode
    return kernel(*arguments) if kernels else kernel.twin(*arguments)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view: a probe kernel is compiled once, whether a table is mapped or not."""
    array = array.view()
    array.flags.writeable = False
    return array


def _plan_capacity(count: int, capacity: int, slot_bytes: int, extra: int, budget: Budget) -> int:
    """Return the capacity for `count` keys: the present one while it holds them, else a larger one.

    The old slots stay until the new ones are filled, so both must fit. Near the budget the table grows to
    what is needed, then fills up to FULL, before it is refused.
    """
    if count <= capacity * LOAD:
        return capacity
    needed = max(_SMALLEST, int(count / LOAD) + 1)
    for wanted in (max(needed, int(capacity * _GROWTH)), needed):
        if budget.allows(wanted * slot_bytes + extra):
            return wanted
    if count < capacity * FULL:
        return capacity
    raise budget.refuse(needed * slot_bytes + extra)


class WordTable:
    """Keys that are one 64-bit word each."""

    def __init__(self, expected: int, budget: Budget, *, kernels: bool) -> None:
        self._budget = budget
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

    @property
    def count(self) -> int:
        """Return the number of keys."""
        return self._count

    def _resize(self, capacity: int) -> None:
        keys, codes = np.empty(capacity, np.uint64), np.zeros(capacity, self._codes.dtype)
        if self._count:
            arguments = (self._keys, self._codes, keys, codes)
            if self._kernels and self._count >= _COMPILE_FROM:
                probe.rehash_words.compiled(*arguments)
            _run(probe.rehash_words, self._kernels, *arguments)
        self._keys, self._codes, self._is_mapped = keys, codes, False

    def insert(self, keys: KeyRows, code: int, sequences: NDArray[np.int64]) -> None:
        """Add keys under `code`; for a key already there, the code of the higher sequence number stays."""
        words = keys.words[:, 0]
        capacity = len(self._keys)
        planned = _plan_capacity(self._count + len(words), capacity, self._slot_bytes, 0, self._budget)
        if self._is_mapped:
            if self._count + len(words) <= capacity * COPIED_LOAD:
                planned = capacity
            if not self._budget.allows(planned * self._slot_bytes):
                raise self._budget.refuse(planned * self._slot_bytes)
            if planned == capacity:
                self._keys, self._codes, self._is_mapped = self._keys.copy(), self._codes.copy(), False
        if planned != capacity:
            self._resize(planned)
        arguments = (self._keys, self._codes, words, code, sequences)
        self._count += _run(probe.insert_words, self._kernels, *arguments)

    def probe(self, keys: KeyRows, applies: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which keys are in the table under a code that applies."""
        found: NDArray[np.bool_] = _run(
            probe.probe_words,
            self._kernels,
            _frozen(self._keys),
            _frozen(self._codes),
            applies,
            keys.words[:, 0],
        )
        return found

    def widen_codes(self) -> None:
        """Make room for more than 65,535 sequence numbers."""
        if self._is_mapped:
            self._resize(len(self._keys))
        self._codes = self._codes.astype(np.uint32)


class RecordTable:
    """Keys of several words, of bytes, or of both."""

    def __init__(self, expected: int, keys: KeyRows, budget: Budget, *, kernels: bool) -> None:
        self._budget = budget
        self._kernels = kernels
        self._count = 0
        self._is_mapped = False
        self._has_bytes = len(keys.offsets) > 0
        width = keys.words.shape[1]
        self._row_bytes = width * 8 + 2 + (8 if self._has_bytes else 0)
        affordable = (budget.limit - budget.in_use()) // (self._row_bytes + int(8 / LOAD))
        rows = max(0, min(expected, affordable))
        self._words = np.empty((rows, width), np.uint64)
        self._offsets = np.zeros(rows + 1 if self._has_bytes else 0, np.int64)
        self._data = np.empty(0, np.uint8)
        self._codes: NDArray[Any] = np.empty(rows, np.uint16)
        self._slots = np.zeros(max(_SMALLEST, int(rows / LOAD) + 1), np.uint64)

    @classmethod
    def restored(
        cls, count: int, arrays: Sequence[NDArray[Any]], budget: Budget, *, kernels: bool
    ) -> RecordTable:
        """Make a table of what `arrays` gave."""
        _, words, offsets, data, _ = arrays
        table = cls(0, KeyRows(0, None, words, offsets, data), budget, kernels=kernels)
        table.map(count, arrays)
        return table

    def map(self, count: int, arrays: Sequence[NDArray[Any]]) -> None:
        """Use these arrays, read-only."""
        self._count, self._is_mapped = count, True
        self._slots, self._words, self._offsets, self._data, self._codes = arrays
        self._row_bytes += self._codes.itemsize - 2

    @property
    def nbytes(self) -> int:
        """Return the bytes of private memory that the table takes."""
        return 0 if self._is_mapped else self._total()

    def _total(self) -> int:
        arrays = (self._slots, self._words, self._offsets, self._data, self._codes)
        return sum(array.nbytes for array in arrays)

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Return the table's arrays, to be written; only what is in use of them."""
        used = int(self._offsets[self._count]) if self._has_bytes else 0
        offsets = self._offsets[: self._count + 1] if self._has_bytes else self._offsets
        words, codes = self._words[: self._count], self._codes[: self._count]
        return self._slots, words, offsets, self._data[:used], codes

    @property
    def count(self) -> int:
        """Return the number of keys."""
        return self._count

    def _own(self) -> None:
        """Copy the mapped arrays, which are read-only, into memory."""
        if not self._is_mapped:
            return
        if not self._budget.allows(self._total()):
            raise self._budget.refuse(self._total())
        self._slots, self._words, self._offsets, self._data, self._codes = (
            np.array(array) for array in (self._slots, self._words, self._offsets, self._data, self._codes)
        )
        self._is_mapped = False

    def _reserve(self, rows: int, size: int) -> None:
        """Make room for `rows` more keys with `size` more bytes, slots included."""
        self._own()
        count = self._count + rows
        more_rows = max(0, count - len(self._codes))
        used = int(self._offsets[self._count]) if self._has_bytes else 0
        more_bytes = max(0, used + size - len(self._data))
        extra = more_rows * self._row_bytes + more_bytes
        capacity = _plan_capacity(count, len(self._slots), 8, extra, self._budget)
        if capacity == len(self._slots) and extra and not self._budget.allows(extra):
            raise self._budget.refuse(extra)
        if capacity != len(self._slots):
            slots = np.zeros(capacity, np.uint64)
            _run(probe.rehash_records, self._kernels, self._slots, slots)
            self._slots = slots
        if more_rows:
            # Growing in place moves pages, not bytes (mremap), but it writes zeros: little slack at a time.
            room = self._stretch(count, len(self._codes), self._row_bytes)
            self._words.resize((room, self._words.shape[1]), refcheck=False)
            self._codes.resize(room, refcheck=False)
            if self._has_bytes:
                self._offsets.resize(room + 1, refcheck=False)
        if more_bytes:
            self._data.resize(self._stretch(used + size, len(self._data), 1), refcheck=False)

    def _stretch(self, needed: int, present: int, width: int) -> int:
        roomy = max(needed, int(present * _STRETCH))
        return roomy if self._budget.allows((roomy - present) * width) else needed

    def _hash(self, keys: KeyRows) -> NDArray[np.uint64]:
        hashes: NDArray[np.uint64] = _run(
            probe.hash_records, self._kernels, keys.words, keys.offsets, keys.data
        )
        return hashes

    def insert(self, keys: KeyRows, code: int, sequences: NDArray[np.int64]) -> None:
        """Add keys under `code`; for a key already there, the code of the higher sequence number stays."""
        size = int(keys.offsets[-1] - keys.offsets[0]) if self._has_bytes else 0
        self._reserve(len(keys.words), size)
        self._count = _run(
            probe.insert_records,
            self._kernels,
            self._slots,
            self._words,
            self._offsets,
            self._data,
            self._codes,
            self._count,
            self._hash(keys),
            keys.words,
            keys.offsets,
            keys.data,
            code,
            sequences,
        )

    def probe(self, keys: KeyRows, applies: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which keys are in the table under a code that applies."""
        found: NDArray[np.bool_] = _run(
            probe.probe_records,
            self._kernels,
            _frozen(self._slots),
            _frozen(self._words),
            _frozen(self._offsets),
            _frozen(self._data),
            _frozen(self._codes),
            applies,
            self._hash(keys),
            keys.words,
            keys.offsets,
            keys.data,
        )
        return found

    def widen_codes(self) -> None:
        """Make room for more than 65,535 sequence numbers."""
        self._own()
        self._codes = self._codes.astype(np.uint32)
        self._row_bytes += 2


class KeySet:
    """All keys of one set of equality ids: a table for each combination of NULL columns.

    Args:
        budget: Bytes that its tables may take.
        kernels: Whether compiled kernels may run; their twins otherwise.
    """

    def __init__(self, budget: Budget, *, kernels: bool) -> None:
        self.budget = budget
        self._kernels = kernels
        self._tables: dict[int, _Table] = {}
        self._all_null: dict[int, int] = {}
        """Highest sequence number of a key that is NULL in every column, by pattern."""
        self._sequences = np.full(1, -1, np.int64)
        self._codes: dict[int, int] = {}

    @property
    def nbytes(self) -> int:
        """Return the bytes of private memory that all tables take."""
        return sum(table.nbytes for table in self._tables.values())

    @property
    def count(self) -> int:
        """Return how many different keys it holds."""
        return sum(table.count for table in self._tables.values()) + len(self._all_null)

    def take_apart(self) -> tuple[dict[str, Any], list[NDArray[Any]]]:
        """Return what `restored` needs: plain values for JSON, and arrays."""
        tables, arrays = [], [self._sequences]
        for pattern, table in self._tables.items():
            parts = table.arrays()
            tables.append({"pattern": pattern, "count": table.count, "arrays": len(parts)})
            arrays += parts
        return {"tables": tables, "all_null": sorted(self._all_null.items())}, arrays

    @classmethod
    def restored(
        cls, plain: dict[str, Any], arrays: Sequence[NDArray[Any]], budget: Budget, *, kernels: bool
    ) -> KeySet:
        """Make a set again of what `take_apart` gave; the arrays may be read-only.

        Raises:
            ValueError, KeyError, TypeError: They do not fit each other.
        """
        tables: dict[int, _Table] = {}
        place = 1
        for table in plain["tables"]:
            parts = arrays[place : place + table["arrays"]]
            place += table["arrays"]
            kind: type[WordTable | RecordTable] = WordTable if len(parts) == 2 else RecordTable
            made = kind.restored(int(table["count"]), parts, budget, kernels=kernels)
            tables[int(table["pattern"])] = made
        nulls = {int(pattern): int(number) for pattern, number in plain["all_null"]}
        found = cls(budget, kernels=kernels)
        found.map(tables, nulls, np.array(arrays[0], np.int64))
        return found

    def map(self, tables: dict[int, _Table], all_null: dict[int, int], sequences: NDArray[np.int64]) -> None:
        """Use these tables."""
        self._tables, self._all_null, self._sequences = tables, all_null, sequences
        self._codes = {number: code for code, number in enumerate(sequences.tolist()) if code}

    def insert(self, groups: Iterable[KeyRows], sequence_number: int, expected: int) -> None:
        """Add the keys of a delete file; `expected` is how many keys are still to come."""
        code = self._code(sequence_number)
        for keys in groups:
            if not len(keys.words):
                continue
            if not keys.words.shape[1] and not len(keys.offsets):
                self._all_null[keys.pattern] = max(sequence_number, self._all_null.get(keys.pattern, -1))
                continue
            table = self._tables.get(keys.pattern)
            if table is None:
                table = self._new_table(keys, expected if keys.pattern == 0 else len(keys.words))
                self._tables[keys.pattern] = table
                if len(self._sequences) > _NARROW_CODES:
                    table.widen_codes()
            table.insert(keys, code, self._sequences)

    def _new_table(self, keys: KeyRows, expected: int) -> _Table:
        if keys.is_word:
            return WordTable(expected, self.budget, kernels=self._kernels)
        return RecordTable(expected, keys, self.budget, kernels=self._kernels)

    def _code(self, sequence_number: int) -> int:
        code = self._codes.get(sequence_number)
        if code is None:
            code = self._codes[sequence_number] = len(self._sequences)
            if code == _NARROW_CODES:
                for table in self._tables.values():
                    table.widen_codes()
            self._sequences = np.append(self._sequences, sequence_number)
        return code

    def probe(self, groups: Iterable[KeyRows], num_rows: int, sequence_number: int) -> NDArray[np.bool_]:
        """Return which rows' keys a delete file with a higher sequence number holds."""
        deleted = np.zeros(num_rows, np.bool_)
        applies = self._sequences > sequence_number
        for keys in groups:
            if keys.pattern in self._all_null and not keys.words.shape[1] and not len(keys.offsets):
                hits: Any = self._all_null[keys.pattern] > sequence_number
            elif keys.pattern in self._tables:
                hits = self._tables[keys.pattern].probe(keys, applies)
            else:
                continue
            if keys.rows is None:
                deleted |= hits
            else:
                deleted[keys.rows] = hits
        return deleted
