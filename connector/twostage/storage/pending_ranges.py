"""Ranges of one remote file on their way to whoever asked for them.

Takes the answers of requests, from the event loop's thread; gives the bytes of each range to any thread that waits for
them. The rule: every `PendingRanges` ends, in bytes or in an error.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Protocol

from twostage.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from twostage.errors import TwoStageError
    from twostage.storage.round_trips import RoundTrips
    from twostage.storage.store_client import RangedFile


class Reads(Protocol):
    """What pending ranges need of the `TaskReads` that fetches them."""

    trips: RoundTrips

    def hurry(self, pending: PendingRanges) -> None:
        """Send its requests before all others."""

    def wait_for(self, pending: PendingRanges) -> None:
        """Wait until it is done."""

    def released(self, num_bytes: int) -> None:
        """Count bytes as released."""


class Gathered:
    """The bytes of a long range on their way in `parts` parts."""

    def __init__(self, start: int, end: int, parts: int) -> None:
        self.start = start
        self._length = end - start
        self._missing = parts
        self._buffer: bytearray | None = None

    def take(self, start: int, data: Any) -> memoryview | None:
        """Take a part; return all of the range once it is there."""
        if self._buffer is None:
            self._buffer = bytearray(self._length)
        part = memoryview(data).cast("B")
        self._buffer[start - self.start : start - self.start + len(part)] = part
        self._missing -= 1
        return None if self._missing else memoryview(self._buffer)


class PendingRanges:
    """Ranges of one file on their way. Any thread may call its methods."""

    def __init__(self, reads: Reads, file: RangedFile, ranges: Sequence[tuple[int, int]]) -> None:
        self.file = file
        self.ranges = tuple(ranges)
        self.trip = reads.trips.behind + any(length for _, length in ranges)
        """Its number in the chain of round trips that wait for each other, from 1; ranges of no bytes take none."""
        self._reads = reads
        self._lock = threading.Lock()
        self._arrived = threading.Event()
        self._missing = self._unsent = 0
        self.size = 0
        """Bytes of its requests, as far as their lengths are known before they are answered."""
        self._answers: list[tuple[int, memoryview, tuple[int, ...]]] = []
        self._error: TwoStageError | None = None
        self._callbacks: list[Callable[[], None]] = []
        self._num_bytes = 0
        self._is_released = False

    def done(self) -> bool:
        """Return whether `result` would not wait."""
        return self._arrived.is_set()

    @property
    def is_sent(self) -> bool:
        """Whether all of its requests were sent, or it has failed: it cannot be hurried."""
        return self._unsent <= 0 or self._arrived.is_set()

    def on_done(self, callback: Callable[[], None]) -> None:
        """Call `callback` when all bytes are there or the read has failed; at once if that is so already.

        It is called in the thread that talks to the store: it must be quick, and must not wait.
        """
        with self._lock:
            if not self._arrived.is_set():
                self._callbacks.append(callback)
                return
        callback()

    def block(self) -> None:
        """Wait until `done`, without handing a turn on."""
        self._reads.hurry(self)
        self._arrived.wait()

    def result(self) -> list[memoryview]:
        """Return the bytes of each range, in the order asked for; waits for them if need be.

        Raises:
            MissingFileError: The object does not exist.
            CorruptFileError: It ends within a range, or is another one than before.
            StorageError: No access, no network, an answer that does not come, or the task's reads were closed.
        """
        if not self._arrived.is_set():
            self._reads.wait_for(self)
        self._reads.trips.reach(self.trip)
        if self._error is not None:
            raise self._error
        if self._is_released:
            raise InternalError(
                "RELEASED_BYTES", "Bytes were released before they were used", path=self.file.path
            )
        found: list[memoryview] = [memoryview(b"")] * len(self.ranges)
        for start, view, members in self._answers:
            for number in members:
                first, length = self.ranges[number]
                found[number] = view[first - start : first - start + length]
        return found

    def release(self) -> None:
        """Release the bytes: as many others may be fetched ahead. What `result` returned stays valid."""
        with self._lock:
            self._answers, self._is_released = [], True
            num_bytes, self._num_bytes = self._num_bytes, 0
        if num_bytes:
            self._reads.released(num_bytes)

    def __del__(self) -> None:
        self.release()

    # --- called in the event loop's thread --------------------------------------------------------------

    def expects(self, requests: int, num_bytes: int = 0) -> None:
        """Set the number of requests that `ranges` take, and their bytes."""
        self._missing = self._unsent = requests
        self.size = num_bytes

    def sends_one(self) -> None:
        """Count a request as sent."""
        self._unsent -= 1

    def add_bytes(self, num_bytes: int) -> None:
        """Count bytes that are in memory until `release`."""
        with self._lock:
            self._num_bytes += num_bytes

    def arrived(
        self, start: int, data: Any, members: tuple[int, ...], gathered: Gathered | None = None
    ) -> None:
        """Take the bytes of one request, for some of the ranges or a part of `gathered`."""
        if gathered is None:
            self._answers.append((start, memoryview(data).cast("B"), members))
        elif (whole := gathered.take(start, data)) is not None:
            self._answers.append((gathered.start, whole, members))
        self._missing -= 1
        if self._missing == 0:
            self._finish()

    def fail(self, error: TwoStageError) -> None:
        """End with an error; the first one counts."""
        if not self._arrived.is_set():
            self._error = error
            self._finish()

    def _finish(self) -> None:
        with self._lock:
            self._arrived.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
