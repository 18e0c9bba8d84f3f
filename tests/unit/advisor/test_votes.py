"""The strategy *parser*: the document's formulas on small cases worked out by hand, and its properties on random ones."""

from __future__ import annotations

import datetime
import random

import pytest

from twostage.advisor.logged_predicate import LoggedPredicate
from twostage.advisor.logged_scan import LoggedScan
from twostage.advisor.selectivity import Cardinalities
from twostage.advisor.thresholds import Thresholds
from twostage.advisor.votes import Estimator, score, votes_of

ROWS = 1000
KNOWN = Cardinalities(distinct={"a": 10, "b": 5, "c": 2, "list": 4}, entries_per_row={"list": 3})
TEN = Estimator(rows=ROWS, known=KNOWN)
"""S of equality: 10 for a, 5 for b, 2 for c; 4 for the list, which has three entries a row."""


def equal(column, **measured):
    return LoggedPredicate(op="=", columns=(column,), count=1, **measured)


def both(*children):
    return LoggedPredicate(op="and", children=children)


def either(*children):
    return LoggedPredicate(op="or", children=children)


def shown(votes):
    """Return votes as lists of (columns, entries)."""
    return [
        [("".join(sorted(one.columns)), pytest.approx(one.saved)) for one in vote.alternatives]
        for vote in votes
    ]


A, B, C, LIST = map(equal, ("a", "b", "c", "list"))


@pytest.mark.parametrize(
    ("predicate", "entries"),
    [
        (A, 1000),
        (LIST, 3000),
        (LoggedPredicate(op="<", columns=("a", "b")), 2000),
        (both(A, B, C), 1000 + 1000 / 10 + 1000 / 50),
        (both(C, B, A), 1000 + 1000 / 2 + 1000 / 10),
        (both(C, LIST), 1000 + 3000 / 2),
        (either(A, B, C), 3000),
        (both(C, either(A, B)), 1000 + 2000 / 2),
        (either(both(A, B), LIST), 1000 + 100 + 3000),
    ],
)
def test_entries_scanned(predicate, entries):
    assert TEN.entries(predicate) == pytest.approx(entries)


def test_a_column_with_an_index_scans_nothing():
    assert Estimator(rows=ROWS, known=KNOWN, indexed=frozenset("a")).entries(both(A, B)) == pytest.approx(100)


def test_a_leaf_votes_for_its_column():
    assert shown(TEN.votes(A)) == [[("a", 1000)]]
    (vote,) = TEN.votes(LIST)
    assert (vote.alternatives[0].columns, vote.alternatives[0].saved) == (frozenset({"list"}), 3000)


def test_children_of_an_or_vote_alone():
    assert shown(TEN.votes(either(A, B))) == [[("a", 1000)], [("b", 1000)]]


def test_an_and_votes_for_the_child_that_leaves_least():
    """c AND b AND a: L = 1000 + 500 + 100 = 1600.

    With an index on c: 500 + 100 are left; on b: 1000 / 5 + 100 = 300; on a: (1000 + 500) / 10 = 150. So a saves 1450, b
    1300, c 1000; all are more than half of 1450.
    """
    assert shown(TEN.votes(both(C, B, A))) == [[("a", 1450), ("b", 1300), ("c", 1000)]]


def test_g0_limits_the_alternatives():
    """Over 0.75 x 1450 = 1087.5: a and b."""
    strict = Estimator(rows=ROWS, known=KNOWN, min_share_of_best=0.75)
    assert shown(strict.votes(both(C, B, A))) == [[("a", 1450), ("b", 1300)]]


def test_a_second_index_while_too_much_is_left():
    """c AND b: L = 1500. On b 200 are left, on c 500; so b saves 1300, c 1000. With C0 = 100 another vote follows, on c:
    it scans 1000 rows, of which b leaves a fifth."""
    greedy = Estimator(rows=ROWS, known=KNOWN, enough=100)
    assert shown(greedy.votes(both(C, B))) == [[("b", 1300), ("c", 1000)], [("c", 200)]]
    assert shown(TEN.votes(both(C, B))) == [[("b", 1300), ("c", 1000)]]


def test_an_or_inside_an_and_needs_all_of_its_columns():
    """c AND (a OR b): L = 1000 + 2000 / 2 = 2000. The OR leaves 1/10 + 1/5 = 0.3: 300 stay, 1700 are saved; c saves 1000."""
    assert shown(TEN.votes(both(C, either(A, B)))) == [[("ab", 1700), ("c", 1000)]]


def test_an_indexed_column_gets_no_vote():
    """Of c AND b AND a with an index on a, L = 1500: b leaves 200, c 500."""
    indexed = Estimator(rows=ROWS, known=KNOWN, indexed=frozenset("a"))
    assert shown(indexed.votes(both(C, B, A))) == [[("b", 1300), ("c", 1000)]]
    assert indexed.votes(A) == []


def test_the_selectivity_threshold():
    few = Estimator(rows=ROWS, known=KNOWN, selectivity=5)
    assert shown(few.votes(both(C, B, A))) == [[("a", 1450)]]
    assert few.votes(B) == []


def test_what_no_index_answers_gets_no_vote():
    length = LoggedPredicate(op="length", columns=("a",), count=1, rows_in=1000, rows_out=1)
    assert TEN.votes(length) == []
    assert TEN.votes(either(length, A))[0].alternatives[0].columns == {"a"}
    (vote,) = TEN.votes(both(length, B))
    assert [one.columns for one in vote.alternatives] == [{"b"}]


def test_measured_order_goes_before_the_written_one():
    """b was evaluated first, a on the 200 rows that it left."""
    measured = both(equal("a", rows_in=200, rows_out=20), equal("b", rows_in=1000, rows_out=200))
    (vote,) = TEN.votes(measured)
    assert {"".join(one.columns): round(one.saved) for one in vote.alternatives} == {"a": 1100, "b": 1000}


def test_votes_in_bytes():
    """c AND b: rows of c take 8 bytes, of b 2: L = 8000 + 1000 = 9000. On c 1000 are left, on b 8000 / 5 = 1600; so c saves
    8000, b 7400. What a row of a takes is not known: the mean, 5. C0 is that of a column: 5000."""
    in_bytes = Estimator(rows=ROWS, known=KNOWN, costs={"b": 2.0, "c": 8.0})
    assert in_bytes.entries(both(C, B)) == pytest.approx(9000)
    assert shown(in_bytes.votes(both(C, B))) == [[("c", 8000), ("b", 7400)]]
    assert shown(in_bytes.votes(A)) == [[("a", 5000)]]


def scan(predicate, reader="iceberg", rows=ROWS):
    return LoggedScan(
        time=datetime.datetime.now(datetime.UTC), scan="s", table="t", reader=reader, predicate=predicate,
        counters={"spark.rows": rows, "rows.considered": rows},
    )  # fmt: skip


def test_the_score_is_range_shrink_and_direct_hit():
    """c AND a: 2,000 entries, 1,000 of them in a: (2000 - 1000) x (1 - 1/10) + 1000. With what was measured, a scanned the
    500 rows that c left: (1500 - 500) x (1 - 1/10) + 500."""
    key, weight = score(scan(both(C, A)), KNOWN, Thresholds())
    assert (key, weight) == (frozenset("a"), pytest.approx(1900))
    measured = both(equal("c", rows_in=1000, rows_out=500), equal("a", rows_in=500, rows_out=50))
    key, weight = score(scan(measured, "twostage"), KNOWN, Thresholds())
    assert (key, weight) == (frozenset("a"), pytest.approx(1400))
    assert score(scan(both(C, A)), KNOWN, Thresholds(selectivity=10)) == (frozenset(), 0.0)
    assert score(scan(None), KNOWN, Thresholds()) == (frozenset(), 0.0)
    assert score(scan(A), KNOWN, Thresholds(indexed={"t": frozenset("a")})) == (frozenset(), 0.0)


def test_votes_of_a_scan():
    assert shown(votes_of(scan(A), A, KNOWN, Thresholds())) == [[("a", 1000)]]
    assert votes_of(scan(A, rows=0), A, KNOWN, Thresholds()) == []


def random_filter(rng, depth=3):
    if depth == 0 or rng.random() < 0.4:
        rows_in = rng.randint(1, 1000)
        measured = {"rows_in": rows_in, "rows_out": rng.randint(0, rows_in)} if rng.random() < 0.5 else {}
        op = rng.choice(["=", "in", "<>", ">", "length", "unknown"])
        columns = () if op == "unknown" else (rng.choice("abcdef"),)
        return LoggedPredicate(op=op, columns=columns, count=rng.randint(1, 3), **measured)
    children = tuple(random_filter(rng, depth - 1) for _ in range(rng.randint(2, 4)))
    return LoggedPredicate(op=rng.choice(["and", "or"]), children=children)


@pytest.mark.parametrize("seed", range(6))
def test_votes_promise_no_more_than_is_scanned(seed):
    """Nor anything for a column that has an index; and the best set of a query's alternatives is its first ones."""
    rng = random.Random(seed)
    known = Cardinalities(distinct={name: rng.randint(1, 50) for name in "abcdef"})
    for _ in range(300):
        predicate = random_filter(rng)
        indexed = frozenset(rng.sample("abcdef", rng.randint(0, 2)))
        enough = rng.choice([None, 0.0])
        estimator = Estimator(rows=ROWS, known=known, indexed=indexed, enough=enough)
        votes = estimator.votes(predicate)
        promised = sum(vote.alternatives[0].saved for vote in votes)
        assert promised <= estimator.entries(predicate) * (1 + 1e-9) + 1e-6, f"seed {seed}: {predicate}"
        for vote in votes:
            gains = [one.saved for one in vote.alternatives]
            assert gains == sorted(gains, reverse=True)
            assert min(gains) > 0
            assert not any(one.columns & indexed for one in vote.alternatives)
            assert all(one.columns for one in vote.alternatives)
