"""The entries of compiled deletes that a task writes while it reads: many at a time, and all of them before it ends.

Takes entries as data files end; waits for them when the task does, or when too many are on their way. The rules: their bytes
are bounded; outside of `together` nothing is on its way when `add` returns; and a task that fails waits for none.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

from twostage.storage.pending_write import PendingWrite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from twostage.deletes.compiled.store import PendingEntry

MOST_WRITES = 64
"""Entries of a task on their way at the same time."""
WRITES_BUDGET_DIVISOR = 16
"""Of the task's memory: what entries on their way may take is this part of it, but for a single one."""


class EntryWrites:
    """Entries of a task on their way.

    Args:
        memory_budget: The task's memory, in bytes.
    """

    def __init__(self, memory_budget: int) -> None:
        self._most_bytes = memory_budget // WRITES_BUDGET_DIVISOR
        self._pending: deque[PendingEntry] = deque()
        self._wait: Callable[[PendingWrite], None] = PendingWrite.block
        self._is_open = False

    @contextmanager
    def together(self, wait: Callable[[PendingWrite], None] = PendingWrite.block) -> Iterator[None]:
        """Let entries be on their way within the block; `wait` is called instead of waiting for a request."""
        self._is_open, self._wait = True, wait
        try:
            yield
        except GeneratorExit:  # whoever reads has enough rows
            self._finish()
            raise
        else:
            self._finish()
        finally:
            self._is_open, self._wait = False, PendingWrite.block
            self._pending.clear()

    def add(self, entry: PendingEntry) -> None:
        """Take an entry on its way; wait for others where there are too many."""
        self._pending.append(entry)
        while self._pending and not (self._is_open and self._has_room()):
            self._pending.popleft().is_kept(self._wait)

    def _has_room(self) -> bool:
        size = sum(entry.size for entry in self._pending)
        return len(self._pending) <= MOST_WRITES and (size <= self._most_bytes or len(self._pending) == 1)

    def _finish(self) -> None:
        while self._pending:
            self._pending.popleft().is_kept(self._wait)
