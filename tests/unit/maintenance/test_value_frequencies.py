"""How often values occur, estimated by a sample: against columns whose values are all counted."""

from __future__ import annotations

import numpy as np
import pytest

from twostage.maintenance.value_frequencies import Frequencies, estimate

ROWS, SAMPLED = 500_000, 65_536
_DRAWN = np.random.default_rng(5)
_SHARES = 1.0 / np.arange(1, 20_001) ** 1.1
COLUMNS = {
    "2,000 values": _DRAWN.integers(0, 2_000, ROWS),
    "30,000 values": _DRAWN.integers(0, 30_000, ROWS),
    "300,000 values": _DRAWN.integers(0, 300_000, ROWS),
    "unique": _DRAWN.permutation(ROWS),
    "skewed": _DRAWN.choice(20_000, ROWS, p=_SHARES / _SHARES.sum()),
}


def counts_of(values):
    return np.unique(values, return_counts=True)[1]


@pytest.mark.parametrize("name", COLUMNS)
def test_by_an_eighth_of_the_rows(name):
    values = COLUMNS[name]
    all_counts = counts_of(values)
    found = estimate([counts_of(values[:SAMPLED])], ROWS)
    assert 0.7 * len(all_counts) < found.num_distinct < 1.4 * len(all_counts)
    assert sum(rows * values for rows, values in found.classes) == pytest.approx(ROWS)
    assert sum(values for _, values in found.classes) == pytest.approx(found.num_distinct, rel=1e-6)
    for limit in (10, 100, 10_000):
        true = all_counts[all_counts >= limit].sum() / ROWS
        near = [found.share_from(limit * factor) for factor in (0.7, 1.5)]
        assert min(near) - 0.1 <= true <= max(near) + 0.1


def test_all_rows_are_counted():
    counts = np.array([1, 1, 2, 3, 90])
    found = estimate([counts, counts], 97)
    assert found.num_distinct == 5
    assert found.classes == ((90.0, 1.0), (2.5, 2.0), (1.0, 2.0))


def test_what_was_counted_elsewhere_is_believed():
    found = estimate([np.array([50, 50])], 10_000, num_distinct=402)
    assert found.num_distinct == 402
    assert found.classes[0] == (5_000.0, 2.0)
    many = estimate([np.array([2, 1, 1])], 1_000, num_distinct=500)
    assert many.classes == ((2.0, 500.0),)


@pytest.mark.parametrize("samples", [[], [np.zeros(0, np.int64)]])
def test_no_value(samples):
    assert estimate(samples, 100) == Frequencies(1.0, ())
    assert Frequencies(1.0, ()).share_from(1) == 0.0
