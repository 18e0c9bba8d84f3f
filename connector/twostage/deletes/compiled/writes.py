"""Writes a task's entries of compiled deletes while it reads: many at a time, and all of them before it ends.

Takes entries as data files end; waits for them when the task ends, or when too many are in flight. The rules:
their bytes are bounded; outside `together`, nothing is in flight when `add` returns; and a task that fails
waits for none.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

from twostage.storage.pending_write import PendingWrite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from twostage.deletes.compiled.store import PendingEntry

MAX_WRITES_IN_FLIGHT = 64
"""Entries of a task in flight at the same time."""
WRITES_BUDGET_DIVISOR = 16
"""Entries in flight may take the task's memory divided by this; a single entry may take more."""


class EntryWrites:
    """Entries of a task in flight.

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
        """Let entries be in flight within the block; `wait` is called to wait for a request."""
        self._is_open, self._wait = True, wait
        try:
            yield
        except GeneratorExit:  # the reader has enough rows
            self._finish()
            raise
        else:
            self._finish()
        finally:
            self._is_open, self._wait = False, PendingWrite.block
            self._pending.clear()

    def add(self, entry: PendingEntry) -> None:
        """Add an entry in flight; wait for others if there are too many."""
        self._pending.append(entry)
        while self._pending and not (self._is_open and self._has_room()):
            self._pending.popleft().is_kept(self._wait)

    def _has_room(self) -> bool:
        size = sum(entry.size for entry in self._pending)
        return len(self._pending) <= MAX_WRITES_IN_FLIGHT and (
            size <= self._most_bytes or len(self._pending) == 1
        )

    def _finish(self) -> None:
        while self._pending:
            self._pending.popleft().is_kept(self._wait)
