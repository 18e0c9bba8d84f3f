"""A key set: the keys of many equality-delete files, and which of them apply to a data file.

Takes encoded keys (`KeyRows`) with the sequence number of their delete file; returns a bool for each probed
row of a data file: whether its key is deleted. The rule: a key is deleted if and only if it is in a delete
file with a strictly higher sequence number than the data file's.

Keys that are NULL in the same columns are in one table: a direct table if they are single words close to each
other (`direct_table`), else a hash table (`word_table`, `record_table`), with a prefilter if that pays
(`prefilter`). A set can be taken apart into arrays and restored from read-only ones. Threads may probe it
concurrently; adding keys, which moves its arrays, waits for them.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from twostage.deletes.keys.direct_table import DirectTable
from twostage.deletes.keys.encoding import take_rows
from twostage.deletes.keys.hash_table import MAX_KEYS_TO_COMPARE
from twostage.deletes.keys.key_domains import KeyDomains
from twostage.deletes.keys.prefilter import MIN_ROWS_PER_KEY, MIN_ROWS_TO_FILTER, Prefilter
from twostage.deletes.keys.record_table import RecordTable
from twostage.deletes.keys.word_table import WordTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from twostage.deletes.keys.budget import Budget
    from twostage.deletes.keys.encoding import KeyRows
    from twostage.deletes.keys.intervals import KeyDomain
    from twostage.deletes.keys.key_table import KeyTable

_NARROW_CODES = 2**16 - 1


class KeySet:
    """All keys of one set of equality ids: a table for each combination of NULL columns.

    Args:
        budget: Bytes that its tables may take.
        kernels: Whether compiled kernels may run; their twins otherwise.
        dense: Whether numbers close to each other may be in a direct table.
    """

    def __init__(self, budget: Budget, *, kernels: bool, dense: bool = True) -> None:
        self._budget = budget
        self._kernels = kernels
        self._dense = dense
        self._tables: dict[int, KeyTable] = {}
        self._all_null: dict[int, int] = {}
        """By pattern: the highest sequence number of a key that is NULL in every column."""
        self._sequences = np.full(1, -1, np.int64)
        self._codes: dict[int, int] = {}
        self._domains = KeyDomains()
        self._prefilters: dict[int, Prefilter | None] = {}
        """By pattern; None if one would not pay."""
        self._rows_probed: dict[int, int] = {}
        self._readers = 0
        self._free = threading.Condition()
        """Held while the set grows, else only while readers are counted."""

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Keep other threads from adding keys."""
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
        """The limit of its tables; set again for each task that may add keys."""
        return self._budget

    @budget.setter
    def budget(self, budget: Budget) -> None:
        self._budget = budget
        for table in self._tables.values():
            table.budget = budget

    @property
    def nbytes(self) -> int:
        """Return the bytes of private memory that all tables take."""
        prefilters = sum(
            prefilter.nbytes for prefilter in list(self._prefilters.values()) if prefilter is not None
        )
        return prefilters + sum(table.nbytes for table in self._tables.values())

    @property
    def count(self) -> int:
        """Return how many distinct keys it holds."""
        return sum(table.count for table in self._tables.values()) + len(self._all_null)

    def take_apart(self) -> tuple[dict[str, Any], list[NDArray[Any]]]:
        """Return the set's serialized form, for `restored`: plain values for JSON, and arrays.

        The first array has the sequence number of each code, shape (codes,), int64; those of each table follow, as its
        `arrays` gives them.
        """
        tables, arrays = [], [self._sequences]
        for pattern, table in self._tables.items():
            parts = table.arrays()
            plain = {"kind": table.kind, "pattern": pattern, "count": table.count, "arrays": len(parts)}
            tables.append(plain | ({"low": table.low} if isinstance(table, DirectTable) else {}))
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
        """Restore a set from what `take_apart` returned, shapes and dtypes included; arrays may be read-only.

        Raises:
            ValueError, KeyError, TypeError: They do not fit each other.
        """
        tables: dict[int, KeyTable] = {}
        place = 1
        for table in plain["tables"]:
            parts = arrays[place : place + table["arrays"]]
            place += table["arrays"]
            made: KeyTable
            if table["kind"] == DirectTable.kind:
                made = DirectTable.restored(int(table["low"]), parts, budget)
            else:
                hashed = {one.kind: one for one in (WordTable, RecordTable)}[table["kind"]]
                made = hashed.restored(int(table["count"]), parts, budget, kernels=kernels)
            tables[int(table["pattern"])] = made
        nulls = {int(pattern): int(number) for pattern, number in plain["all_null"]}
        found = cls(budget, kernels=kernels, dense=dense)
        found.map(tables, nulls, np.array(arrays[0], np.int64))
        return found

    def map(
        self, tables: dict[int, KeyTable], all_null: dict[int, int], sequences: NDArray[np.int64]
    ) -> None:
        """Use these tables."""
        self._tables, self._all_null, self._sequences = tables, all_null, sequences
        self._codes = {number: code for code, number in enumerate(sequences.tolist()) if code}

    def none_between(self, low: int, high: int) -> bool:
        """Tell whether no key, of a single column, is a number from `low` to `high`; False if unknown."""
        with self._unchanged():
            table = self._tables.get(0)
            return table is None or (isinstance(table, DirectTable) and table.none_between(low, high))

    @property
    def is_empty(self) -> bool:
        """Whether it holds no key."""
        return not self._tables and not self._all_null

    @property
    def is_direct(self) -> bool:
        """Whether all keys are in direct tables, where a lookup costs next to nothing."""
        return all(isinstance(table, DirectTable) for table in list(self._tables.values()))

    def domain(
        self, column: int, widths: Sequence[int], num_rows: int, helps: Callable[[KeyDomain], bool]
    ) -> KeyDomain | None:
        """Return the domain of the keys in a column whose words are numbers; None if that would cost too much.

        Args:
            column: Its index among the key columns.
            widths: How many words each key column takes.
            num_rows: Rows that may need no probe; together with earlier ones they must be worth the cost.
            helps: Tells whether a domain would prove anything; called first with the domain of a sample of
                the keys.
        """
        with self._unchanged():
            return self._domains.find(
                self._tables, self._all_null, self._budget, column, widths, num_rows, helps
            )

    def insert(self, groups: Iterable[KeyRows], sequence_number: int, expected: int) -> None:
        """Add the keys of a delete file; `expected` is how many keys are still to come."""
        with self._free:
            self._free.wait_for(lambda: not self._readers)
            self._insert(groups, sequence_number, expected)

    def _insert(self, groups: Iterable[KeyRows], sequence_number: int, expected: int) -> None:
        self._domains.clear()
        self._prefilters.clear()
        code = self._code(sequence_number)
        for keys in groups:
            if not len(keys.words):
                continue
            if not keys.words.shape[1] and not len(keys.offsets):
                self._all_null[keys.pattern] = max(sequence_number, self._all_null.get(keys.pattern, -1))
                continue
            still = expected if keys.pattern == 0 else 0
            self._table_for(keys, code, max(still, len(keys.words))).insert(keys, code, self._sequences)

    def _table_for(self, keys: KeyRows, code: int, expected: int) -> KeyTable:
        """Return the table for keys of this pattern, `expected` still to come; create or convert it if necessary."""
        made = self._tables.get(keys.pattern)
        if made is None and self._dense and keys.is_word:
            made = DirectTable(self._budget)
        if isinstance(made, DirectTable) and not made.reserve(keys, code, expected):
            made = self._hashed(made, keys, expected)
        elif made is None:
            made = self._new_table(keys, expected)
        self._tables[keys.pattern] = made
        return made

    def _hashed(self, direct: DirectTable, keys: KeyRows, expected: int) -> KeyTable:
        """Return a hash table of a direct table's keys, with room for more."""
        made = self._new_table(keys, direct.count + expected)
        assert isinstance(made, WordTable)
        for words, codes in direct.parts():
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
        """Return a bool for each row: whether a delete file with a higher sequence number holds its key.

        Args:
            groups: The rows' keys, grouped by which columns are NULL.
            num_rows: How many rows.
            sequence_number: Of their data file.
        """
        with self._unchanged():
            return self._probe(groups, num_rows, sequence_number)

    def _probe(self, groups: Iterable[KeyRows], num_rows: int, sequence_number: int) -> NDArray[np.bool_]:
        deleted = np.zeros(num_rows, np.bool_)
        applies = self._sequences > sequence_number
        for keys in groups:
            if keys.pattern in self._all_null and not keys.words.shape[1] and not len(keys.offsets):
                hits: Any = self._all_null[keys.pattern] > sequence_number
            elif keys.pattern in self._tables:
                hits = self._probe_table(self._tables[keys.pattern], keys, applies)
            else:
                continue
            if keys.rows is None:
                deleted |= hits
            else:
                deleted[keys.rows] = hits
        return deleted

    def _probe_table(self, table: KeyTable, keys: KeyRows, applies: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which rows' keys are in a table under a code that applies; a prefilter limits the probed rows."""
        prefilter = self._prefilter_for(table, keys)
        rows = None if prefilter is None else prefilter.rows(keys)
        if rows is None:
            return table.probe(keys, applies)
        found = np.zeros(len(keys.words), np.bool_)
        if len(rows):
            found[rows] = table.probe(take_rows(keys, rows), applies)
        return found

    def _prefilter_for(self, table: KeyTable, keys: KeyRows) -> Prefilter | None:
        """Return a hash table's prefilter, built once enough rows have been probed for it to pay."""
        pattern = keys.pattern
        if pattern in self._prefilters:
            return self._prefilters[pattern]
        count = table.count if isinstance(table, WordTable | RecordTable) else 0
        if count == 0 or (count <= MAX_KEYS_TO_COMPARE and keys.is_word):
            return None
        self._rows_probed[pattern] = probed = self._rows_probed.get(pattern, 0) + len(keys.words)
        if probed < max(MIN_ROWS_TO_FILTER, MIN_ROWS_PER_KEY * count):
            return None
        if isinstance(table, WordTable):
            made = Prefilter.of([table.column(0)], count, None, self._budget)
        else:
            made = Prefilter.of(table.arrays(), count, keys.words.shape[1], self._budget)
        self._prefilters[pattern] = made
        return made
