"""Predicates in a log: what they took, without literals where these are left out, and back from JSON."""

from __future__ import annotations

import json
import random
from decimal import Decimal

import pytest

from random_predicates import random_predicate
from twostage.advisor.logged_predicate import (
    MAX_VALUES,
    LoggedPredicate,
    log_predicate,
    parse_predicate,
    with_ranges,
)
from twostage.metrics import PredicateCost
from twostage.predicates.predicate import (
    TRUE,
    And,
    Column,
    Compare,
    CompareColumns,
    CompareLength,
    HasElement,
    In,
    IsNull,
    Not,
    Or,
    StringMatch,
    Unknown,
)
from twostage.schema import Field, List, Primitive

A = Column(1, ("a",), Primitive("long"))
S = Column(2, ("s", "t"), Primitive("string"))
D = Column(3, ("d",), Primitive("decimal", precision=9, scale=2))
B = Column(4, ("b",), Primitive("binary"))
L = Column(6, ("l",), List(Field(id=7, name="element", type=Primitive("string"))))


def test_a_tree_has_the_costs_of_its_parts():
    left, right = Compare("=", A, 5), Or((StringMatch("prefix", S, "x"), IsNull(S)))
    costs = {
        str(left): PredicateCost(rows_in=100, rows_out=20, nanoseconds=7),
        str(right): PredicateCost(rows_in=20, rows_out=5, nanoseconds=8),
        str(right.children[0]): PredicateCost(rows_in=20, rows_out=4, nanoseconds=3),
    }
    logged = log_predicate(And((left, right)), costs)
    assert logged.op == "and"
    assert [(one.op, one.rows_in, one.rows_out) for one in logged.conjuncts] == [
        ("=", 100, 20),
        ("or", 20, 5),
    ]
    assert [(one.op, one.columns, one.rows_in) for one in logged.leaves()] == [
        ("=", ("a",), 100),
        ("prefix", ("s.t",), 20),
        ("is null", ("s.t",), None),
    ]
    assert logged.conjuncts[1].share == 0.25
    assert logged.share is None
    assert log_predicate(TRUE, {}) is None


@pytest.mark.parametrize(
    ("predicate", "op", "values", "masked"),
    [
        (Compare(">=", A, 7), ">=", (7,), "a >= ?"),
        (Not(Compare(">=", A, 7)), "<", (7,), "a < ?"),
        (In(A, (1, 2)), "in", (1, 2), "a IN (?, ?)"),
        (Not(In(A, (1, 2))), "not in", (1, 2), "a NOT IN (?, ?)"),
        (Not(StringMatch("contains", S, "secret")), "not contains", ("secret",), "s.t NOT LIKE ?"),
        (Not(IsNull(A)), "not is null", None, "a IS NOT NULL"),
        (HasElement(L, S, "secret"), "has element", ("secret",), "l HAS ELEMENT ?"),
        (Not(HasElement(L, S, "secret")), "not has element", ("secret",), "l NOT HAS ELEMENT ?"),
        (CompareLength("<", S, 3), "length", (3,), "s.t LENGTH ?"),
        (CompareColumns("=", A, A), "=", None, "a = a"),
        (Compare("=", D, Decimal("1.50")), "=", ("1.50",), "d = ?"),
        (Compare("=", B, b"\x01\xff"), "=", ("01ff",), "b = ?"),
        (Unknown("upper"), "unknown", None, "<upper>"),
        (Compare("=", Column(5, ("f",), Primitive("double")), float("nan")), "=", ("nan",), "f = ?"),
    ],
)
def test_leaves(predicate, op, values, masked):
    logged = log_predicate(predicate, {})
    assert (logged.op, logged.values) == (op, values)
    quiet = log_predicate(predicate, {}, literals=False)
    assert (quiet.op, quiet.values, quiet.text) == (op, None, masked)
    assert quiet.count == logged.count == len(values or ())
    for one in (logged, quiet):
        assert parse_predicate(json.loads(json.dumps(one.as_dict()))) == one


def test_literals_of_nested_predicates_are_left_out():
    predicate = Or((And((Compare("=", S, "secret-1"), Compare(">", A, 424242))), In(S, ("secret-2",) * 9)))
    quiet = json.dumps(log_predicate(predicate, {}, literals=False).as_dict())
    assert "secret" not in quiet
    assert "424242" not in quiet
    assert "9 values" in quiet


def test_a_long_list_is_cut():
    logged = log_predicate(In(A, tuple(range(5000))), {})
    assert (len(logged.values), logged.count) == (MAX_VALUES, 5000)


@pytest.mark.parametrize("seed", range(5))
def test_random_predicates_come_back(seed):
    rng = random.Random(seed)
    for _ in range(50):
        predicate = random_predicate(rng, ["int", "string", "double"], depth=4)
        logged = log_predicate(predicate, {})
        if logged is not None:
            assert parse_predicate(json.loads(json.dumps(logged.as_dict()))) == logged, f"seed {seed}"


DEEP = {"op": "=", "columns": ["a"]}
for _ in range(60):
    DEEP = {"op": "and", "children": [DEEP]}


@pytest.mark.parametrize(
    "raw",
    [
        [],
        "a = 5",
        {},
        {"op": 7},
        {"op": "="} | {"columns": [7]},
        {"op": "=", "in": "many"},
        {"op": "=", "values": "5"},
        {"op": "and"},
        {"op": "=", "children": [{"op": "="}]},
        {"op": "or", "children": {"op": "="}},
        {"op": "or", "children": [None]},
        {"op": "and", "children": [{"op": "="}] * 20_000},
        DEEP,
    ],
)
def test_what_is_no_predicate_is_refused(raw):
    with pytest.raises(ValueError, match="predicate|not a text|not texts|not a number"):
        parse_predicate(raw)


def test_a_share_is_at_most_one():
    assert LoggedPredicate(op="=", rows_in=5, rows_out=9).share == 1.0
    assert LoggedPredicate(op="=", rows_in=0, rows_out=0).share is None


def side(op, value, rows_in=None, rows_out=None, column="a"):
    return LoggedPredicate(
        op=op, columns=(column,), values=(value,), count=1, text=f"{column} {op} {value}", rows_in=rows_in,
        rows_out=rows_out, nanoseconds=5,
    )  # fmt: skip


def test_two_sides_of_a_column_are_a_range():
    low, high, other = side(">=", 5, 1000, 500), side("<", 9, 500, 50), side("=", 1, 50, 2, "b")
    found = with_ranges(LoggedPredicate(op="and", children=(high, other, low)))
    (one,) = (child for child in found.children if child != other)
    assert (one.op, one.columns, one.values, one.count) == ("range", ("a",), (5, 9), 2)
    assert (one.rows_in, one.rows_out, one.nanoseconds) == (1000, 50, 10)
    assert one.text == "a >= 5 AND a < 9"
    assert with_ranges(found) == found
    assert with_ranges(LoggedPredicate(op="and", children=(low, high))).op == "range"
    nested = LoggedPredicate(op="or", children=(other, LoggedPredicate(op="and", children=(low, high))))
    assert [child.op for child in with_ranges(nested).children] == ["=", "range"]


def test_sides_that_are_no_range_stay():
    for one, two in (
        (side(">", 5, 10, 5), side(">=", 6, 5, 5)),
        (side(">", 5, 10, 5), side("<", 6, 5, 5, "b")),
        (side(">", 5), side("<", 6)),
    ):
        whole = LoggedPredicate(op="and", children=(one, two))
        assert with_ranges(whole) == whole
    either = LoggedPredicate(op="or", children=(side(">", 5, 10, 5), side("<", 6, 10, 5)))
    assert with_ranges(either) == either
