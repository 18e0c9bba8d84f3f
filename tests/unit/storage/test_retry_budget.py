"""How often a task repeats requests: a few times each, a number of times in all, and for a while where a store throttles."""

from __future__ import annotations

import pytest

from twostage.storage import retry_budget
from twostage.storage.retry_budget import Attempts, RetryBudget


@pytest.mark.parametrize(("kind", "attempts"), [("broken", 6), ("timeout", 3)])
def test_one_request_is_repeated_a_few_times(kind, attempts):
    budget = RetryBudget()
    pauses = [budget.pause(kind, attempt) for attempt in range(1, attempts + 1)]
    assert pauses[-1] is None
    assert None not in pauses[:-1]


def test_pauses_grow_and_are_random(monkeypatch):
    asked = []
    monkeypatch.setattr(retry_budget.random, "uniform", lambda low, high: asked.append((low, high)) or high)
    budget = RetryBudget()
    assert [budget.pause("throttled", attempt) for attempt in (1, 2, 3, 20)] == [0.2, 0.4, 0.8, 2.0]
    monkeypatch.setitem(retry_budget.MOST_ATTEMPTS, "broken", 100)
    assert budget.pause("broken", 20) == 8.0
    assert {low for low, _ in asked} == {0.0}


def test_a_task_has_a_number_of_repetitions_and_earns_more_with_answers():
    budget = RetryBudget()
    assert budget.first == retry_budget.LEAST_RETRIES
    assert all(budget.pause("broken", 1) is not None for _ in range(budget.first))
    assert budget.pause("broken", 1) is None
    for _ in range(4):
        budget.answered()
    assert budget.pause("broken", 1) is not None
    assert budget.pause("broken", 1) is None
    assert budget.pause("throttled", 1) is not None, "throttling costs patience, not repetitions"


def test_patience_ends_where_nothing_is_answered(monkeypatch):
    now = [1_000.0]
    monkeypatch.setattr(retry_budget.time, "monotonic", lambda: now[0])
    budget = RetryBudget()
    now[0] += retry_budget.PATIENCE_SECONDS - 1
    assert budget.pause("throttled", 500) is not None
    budget.answered()
    now[0] += retry_budget.PATIENCE_SECONDS - 1
    assert budget.pause("throttled", 500) is not None
    now[0] += 2
    assert budget.pause("throttled", 500) is None


@pytest.mark.parametrize("in_flight", [1, 16, 64, 200])
def test_all_requests_in_flight_may_break_twice(in_flight):
    budget = RetryBudget(in_flight)
    assert all(budget.pause("broken", attempt) is not None for attempt in (1, 2) for _ in range(in_flight))


def test_a_request_that_was_throttled_for_long_may_still_break():
    attempts = Attempts(RetryBudget())
    for _ in range(50):
        assert attempts.pause("throttled") is not None
    pauses = [attempts.pause("broken") for _ in range(retry_budget.MOST_ATTEMPTS["broken"])]
    assert None not in pauses[:-1]
    assert pauses[-1] is None
    assert attempts.number == 56
