"""The values of a set's keys in each column, as intervals, computed once that pays.

Takes a set's tables; returns a `KeyDomain` of a column whose key words are numbers. The rules: a domain
covers all keys; it is computed only if the rows that may not need a probe, including those of earlier calls,
are worth the time and, for a hash table, only after a sample of its keys has shown that intervals could prove
something.

Benefit: "intervals of keys" in docs/benchmarks-deletes.md (``prune.pages``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twostage.deletes.keys.direct_table import DirectTable
from twostage.deletes.keys.intervals import KeyDomain, intervals_in, intervals_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from twostage.deletes.keys.budget import Budget
    from twostage.deletes.keys.key_table import KeyTable

MAX_KEYS_PER_ROW_TO_SORT = 4
"""Keys of a hash table per row that may not need a probe: with more, sorting them costs more."""
MAX_SLOTS_PER_ROW_TO_SCAN = 256
"""The same for elements of a direct table, which is only scanned, not sorted."""
SAMPLED_SLOTS = 65_536
"""Slots of a hash table, as a random sample of the keys: if keys are scattered, every page holds one. Enough
that none of a thousand pages is missed by chance, and all keys sorted for nothing; takes 2 ms."""


class KeyDomains:
    """The domains of one key set's columns; `clear` forgets them when keys are added."""

    def __init__(self) -> None:
        self._found: dict[int, KeyDomain] = {}
        self._rows_considered = 0

    def clear(self) -> None:
        """Forget all domains."""
        self._found.clear()

    def find(
        self,
        tables: Mapping[int, KeyTable],
        null_patterns: Collection[int],
        budget: Budget,
        column: int,
        widths: Sequence[int],
        num_rows: int,
        helps: Callable[[KeyDomain], bool],
    ) -> KeyDomain | None:
        """Return the domain of the keys in a column; None if computing it would cost too much.

        Args:
            tables: All tables of the set, by which of their key columns are NULL.
            null_patterns: The same for keys that are NULL in every column.
            budget: For sorting the keys.
            column: Its index among the key columns.
            widths: How many words each key column takes.
            num_rows: Rows that may need no probe.
            helps: Tells whether a domain would prove anything; called first with the domain of a sample of
                the keys.
        """
        if column in self._found:
            return self._found[column]
        with_value = {pattern: one for pattern, one in tables.items() if not pattern >> column & 1}
        words = {
            pattern: sum(width for place, width in enumerate(widths[:column]) if not pattern >> place & 1)
            for pattern in with_value
        }
        if all(isinstance(table, DirectTable) for table in tables.values()):
            self._rows_considered += num_rows
            num_slots = sum(len(table.arrays()[0]) for table in with_value.values())
            if num_slots > MAX_SLOTS_PER_ROW_TO_SCAN * self._rows_considered:
                return None
        else:
            sample = [
                table.column(words[pattern], SAMPLED_SLOTS).view(np.int64)
                for pattern, table in with_value.items()
            ]
            points = np.unique(np.concatenate(sample)) if sample else np.zeros(0, np.int64)
            if not helps(KeyDomain(False, False, points, points)):
                return None
            self._rows_considered += num_rows
            count = sum(table.count for table in with_value.values())
            # The sorted keys, the gaps between them, and what selects the widest.
            if count > MAX_KEYS_PER_ROW_TO_SORT * self._rows_considered or not budget.allows(32 * count):
                return None
        may_null = any(pattern >> column & 1 for pattern in (*tables, *null_patterns))
        lowers = uppers = np.zeros(0, np.int64)
        (only, *others) = with_value.values() if with_value else (None,)
        if isinstance(only, DirectTable) and not others:
            lowers, uppers = intervals_in(only.low, only.arrays()[0])
        elif with_value:
            parts = [table.column(words[pattern]).view(np.int64) for pattern, table in with_value.items()]
            if any(map(len, parts)):
                lowers, uppers = intervals_of(np.concatenate(parts) if len(parts) > 1 else parts[0])
        self._found[column] = KeyDomain(may_null, False, lowers, uppers)
        return self._found[column]
