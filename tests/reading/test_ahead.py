"""Working one item ahead: order, errors, counts, and what must run alone."""

from __future__ import annotations

import threading
import time

import pytest

from twostage.metrics import Metrics
from twostage.reading.ahead import steps_ahead


def steps(items, work, *, ahead=True, alone=lambda _: False, metrics=None):
    return steps_ahead(items, work, metrics or Metrics(), ahead=ahead, alone=alone)


@pytest.mark.parametrize("ahead", [True, False])
@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_results_are_in_order_and_counted(ahead, count):
    def work(item, metrics):
        metrics.add("done", item)
        return item * 10

    metrics = Metrics()
    assert list(steps(range(count), work, ahead=ahead, metrics=metrics)) == [i * 10 for i in range(count)]
    assert metrics.counters["done"] == sum(range(count))


@pytest.mark.parametrize("ahead", [True, False])
def test_an_error_comes_where_its_item_would_have(ahead):
    def work(item, _):
        if item == 2:
            raise ValueError("two")
        return item

    found = []
    with pytest.raises(ValueError, match="two"):
        for result in steps(range(5), work, ahead=ahead):
            found.append(result)
    assert found == [0, 1]


def test_the_next_item_runs_while_one_is_used():
    started = threading.Event()

    def work(item, _):
        if item == 1:
            started.set()
        return item

    results = steps(range(3), work)
    assert next(results) == 0
    assert started.wait(30)
    assert list(results) == [1, 2]


def test_nothing_runs_while_a_result_that_must_be_alone_is_used():
    running = []

    def work(item, _):
        running.append(item)
        time.sleep(0.05)
        running.remove(item)
        return item

    given = []
    for item in steps(range(6), work, alone=lambda item: item % 2 == 0):
        given.append(item)
        if item % 2 == 0:
            assert running == []
    assert given == list(range(6))


def test_closing_waits_for_the_thread():
    finished = []

    def work(item, _):
        time.sleep(0.05)
        finished.append(item)
        return item

    results = steps(range(5), work)
    next(results)
    results.close()
    done = len(finished)
    assert done == 2
    time.sleep(0.1)
    assert len(finished) == done
