"""What a worker process caches of delete files between tasks: a least-recently-used cache bounded by bytes.

Takes values with their size in bytes; returns them until others need the space. One cache holds positions,
vectors and key sets, so that together they stay within ``task-memory``. The rule: keys are fingerprints
(`fingerprint`) of everything that the value depends on, so that a scan never gets a value other than the one
that it would have built.

Benefit: "worker's memory" in docs/benchmarks-deletes.md, columns "warm" and "cold".
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator


class ByteCache:
    """Values by key; the least recently used are dropped first.

    >>> cache = ByteCache()
    >>> cache.put("a", "first", 60, limit=100)
    >>> cache.put("b", "second", 60, limit=100)
    >>> cache.get("a") is None, cache.get("b")
    (True, 'second')
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self.lock = threading.RLock()
        """Held while a value that other threads may share is changed."""
        self.nbytes = 0
        self._key_locks: dict[Hashable, tuple[threading.Lock, list[int]]] = {}
        """By key: a lock, and the number of threads that hold it or wait for it."""

    @contextmanager
    def exclusive(self, key: Hashable) -> Iterator[None]:
        """Let one thread at a time look up and build a value; threads that need another value do not wait."""
        with self.lock:
            own, users = self._key_locks.setdefault(key, (threading.Lock(), [0]))
            users[0] += 1
        try:
            with own:
                yield
        finally:
            with self.lock:
                users[0] -= 1
                if not users[0]:
                    del self._key_locks[key]

    def get(self, key: Hashable) -> Any | None:
        """Return the value; None if it is not cached."""
        with self.lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: Any, nbytes: int, *, limit: int) -> None:
        """Cache a value of `nbytes` (again if it has grown); drop others until the total fits in `limit`."""
        with self.lock:
            self.drop(key)
            self.make_room(limit - nbytes)
            if nbytes <= limit:
                self._entries[key] = (value, nbytes)
                self.nbytes += nbytes

    def make_room(self, limit: int, keep: Collection[Hashable] = ()) -> None:
        """Drop the least recently used values, but not those in `keep`, until at most `limit` bytes are taken."""
        with self.lock:
            if self.nbytes <= limit:  # before the keys are listed: there may be one for each of 10,000 files
                return
            for key in [key for key in self._entries if key not in keep]:
                self.drop(key)
                if self.nbytes <= limit:
                    return

    def drop(self, key: Hashable) -> None:
        """Forget a value."""
        with self.lock:
            entry = self._entries.pop(key, None)
            if entry is not None:
                self.nbytes -= entry[1]

    def clear(self) -> None:
        """Forget everything."""
        with self.lock:
            self._entries.clear()
            self.nbytes = 0

    def unlock(self) -> None:
        """Reset locks that threads of the parent process held when this process was forked."""
        self.lock = threading.RLock()
        self._key_locks = {}


CACHE = ByteCache()
"""The worker process's cache."""

os.register_at_fork(after_in_child=CACHE.unlock)
