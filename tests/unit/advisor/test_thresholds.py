"""Which columns have an index already."""

from __future__ import annotations

from twostage.advisor.thresholds import Thresholds


def test_indexed_columns():
    assert Thresholds(indexed={"t": frozenset("a")}).indexed_of("t") == {"a"}
    assert Thresholds().indexed_of("t") == frozenset()
