"""How many requests to one store may be in flight, over all tasks of a process.

A window like TCP's: it begins small, grows by one with each answer up to its limit, and is halved when the store
throttles. What was too much is not for ever: a store that has not throttled for a while is tried with twice as many. It is
the process's, not a query's: two queries of one executor share it, and each executor finds out for itself. The rule: at least
one request is always allowed, so that a throttled query goes on slowly.
Source: RFC 5681, slow start and multiplicative decrease.
"""

from __future__ import annotations

import os
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

FIRST_SIZE = 16
"""Requests in flight at first: a store's front end answers that many at any time, and the next round trip has 32."""
MAX_SIZE = 256
"""Requests to one store in flight from one process, whatever its tasks ask for."""
GROWTH_AFTER_THROTTLING = 0.25
"""Places that a window gains with each round trip once it was too large: a store refuses few requests then."""

QUIET_SECONDS = 30.0
"""Time without throttling after which a window may grow fast to twice the size that was too large: under load, stores add capacity
within minutes."""


class RequestWindow:
    """The window of one store. Its methods are called in the event loop's thread."""

    def __init__(self, first: int = FIRST_SIZE, most: int = MAX_SIZE) -> None:
        self.size = float(first)
        self.in_flight = 0
        self._most = most
        self._threshold = float(most)
        self._halved_at = self._quiet_since = float("-inf")
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> float:
        """Wait for a place, and return the time; the caller then calls `leave` with it."""
        if self.in_flight < int(self.size) and not self._waiting:
            self.in_flight += 1
            return time.monotonic()
        from asyncio import CancelledError, get_running_loop  # noqa: PLC0415 - see `store_loop`

        place = get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except CancelledError:
            if place.done() and not place.cancelled():
                self.in_flight -= 1
                self._admit()
            raise
        return time.monotonic()

    def leave(self, entered: float, *, answered: bool, throttled: bool) -> None:
        """Give a place back.

        Args:
            entered: What `enter` returned.
            answered: The window grows: below the size that was too much by one, above it by much less.
            throttled: The window is halved, unless that was done since the request began: it says nothing new then.
        """
        self.in_flight -= 1
        if throttled and entered > self._halved_at:
            self._halved_at = self._quiet_since = time.monotonic()
            self.size = self._threshold = max(1.0, self.size / 2)
        elif answered and self.size < self._most:
            self._recover()
            gain = 1.0 if self.size < self._threshold else GROWTH_AFTER_THROTTLING / self.size
            self.size = min(self._most, self.size + gain)
        self._admit()

    def _recover(self) -> None:
        if self._threshold < self._most:
            now = time.monotonic()
            if now - self._quiet_since >= QUIET_SECONDS:
                self._quiet_since = now
                self._threshold = min(self._most, 2 * self._threshold)

    def _admit(self) -> None:
        while self._waiting and self.in_flight < int(self.size):
            place = self._waiting.popleft()
            if not place.done():
                self.in_flight += 1
                place.set_result(None)


_windows: dict[tuple[str, ...], RequestWindow] = {}


def window_of(key: tuple[str, ...]) -> RequestWindow:
    """Return the window of a store, in the event loop's thread."""
    if key not in _windows:
        _windows[key] = RequestWindow()
    return _windows[key]


# The parent's requests would hold places for ever: nobody gives them back in a forked process.
os.register_at_fork(after_in_child=_windows.clear)
