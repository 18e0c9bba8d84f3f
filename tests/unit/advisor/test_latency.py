"""The latency model: known coefficients come back through noise that only adds time."""

from __future__ import annotations

import numpy as np
import pytest

from twostage.advisor.latency import MIN_FIT, fit_latency


def test_coefficients_come_back():
    rng = np.random.default_rng(7)
    inside, after = rng.integers(0, 10**8, 20_000), rng.integers(0, 10**6, 20_000)
    seconds = 2e-8 * inside + 3e-6 * after + 0.4 + rng.exponential(0.3, 20_000)
    model = fit_latency(inside, after, seconds)
    assert model.alpha == pytest.approx(2e-8, rel=0.05)
    assert model.beta == pytest.approx(3e-6, rel=0.05)
    assert model.constant == pytest.approx(0.4, abs=0.15)
    assert model.fit > 0.95
    assert model.is_usable
    assert model.seconds(10**8, 0) == pytest.approx(2.4, rel=0.1)


def test_of_a_cell_the_shortest_time_counts():
    """Ten times as long, in nine of ten queries of each cell."""
    inside = np.repeat(np.arange(1, 41) * 1000, 10)
    seconds = inside * 1e-3 * np.tile([1, *[10] * 9], 40)
    model = fit_latency(inside, np.zeros(400), seconds)
    assert model.alpha == pytest.approx(1e-3)
    assert (model.fit, model.cells) == (pytest.approx(1.0), 40)


def test_times_that_entries_do_not_explain_give_no_seconds():
    rng = np.random.default_rng(8)
    model = fit_latency(rng.integers(0, 1000, 500), rng.integers(0, 1000, 500), rng.random(500))
    assert model.fit < MIN_FIT
    assert not model.is_usable
    falling = fit_latency(np.arange(100), np.zeros(100), 100.0 - np.arange(100))
    assert not falling.is_usable
    same = fit_latency(np.arange(100), np.zeros(100), np.ones(100))
    assert not same.is_usable


def test_too_few_queries():
    assert fit_latency([], [], []) is None
    assert fit_latency([1, 2, 3], [0, 0, 0], [1.0, 2.0, 3.0]) is None
    assert fit_latency([5] * 100, [5] * 100, [1.0] * 100) is None
