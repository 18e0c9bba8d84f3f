"""What sets of indexes save, summed over scans: subsets, what is dominated, and what there is already."""

from __future__ import annotations

import pytest

from twostage.advisor.byte_savings import MAX_ALTERNATIVES, MAX_COLUMNS, ByteSavings


class Emulated:
    """Saves what a table says of the set of columns that have an index."""

    def __init__(self, saved):
        self.saved_of = saved
        self.asked = []

    def saved(self, indexed):
        self.asked.append(dict(indexed))
        return self.saved_of(frozenset(indexed))


KINDS = {name: ("sorted",) for name in "abcdef"}


def of(table):
    return lambda columns: max((table.get(one, 0.0) for one in table if one <= columns), default=0.0)


A, B, AB = frozenset("a"), frozenset("b"), frozenset("ab")


def test_scans_of_the_same_columns_are_added_up():
    savings = ByteSavings({})
    savings.add(Emulated(of({A: 10.0, AB: 15.0})), ["a", "b"], KINDS, 2)
    savings.add(Emulated(of({B: 30.0})), ["b", "a"], KINDS, 1)
    (vote,) = savings.votes
    assert {one.columns: one.saved for one in vote.alternatives} == {A: 20.0, B: 30.0, AB: 60.0}
    assert [vote.saved_by(columns) for columns in (A, B, AB, frozenset())] == [20.0, 30.0, 60.0, 0.0]


def test_a_set_that_saves_no_more_than_one_within_it_is_no_alternative():
    savings = ByteSavings({})
    savings.add(Emulated(of({A: 10.0})), ["a", "b"], KINDS, 1)
    (vote,) = savings.votes
    assert [one.columns for one in vote.alternatives] == [A]


@pytest.mark.parametrize("saved", [0.0, -5.0])
def test_what_saves_nothing_has_no_vote(saved):
    savings = ByteSavings({})
    savings.add(Emulated(lambda columns: saved if columns else 0.0), ["a"], KINDS, 1)
    assert savings.votes == []


def test_it_is_saved_beside_the_indexes_that_there_are():
    savings = ByteSavings({"x": ("values",)})
    emulated = Emulated(of({frozenset("x"): 7.0, frozenset("ax"): 9.0}))
    savings.add(emulated, ["a"], KINDS, 1)
    assert emulated.asked == [{"x": ("values",)}, {"a": ("sorted",), "x": ("values",)}]
    assert savings.votes[0].saved_by(A) == 2.0


def test_what_was_not_measured_is_left_out():
    savings = ByteSavings({})
    savings.add(Emulated(lambda _: None), ["a"], KINDS, 1)
    assert savings.votes == []


def test_of_many_columns_those_evaluated_first_count():
    savings = ByteSavings({})
    emulated = Emulated(lambda columns: float(len(columns)))
    savings.add(emulated, list("fedcba"), KINDS, 1)
    assert len(emulated.asked) == 2**MAX_COLUMNS
    (vote,) = savings.votes
    assert frozenset().union(*(one.columns for one in vote.alternatives)) == frozenset("fedc")
    assert len(vote.alternatives) == MAX_ALTERNATIVES
    assert sum(len(one.columns) == 1 for one in vote.alternatives) == MAX_COLUMNS
    assert vote.saved_by(frozenset("fedc")) == MAX_COLUMNS
