"""The keys of many equality-delete files, and which of them are deleted for a data file.

Takes encoded keys with the sequence number of their delete file; answers which rows' keys are deleted for a data
file of some sequence number. The rule: a key is deleted exactly if a delete file with a strictly higher
sequence number holds it. Keys that are NULL in the same columns are in one table: an array with a place for each
number where single words lie close (`direct_table`), a hash table otherwise (`hash_table`). A set can be
taken apart into arrays and made again from read-only ones. Threads may ask it at once; while it grows, which moves
its arrays, they wait.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from twostage.deletes.keys.direct_table import DenseTable
from twostage.deletes.keys.encoding import take_rows
from twostage.deletes.keys.hash_table import FEW, RecordTable, WordTable
from twostage.deletes.keys.intervals import KeyDomain, intervals_in, intervals_of
from twostage.deletes.keys.prefilter import LEAST_ROWS, ROWS_FOR_KEY, Sieve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from twostage.deletes.keys.budget import Budget
    from twostage.deletes.keys.encoding import KeyRows

_NARROW_CODES = 2**16 - 1
SORTED_AFTER = 4
"""Keys of a hash table for each row that may have one: with fewer rows, it is not worth sorting the keys."""
LOOKED_AFTER = 256
"""Places of a dense table, likewise: it is only looked through."""
LOOKED_AT = 65_536
"""Slots of a hash table, whose keys are any of all: scattered keys are in each page that is asked about. So many that of
a thousand pages none is left out by chance, which had all keys sorted for nothing; 2 ms."""


class _Table(Protocol):
    kind: str
    budget: Budget

    @property
    def nbytes(self) -> int: ...
    @property
    def count(self) -> int: ...
    def insert(self, keys: KeyRows, code: int, sequences: NDArray[np.int64]) -> None: ...
    def probe(self, keys: KeyRows, applies: NDArray[np.bool_]) -> NDArray[np.bool_]: ...
    def widen_codes(self) -> None: ...
    def arrays(self) -> tuple[NDArray[Any], ...]: ...
    def column(self, word: int, slots: int | None = None) -> NDArray[np.uint64]: ...


class KeySet:
    """All keys of one set of equality ids: a table for each combination of NULL columns.

    Args:
        budget: Bytes that its tables may take.
        kernels: Whether compiled kernels may run; their twins otherwise.
        dense: Whether numbers that lie close may be in a dense table.
    """

    def __init__(self, budget: Budget, *, kernels: bool, dense: bool = True) -> None:
        self._budget = budget
        self._kernels = kernels
        self._dense = dense
        self._tables: dict[int, _Table] = {}
        self._all_null: dict[int, int] = {}
        """Highest sequence number of a key that is NULL in every column, by pattern."""
        self._sequences = np.full(1, -1, np.int64)
        self._codes: dict[int, int] = {}
        self._domains: dict[int, KeyDomain] = {}
        self._rows_asked = 0
        self._sieves: dict[int, Sieve | None] = {}
        """By pattern; None where one is no use."""
        self._rows_probed: dict[int, int] = {}
        self._readers = 0
        self._free = threading.Condition()
        """Held while the set grows; otherwise only while readers are counted."""

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Let nobody add keys."""
        with self._free:
            self._readers += 1
        try:
            yield
        finally:
            with self._free:
                self._readers -= 1
                self._free.notify_all()

    @property
    def budget(self) -> Budget:
        """What its tables may take; set anew for each task that may add keys."""
        return self._budget

    @budget.setter
    def budget(self, budget: Budget) -> None:
        self._budget = budget
        for table in self._tables.values():
            table.budget = budget

    @property
    def nbytes(self) -> int:
        """Return the bytes of private memory that all tables take."""
        sieves = sum(sieve.nbytes for sieve in list(self._sieves.values()) if sieve is not None)
        return sieves + sum(table.nbytes for table in self._tables.values())

    @property
    def count(self) -> int:
        """Return how many different keys it holds."""
        return sum(table.count for table in self._tables.values()) + len(self._all_null)

    def take_apart(self) -> tuple[dict[str, Any], list[NDArray[Any]]]:
        """Return what `restored` needs: plain values for JSON, and arrays."""
        tables, arrays = [], [self._sequences]
        for pattern, table in self._tables.items():
            parts = table.arrays()
            plain = {"kind": table.kind, "pattern": pattern, "count": table.count, "arrays": len(parts)}
            tables.append(plain | ({"low": table.low} if isinstance(table, DenseTable) else {}))
            arrays += parts
        return {"tables": tables, "all_null": sorted(self._all_null.items())}, arrays

    @classmethod
    def restored(
        cls,
        plain: dict[str, Any],
        arrays: Sequence[NDArray[Any]],
        budget: Budget,
        *,
        kernels: bool,
        dense: bool = True,
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
            made: _Table
            if table["kind"] == DenseTable.kind:
                made = DenseTable.restored(int(table["low"]), parts, budget)
            else:
                hashed = {one.kind: one for one in (WordTable, RecordTable)}[table["kind"]]
                made = hashed.restored(int(table["count"]), parts, budget, kernels=kernels)
            tables[int(table["pattern"])] = made
        nulls = {int(pattern): int(number) for pattern, number in plain["all_null"]}
        found = cls(budget, kernels=kernels, dense=dense)
        found.map(tables, nulls, np.array(arrays[0], np.int64))
        return found

    def map(self, tables: dict[int, _Table], all_null: dict[int, int], sequences: NDArray[np.int64]) -> None:
        """Use these tables."""
        self._tables, self._all_null, self._sequences = tables, all_null, sequences
        self._codes = {number: code for code, number in enumerate(sequences.tolist()) if code}

    def none_between(self, low: int, high: int) -> bool:
        """Tell whether no key, of a single column, is a number from `low` to `high`; False if that is not known."""
        with self._unchanged():
            table = self._tables.get(0)
            return table is None or (isinstance(table, DenseTable) and table.none_between(low, high))

    @property
    def is_empty(self) -> bool:
        """Whether it holds no key."""
        return not self._tables and not self._all_null

    @property
    def is_dense(self) -> bool:
        """Whether looking a key up costs as good as nothing."""
        return all(isinstance(table, DenseTable) for table in list(self._tables.values()))

    def domain(
        self, column: int, widths: Sequence[int], num_rows: int, helps: Callable[[KeyDomain], bool]
    ) -> KeyDomain | None:
        """Return where the keys lie in a column whose words are numbers; None if to tell that would cost too much.

        Args:
            column: Its place among the key columns.
            widths: How many words each key column takes.
            num_rows: Rows that this is about; those asked about so far must be worth it.
            helps: Whether something could be proven if the keys lay there; it is asked about some of them first.
        """
        with self._unchanged():
            return self._domain(column, widths, num_rows, helps)

    def _domain(
        self, column: int, widths: Sequence[int], num_rows: int, helps: Callable[[KeyDomain], bool]
    ) -> KeyDomain | None:
        if column in self._domains:
            return self._domains[column]
        tables = {pattern: one for pattern, one in self._tables.items() if not pattern >> column & 1}
        words = {
            pattern: sum(width for place, width in enumerate(widths[:column]) if not pattern >> place & 1)
            for pattern in tables
        }
        if self.is_dense:
            self._rows_asked += num_rows
            if sum(len(table.arrays()[0]) for table in tables.values()) > LOOKED_AFTER * self._rows_asked:
                return None
        else:
            some = [
                table.column(words[pattern], LOOKED_AT).view(np.int64) for pattern, table in tables.items()
            ]
            points = np.unique(np.concatenate(some)) if some else np.zeros(0, np.int64)
            if not helps(KeyDomain(False, False, points, points)):
                return None
            self._rows_asked += num_rows
            count = sum(table.count for table in tables.values())
            # Once sorted, and what tells the gaps between them.
            if count > SORTED_AFTER * self._rows_asked or not self._budget.allows(32 * count):
                return None
        may_null = any(pattern >> column & 1 for pattern in (*self._tables, *self._all_null))
        lowers = uppers = np.zeros(0, np.int64)
        (only, *others) = tables.values() if tables else (None,)
        if isinstance(only, DenseTable) and not others:
            lowers, uppers = intervals_in(only.low, only.arrays()[0])
        elif tables:
            parts = [table.column(words[pattern]).view(np.int64) for pattern, table in tables.items()]
            if any(map(len, parts)):
                lowers, uppers = intervals_of(np.concatenate(parts) if len(parts) > 1 else parts[0])
        self._domains[column] = KeyDomain(may_null, False, lowers, uppers)
        return self._domains[column]

    def insert(self, groups: Iterable[KeyRows], sequence_number: int, expected: int) -> None:
        """Add the keys of a delete file; `expected` is how many keys are still to come."""
        with self._free:
            self._free.wait_for(lambda: not self._readers)
            self._insert(groups, sequence_number, expected)

    def _insert(self, groups: Iterable[KeyRows], sequence_number: int, expected: int) -> None:
        self._domains.clear()
        self._sieves.clear()
        code = self._code(sequence_number)
        for keys in groups:
            if not len(keys.words):
                continue
            if not keys.words.shape[1] and not len(keys.offsets):
                self._all_null[keys.pattern] = max(sequence_number, self._all_null.get(keys.pattern, -1))
                continue
            still = expected if keys.pattern == 0 else 0
            self._table_for(keys, code, max(still, len(keys.words))).insert(keys, code, self._sequences)

    def _table_for(self, keys: KeyRows, code: int, expected: int) -> _Table:
        """Return the table for keys of this pattern, `expected` still to come; make or change it if need be."""
        made = self._tables.get(keys.pattern)
        if made is None and self._dense and keys.is_word:
            made = DenseTable(self._budget)
        if isinstance(made, DenseTable) and not made.takes(keys, code, expected):
            made = self._hashed(made, keys, expected)
        elif made is None:
            made = self._new_table(keys, expected)
        self._tables[keys.pattern] = made
        return made

    def _hashed(self, dense: DenseTable, keys: KeyRows, expected: int) -> _Table:
        """Return a hash table of a dense table's keys, with room for more."""
        made = self._new_table(keys, dense.count + expected)
        assert isinstance(made, WordTable)
        for words, codes in dense.parts():
            made.adopt(words, codes)
        return made

    def _new_table(self, keys: KeyRows, expected: int) -> WordTable | RecordTable:
        made: WordTable | RecordTable
        if keys.is_word:
            made = WordTable(expected, self._budget, kernels=self._kernels)
        else:
            made = RecordTable(expected, keys, self._budget, kernels=self._kernels)
        if len(self._sequences) > _NARROW_CODES:
            made.widen_codes()
        return made

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
        with self._unchanged():
            return self._probe(groups, num_rows, sequence_number)

    def _probe(self, groups: Iterable[KeyRows], num_rows: int, sequence_number: int) -> NDArray[np.bool_]:
        deleted = np.zeros(num_rows, np.bool_)
        applies = self._sequences > sequence_number
        for keys in groups:
            if keys.pattern in self._all_null and not keys.words.shape[1] and not len(keys.offsets):
                hits: Any = self._all_null[keys.pattern] > sequence_number
            elif keys.pattern in self._tables:
                hits = self._look_up(self._tables[keys.pattern], keys, applies)
            else:
                continue
            if keys.rows is None:
                deleted |= hits
            else:
                deleted[keys.rows] = hits
        return deleted

    def _look_up(self, table: _Table, keys: KeyRows, applies: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which rows' keys are in a table under a code that applies; most rows may end in its sieve."""
        sieve = self._sieve_of(table, keys)
        rows = None if sieve is None else sieve.rows(keys)
        if rows is None:
            return table.probe(keys, applies)
        found = np.zeros(len(keys.words), np.bool_)
        if len(rows):
            found[rows] = table.probe(take_rows(keys, rows), applies)
        return found

    def _sieve_of(self, table: _Table, keys: KeyRows) -> Sieve | None:
        """Return a hash table's sieve, made once so many rows are asked about that it pays."""
        pattern = keys.pattern
        if pattern in self._sieves:
            return self._sieves[pattern]
        count = table.count if isinstance(table, WordTable | RecordTable) else 0
        if count == 0 or (count <= FEW and keys.is_word):
            return None
        self._rows_probed[pattern] = asked = self._rows_probed.get(pattern, 0) + len(keys.words)
        if asked < max(LEAST_ROWS, ROWS_FOR_KEY * count):
            return None
        if isinstance(table, WordTable):
            made = Sieve.of([table.column(0)], count, None, self._budget)
        else:
            made = Sieve.of(table.arrays(), count, keys.words.shape[1], self._budget)
        self._sieves[pattern] = made
        return made
