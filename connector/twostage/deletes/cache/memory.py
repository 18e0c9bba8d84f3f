"""What a worker process keeps of delete files, bounded by bytes.

Takes values with their size; gives them back until others need the room. One cache serves positions, vectors
and key tables, so that together they stay within the task's memory. The rule: keys name everything that
the value depends on, so that a value is never given to a scan that would have built another one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator


class ByteCache:
    """Values by key, least recently used ones dropped first.

    >>> cache = ByteCache()
    >>> cache.put("a", "first", 60, limit=100)
    >>> cache.put("b", "second", 60, limit=100)
    >>> cache.get("a") is None, cache.get("b")
    (True, 'second')
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self.lock = threading.RLock()
        """Hold it while a value that others may share is changed."""
        self.nbytes = 0
        self._turns: dict[Hashable, tuple[threading.Lock, list[int]]] = {}

    @contextmanager
    def turn(self, key: Hashable) -> Iterator[None]:
        """Let one thread at a time look for a value and make it; who wants another value does not wait."""
        with self.lock:
            own, users = self._turns.setdefault(key, (threading.Lock(), [0]))
            users[0] += 1
        try:
            with own:
                yield
        finally:
            with self.lock:
                users[0] -= 1
                if not users[0]:
                    del self._turns[key]

    def get(self, key: Hashable) -> Any | None:
        """Return the value, None if it is not here."""
        with self.lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: Any, nbytes: int, *, limit: int) -> None:
        """Keep a value of `nbytes`, again if it grew; drop others until all fit in `limit`."""
        with self.lock:
            self.drop(key)
            self.make_room(limit - nbytes)
            if nbytes <= limit:
                self._entries[key] = (value, nbytes)
                self.nbytes += nbytes

    def make_room(self, limit: int, keep: Collection[Hashable] = ()) -> None:
        """Drop the values used longest ago, but not those in `keep`, until no more than `limit` is taken."""
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


CACHE = ByteCache()
"""The worker process's cache."""
