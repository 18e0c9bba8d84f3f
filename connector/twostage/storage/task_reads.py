"""The bytes that one task reads of remote files: requested early, fetched many at a time, handed out when they are needed.

Takes ranges of files; gives `PendingRanges`, whose bytes arrive while the task does something else. One place owns what is
in flight: how many requests (the task's limit, and the store's window), how many bytes (a budget), repetitions, the
object's identity, and the end of it all. The rules: all bytes of a file are of one object, or there is an error; what
somebody waits for is sent whatever the budget says, so that nothing can wait for ever; and nobody waits for a request while
holding a lock.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from twostage.errors import StorageError, TwoStageError
from twostage.metrics import Metrics
from twostage.storage.location import check_location
from twostage.storage.pending_ranges import Gathered, PendingRanges
from twostage.storage.ranges import REMOTE, RequestCost, merge, parts_of
from twostage.storage.request_errors import cancelled, error_of
from twostage.storage.request_window import window_of
from twostage.storage.retry_budget import Attempts, RetryBudget
from twostage.storage.round_trips import RoundTrips
from twostage.storage.store_client import RETRIED, RangedFile, RequestFailedError
from twostage.storage.store_loop import event_loop, pause
from twostage.storage.stores import client_of

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from twostage.storage.store_client import StoreAnswer
    from twostage.task import Storage

MOST_IN_FLIGHT = 64
"""Requests of one task at the same time."""
MOST_BYTES = 256 * 2**20
"""Bytes of requests that were sent and not released, if it is not given how much memory the task has."""

CLOSE_SECONDS = 5.0
"""How long `close` waits for requests to end; their bytes are not wanted any more."""


class _Request:
    """One request: the bytes from `start` to `end` (None: to the object's end) for some of the ranges of `pending`.

    A `start` below 0 counts from the object's end.
    `gathered` takes them, if they are a part of what these ranges need.
    """

    __slots__ = ("end", "gathered", "is_urgent", "limit", "members", "num_bytes", "pending", "start")

    def __init__(
        self,
        pending: PendingRanges,
        start: int,
        end: int | None,
        members: tuple[int, ...],
        limit: int | None = None,
        expected: int = 0,
        gathered: Gathered | None = None,
    ) -> None:
        self.gathered = gathered
        self.pending = pending
        self.start = start
        self.end = end
        self.members = members
        self.limit = limit
        self.is_urgent = False
        self.num_bytes = expected if end is None else end - start


class TaskReads:
    """What one task, or the driver's planning, has in flight. Use it as a context manager: at its end nothing is.

    Args:
        metrics: Counts requests, bytes, repetitions and time.
        cost: What a request costs, by which ranges are merged; ``parallel`` is ignored.
        most_in_flight: Requests at the same time.
        most_bytes: Bytes that were requested ahead and not released.
        wait: Called instead of waiting for a read that is not done; returns when it is (`PendingRanges.block` waits).
            A caller that runs several readers by turns hands the turn on in it.
        trips: Those of the task, where several threads read and hand on what they learn.
    """

    def __init__(
        self,
        metrics: Metrics | None = None,
        *,
        cost: RequestCost = REMOTE,
        most_in_flight: int = MOST_IN_FLIGHT,
        most_bytes: int = MOST_BYTES,
        wait: Callable[[PendingRanges], None] | None = None,
        trips: RoundTrips | None = None,
    ) -> None:
        self.cost = cost
        self.trips = trips if trips is not None else RoundTrips()
        self.wait = wait
        self._metrics = metrics if metrics is not None else Metrics()
        self._most_in_flight = most_in_flight
        self._most_bytes = most_bytes
        self._files: list[RangedFile] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        self._has_ended = threading.Event()
        # Shared by threads without a lock, since bytes may be released anywhere (`__del__`).
        self._told: deque[Callable[[], None]] = deque()
        self._is_woken = False
        self._freed: deque[int] = deque()
        self._is_short = False
        """Whether a request waits for bytes to be released."""
        # In the event loop's thread only:
        self._queue: deque[_Request] = deque()
        self._running: dict[asyncio.Task[None], PendingRanges] = {}
        self._in_flight = 0
        """Running requests that the store's window has let through."""
        self._held_bytes = 0
        self._budget = RetryBudget(most_in_flight)
        self._busy_since = 0

    def __enter__(self) -> TaskReads:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def file(
        self, storage: Storage, path: str, size: int | None = None, etag: str | None = None
    ) -> RangedFile:
        """Return a remote file to read ranges of; takes no request.

        Args:
            storage: The scan's.
            path: Where the file is, located.
            size: Its size in bytes by the metadata, if known.
            etag: Its ETag, if an earlier answer told it: an object with another one is refused.

        Raises:
            ForbiddenLocationError: The policy refuses it.
        """
        location = check_location(storage, path)
        name = location.remote_name
        file = RangedFile(path, name, client_of(storage, location, name), size, etag, storage)
        self._files.append(file)
        return file

    def ask(self, file: RangedFile, ranges: Sequence[tuple[int, int]]) -> PendingRanges:
        """Request ranges (offset, length) of a file; returns at once.

        Near ranges share a request, depending on its cost, and long ones take several. A range of no bytes takes none.
        """
        pending = PendingRanges(self, file, ranges)
        wanted = [number for number, (_, length) in enumerate(ranges) if length]
        requests = []
        for start, end, members in merge([ranges[number] for number in wanted], self.cost):
            own = tuple(wanted[member] for member in members)
            parts = parts_of(start, end, self.cost.part)
            gathered = Gathered(start, end, len(parts)) if len(parts) > 1 else None
            requests += [_Request(pending, first, last, own, gathered=gathered) for first, last in parts]
        self._metrics.add("store.bytes.asked", sum(length for _, length in ranges))
        self._send(pending, requests)
        return pending

    def ask_whole(self, file: RangedFile, limit: int | None = None, *, expected: int = 0) -> PendingRanges:
        """Request a whole file, whose size need not be known; `result` has one range.

        Args:
            file: The file.
            limit: Bytes; a larger file ends in `ResourceLimitError`, before its bytes are read.
            expected: Bytes that it probably has, for the budget.
        """
        pending = PendingRanges(self, file, [(0, 2**62)])
        self._send(pending, [_Request(pending, 0, None, (0,), limit, expected)])
        return pending

    def ask_end(self, file: RangedFile, length: int) -> PendingRanges:
        """Request the last `length` bytes of a file, or all of a shorter one; its size need not be known.

        `result` has one range. On Azure, which has no ranges from the end, it takes two requests.
        """
        pending = PendingRanges(self, file, [(-length, length)])
        self._send(pending, [_Request(pending, -length, None, (0,), expected=length)])
        return pending

    def close(self) -> None:
        """Cancel what is in flight, and forget the files; whoever waits gets an error."""
        self._is_closed = True
        if self._loop is not None:
            self._tell(self._cancel)
            self._has_ended.wait(CLOSE_SECONDS)
        for file in self._files:
            file.client.release(file)
        self._files.clear()

    def hurry(self, pending: PendingRanges) -> None:
        """Send the requests of `pending` before everything else, whatever the budget of bytes says."""
        if self._loop is not None and not pending.is_sent:
            self._tell(partial(self._put_first, pending))

    def wait_for(self, pending: PendingRanges) -> None:
        """Wait until `pending` is done, by `wait` where there is one."""
        if self.wait is not None:
            self.hurry(pending)
            self.wait(pending)
        pending.block()

    def released(self, num_bytes: int) -> None:
        """Count bytes as released."""
        self._freed.append(num_bytes)
        if self._is_short:
            self._tell(self._pump)

    def _send(self, pending: PendingRanges, requests: list[_Request]) -> None:
        pending.expects(len(requests), sum(request.num_bytes for request in requests))
        if self._is_closed:
            pending.fail(cancelled(pending.file))
        elif not requests:
            pending.expects(1)
            pending.arrived(0, b"", ())
        else:
            self._loop = self._loop or event_loop()
            self._tell(partial(self._enqueue, requests))

    def _tell(self, what: Callable[[], None]) -> None:
        """Have something done in the event loop's thread, which is woken once for all that it is told meanwhile.

        Waking it takes a system call, after which the two threads wait for each other: a third of the time of a scan of
        small files.
        """
        self._told.append(what)
        if not self._is_woken and self._loop is not None and not self._loop.is_closed():
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._do_told)

    # --- in the event loop's thread ---------------------------------------------------------------------

    def _do_told(self) -> None:
        self._is_woken = False  # first: what is told from now on may come too late for this time
        while self._told:
            self._told.popleft()()

    def _enqueue(self, requests: list[_Request]) -> None:
        if self._is_closed:
            requests[0].pending.fail(cancelled(requests[0].pending.file))
            return
        self._queue.extend(requests)
        self._pump()

    def _put_first(self, pending: PendingRanges) -> None:
        wanted = [request for request in self._queue if request.pending is pending]
        if wanted:
            others = [request for request in self._queue if request.pending is not pending]
            for request in wanted:
                request.is_urgent = True
            self._queue = deque(wanted + others)
            self._pump()

    def _has_room(self, num_bytes: int) -> bool:
        """Tell whether the budget has room for this many bytes; if not, `released` will wake the event loop."""
        for is_short in (False, True):
            self._is_short = is_short  # before looking once more: what is freed after that wakes the loop
            while self._freed:
                self._held_bytes -= self._freed.popleft()
            if not self._held_bytes or self._held_bytes + num_bytes <= self._most_bytes:
                self._is_short = False
                return True
        return False

    def _pump(self) -> None:
        """Send as many requests as the limits allow."""
        while self._queue and len(self._running) < self._most_in_flight:
            request = self._queue[0]
            if not request.is_urgent and not self._has_room(request.num_bytes):
                return
            self._queue.popleft()
            request.pending.sends_one()
            if request.pending.done():  # another request of it has failed
                continue
            self._held_bytes += request.num_bytes
            request.pending.add_bytes(request.num_bytes)
            if not self._running:
                self._busy_since = time.perf_counter_ns()
                self._budget.answered()
            task = event_loop().create_task(self._fetch(request))
            self._running[task] = request.pending
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        pending = self._running.pop(task)
        if not self._running:
            self._metrics.add("store.time.busy", time.perf_counter_ns() - self._busy_since)
        if task.cancelled():
            pending.fail(cancelled(pending.file))
        elif (error := task.exception()) is not None:
            pending.fail(
                StorageError(
                    "STORAGE_FAILED",
                    f"Storage failed: {type(error).__name__}",
                    path=pending.file.path,
                    stage="storage",
                )
            )
        self._pump()
        if self._is_closed and not self._running:
            self._has_ended.set()

    def _cancel(self) -> None:
        for request in self._queue:
            request.pending.fail(cancelled(request.pending.file))
        self._queue.clear()
        for task in list(self._running):
            task.cancel()
        if not self._running:
            self._has_ended.set()

    async def _fetch(self, request: _Request) -> None:
        """Read one request's bytes, repeating it as the budget allows."""
        pending, file = request.pending, request.pending.file
        attempts = Attempts(self._budget)
        while True:
            try:
                answer = await self._try(request)
                _check(file, request, answer)
            except RequestFailedError as failure:
                seconds = attempts.pause(failure.kind) if failure.kind in RETRIED else None
                if seconds is None:
                    pending.fail(error_of(file, failure, attempts.number))
                    return
                self._metrics.add("store.retries")
                await pause(seconds)
            except TwoStageError as error:
                pending.fail(error)
                return
            else:
                self._metrics.raise_to("store.trips", pending.trip)
                pending.arrived(request.start, answer.data, request.members, request.gathered)
                return

    async def _try(self, request: _Request) -> StoreAnswer:
        file = request.pending.file
        window = window_of(file.client.key)
        entered = await window.enter()
        self._in_flight += 1
        self._metrics.raise_to("store.most", self._in_flight)
        began = time.perf_counter_ns()
        is_answered = is_throttled = False
        try:
            answer = await file.client.get(file, request.start, request.end, request.limit)
            is_answered = True
        except RequestFailedError as failure:
            is_throttled = failure.kind == "throttled"
            is_answered = failure.kind not in RETRIED
            raise
        finally:
            self._in_flight -= 1
            window.leave(entered, answered=is_answered, throttled=is_throttled)
            self._metrics.add("store.requests")
            self._metrics.add("store.time.requests", time.perf_counter_ns() - began)
        self._budget.answered()
        num_bytes = len(memoryview(answer.data))
        self._metrics.add("store.bytes", num_bytes)
        if request.end is None:
            self._metrics.add("store.bytes.asked", num_bytes)
        return answer


def _check(file: RangedFile, request: _Request, answer: StoreAnswer) -> None:
    """Compare an answer with what is known about the object, and learn from the first one."""
    if file.etag is None:
        file.etag = answer.etag
        file.size = answer.size
    elif answer.etag != file.etag:
        raise RequestFailedError("replaced", "ETag differs")
    elif file.size is None:
        file.size = answer.size
    if answer.size != file.size:
        raise RequestFailedError("replaced", "size differs")
    found = len(memoryview(answer.data))
    if request.end is None:
        first = request.start if request.start >= 0 else max(0, answer.size + request.start)
        if found != answer.size - first:
            raise RequestFailedError("broken", f"{found} of {answer.size - first} bytes arrived")
    if request.end is not None and found != request.end - request.start:
        if request.start + found >= answer.size:
            raise RequestFailedError("beyond", f"range ends at {request.end} of {answer.size} bytes")
        raise RequestFailedError("broken", f"{found} of {request.end - request.start} bytes arrived")
