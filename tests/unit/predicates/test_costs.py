"""Measured costs of a predicate's parts: the order they give, how they fade, and what is said of a change."""

from __future__ import annotations

import pytest

from twostage.predicates.costs import Cost, Costs, guess
from twostage.predicates.predicate import (
    And,
    Column,
    Compare,
    CompareColumns,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    StringMatch,
    Unknown,
)
from twostage.schema import Primitive

A = Column(1, ("a",), Primitive("long"))
S = Column(2, ("s",), Primitive("string"))
EQUAL, LESS, TEXT = Compare("=", A, 1), Compare("<", A, 1), Compare("=", S, "x")


def test_the_cheapest_for_each_row_settled_goes_first() -> None:
    costs = Costs()
    assert costs.order([LESS, EQUAL], "AND") == [EQUAL, LESS]  # by guess
    costs.of(EQUAL).add(100, 10, 1000)
    costs.of(LESS).add(100, 50, 1000)
    assert costs.order([LESS, EQUAL], "AND") == [LESS, EQUAL]
    assert costs.changes == ["AND reordered by cost: a < 1 goes first"]
    costs.order([LESS, EQUAL], "AND")
    assert len(costs.changes) == 1, "a change is told once"


def test_a_part_that_settles_nothing_goes_last() -> None:
    costs = Costs()
    costs.of(EQUAL).add(100, 0, 100)
    costs.of(LESS).add(100, 1, 100)
    assert costs.order([EQUAL, LESS], "OR") == [LESS, EQUAL]


def test_the_sides_of_a_range_stay_together_in_their_order() -> None:
    """The first one pays for reading the column: that is no reason to let the other one go first."""
    from_, to, other = Compare(">=", A, 1), Compare("<", A, 9), Compare("=", S, "x")
    costs = Costs()
    costs.of(from_).add(100, 50, 9000)
    costs.of(to).add(50, 40, 10)
    costs.of(other).add(100, 20, 1000)
    assert costs.order([from_, other, to], "AND") == [other, from_, to], "50 a row, 9010 / 90 together"
    costs.of(other).add(100, 1, 1000)
    assert costs.order([from_, other, to], "AND") == [from_, to, other]
    unlike = [from_, Compare("<", S, "y")]
    assert costs.order(unlike, "AND") == list(reversed(unlike)), "two columns are no range: one was guessed"


def test_later_measurements_count_for_more() -> None:
    cost = Cost(guess=1.0)
    cost.add(100, 100, 100)
    for _ in range(20):
        cost.add(100, 1, 100)
    assert 90 < cost.rank < 101


def test_one_part_alone_is_never_reordered() -> None:
    costs = Costs()
    assert costs.order([EQUAL], "AND") == [EQUAL]
    assert not costs.changes


def test_a_long_part_is_told_shortened() -> None:
    costs = Costs()
    long = In(S, ("x" * 39,) * 3)
    costs.order([EQUAL, long], "AND")
    costs.of(EQUAL).add(10, 1, 10**9)
    costs.order([EQUAL, long], "AND")
    (told,) = costs.changes
    assert told.endswith("… goes first")
    assert len(told) < 100


def test_what_was_measured_stays_with_a_part_that_is_replaced() -> None:
    costs = Costs()
    costs.of(EQUAL).add(100, 10, 1000)
    costs.transfer(EQUAL, LESS)
    assert costs.of(LESS).rank == 100.0
    costs.transfer(TEXT, IsNull(A))  # never measured: nothing to take over
    assert costs.of(IsNull(A)).rows_in == 0.0


def test_what_is_left_of_a_part_counts_as_the_part() -> None:
    """Statistics decided the other half of an AND: its rows are those that meet the one that is left."""
    costs, whole = Costs(), And((EQUAL, LESS))
    costs.count_as(LESS, whole)
    costs.count_child(LESS, 100, 10, 1000, 8)
    assert sorted(costs.take_children(), key=lambda one: one[0] is whole) == [
        (LESS, 100, 10, 1000, 8),
        (whole, 100, 10, 1000, 8),
    ]
    costs.count_child(LESS, 100, 10, 1000, 8)  # of the next row group
    assert len(costs.take_children()) == 1


@pytest.mark.parametrize(
    ("sooner", "later"),
    [
        (Constant(True), EQUAL),
        (EQUAL, LESS),
        (EQUAL, TEXT),
        (In(A, (1, 2)), In(S, ("x",))),
        (TEXT, StringMatch("contains", S, "x")),
        (CompareColumns("=", A, A), IsNull(A)),
        (EQUAL, Not(EQUAL)),
        (EQUAL, And((EQUAL, LESS))),
        (Or((EQUAL, LESS)), Unknown("udf")),
    ],
)
def test_a_guess_asks_the_selective_and_narrow_first(sooner: object, later: object) -> None:
    assert guess(sooner) < guess(later)  # type: ignore[arg-type]
