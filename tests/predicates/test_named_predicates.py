"""Predicates by name: what the generated ones found, and forms that users expect to be taken over."""

from __future__ import annotations

import math
import random
from decimal import Context, Decimal

import pyarrow as pa
import pytest

from twostage.predicates.bind import bind_predicate
from twostage.predicates.decimal_as_double import compare_as_double
from twostage.predicates.evaluate import evaluate
from twostage.predicates.lanes import count_characters
from twostage.predicates.predicate import (
    And,
    Column,
    Compare,
    CompareColumns,
    CompareLength,
    IsNull,
    Not,
    Or,
    is_exact,
    push_not_down,
    without_implied,
)
from twostage.schema import Primitive, parse_schema, parse_type

SCHEMA = parse_schema(
    {
        "fields": [
            {"id": 1, "name": "n", "type": "int"},
            {"id": 2, "name": "l", "type": "long"},
            {"id": 3, "name": "p", "type": "decimal(9,2)"},
            {"id": 4, "name": "s", "type": "string"},
            {"id": 5, "name": "x", "type": "binary"},
        ]
    }
)
TAKEN = [
    "p1 < q1",
    "p1 >= w1 OR q1 = w1",
    "i1 < p1",
    "l1 > w1 AND l1 <> z1",
    "p1 > 1.5D",
    "w1 <= 1.23D",
    "NOT (q1 = 1.5D)",
    "w1 IN (1.5D, 7, CAST('NaN' AS DOUBLE))",
    "z1 < CAST('inf' AS DOUBLE)",
    "s1 LIKE 'a%b'",
    "s1 NOT LIKE 'abc%bc'",
    "length(s1) > 3",
    "NOT (length(st.s) BETWEEN 1 AND 2)",
    "char_length(s2) = 0 OR s2 IS NULL",
]


@pytest.mark.parametrize("predicate", TAKEN)
def test_taken_over_and_right(spark, predicate):
    frame = spark.sql(f"SELECT id FROM nasty WHERE {predicate}")
    assert "Filter" not in frame._jdf.queryExecution().executedPlan().toString().replace("RuntimeFilters", "")
    expected = spark.sql(f"SELECT id FROM plain WHERE {predicate}")
    assert sorted(row.id for row in frame.collect()) == sorted(row.id for row in expected.collect())


def test_a_python_float_is_compared_with_a_decimal_column(spark):
    """`df.price > 1.5`: Spark casts the column to double."""
    nasty, plain = spark.table("nasty"), spark.table("plain")
    frame = nasty.where((nasty.p1 > 1.5) & (nasty.q1 < 1.5)).select("id")
    assert "Filter" not in frame._jdf.queryExecution().executedPlan().toString().replace("RuntimeFilters", "")
    expected = plain.where((plain.p1 > 1.5) & (plain.q1 < 1.5)).select("id")
    assert sorted(row.id for row in frame.collect()) == sorted(row.id for row in expected.collect())


def test_decimal_columns_of_two_scales_compare():
    """Was an error: the side with fewer digits after the point was not brought to the scale of the other."""
    left = Column(1, ("p",), parse_type("decimal(9,2)"), parse_type("decimal(18,4)"))
    right = Column(2, ("q",), parse_type("decimal(18,4)"))
    columns = {
        1: pa.array([Decimal("1.23"), Decimal("1.24"), None, Decimal("-1.00")], pa.decimal128(9, 2)),
        2: pa.array([Decimal("1.2300"), Decimal("1.2399"), Decimal(1), Decimal(1)], pa.decimal128(18, 4)),
    }
    for op, expected in (("<", [False, False, False, True]), ("=", [True, False, False, False])):
        assert evaluate(CompareColumns(op, left, right), columns, 4).true.tolist() == expected


COMPARE = {
    "=": lambda a, b: a == b or (math.isnan(a) and math.isnan(b)),
    "<": lambda a, b: a < b or (math.isnan(b) and not math.isnan(a)),
    "<=": lambda a, b: a <= b or math.isnan(b),
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b or (math.isnan(a) and math.isnan(b)),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "kind", ["decimal(5,1)", "decimal(17,2)", "decimal(38,10)", "decimal(38,0)", "decimal(38,38)"]
)
def test_a_decimal_against_a_double(kind, seed):
    """Python's float(Decimal) rounds to the nearest double, as Java's BigDecimal.doubleValue does."""
    random_, exact, type_ = random.Random(f"{kind} {seed}"), Context(prec=100), parse_type(kind)
    column = Column(1, ("p",), type_)
    unscaled = [random_.randrange(10 ** random_.randint(1, type_.precision)) for _ in range(15)]
    unscaled += [10**type_.precision - 1, 0, 2**53 % 10**type_.precision, (2**53 + 1) % 10**type_.precision]
    near = [n + d for n in unscaled for d in (-1, 0, 1)]
    values = [
        Decimal(n * s).scaleb(-type_.scale, exact) for n in near for s in (1, -1) if n < 10**type_.precision
    ]
    array = pa.array([*values, None], pa.decimal128(type_.precision, type_.scale))
    doubles = [float(random_.choice(values)) for _ in range(8)]
    doubles += [math.nextafter(d, random_.choice((math.inf, -math.inf))) for d in doubles]
    doubles += [0.0, -0.0, 5e-324, math.nan, math.inf, -math.inf, 1e39, -1e39, 1e300, 0.1]
    for double in doubles:
        for op in ("=", "<>", "<", "<=", ">", ">=", "<=>"):
            test = COMPARE["=" if op in ("<>", "<=>") else op]
            expected = [test(float(value), double) != (op == "<>") for value in values]
            truth = evaluate(compare_as_double(op, column, double), {1: array}, len(array))
            assert truth.true.tolist() == [*expected, False], (op, double)
            assert truth.false[-1] == (op == "<=>")


@pytest.mark.parametrize(
    "texts",
    [
        ["", "a", "abc", None, "ab"],
        ["ä", "a\u0308", "\U0001f600", None, "\ud7ff\U0010ffff", "a\x00b"],
        [],
    ],
)
def test_characters_are_counted(texts):
    plain = [0 if text is None else len(text) for text in texts]
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        array = pa.array(["longer than the rest", *texts], kind)[1:]
        counted = count_characters(array).values.tolist()
        assert [c if t is not None else 0 for c, t in zip(counted, texts, strict=True)] == plain


def test_characters_of_what_is_not_utf8(spark):
    broken = [
        b"\xff",
        b"a\xc3",
        b"\xc3\x28b",
        b"\xf0\x9f",
        b"\x80\x80",
        b"\xe2\x82a\xed\xa0\x80",
        b"\xf5abc",
        b"\xc0a",
    ]
    columns = ", ".join(f"length(CAST(X'{text.hex()}' AS STRING))" for text in broken)
    expected = list(spark.sql(f"SELECT {columns}").collect()[0])
    assert count_characters(pa.array(broken, pa.binary()).view(pa.string())).values.tolist() == expected


def test_lengths_are_compared():
    column = Column(4, ("s",), Primitive("string"))
    array = pa.array(["", "ab", None, "äöü"])
    for one in (array, array.dictionary_encode()):
        for op, number, true in (("=", 2, [1]), ("<>", 2, [0, 3]), (">", -1, [0, 1, 3]), ("<=>", 3, [3])):
            truth = evaluate(CompareLength(op, column, number), {4: one}, 4)
            assert truth.true.nonzero()[0].tolist() == true
            assert truth.false[2] == (op == "<=>")
    leaf = CompareLength("<", column, 3)
    assert str(push_not_down(Not(leaf))) == "length(s) >= 3"
    assert without_implied(And((Not(IsNull(column)), leaf))) == leaf


def bound(op, left, right):
    return bind_predicate({"op": op, "left": left, "right": right}, SCHEMA)


def test_binding():
    """What Spark sends for these forms, and what comes of it."""
    length = {"call": "CHAR_LENGTH", "of": {"column": ["s"]}, "unknown": "CHAR_LENGTH(s)"}
    two = {"literal": 2, "type": "integer"}
    assert str(bound(">=", length, two)) == str(bound("<=", two, length)) == "length(s) >= 2"
    assert str(bound("<=>", length, {"literal": None, "type": "integer"})) == "s IS NULL"
    assert not is_exact(bound("=", length, length))
    assert not is_exact(bound("=", {**length, "of": {"column": ["x"]}}, two))
    as_double = {"cast": {"column": ["p"]}, "type": "double"}
    assert bound("=", as_double, {"literal": "0.1", "type": "double"}) == Compare(
        "=", Column(3, ("p",), parse_type("decimal(9,2)")), Decimal("0.10")
    )
    assert str(bound(">", {"literal": "1.5", "type": "double"}, as_double)) == "p < 1.50"
    assert not is_exact(bound("=", as_double, as_double))
    as_float = {"cast": {"column": ["p"]}, "type": "float"}
    assert not is_exact(bound("=", as_float, {"literal": "0.1", "type": "float"}))
    number = {"cast": {"column": ["n"]}, "type": "decimal(12,2)"}
    price = {"cast": {"column": ["p"]}, "type": "decimal(12,2)"}
    assert str(bound("<", number, price)) == "cast(n as decimal(12,2)) < cast(p as decimal(12,2))"
    narrow = {"cast": {"column": ["l"]}, "type": "decimal(12,2)"}  # NULL or an error where it overflows
    assert not is_exact(bound("<", narrow, price))


def test_a_double_that_is_several_decimals_is_a_range():
    wide = Column(1, ("w",), parse_type("decimal(38,10)"))
    range_ = compare_as_double("=", wide, 2.0**60)
    assert isinstance(range_, And)
    assert isinstance(push_not_down(Not(range_)), Or)
    array = pa.array(
        [Decimal(2**60), Decimal(2**60 + 1), Decimal(2**60 + 2**10), None], pa.decimal128(38, 10)
    )
    assert evaluate(range_, {1: array}, 4).true.tolist() == [True, True, False, False]
