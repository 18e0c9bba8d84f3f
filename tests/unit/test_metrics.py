"""Counters of a scan: added from any thread, merged by name, timed by what runs and not by what waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from twostage.metrics import Metrics


def test_counters_of_two_threads_lose_nothing() -> None:
    metrics = Metrics()
    threads = [threading.Thread(target=lambda: [metrics.add("n") for _ in range(5000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert metrics.counters["n"] == 20_000


def test_merging_adds() -> None:
    one, other = Metrics(), Metrics()
    for metrics, rows in ((one, 5), (other, 7)):
        metrics.add("rows", rows)
        metrics.choices["said"] += 1
        metrics.count_predicate("a > 1", rows, 1, 10)
    other.count_predicate("b", 1, 1, 1)
    one.merge(other)
    assert (one.counters["rows"], one.choices["said"]) == (12, 2)
    cost = one.predicates["a > 1"]
    assert (cost.rows_in, cost.rows_out, cost.nanoseconds) == (12, 2, 20)
    assert one.predicates["b"].rows_in == 1


def test_merging_takes_the_largest_of_what_is_no_sum() -> None:
    total = Metrics()
    for most in (5, 9, 7):
        task = Metrics()
        task.raise_to("store.most", 1)
        task.raise_to("store.most", most)
        task.raise_to("store.most", 2)
        total.merge(task)
    assert total.counters == {"store.most": 9}
    total.merge(Metrics())
    assert total.counters == {"store.most": 9}


def test_a_block_is_timed_even_if_it_raises() -> None:
    now = [0]
    metrics = Metrics(clock=lambda: now[0])
    with pytest.raises(KeyError), metrics.timed("open"):
        now[0] += 7
        raise KeyError
    assert metrics.counters["time.open"] == 7


def test_steps_are_timed_without_what_their_user_does() -> None:
    now = [0]
    metrics = Metrics(clock=lambda: now[0])

    def steps() -> Iterator[int]:
        for number in range(3):
            now[0] += 7
            yield number

    taken = []
    for step in metrics.timed_steps("fetch", steps()):
        taken.append(step)
        now[0] += 1000
    assert taken == [0, 1, 2]
    assert metrics.counters["time.fetch"] == 21
