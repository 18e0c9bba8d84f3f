"""Threads of a task that take turns: only the thread that has the turn runs.

A data file in an object store is read in a few steps, each of which waits for bytes. So each file is read in
its own thread, by the same code that reads files one by one. A thread that must wait yields the turn, and
another file continues: tens of requests are in flight, while only one thread at a time changes the task's
state. Takes jobs, which are functions that return iterators; yields their items in the jobs' order, and
raises a job's error in its place. The rules: a thread that holds a lock keeps the turn (`keep`); when the
consumer ends, all threads have ended; items waiting to be taken are bounded by bytes, except the first job's,
which are taken at once.
"""

from __future__ import annotations

import contextlib
import heapq
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from twostage.storage.round_trips import RoundTrips

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

Item = TypeVar("Item")
ASK_SECONDS = 0.5
"""After which a waiting thread checks again whether its result is still wanted."""
_WAITS, _READY, _RUNS = range(3)


class Awaited(Protocol):
    """What a thread waits for, such as `PendingRanges`."""

    def done(self) -> bool:
        """Return whether it is done."""

    def on_done(self, callback: Callable[[], None]) -> None:
        """Call `callback` once it is done, in any thread."""

    def block(self) -> None:
        """Wait until it is done."""


class StoppedError(BaseException):
    """This thread's items are no longer wanted; a BaseException, so that error handlers do not catch it."""


@dataclass(slots=True, eq=False)
class _Turn:
    """One thread's scheduling state. Of the ready threads, the one with the lowest `rank` runs next."""

    rank: tuple[int, ...]
    gate: threading.Lock = field(default_factory=threading.Lock)
    """Locked while the thread may not run."""
    state: int = _RUNS
    is_stopped: bool = False
    kept: int = 0
    """Above 0: it holds a lock, and must not yield the turn."""
    away: int = 0
    """Nanoseconds without the turn."""

    def __post_init__(self) -> None:
        self.gate.acquire()


@dataclass(slots=True, eq=False)
class _Job(Generic[Item]):
    turn: _Turn
    owner: _Job[Any] | None
    """The job whose thread takes this one's items; None: the consumer."""
    items: deque[tuple[Item, int, int]] = field(default_factory=deque)
    """Each with its bytes and the round trips before it."""
    ended: list[int] = field(default_factory=list)
    """A heap: the round trips before the end of each sibling job whose slot no other job has taken."""
    trips: int = 0
    """Round trips before its start or, once it has ended, before its end."""
    error: BaseException | None = None
    is_first: bool = False
    """Whether its items are to be taken next."""
    is_done: bool = False
    thread: threading.Thread | None = None

    @property
    def is_awaited(self) -> bool:
        """Whether the consumer can continue only with this job's items."""
        return self.is_first and (self.owner is None or self.owner.is_awaited)


class Turns:
    """The threads of a task; the thread that creates this has the turn.

    Args:
        max_bytes: Bytes of items waiting to be taken, above which jobs pause.
        size_of: Returns an item's bytes.
        trips: The task's round trips; items, and starts and ends of jobs, pass the count between threads.
    """

    def __init__(
        self,
        max_bytes: int,
        size_of: Callable[[Any], int] = lambda _: 0,
        trips: RoundTrips | None = None,
    ) -> None:
        self._trips = trips if trips is not None else RoundTrips()
        self._lock = threading.Lock()
        self._ready: list[tuple[tuple[int, ...], int, _Turn]] = []
        self._entered = 0
        self._nobody_since: int | None = None
        self._idle = 0
        self._max_bytes = max_bytes
        self._size_of = size_of
        self._waiting_bytes = 0
        self._paused: list[_Turn] = []
        self._turns = {threading.get_ident(): _Turn(())}
        self._jobs: dict[int, _Job[Any]] = {}

    # --- for readers --------------------------------------------------------------------------------------

    def wait(self, awaited: Awaited) -> None:
        """Let other threads run until `awaited` is done.

        Raises:
            StoppedError: This thread's work is no longer wanted.
        """
        turn = self._mine()
        if turn is None or turn.kept:
            awaited.block()
            return
        while not (awaited.done() or turn.is_stopped):
            self._begin_to_wait(turn)
            awaited.on_done(lambda: self._wake(turn))
            self._pass_on(turn)
        if turn.is_stopped:
            raise StoppedError

    @contextlib.contextmanager
    def keep(self) -> Iterator[None]:
        """Keep the turn within the block, even while waiting: it holds a lock that other threads of the task take."""
        turn = self._mine()
        if turn is None:
            yield
            return
        turn.kept += 1
        try:
            yield
        finally:
            turn.kept -= 1

    def clock(self) -> int:
        """Return nanoseconds, excluding the time in which the calling thread did not have the turn."""
        turn = self._mine()
        return time.perf_counter_ns() - (0 if turn is None else turn.away)

    @property
    def idle(self) -> int:
        """Nanoseconds in which all threads waited."""
        return self._idle

    def in_order(
        self,
        jobs: Iterable[Callable[[], Iterator[Item]]],
        may_start: Callable[[int], bool],
        *,
        stop: Callable[[], None] = lambda: None,
        still_wanted: Callable[[], None] = lambda: None,
    ) -> Generator[Item, None, None]:
        """Yield the items of all jobs in the jobs' order, while later ones run.

        Args:
            jobs: Each is called in its own thread.
            may_start: Takes the number of unfinished jobs; tells whether another one may start. One always
                may.
            stop: Called before unfinished threads are stopped: it must unblock threads that keep the turn.
            still_wanted: Called between items, and every half second while there is none; what it raises ends
                all jobs.

        Raises:
            BaseException: The error of a job, once the items before it were taken.
        """
        upcoming = iter(jobs)
        started: deque[_Job[Item]] = deque()
        ended: list[int] = []
        number = 0
        me = self._mine() or self._adopt()
        try:
            while True:
                while self._has_room(started, may_start) or not started:
                    work = next(upcoming, None)
                    if work is None:
                        break
                    started.append(self._start(work, me, number, ended))
                    number += 1
                if not started:
                    return
                first = started[0]
                if not first.is_first:
                    first.is_first = True
                    self._resume()  # it may have paused
                still_wanted()
                if first.items:
                    yield self._take(first)
                elif first.is_done:
                    started.popleft()
                    self._joined(first)
                    self._trips.reach(first.trips)
                    if first.error is not None:
                        raise first.error
                else:
                    self._await_anything(me, still_wanted)
        finally:
            self._end(me, started, stop)

    # --- jobs ---------------------------------------------------------------------------------------------

    def _adopt(self) -> _Turn:
        """Return the consumer's turn, which a different thread has taken over."""
        turn = next(turn for turn in self._turns.values() if turn.rank == ())
        self._turns[threading.get_ident()] = turn
        return turn

    def _start(
        self, work: Callable[[], Iterator[Item]], me: _Turn, number: int, ended: list[int]
    ) -> _Job[Item]:
        turn = _Turn((*me.rank, number), state=_WAITS)
        trips = max(self._trips.behind, heapq.heappop(ended) if ended else 0)
        job: _Job[Item] = _Job(turn, self._jobs.get(threading.get_ident()), ended=ended, trips=trips)
        job.thread = threading.Thread(
            target=self._run, args=(job, work, me), name="twostage-file", daemon=True
        )
        self._wake(turn)
        job.thread.start()
        return job

    def _run(self, job: _Job[Item], work: Callable[[], Iterator[Item]], consumer: _Turn) -> None:
        turn, me = job.turn, threading.get_ident()
        began = time.perf_counter_ns()
        turn.gate.acquire()
        turn.away += time.perf_counter_ns() - began
        self._turns[me], self._jobs[me] = turn, job
        self._trips.reach(job.trips)
        try:
            if not turn.is_stopped:
                with contextlib.closing(_generator(work())) as items:
                    for item in items:
                        self._give(job, item, consumer)
        except StoppedError:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again in the consumer's thread
            job.error = error
        finally:
            del self._turns[me], self._jobs[me]
            job.is_done, job.trips = True, self._trips.behind
            heapq.heappush(job.ended, job.trips)
            with self._lock:
                self._enter(consumer)
                self._hand_on()

    def _give(self, job: _Job[Item], item: Item, consumer: _Turn) -> None:
        """Give the consumer an item, at once if it waits for it; pause if too many bytes wait to be taken."""
        turn, size = job.turn, self._size_of(item)
        job.items.append((item, size, self._trips.behind))
        self._waiting_bytes += size
        if job.is_first:
            self._begin_to_wait(turn)
            self._wake(consumer)
            self._wake(turn)
            self._pass_on(turn)
        while self._waiting_bytes > self._max_bytes and not turn.is_stopped:
            if job.is_awaited and len(job.items) <= 1:
                break
            self._begin_to_wait(turn)
            self._paused.append(turn)
            self._pass_on(turn)
        if turn.is_stopped:
            raise StoppedError

    def _take(self, job: _Job[Item]) -> Item:
        item, size, trips = job.items.popleft()
        self._trips.reach(trips)
        self._waiting_bytes -= size
        self._resume()
        return item

    def _resume(self) -> None:
        """Let paused threads check again whether they may continue."""
        paused, self._paused = self._paused, []
        for turn in paused:
            self._wake(turn)

    def _has_room(self, started: Iterable[_Job[Any]], may_start: Callable[[int], bool]) -> bool:
        return self._waiting_bytes <= self._max_bytes and may_start(sum(not job.is_done for job in started))

    def _await_anything(self, me: _Turn, still_wanted: Callable[[], None]) -> None:
        """Let other threads run until the first job has an item, or any job is done."""
        if not me.is_stopped:
            self._begin_to_wait(me)
            self._pass_on(me, still_wanted)
        if me.is_stopped:
            raise StoppedError

    def _end(self, me: _Turn, started: Iterable[_Job[Any]], stop: Callable[[], None]) -> None:
        """Stop the unfinished jobs."""
        running = [job for job in started if not job.is_done]
        for job in running:
            job.turn.is_stopped = True
        if running:
            stop()
        for job in started:
            self._wake(job.turn)
            while not job.is_done:
                self._begin_to_wait(me)
                self._wake(job.turn)
                self._pass_on(me)
            self._waiting_bytes -= sum(size for _, size, _ in job.items)
            self._joined(job)

    @staticmethod
    def _joined(job: _Job[Any]) -> None:
        assert job.thread is not None
        job.thread.join()

    # --- the turn -----------------------------------------------------------------------------------------

    def _mine(self) -> _Turn | None:
        return self._turns.get(threading.get_ident())

    def _begin_to_wait(self, turn: _Turn) -> None:
        """Mark the thread as waiting until it is woken; must be followed by `_pass_on`."""
        with self._lock:
            turn.state = _WAITS

    def _wake(self, turn: _Turn) -> None:
        """Make a waiting thread ready to run; callable from any thread."""
        with self._lock:
            self._enter(turn)

    def _enter(self, turn: _Turn) -> None:
        if turn.state != _WAITS:
            return
        turn.state = _READY
        self._entered += 1
        heapq.heappush(self._ready, (turn.rank, self._entered, turn))
        if self._nobody_since is not None:
            self._idle += time.perf_counter_ns() - self._nobody_since
            self._nobody_since = None
            self._hand_on()

    def _hand_on(self) -> None:
        """Give the turn to the next thread; the caller no longer has it."""
        if self._ready:
            turn = heapq.heappop(self._ready)[2]
            turn.state = _RUNS
            turn.gate.release()
        else:
            self._nobody_since = time.perf_counter_ns()

    def _pass_on(self, turn: _Turn, still_wanted: Callable[[], None] = lambda: None) -> None:
        """Yield the turn, and return when it comes back."""
        began = time.perf_counter_ns()
        with self._lock:
            self._hand_on()
        try:
            while not turn.gate.acquire(timeout=ASK_SECONDS):
                still_wanted()
        except BaseException:  # its handler needs the turn
            self._wake(turn)
            turn.gate.acquire()
            raise
        turn.away += time.perf_counter_ns() - began


def _generator(items: Iterator[Item]) -> Generator[Item, None, None]:
    """Return the iterator as one that can be closed."""
    yield from items
