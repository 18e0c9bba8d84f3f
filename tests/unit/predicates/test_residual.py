"""`Residuals` against brute force: TRUE for the same rows, and without every part that bounds decide."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from bounded_predicates import draw, truth
from twostage.predicates import residual
from twostage.predicates.bounds import Bounds
from twostage.predicates.predicate import FALSE, TRUE, And, Column, Compare, IsNull, Not, Or, Unknown, leaves
from twostage.predicates.residual import Residuals
from twostage.schema import Primitive

A, B, C = (Column(i, (name,), Primitive("int")) for i, name in enumerate("abc"))
KNOWN = {
    0: Bounds(lower=5, upper=9, null_count=0, value_count=10),
    1: Bounds(lower=5, upper=9, null_count=1, value_count=10),
}


def left_of(predicate: Any, residuals: Residuals | None = None) -> Any:
    return (residuals or Residuals()).of(predicate, KNOWN.get, 10)


@pytest.mark.parametrize("seed", range(6))
def test_the_same_rows_as_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    reached: Counter[str] = Counter()
    residuals = Residuals()
    for _ in range(2_500):
        predicate, rows, known = draw(rng, depth=3)
        left = residuals.of(predicate, known.get, len(rows))
        for row in rows:
            assert (truth(left, row) is True) == (truth(predicate, row) is True), (str(predicate), row, known)
        kind = "all" if left is predicate else "none" if left in (TRUE, FALSE) else "part"
        reached[kind] += 1
        if kind == "part":
            assert len(list(leaves(left))) < len(list(leaves(predicate)))
    assert reached["part"] > 100, reached
    assert reached["none"] > 500, reached
    assert reached["all"] > 300, reached


ALL_TRUE, NONE_TRUE, UNDECIDED = Compare(">", A, 1), Compare("<", A, 1), Compare("=", C, 7)
TRUE_OR_NULL = Compare(">", B, 1)


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (And((ALL_TRUE, UNDECIDED)), UNDECIDED),
        (Or((NONE_TRUE, UNDECIDED)), UNDECIDED),
        (And((NONE_TRUE, UNDECIDED)), FALSE),
        (Or((ALL_TRUE, UNDECIDED)), TRUE),
        (Or((And((NONE_TRUE, UNDECIDED)), And((ALL_TRUE, UNDECIDED)))), UNDECIDED),
        (And((ALL_TRUE, ALL_TRUE)), TRUE),
        (Or((NONE_TRUE, NONE_TRUE)), FALSE),
        (ALL_TRUE, TRUE),
        (NONE_TRUE, FALSE),
        (Not(NONE_TRUE), TRUE),
        (TRUE_OR_NULL, TRUE_OR_NULL),
        (Not(TRUE_OR_NULL), FALSE),
        (Not(Or((NONE_TRUE, UNDECIDED))), Not(Or((NONE_TRUE, UNDECIDED)))),
        (Or((Unknown("by an index"), NONE_TRUE)), Unknown("by an index")),
        (And((IsNull(A), UNDECIDED)), FALSE),
    ],
    ids=str,
)
def test_named_cases(predicate: Any, expected: Any) -> None:
    assert left_of(predicate) == expected


def test_what_is_left_is_the_same_object_each_time() -> None:
    """What evaluating it has cost is known by its identity."""
    whole = And((Or((NONE_TRUE, UNDECIDED, TRUE_OR_NULL)), Unknown("another")))
    residuals = Residuals()
    left = left_of(whole, residuals)
    assert left is not whole
    assert left_of(whole, residuals) is left
    undecided = And((UNDECIDED, TRUE_OR_NULL))
    assert left_of(undecided, residuals) is undecided
    either = Or((UNDECIDED, NONE_TRUE, TRUE_OR_NULL))
    assert left_of(either, residuals) == Or((UNDECIDED, TRUE_OR_NULL))
    assert left_of(And((UNDECIDED, ALL_TRUE, TRUE_OR_NULL)), residuals) == undecided


def test_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residual, "MAX_RESIDUALS", 10)
    residuals = Residuals()
    for number in range(100):
        parts = Compare("=", C, number), NONE_TRUE, Compare("<", C, number)
        assert left_of(Or(parts), residuals) == Or((parts[0], parts[2]))
    assert len(residuals._kept) == 10
