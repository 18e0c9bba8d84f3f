"""`match` against brute force: NONE means no row is TRUE, ALL means every row is TRUE, and both are reached.

The oracle below evaluates predicates row by row in Spark's semantics and shares no code with the product.
"""

from __future__ import annotations

import functools
import math
import random
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

from twostage.predicates.bounds import Bounds
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
from twostage.predicates.prune import Match, match
from twostage.schema import Primitive

NAN = math.nan
POOLS: dict[str, list[Any]] = {
    "int": [-3, -1, 0, 1, 2, 3, 4, 7, 2**31 - 1],
    "long": [-(2**40), -1, 0, 1, 2, 3, 2**53, 2**53 + 1],
    "double": [NAN, -math.inf, math.inf, 0.0, -0.0, 1.5, -1.5, 2.0, 3.0, 1e300],
    "float": [NAN, -math.inf, math.inf, 0.0, -0.0, 1.5, -1.5, 2.0, 3.0],
    "boolean": [True, False],
    "decimal": [Decimal("-1.50"), Decimal("0.00"), Decimal("1.00"), Decimal("1.25"), Decimal("99.99")],
    "string": ["", "a", "aa", "ab", "aba", "abb", "b", "é", "éa", "\uffff", "\U00010000", "\U0001f600x"],
    "binary": [b"", b"\x00", b"a", b"ab", b"b", b"\x7f", b"\x80", b"\xff\xff"],
    "date": [-1, 0, 1, 19000, 19001],
}
TYPES = {name: Primitive(name) for name in POOLS} | {"decimal": Primitive("decimal", precision=4, scale=2)}
OPS = ("=", "<>", "<", "<=", ">", ">=", "<=>")


def spark_order(a: Any, b: Any) -> int:
    """Compare as Spark does: NaN greatest and equal to itself, strings by UTF-8 bytes."""
    if isinstance(a, float) or isinstance(b, float):
        a_nan, b_nan = a != a, b != b
        if a_nan or b_nan:
            return int(a_nan) - int(b_nan)
    if isinstance(a, str):
        a, b = a.encode(), b.encode()
    return (a > b) - (a < b)


def compare(op: str, a: Any, b: Any) -> bool | None:
    if op == "<=>":
        return (a is None) == (b is None) and (a is None or spark_order(a, b) == 0)
    if a is None or b is None:
        return None
    sign = spark_order(a, b)
    return {"=": sign == 0, "<>": sign != 0, "<": sign < 0, "<=": sign <= 0, ">": sign > 0, ">=": sign >= 0}[
        op
    ]


def value_of(column: Column, row: dict[int, Any]) -> Any:
    value = row[column.field_id]
    if value is None or column.cast is None:
        return value
    if column.cast.name == "double":
        return float(value)
    return Decimal(value) if column.cast.name == "decimal" else value


def truth(predicate: Any, row: dict[int, Any]) -> bool | None:
    match predicate:
        case And(children):
            parts = [truth(child, row) for child in children]
            return False if False in parts else None if None in parts else True
        case Or(children):
            parts = [truth(child, row) for child in children]
            return True if True in parts else None if None in parts else False
        case Not(child):
            inner = truth(child, row)
            return None if inner is None else not inner
        case Constant(value):
            return value
        case IsNull(column):
            return row[column.field_id] is None
        case Compare(op, column, value):
            return compare(op, value_of(column, row), value)
        case CompareColumns(op, left, right):
            return compare(op, value_of(left, row), value_of(right, row))
        case In(column, values, has_null):
            mine = value_of(column, row)
            if mine is None:
                return None
            hit = any(spark_order(mine, value) == 0 for value in values)
            return True if hit else None if has_null else False
        case StringMatch(kind, column, text):
            mine = row[column.field_id]
            if mine is None:
                return None
            return {"prefix": mine.startswith(text), "suffix": mine.endswith(text), "contains": text in mine}[
                kind
            ]
    raise AssertionError(predicate)


def truncated_upper(text: str, length: int) -> str | None:
    """Cut and make the last character greater, as Iceberg's writers do."""
    if len(text) <= length:
        return text
    for end in range(length, 0, -1):
        code = ord(text[end - 1]) + 1
        if code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF:
            return text[: end - 1] + chr(code)
    return None


def bounds_for(rng: random.Random, name: str, values: list[Any]) -> Bounds | None:
    """Make bounds that a correct writer might have written: some facts left out, strings truncated."""
    if rng.random() < 0.05:
        return None
    present = [value for value in values if value is not None]
    numbers = [value for value in present if value == value]
    key = functools.cmp_to_key(spark_order)
    lower = min(numbers, key=key) if numbers else None
    upper = max(numbers, key=key) if numbers else None
    exact_lower = exact_upper = True
    if name == "string" and numbers and rng.random() < 0.5:
        cut_lower, cut_upper = lower[:1], truncated_upper(upper, 1)
        exact_lower, exact_upper = cut_lower == lower, cut_upper == upper
        lower, upper = cut_lower, cut_upper
    if lower == 0 and name in ("double", "float"):
        lower = rng.choice([0.0, -0.0])
    if upper == 0 and name in ("double", "float"):
        upper = rng.choice([0.0, -0.0])
    if name == "int" and numbers and rng.random() < 0.2:
        lower -= 1  # bounds need not be tight
    return Bounds(
        lower=lower if rng.random() < 0.9 else None,
        upper=upper if rng.random() < 0.9 else None,
        null_count=len(values) - len(present) if rng.random() < 0.9 else None,
        nan_count=len(present) - len(numbers) if rng.random() < 0.8 else None,
        value_count=len(values) if rng.random() < 0.8 else None,
        exact_lower=exact_lower and rng.random() < 0.9,
        exact_upper=exact_upper and rng.random() < 0.9,
    )


def random_leaf(rng: random.Random, columns: list[Column]) -> Any:
    column = rng.choice(columns)
    pool = POOLS[column.type.name]
    value_pool = pool
    if column.type.name == "int" and rng.random() < 0.3:
        column = Column(column.field_id, column.path, column.type, Primitive("double"))
        value_pool = [-1.5, 0.0, 0.5, 1.0, 2.0, NAN, 3.0]
    elif column.type.name == "long" and rng.random() < 0.3:
        column = Column(column.field_id, column.path, column.type, Primitive("double"))
        value_pool = [float(2**53), float(2**53 + 2), 0.0, 1.0]
    elif column.type.name == "int" and rng.random() < 0.2:
        column = Column(
            column.field_id, column.path, column.type, Primitive("decimal", precision=12, scale=2)
        )
        value_pool = [Decimal("0.50"), Decimal("1.00"), Decimal("2.00")]
    kind = rng.randrange(10)
    if kind == 0:
        return IsNull(column)
    if kind == 1:
        return Constant(rng.choice([True, False, None]))
    if kind == 2 and column.type.name == "string":
        return StringMatch(rng.choice(["prefix", "suffix", "contains"]), column, rng.choice(pool))
    if kind == 3:
        same = [other for other in columns if other.type == column.value_type]
        if same and column.cast is None:
            return CompareColumns(rng.choice(OPS), column, rng.choice(same))
    if kind in (4, 5):
        listed = tuple(rng.choice(value_pool) for _ in range(rng.randrange(0, 6)))
        return In(column, listed, rng.random() < 0.2)
    return Compare(rng.choice(OPS), column, rng.choice(value_pool))


def random_predicate(rng: random.Random, columns: list[Column], depth: int) -> Any:
    choice = rng.random()
    if depth == 0 or choice < 0.5:
        return random_leaf(rng, columns)
    if choice < 0.65:
        return Not(random_predicate(rng, columns, depth - 1))
    kind = And if choice < 0.85 else Or
    return kind(tuple(random_predicate(rng, columns, depth - 1) for _ in range(rng.randrange(2, 4))))


@pytest.mark.parametrize("seed", range(6))
def test_match_agrees_with_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    reached: Counter[Match] = Counter()
    for _ in range(2_500):
        names = rng.choices(list(POOLS), k=2)
        names += [names[0]] if rng.random() < 0.5 else []
        columns = [Column(i, (f"c{i}",), TYPES[name]) for i, name in enumerate(names)]
        num_rows = rng.randrange(1, 5)
        null_share = rng.choice([0, 0, 0.2, 1])
        data = []
        for name in names:
            pool = rng.sample(POOLS[name], k=min(len(POOLS[name]), rng.randrange(1, 4)))
            data.append([None if rng.random() < null_share else rng.choice(pool) for _ in range(num_rows)])
        known = {i: bounds_for(rng, name, data[i]) for i, name in enumerate(names)}
        predicate = random_predicate(rng, columns, 2)
        truths = [truth(predicate, {i: data[i][row] for i in range(len(names))}) for row in range(num_rows)]
        answer = match(predicate, known.get, num_rows if rng.random() < 0.8 else None)
        reached[answer] += 1
        if answer is Match.NONE:
            assert True not in truths, (str(predicate), data, known)
        if answer is Match.ALL:
            assert all(value is True for value in truths), (str(predicate), data, known)
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
