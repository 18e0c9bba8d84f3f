"""S(p) and key(p), by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from twostage.advisor.logged_predicate import LoggedPredicate
from twostage.advisor.selectivity import Cardinalities, selectivity, with_spread_shares

KNOWN = Cardinalities(distinct={"a": 100, "b": 10, "c": 4})


def leaf(op, column, count=1, **measured):
    return LoggedPredicate(op=op, columns=(column,), count=count, **measured)


def both(*children):
    return LoggedPredicate(op="and", children=children)


def either(*children):
    return LoggedPredicate(op="or", children=children)


@pytest.mark.parametrize(
    ("predicate", "value", "key"),
    [
        (leaf("=", "a"), 100, "a"),
        (leaf("in", "a", 4), 25, "a"),
        (leaf("in", "c", 9), 1, "c"),
        (leaf("<>", "b"), 10 / 9, "b"),
        (leaf("not in", "c", 3), 4, "c"),
        (leaf("not in", "c", 4), 4, "c"),
        (leaf(">", "a"), 1, "a"),
        (leaf("=", "unheard-of"), 1, ["unheard-of"]),
        (leaf(">", "a", rows_in=1000, rows_out=8), 125, "a"),
        (leaf("=", "a", rows_in=1000, rows_out=500), 2, "a"),
        (leaf("=", "a", rows_in=1000, rows_out=0), 2000, "a"),
        (leaf("=", "a", rows_in=0, rows_out=0), 100, "a"),
        (leaf("length", "a"), 1, ""),
        (LoggedPredicate(op="unknown"), 1, ""),
        (LoggedPredicate(op="=", columns=("a", "b")), 1, ""),
        (both(leaf("=", "b"), leaf("=", "a"), leaf("=", "c")), 100, "a"),
        (either(leaf("=", "a"), leaf("=", "b")), 1 / (1 / 100 + 1 / 10), "ab"),
        (either(leaf("=", "c"), leaf("<>", "c")), 1, "c"),
        (either(leaf("=", "a"), LoggedPredicate(op="unknown")), 1, ""),
        (both(leaf("=", "c"), either(leaf("=", "a"), leaf("=", "b"))), 1 / (1 / 100 + 1 / 10), "ab"),
        (either(both(leaf("=", "a"), leaf("=", "c")), leaf("=", "b")), 1 / (1 / 100 + 1 / 10), "ab"),
    ],
)
def test_selectivity_and_key(predicate, value, key):
    found = selectivity(predicate, KNOWN)
    assert found.value == pytest.approx(value)
    assert found.share == pytest.approx(1 / value)
    assert found.key == frozenset(key)


def test_what_the_whole_left_is_spread_over_its_parts():
    """Of an AND of two unknown parts that left 1 %, each left 10 %; of an OR each half of it."""
    parts = (leaf("=", "x"), leaf(">", "y"))
    found = with_spread_shares(replace(both(*parts), rows_in=10_000, rows_out=100), KNOWN)
    assert [child.share for child in found.children] == [0.1, 0.1]
    found = with_spread_shares(replace(either(*parts), rows_in=10_000, rows_out=100), KNOWN)
    assert [child.share for child in found.children] == [0.005, 0.005]


def test_parts_of_which_more_is_known_keep_it():
    """a leaves 1 % of its own; what is left for x is 10 %."""
    measured = replace(leaf("=", "b"), rows_in=100, rows_out=50)
    whole = replace(both(leaf("=", "a"), measured, leaf("=", "x")), rows_in=10_000, rows_out=5)
    found = with_spread_shares(whole, KNOWN)
    assert [child.share for child in found.children] == [None, 0.5, 0.1]
    assert with_spread_shares(both(*whole.children), KNOWN) == both(*whole.children)
    assert with_spread_shares(leaf("=", "a"), KNOWN) == leaf("=", "a")
