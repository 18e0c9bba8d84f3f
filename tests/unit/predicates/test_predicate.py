"""The predicate tree: what is restated stays true for the same rows, what is weakened is implied."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import oracle
from twostage.predicates.predicate import (
    FALSE,
    TRUE,
    And,
    Column,
    Compare,
    CompareColumns,
    CompareLength,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StringMatch,
    Unknown,
    both,
    columns,
    conjuncts,
    either,
    is_exact,
    leaves,
    push_not_down,
    weaken,
    without_implied,
)
from twostage.schema import Primitive

A, B = (Column(number, (name,), Primitive("int")) for number, name in ((1, "a"), (2, "b")))
S = Column(3, ("s",), Primitive("string"))
OPERATORS = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"])
LEAVES = st.one_of(
    st.sampled_from([TRUE, FALSE, Constant(None)]),
    st.builds(Compare, OPERATORS, st.sampled_from([A, B]), st.integers(0, 2)),
    st.builds(CompareColumns, OPERATORS, st.just(A), st.just(B)),
    st.builds(In, st.just(A), st.sampled_from([(0,), (1, 2)]), st.booleans()),
    st.builds(IsNull, st.sampled_from([A, B, S])),
    st.builds(
        StringMatch, st.sampled_from(["prefix", "suffix", "contains"]), st.just(S), st.sampled_from(["x", ""])
    ),
)


def trees(of: Any) -> Any:
    def grow(inner: Any) -> Any:
        parts = st.lists(inner, min_size=1, max_size=3).map(tuple)
        return st.builds(And, parts) | st.builds(Or, parts) | st.builds(Not, inner)

    return st.recursive(of, grow, max_leaves=8)


TREES = trees(LEAVES)
ROWS = [{1: a, 2: b, 3: s} for a in (None, 0, 1, 2) for b in (None, 1) for s in (None, "x", "yx")]


def answers(predicate: Predicate) -> list[bool | None]:
    return [oracle.evaluate(predicate, row) for row in ROWS]


def holds_not_only_at_leaves(predicate: Predicate) -> bool:
    match predicate:
        case And(children) | Or(children):
            return any(map(holds_not_only_at_leaves, children))
        case Not(child):
            return isinstance(child, And | Or | Not)
    return False


@settings(deadline=None)
@given(TREES)
def test_not_pushed_to_the_leaves_answers_alike(predicate: Predicate) -> None:
    pushed = push_not_down(predicate)
    assert answers(pushed) == answers(predicate)
    assert not holds_not_only_at_leaves(pushed)


@settings(deadline=None)
@given(st.lists(TREES, max_size=3))
def test_joined(parts: list[Predicate]) -> None:
    joined, any_of = both(*parts), either(*parts)
    assert answers(joined) == answers(And(tuple(parts)) if parts else TRUE)
    assert answers(any_of) == answers(Or(tuple(parts)) if parts else FALSE)
    assert answers(both(joined, TRUE)) == answers(joined)
    assert answers(either(any_of, FALSE)) == answers(any_of)
    assert answers(both(*conjuncts(joined))) == answers(joined)


@settings(deadline=None)
@given(TREES)
def test_tests_for_null_that_others_imply(predicate: Predicate) -> None:
    """What is left is true for the same rows."""
    whole = both(predicate, Not(IsNull(A)), Not(IsNull(S)))
    assert [found is True for found in answers(without_implied(whole))] == [
        found is True for found in answers(whole)
    ]


@pytest.mark.parametrize(
    "leaf",
    [
        Compare("=", A, 1),
        CompareColumns("<", B, A),
        In(A, (1,)),
        Not(In(A, (1,))),
    ],
    ids=str,
)
def test_a_comparison_implies_that_its_column_is_not_null(leaf: Predicate) -> None:
    assert without_implied(And((Not(IsNull(A)), leaf))) == leaf


@pytest.mark.parametrize(
    "leaf",
    [CompareColumns("<=>", A, B), IsNull(B), Or((Compare("=", A, 1), IsNull(B))), Compare("=", B, 1)],
    ids=str,
)
def test_what_does_not_imply_it(leaf: Predicate) -> None:
    whole = And((Not(IsNull(A)), leaf))
    assert without_implied(whole) == whole


def test_text_implies_it_too() -> None:
    for leaf in (StringMatch("prefix", S, "x"), Not(StringMatch("prefix", S, "x")), CompareLength("=", S, 1)):
        assert without_implied(And((Not(IsNull(S)), leaf))) == leaf


@settings(deadline=None)
@given(trees(LEAVES | st.just(Unknown("udf"))), st.booleans())
def test_what_is_weakened_holds_wherever_the_whole_is_true(predicate: Predicate, udf: bool) -> None:
    def known(tree: Predicate) -> Predicate:
        match tree:
            case And(children):
                return And(tuple(map(known, children)))
            case Or(children):
                return Or(tuple(map(known, children)))
            case Not(child):
                return Not(known(child))
            case Unknown():
                return Constant(udf)
        return tree

    weak = weaken(predicate)
    assert is_exact(weak)
    for whole, part in zip(answers(known(predicate)), answers(weak), strict=True):
        assert whole is not True or part is True
    assert is_exact(predicate) == (Unknown("udf") not in list(leaves(predicate)))


def test_lengths_flip_as_other_comparisons_do() -> None:
    assert str(push_not_down(Not(CompareLength("<", S, 3)))) == "length(s) >= 3"
    assert str(push_not_down(Not(CompareLength("<=>", S, 3)))) == "NOT (length(s) <=> 3)"


def test_columns_in_order_of_use_without_their_casts() -> None:
    cast = Column(2, ("b",), Primitive("int"), Primitive("long"))
    tree = And((CompareColumns("=", cast, A), Not(Or((IsNull(S), Compare("=", A, 1)))), TRUE, Unknown("x")))
    assert columns(tree) == (B, A, S)


def test_as_text() -> None:
    tree = And(
        (Or((Compare("<", A, 1), Constant(None))), Not(IsNull(S)), In(A, tuple(range(12)), has_null=True))
    )
    assert str(tree) == (
        "(a < 1 OR NULL) AND s IS NOT NULL AND a IN (0, 1, 2, 3, 4, 5, 6, 7, … 12 values, NULL)"
    )
    odd = Column(5, ("st", "a b"), Primitive("int"), Primitive("long"))
    assert str(Or((And((IsNull(odd), TRUE)), StringMatch("contains", S, "x")))) == (
        "(cast(st.`a b` as long) IS NULL AND TRUE) OR s LIKE '%x%'"
    )
