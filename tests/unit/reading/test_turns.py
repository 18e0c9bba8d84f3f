"""Threads that take turns: one at a time, items in order, errors in their place, nothing left when the consumer ends."""

from __future__ import annotations

import random
import threading
import time
from functools import partial
from types import SimpleNamespace

import pytest

from twostage.reading import turns as module
from twostage.reading.turns import StoppedError, Turns
from twostage.storage.round_trips import RoundTrips


class Future:
    """What a thread waits for."""

    def __init__(self) -> None:
        self._is_done = threading.Event()
        self._lock = threading.Lock()
        self._callbacks = []
        self.value = None

    def set_result(self, value) -> None:
        self.value = value
        with self._lock:
            self._is_done.set()
        for callback in self._callbacks:
            callback()

    def done(self) -> bool:
        return self._is_done.is_set()

    def on_done(self, callback) -> None:
        with self._lock:
            if not self._is_done.is_set():
                self._callbacks.append(callback)
                return
        callback()

    def block(self) -> None:
        self._is_done.wait()


class Bytes:
    """Answers that come when the test lets them: a thread answers, as a store's client would."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Future]] = []
        self.changed = threading.Condition()

    def ask(self, name: str) -> Future:
        future = Future()
        with self.changed:
            self.asked.append((name, future))
            self.changed.notify_all()
        return future

    def answer_rounds(self, sizes: list[int]) -> list[list[str]]:
        """Answer as many requests as each round has, all of a round at once; return their names."""
        found = []
        for size in sizes:
            with self.changed:
                assert self.changed.wait_for(lambda: len(self.asked) >= size, 120), (size, self.asked)
                batch, self.asked = self.asked, []
            found.append([name for name, _ in batch])
            for name, future in batch:
                future.set_result(name)
        return found


def late(seconds: float) -> Future:
    future = Future()
    threading.Timer(seconds, future.set_result, (None,)).start()
    return future


def all_at_once(_: int) -> bool:
    return True


def test_round_trips_go_with_items_ends_and_places_from_thread_to_thread() -> None:
    trips = RoundTrips()
    turns = Turns(2**20, trips=trips)
    begun = []

    def job(more: int, *, gives: bool = False):
        begun.append(trips.behind)
        trips.reach(trips.behind + more)
        if gives:
            yield trips.behind
        trips.reach(trips.behind + 1)

    # One at a time: each job begins where the one before it has ended, whether it gave anything or not.
    jobs = [partial(job, 5, gives=True), partial(job, 2), partial(job, 0, gives=True)]
    assert list(turns.in_order(jobs, lambda running: running < 1)) == [5, 9]
    assert begun == [0, 6, 9]
    assert trips.behind == 10

    # Two at a time, where the first waits for the others: the third one takes the second one's place, after 3.
    trips, begun = RoundTrips(), []
    turns, gate = Turns(2**20, trips=trips), Future()

    def first():
        begun.append(trips.behind)
        turns.wait(gate)
        trips.reach(20)
        yield "first"

    def last():
        gate.set_result(None)
        yield from job(1, gives=True)

    jobs = [first, partial(job, 2), last]
    assert list(turns.in_order(jobs, lambda running: running < 2)) == ["first", 4]
    assert begun == [0, 0, 3]
    assert trips.behind == 20


def test_requests_of_all_jobs_wait_together():
    turns, store, rounds = Turns(1000), Bytes(), []

    def job(name):
        for step in range(3):
            future = store.ask(f"{name}{step}")
            turns.wait(future)
            yield future.value

    answering = threading.Thread(target=lambda: rounds.extend(store.answer_rounds([4, 4, 4])))
    answering.start()
    items = list(turns.in_order([partial(job, name) for name in "abcd"], all_at_once))
    answering.join()
    assert items == [f"{name}{step}" for name in "abcd" for step in range(3)]
    assert [sorted(one) for one in rounds] == [[f"{name}{step}" for name in "abcd"] for step in range(3)]


def test_one_thread_runs_at_a_time():
    turns, running, most = Turns(10**9), [], []

    def job(number):
        draw = random.Random(number)
        for step in range(20):
            running.append(number)
            most.append(len(running))
            time.sleep(0.0002)
            running.remove(number)
            turns.wait(late(draw.random() / 200))
            yield number, step

    found = []
    for item in turns.in_order([partial(job, n) for n in range(8)], all_at_once):
        assert not running  # the consumer has the turn, too
        found.append(item)
    assert found == [(n, step) for n in range(8) for step in range(20)]
    assert max(most) == 1
    assert turns.idle > 0


@pytest.mark.parametrize("ahead", [1, 2, 5])
def test_as_many_jobs_are_ahead_as_may_start(ahead):
    turns, begun, most = Turns(10**9), set(), 0

    def job(number):
        nonlocal most
        begun.add(number)
        most = max(most, len(begun))
        turns.wait(late(0.002))
        yield number
        begun.discard(number)

    assert list(
        turns.in_order([partial(job, n) for n in range(12)], lambda running: running < ahead)
    ) == list(range(12))
    assert most <= ahead


def test_an_error_comes_after_the_items_before_it_and_ends_the_others():
    turns, begun, ended = Turns(10**9), [], []

    def job(number):
        begun.append(number)
        try:
            turns.wait(late(0.001 * (5 - number)))
            yield number
            if number == 2:
                raise ValueError("two")
            turns.wait(Future() if number > 2 else late(0.001))
            yield number
        finally:
            ended.append(number)

    found = []
    with pytest.raises(ValueError, match="two"):
        for item in turns.in_order([partial(job, n) for n in range(5)], all_at_once):
            found.append(item)
    assert found == [0, 0, 1, 1, 2]
    assert sorted(ended) == sorted(
        begun
    )  # on a busy machine, the last may not have had a turn before the error
    assert {0, 1, 2} <= set(begun)


def test_closing_ends_threads_that_wait_for_ever():
    before = set(threading.enumerate())
    turns, ended = Turns(10**9), []

    def job(number):
        try:
            yield number
            turns.wait(Future())
        finally:
            ended.append(number)

    items = turns.in_order([partial(job, n) for n in range(20)], all_at_once)
    assert next(items) == 0
    items.close()
    assert set(threading.enumerate()) <= before
    assert len(ended) == len(set(ended)) <= 20


def test_what_swallows_errors_does_not_stop_a_thread_from_ending():
    turns = Turns(10**9)

    def job():
        while True:
            yield 1
            try:
                turns.wait(Future())
            except Exception:  # noqa: S110
                pass

    items = turns.in_order([job, job], all_at_once)
    assert next(items) == 1
    items.close()
    assert issubclass(StoppedError, BaseException) and not issubclass(StoppedError, Exception)


def test_items_that_wait_are_bounded():
    turns, made = Turns(100, len), []

    def job(number):
        for step in range(10):
            turns.wait(late(0.0005))
            made.append((number, step))
            yield b"x" * 40

    items = turns.in_order([partial(job, n) for n in range(10)], all_at_once)
    taken = 0
    for item in items:
        taken += len(item)
        waiting = 40 * len(made) - taken
        assert (
            waiting <= 100 + 40 * 10
        )  # each thread gives one more at most, as it must see that it is too much
        time.sleep(0.001)
    assert taken == 40 * 100


def test_a_job_has_jobs_of_its_own():
    turns = Turns(10, lambda _: 4)

    def part(number, step):
        for place in range(3):
            turns.wait(late(0.001 * random.random()))
            yield number, step, place

    def job(number):
        turns.wait(late(0.001 * random.random()))
        yield from turns.in_order(
            [partial(part, number, step) for step in range(4)], lambda running: running < 3
        )

    found = list(turns.in_order([partial(job, n) for n in range(6)], lambda running: running < 4))
    assert found == [(n, step, place) for n in range(6) for step in range(4) for place in range(3)]


def test_closing_ends_jobs_of_jobs():
    before = set(threading.enumerate())
    turns = Turns(10**9)

    def part(step):
        yield step
        turns.wait(Future())

    def job():
        yield 0
        yield from turns.in_order([partial(part, step) for step in range(3)], all_at_once)

    items = turns.in_order([job, job, job], all_at_once)
    assert [next(items), next(items)] == [0, 0]
    items.close()
    assert set(threading.enumerate()) <= before


def test_whoever_keeps_the_turn_waits_with_it():
    turns, order, lock = Turns(10**9), [], threading.Lock()

    def job(number):
        turns.wait(late(0.001))
        with turns.keep():
            assert lock.acquire(blocking=False), "another thread ran while this one held the lock"
            turns.wait(late(0.005))
            order.append(number)
            lock.release()
        yield number

    assert list(turns.in_order([partial(job, n) for n in range(5)], all_at_once)) == list(range(5))
    assert sorted(order) == list(range(5))


def test_the_clock_stands_while_others_have_the_turn(monkeypatch):
    """The time that passes while all of them wait is nobody's."""
    now = [0]
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter_ns=lambda: now[0]))
    turns, store, spent = Turns(10**9), Bytes(), []

    def job(number):
        began = turns.clock()
        turns.wait(store.ask(str(number)))
        spent.append(turns.clock() - began)
        yield number

    def answer():
        while len(store.asked) < 3 or turns._nobody_since is None:
            time.sleep(0.001)
        now[0] += 1000
        store.answer_rounds([3])

    answering = threading.Thread(target=answer)
    answering.start()
    list(turns.in_order([partial(job, n) for n in range(3)], all_at_once))
    answering.join()
    assert spent == [0, 0, 0]
    assert turns.idle == 1000


def test_stop_is_called_where_jobs_are_left():
    turns, stopped = Turns(10**9), []

    def job():
        yield 1
        yield 2

    items = turns.in_order([job, job], all_at_once, stop=lambda: stopped.append(True))
    assert list(items) == [1, 2, 1, 2]
    assert stopped == []
    items = turns.in_order([job, job], all_at_once, stop=lambda: stopped.append(True))
    next(items)
    items.close()
    assert stopped == [True]


def test_without_jobs_there_is_nothing():
    assert list(Turns(1).in_order([], all_at_once)) == []


@pytest.mark.parametrize("seed", range(10))
def test_random_jobs_come_out_in_order(seed):
    draw = random.Random(seed)
    turns = Turns(draw.choice([0, 50, 10**9]), lambda _: 10)
    counts = [draw.randrange(6) for _ in range(30)]
    waits = [[draw.random() / 500 for _ in range(count)] for count in counts]

    def job(number):
        for step, seconds in enumerate(waits[number]):
            if draw.random() < 0.7:
                turns.wait(late(seconds))
            yield number, step

    ahead = draw.randrange(1, 12)
    found = list(turns.in_order([partial(job, n) for n in range(30)], lambda running: running < ahead))
    assert found == [(n, step) for n in range(30) for step in range(counts[n])]


def test_nobody_wants_more_while_nothing_comes():
    before = set(threading.enumerate())
    turns = Turns(10**9)
    asked = []

    def still_wanted():
        asked.append(True)
        if len(asked) == 3:
            raise BrokenPipeError

    def job():
        turns.wait(Future())
        yield 1

    with pytest.raises(BrokenPipeError):
        list(turns.in_order([job, job], all_at_once, still_wanted=still_wanted))
    assert set(threading.enumerate()) <= before
