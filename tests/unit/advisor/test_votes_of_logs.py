"""Adding a query to a log never lowers the votes of its columns, though scans of one form vote by their mean."""

from __future__ import annotations

import datetime

from hypothesis import given, strategies as st

from twostage.advisor.logged_predicate import LoggedPredicate
from twostage.advisor.logged_scan import LoggedScan
from twostage.advisor.selectivity import Cardinalities
from twostage.advisor.tally import Tally
from twostage.advisor.thresholds import Thresholds

KNOWN = Cardinalities(distinct={"a": 7, "b": 40, "c": 3}, entries_per_row={"c": 2.5})
SHARES = st.sampled_from([0.0, 0.1, 0.24, 0.26, 0.3, 0.33, 0.34, 0.4, 0.49, 0.5, 0.51, 0.9, 1.0])


ALIKE = st.sampled_from([0.26, 0.28, 0.3, 0.32, 0.34, 0.36, 0.38, 0.41, 0.45, 0.49])
"""Between the same powers of two, and on both sides of 1/2.5 and 1/3."""


@st.composite
def scans(
    draw, shares=SHARES, kinds=st.sampled_from(["abc", "bca", "ca", "b"]), sizes=(9, 40, 41, 1_000, 1_500)
):
    """A scan by equality on one to three columns, of an AND evaluated column by column or an OR; or by another reader."""
    columns, is_own = draw(kinds), draw(st.integers(0, 3)) > 0
    op = "or" if columns == "ca" else draw(st.sampled_from(["and", "or"]))
    first = left = draw(st.sampled_from(sizes))
    leaves = []
    for column in columns:
        rows_in = left if op == "and" else first
        rows_out = int(rows_in * draw(shares))
        left = rows_out
        measured = {"rows_in": rows_in, "rows_out": rows_out} if is_own else {}
        leaves.append(
            LoggedPredicate(
                op="in", columns=(column,), count=draw(st.integers(1, 3)), text=column, **measured
            )
        )
    whole = leaves[0] if len(leaves) == 1 else LoggedPredicate(op=op, children=tuple(leaves), rows_in=first)
    return LoggedScan(
        time=datetime.datetime(2026, 11, 25, tzinfo=datetime.UTC), scan="s", table="t", columns=("x",), predicate=whole,
        reader="twostage" if is_own else "iceberg", counters={"rows.considered": first, "spark.rows": first},
    )  # fmt: skip


LOGS = st.lists(scans(), max_size=8)


def votes(log, threshold):
    """Return the entries that each column's alternatives save, summed."""
    tally = Tally("t", Thresholds(selectivity=threshold), KNOWN)
    for one in log:
        tally.add(one)
    found: dict[str, float] = {}
    for vote in tally.votes:
        for one in vote.alternatives:
            for column in one.columns:
                found[column] = found.get(column, 0.0) + one.saved
    return found


@given(log=LOGS, more=scans(), threshold=st.sampled_from([1.0, 2.5, 3.0]))
def test_adding_a_query_lowers_no_votes(log, more, threshold):
    """Nor of any other column: no mean lies on the other side of the threshold than the scans that it stands for."""
    assert_none_lower(votes(log, threshold), votes([*log, more], threshold))


@given(log=st.lists(ALIKE, min_size=1, max_size=5), more=ALIKE, threshold=st.sampled_from([2.5, 3.0]))
def test_nor_does_one_of_the_same_form(log, more, threshold):
    """But for S: their shares are between the same powers of two."""
    before, after = (votes(map(one_form, shares), threshold) for shares in (log, [*log, more]))
    assert_none_lower(before, after)
    assert before.get("b", 0.0) == 1000.0 * sum(1 / share > threshold for share in log)


@given(log=LOGS, threshold=st.sampled_from([1.0, 2.0, 2.5, 3.0]))
def test_a_query_asked_n_times_votes_n_times(log, threshold):
    once, thrice = votes(log, threshold), votes(log * 3, threshold)
    assert once.keys() == thrice.keys()


def assert_none_lower(before, after):
    for column, saved in before.items():
        assert after.get(column, 0.0) >= saved * (1 - 1e-9), column


def one_form(share):
    leaf = LoggedPredicate(op="=", columns=("b",), count=1, rows_in=1000, rows_out=int(1000 * share))
    return LoggedScan(
        time=datetime.datetime.now(datetime.UTC), scan="s", table="t", predicate=leaf, counters={"rows.considered": 1000}
    )  # fmt: skip


def test_means_do_not_cross_the_threshold():
    """S of 3.3 votes with a threshold of 3, S of 2.7 does not; both are between the same powers of two."""
    assert votes([one_form(0.3)], 3.0) == votes([one_form(0.3), one_form(0.37)], 3.0) == {"b": 1000.0}
