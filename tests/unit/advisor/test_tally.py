"""What the scans of a table add up to."""

from __future__ import annotations

import datetime
import math
from dataclasses import replace

import pytest

from twostage.advisor.frequency import ColumnVotes
from twostage.advisor.logged_predicate import LoggedPredicate
from twostage.advisor.logged_scan import LoggedScan
from twostage.advisor.selectivity import Cardinalities
from twostage.advisor.tally import QUANTILES, Tally
from twostage.advisor.thresholds import Thresholds
from twostage.advisor.votes import votes_of


def scan(column="a", rows=100, left=10, *, milliseconds=None, scans=1, **counters):
    predicate = LoggedPredicate(
        op="=", columns=(column,), count=1, text=f"{column} = {rows}", rows_in=rows, rows_out=left
    )
    return LoggedScan(
        time=datetime.datetime.now(datetime.UTC), scan="s", table="t", columns=("x",), predicate=predicate,
        counters={"rows.considered": rows, "rows.fetched": left, **counters}, query_milliseconds=milliseconds, scans=scans,
    )  # fmt: skip


def tally_of(*scans, columns=None, **thresholds):
    tally = Tally("t", Thresholds(**thresholds), columns=columns)
    for one in scans:
        tally.add(one)
    return tally


def test_votes_are_summed():
    scans = [scan("a", 100), scan("a", 300), scan("b", 50)]
    tally = tally_of(*scans)
    assert (tally.scans, tally.filtered, tally.entries) == (3, 3, 450)
    assert {tuple(one.columns): one.saved for vote in tally.votes for one in vote.alternatives} == {
        ("a",): 400, ("b",): 50
    }  # fmt: skip
    assert sum(one.saved_by(frozenset("ab")) for one in tally.votes) == sum(
        vote.saved_by(frozenset("ab"))
        for one in scans
        for vote in votes_of(one, one.filter, tally.known, tally.thresholds)
    )
    assert tally.voters("a") == 2
    assert tally.heaviest("a") == ["a = 300", "a = 100"]
    assert tally.frequencies() == [
        ColumnVotes(column="a", scans=2, weight=400.0), ColumnVotes(column="b", scans=1, weight=50.0)
    ]  # fmt: skip


def test_the_heaviest_queries_are_different_ones():
    tally = tally_of(*[scan("a", rows, 1) for rows in (5, 9, 9, 7, 8, 9)])
    assert tally.heaviest("a") == ["a = 9", "a = 8", "a = 7"]


def test_scans_that_do_not_count_are_in_the_report_alone():
    tally = tally_of(scan("a", 100), scan("a", 10), entries=50)
    assert (tally.scans, tally.filtered, tally.entries) == (2, 1, 100)
    assert tally.quantiles()["entries_in_filter"] == [10, 10, 10, 100, 100, 100, 100, 100]


def test_bytes_go_with_entries():
    tally = tally_of(scan("a", 100, **{"bytes.filter": 1000}), scan("b", 100))
    assert tally.bytes_saved(50) == 250
    assert tally.bytes_saved(10**9) == 1000
    assert tally_of(scan()).bytes_saved(5) is None


def test_only_queries_with_one_scan_have_a_time():
    tally = tally_of(scan(milliseconds=500), scan(milliseconds=900, scans=2), scan())
    assert tally.quantiles()["seconds"] == [0.5] * len(QUANTILES)
    assert all(math.isnan(one) for one in tally_of(scan()).quantiles()["seconds"])
    assert tally.latency() is None


def test_seconds_by_entries():
    tally = tally_of(
        *[scan("a", rows, rows // 10, milliseconds=rows // 10) for rows in range(1000, 60_000, 1000)]
    )
    assert tally.latency().fit == pytest.approx(1)


def test_columns_that_are_gone_get_no_vote():
    tally = tally_of(scan("a"), scan("gone"), columns=frozenset("ab"))
    assert [one.columns for vote in tally.votes for one in vote.alternatives] == [{"a"}]
    assert tally.missing == {"gone": 1}


def test_columns_by_score():
    """The document's first formula: a scan's weight goes to the columns of the key of its whole filter."""
    tally = tally_of(scan("a", 100), scan("a", 300), scan("b", 50))
    assert [(one.column, one.scans, one.weight) for one in tally.scores()] == [("a", 2, 400), ("b", 1, 50)]


LISTS = Cardinalities(distinct={"tags": 40.0}, entries_per_row={"tags": 5.0, "a": 1.0})


def test_entries_of_lists_are_their_elements():
    """a, then five tags in each of the 30 rows that it leaves: 100 + 5 x 30 entries, not 130."""
    a = LoggedPredicate(op="=", columns=("a",), count=1, text="a", rows_in=100, rows_out=30)
    tags = LoggedPredicate(op="has element", columns=("tags",), count=1, text="tags", rows_in=30, rows_out=3)
    both = LoggedPredicate(op="and", children=(a, tags), rows_in=100, rows_out=3)
    one = replace(scan(), predicate=both, counters={"rows.considered": 100, "rows.fetched": 3})
    tally = Tally("t", Thresholds(), LISTS)
    tally.add(one)
    assert one.entries_in_filter == 130
    assert tally.entries == 100 + 5 * 30
    assert tally.quantiles()["entries_in_filter"][-1] == 250
    (vote,) = tally.votes
    saved = {"".join(found.columns): found.saved for found in vote.alternatives}
    # An index of tags leaves a tenth of 100 rows for a: 250 - 10. One of a leaves the 30 rows of tags: 250 - 150.
    assert saved == {"tags": pytest.approx(240)}
    assert tally.frequencies()[0].weight == 250


def test_a_list_alone_saves_all_and_not_more():
    """Fifty million elements of a million rows: both were counted, one as rows and the other as elements."""
    tally = Tally("t", Thresholds(), Cardinalities(entries_per_row={"tags": 50.0}))
    tags = LoggedPredicate(
        op="has element", columns=("tags",), count=1, text="tags", rows_in=10**6, rows_out=9
    )
    tally.add(replace(scan(), predicate=tags, counters={"rows.considered": 10**6}))
    theirs = replace(
        scan(), reader="iceberg", predicate=replace(tags, rows_in=None), counters={"spark.rows": 10**6}
    )
    assert tally.entries == sum(vote.saved_by(frozenset({"tags"})) for vote in tally.votes) == 50 * 10**6
    assert theirs.entries_of({"tags": 50.0}) == 50 * 10**6
