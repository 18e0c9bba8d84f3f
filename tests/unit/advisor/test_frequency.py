"""The strategy *frequency*."""

from __future__ import annotations

import datetime

from twostage.advisor.frequency import ColumnVotes, ranked
from twostage.advisor.logged_predicate import LoggedPredicate
from twostage.advisor.logged_scan import LoggedScan
from twostage.advisor.selectivity import Cardinalities
from twostage.advisor.tally import Tally
from twostage.advisor.thresholds import Thresholds


def scan(rows, *leaves):
    children = tuple(LoggedPredicate(op=op, columns=(column,), count=1) for op, column in leaves)
    return LoggedScan(
        time=datetime.datetime.now(datetime.UTC), scan="s", table="t", reader="iceberg",
        predicate=LoggedPredicate(op="and", children=children), counters={"spark.rows": rows},
    )  # fmt: skip


SCANS = [scan(10, ("=", "a"), (">", "a"), ("=", "b")), scan(100, ("=", "b")), scan(1000, ("length", "c"))]


def frequencies(thresholds, known=None):
    tally = Tally("t", thresholds, known)
    for one in SCANS:
        tally.add(one)
    return tally.frequencies()


def test_a_scan_counts_once_for_a_column():
    """Of 10 rows two columns are scanned; then one of 100 rows. No index answers a length."""
    known = Cardinalities(distinct={"a": 5, "b": 5})
    assert frequencies(Thresholds(), known) == [
        ColumnVotes(column="b", scans=2, weight=120.0),
        ColumnVotes(column="a", scans=1, weight=20.0),
    ]


def test_columns_that_are_not_selective_or_have_an_index_do_not_count():
    known = Cardinalities(distinct={"a": 5, "b": 50})
    assert [one.column for one in frequencies(Thresholds(selectivity=10), known)] == ["b"]
    indexed = Thresholds(indexed={"t": frozenset("b")})
    assert [one.column for one in frequencies(indexed, known)] == ["a"]
    assert frequencies(Thresholds()) == []


def test_columns_are_ranked_by_weight_then_scans_then_name():
    counted = {"a": (1, 5.0), "b": (2, 5.0), "c": (1, 9.0), "d": (1, 5.0)}
    assert [one.column for one in ranked(counted)] == ["c", "b", "a", "d"]
