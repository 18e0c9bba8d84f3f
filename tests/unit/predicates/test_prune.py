"""`match` against brute force: NONE means no row is TRUE, ALL means every row is TRUE, and both are reached."""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

from bounded_predicates import NAN, draw, truth
from twostage.predicates.bounds import Bounds
from twostage.predicates.predicate import And, Column, Compare, In, IsNull, Not, StringMatch, Unknown
from twostage.predicates.prune import Match, match
from twostage.schema import Primitive


@pytest.mark.parametrize("seed", range(6))
def test_match_agrees_with_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    reached: Counter[Match] = Counter()
    for _ in range(2_500):
        predicate, rows, known = draw(rng)
        truths = [truth(predicate, row) for row in rows]
        num_rows = len(rows)
        answer = match(predicate, known.get, num_rows if rng.random() < 0.8 else None)
        reached[answer] += 1
        if answer is Match.NONE:
            assert True not in truths, (str(predicate), rows, known)
        if answer is Match.ALL:
            assert all(value is True for value in truths), (str(predicate), rows, known)
    assert reached[Match.NONE] > 500, reached
    assert reached[Match.ALL] > 200, reached


INT = Column(1, ("a",), Primitive("int"))
DOUBLE = Column(2, ("d",), Primitive("double"))
STRING = Column(3, ("s",), Primitive("string"))


def answer(predicate: Any, num_rows: int | None = 10, **bounds: Any) -> str:
    return match(predicate, lambda _: Bounds(**bounds), num_rows).name


@pytest.mark.parametrize(
    ("predicate", "bounds", "expected"),
    [
        (Compare(">", INT, 7), {"lower": 1, "upper": 7}, "NONE"),
        (Compare(">=", INT, 7), {"lower": 1, "upper": 7}, "SOME"),
        (Compare(">=", INT, 1), {"lower": 1, "upper": 7, "null_count": 0}, "ALL"),
        (Compare(">=", INT, 1), {"lower": 1, "upper": 7}, "SOME"),
        (Not(Compare(">=", INT, 1)), {"lower": 1, "upper": 7}, "NONE"),
        (Compare("=", INT, 5), {"lower": 5, "upper": 5, "null_count": 0}, "ALL"),
        (Compare("=", INT, 5), {"lower": 9, "upper": 1, "null_count": 0}, "SOME"),
        (Compare("<=>", INT, 5), {"null_count": 10}, "NONE"),
        (Not(Compare("<=>", INT, 5)), {"null_count": 10}, "ALL"),
        (Not(Compare("=", INT, 5)), {"null_count": 10}, "NONE"),
        (IsNull(INT), {"null_count": 10}, "ALL"),
        (IsNull(INT), {"null_count": 10, "lower": 3}, "SOME"),
        (IsNull(INT), {"null_count": 11, "value_count": 10}, "SOME"),
        (IsNull(INT), {"null_count": -1}, "SOME"),
        (IsNull(INT), {"null_count": 0}, "NONE"),
        (Not(IsNull(INT)), {"null_count": 0}, "ALL"),
        (Not(IsNull(INT)), {"null_count": 0, "value_count": 9}, "SOME"),
        (Compare(">", DOUBLE, 5.0), {"lower": 1.0, "upper": 2.0}, "SOME"),
        (Compare(">", DOUBLE, 5.0), {"lower": 1.0, "upper": 2.0, "nan_count": 1}, "SOME"),
        (Compare(">", DOUBLE, 5.0), {"lower": 1.0, "upper": 2.0, "nan_count": 0}, "NONE"),
        (Compare("<", DOUBLE, 1.0), {"lower": 1.0, "upper": 2.0}, "NONE"),
        (Compare("=", DOUBLE, NAN), {"lower": 1.0, "upper": 2.0, "nan_count": 0}, "NONE"),
        (Compare("=", DOUBLE, NAN), {"nan_count": 10, "null_count": 0}, "ALL"),
        (Compare("<=", DOUBLE, NAN), {"null_count": 0}, "ALL"),
        (Compare("=", DOUBLE, -0.0), {"lower": 0.0, "upper": 0.0, "nan_count": 0, "null_count": 0}, "ALL"),
        (Compare("<", DOUBLE, 0.0), {"lower": -0.0, "upper": 3.0, "nan_count": 0}, "NONE"),
        (Compare("<", DOUBLE, 3.0), {"lower": NAN, "upper": NAN, "nan_count": 0}, "SOME"),
        (Compare("=", STRING, "aa"), {"lower": "aa", "upper": "aa", "null_count": 0}, "SOME"),
        (
            Compare("=", STRING, "aa"),
            {"lower": "aa", "upper": "aa", "null_count": 0, "exact_lower": True, "exact_upper": True},
            "ALL",
        ),
        (Compare(">", STRING, "\uffff"), {"lower": "a", "upper": "\U00010000"}, "SOME"),
        (Compare(">", STRING, "\U00010000"), {"lower": "a", "upper": "\uffff"}, "NONE"),
        (Compare("=", STRING, "\ud800"), {"lower": "x", "upper": "y"}, "SOME"),
        (StringMatch("prefix", STRING, "abc"), {"lower": "abd", "upper": "b"}, "NONE"),
        (StringMatch("prefix", STRING, "abc"), {"lower": "a", "upper": "ab"}, "NONE"),
        (StringMatch("prefix", STRING, "abc"), {"lower": "a", "upper": "abc"}, "SOME"),
        (StringMatch("prefix", STRING, "a"), {"lower": "ab", "upper": "ac", "null_count": 0}, "ALL"),
        (Not(StringMatch("prefix", STRING, "a")), {"lower": "ab", "upper": "ac"}, "NONE"),
        (Not(StringMatch("prefix", STRING, "ab")), {"lower": "ab", "upper": "ac"}, "SOME"),
        (In(INT, (1, 2, 3)), {"lower": 2, "upper": 3, "null_count": 0}, "ALL"),
        (In(INT, (1, 9)), {"lower": 2, "upper": 3}, "NONE"),
        (Not(In(INT, (1, 9), has_null=True)), {"lower": 2, "upper": 3, "null_count": 0}, "NONE"),
        (Not(In(INT, (1, 9))), {"lower": 2, "upper": 3, "null_count": 0}, "ALL"),
        (In(INT, tuple(range(0, 20_000, 2))), {"lower": 7, "upper": 7}, "NONE"),
        (Unknown("upper"), {"lower": 7, "upper": 7}, "SOME"),
        (And((Unknown("upper"), Compare("=", INT, 1))), {"lower": 7, "upper": 7}, "NONE"),
        (Compare("=", INT, "text"), {"lower": 7, "upper": 7}, "SOME"),
    ],
    ids=str,
)
def test_named_cases(predicate: Any, bounds: dict[str, Any], expected: str) -> None:
    assert answer(predicate, **bounds) == expected


def test_nothing_known_is_some_and_no_rows_is_none() -> None:
    assert match(IsNull(INT), lambda _: None) is Match.SOME
    assert match(IsNull(INT), lambda _: None, 0) is Match.NONE


def test_struct_fields_need_a_count_of_all_rows_to_have_no_null() -> None:
    inner = Column(5, ("outer", "inner"), Primitive("int"))
    predicate = Compare(">", inner, 0)
    assert match(predicate, lambda _: Bounds(lower=1, upper=2, null_count=0), 10) is Match.SOME
    assert match(predicate, lambda _: Bounds(lower=1, upper=2, null_count=0, value_count=7), 10) is Match.SOME
    assert match(predicate, lambda _: Bounds(lower=1, upper=2, null_count=0, value_count=10), 10) is Match.ALL


def test_float_literal_is_rounded_to_the_columns_precision() -> None:
    column = Column(2, ("f",), Primitive("float"))
    stored = 0.10000000149011612
    known = Bounds(lower=stored, upper=stored, nan_count=0, null_count=0)
    assert match(Compare("=", column, 0.1), lambda _: known, 3) is Match.ALL


def test_a_decimal_cast_that_overflows_may_be_null() -> None:
    column = Column(1, ("a",), Primitive("int"), Primitive("decimal", precision=3, scale=2))
    known = Bounds(lower=5, upper=500, null_count=0)
    assert match(Compare(">=", column, Decimal("5.00")), lambda _: known, 3) is Match.SOME


@pytest.mark.parametrize(("precision", "scale"), [(19, 0), (20, 1), (30, 10)])
def test_a_list_of_fractions_is_no_range_of_whole_numbers(precision: int, scale: int) -> None:
    """As many values as whole numbers within the bounds, most of them between these."""
    column = Column(1, ("a",), Primitive("long"), Primitive("decimal", precision=precision, scale=scale))
    known = Bounds(lower=1, upper=3, null_count=0)
    fractions = In(column, (Decimal("1.0"), Decimal("1.5"), Decimal("2.5")))
    assert match(fractions, lambda _: known, 3) is Match.SOME
    assert match(Not(fractions), lambda _: known, 3) is Match.SOME
    assert match(In(column, (Decimal("0.5"), Decimal("3.5"))), lambda _: known, 3) is Match.NONE
    single = Bounds(lower=2, upper=2, null_count=0)
    assert match(In(column, (Decimal("2.0"), Decimal("1.5"))), lambda _: single, 3) is Match.ALL
