"""Ranges of values from bounds: they hold every value after its cast, in Spark's order, and claim nothing that is unknown."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from random_predicates import CASTS, POOLS, cast_value, key
from twostage.predicates.bounds import Bounds
from twostage.predicates.predicate import Column
from twostage.predicates.value_range import ValueRange, order_key, value_range
from twostage.schema import Primitive, parse_type

UNKNOWN = ValueRange()
NAN_KEY = (1, 0.0)


def primitive(kind: str) -> Primitive:
    found = parse_type(kind)
    assert isinstance(found, Primitive)
    return found


def column(kind: str, cast: str | None = None, path: tuple[str, ...] = ("c",)) -> Column:
    return Column(1, path, primitive(kind), None if cast is None else primitive(cast))


def range_of(kind: str, rows: int | None = 10, *, cast: str | None = None, **bounds: Any) -> ValueRange:
    return value_range(column(kind, cast), lambda _: Bounds(**bounds), rows)


@pytest.mark.parametrize("kind", POOLS)
def test_keys_sort_as_spark_sorts(kind: str) -> None:
    """By value, -0.0 = 0.0, NaN last, text by its UTF-8 bytes."""
    for left in POOLS[kind]:
        for right in POOLS[kind]:
            ours, other = order_key(primitive(kind), left), order_key(primitive(kind), right)
            assert ours is not None
            assert other is not None
            assert (ours < other, ours == other) == (key(left) < key(right), key(left) == key(right))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", "1"),
        ("int", 1.0),
        ("string", b"a"),
        ("string", "a\ud800"),  # no UTF-8
        ("binary", "a"),
        ("boolean", 1),
        ("decimal(9,2)", Decimal("NaN")),
        ("decimal(9,2)", Decimal("Infinity")),
        ("float", 1e300),  # no float is nearest to it
        ("variant", 1),
    ],
)
def test_what_cannot_be_compared_has_no_key(kind: str, value: Any) -> None:
    assert order_key(primitive(kind), value) is None


def test_a_float_has_the_key_of_the_nearest_single() -> None:
    assert order_key(primitive("float"), 0.1) == order_key(primitive("float"), 0.10000000149011612)
    assert order_key(primitive("double"), 0.1) != order_key(primitive("double"), 0.10000000149011612)


MEASURED = [(kind, cast) for kind in POOLS for cast in (None, *CASTS.get(kind, ()))]


@st.composite
def measured_rows(draw: st.DrawFn) -> tuple[Column, list[Any], Bounds, int | None]:
    """Rows of one column, and bounds that a correct writer may have written: each fact may be missing."""
    kind, cast = draw(st.sampled_from(MEASURED))
    rows = draw(st.lists(st.sampled_from([*POOLS[kind], None]), min_size=1, max_size=6))
    values = [value for value in rows if value is not None]
    numbers = sorted((value for value in values if value == value), key=key)
    kept = lambda fact: fact if draw(st.booleans()) else None
    bounds = Bounds(
        lower=kept(numbers[0] if numbers else None),
        upper=kept(numbers[-1] if numbers else None),
        null_count=kept(len(rows) - len(values)),
        nan_count=kept(len(values) - len(numbers)),
        value_count=kept(len(rows)),
    )
    return column(kind, cast), rows, bounds, kept(len(rows))


@settings(max_examples=1_000, deadline=None)
@given(measured_rows())
def test_no_row_is_outside(drawn: tuple[Column, list[Any], Bounds, int | None]) -> None:
    of, rows, bounds, num_rows = drawn
    found = value_range(of, lambda _: bounds, num_rows)
    for value in (cast_value(row, of) for row in rows):
        if value is None:
            assert found.may_null
            continue
        assert found.may_value
        mine = order_key(of.value_type, value)
        assert mine is not None
        assert found.lower is None or found.lower <= mine
        assert found.upper is None or mine <= found.upper
        assert not found.single or mine == found.lower


@pytest.mark.parametrize(
    ("kind", "cast", "low", "high", "expected"),
    [
        ("int", None, 1, 7, (1, 7)),
        ("int", "long", 1, 7, (1, 7)),
        ("long", "double", 2**53 + 1, 2**53 + 1, ((0, 2.0**53), (0, 2.0**53))),
        ("int", "decimal(10,2)", 1, 7, (1, 7)),
        ("int", "decimal(3,2)", 1, 10, (1, None)),  # 10 overflows, and is NULL in Spark
        ("decimal(9,2)", "decimal(9,1)", Decimal("1.00"), Decimal("2.00"), (None, None)),  # rounds
        ("date", "timestamp", -1, 1, (-86_400_000_000, 86_400_000_000)),
        ("timestamp_ns", "timestamp", -1, 1_999, (-1, 1)),
        ("timestamptz_ns", "timestamptz", -1, 1_999, (-1, 1)),
        ("int", "string", 1, 7, (None, None)),  # not monotone
        ("boolean", "int", False, True, (None, None)),
        ("int", None, 9, 1, (None, None)),  # contradict each other
        ("double", None, 1.0, 2.0, ((0, 1.0), NAN_KEY)),  # NaN is not excluded
        ("float", None, None, None, ((0, -math.inf), NAN_KEY)),
        ("double", None, math.nan, math.nan, ((0, -math.inf), NAN_KEY)),
    ],
)
def test_limits(kind: str, cast: str | None, low: Any, high: Any, expected: tuple[Any, Any]) -> None:
    found = range_of(kind, cast=cast, lower=low, upper=high, null_count=0)
    assert (found.lower, found.upper) == expected
    assert found.may_null == (cast is not None and None in expected)


def test_nan_by_its_count() -> None:
    known = {"lower": 1.0, "upper": 2.0, "null_count": 1}
    assert range_of("double", nan_count=0, **known).upper == (0, 2.0)
    assert range_of("double", nan_count=1, **known).upper == NAN_KEY
    only = range_of("double", null_count=1, nan_count=9)
    assert (only.lower, only.upper, only.single) == (NAN_KEY, NAN_KEY, True)


@pytest.mark.parametrize(
    "bounds",
    [
        {"null_count": -1},
        {"nan_count": -1, "lower": 1},
        {"null_count": 5, "value_count": 4},
        {"null_count": 11},  # of ten rows
        {"null_count": 10, "lower": 3},  # all NULL, but a bound
        {"null_count": 10, "upper": 3},
    ],
    ids=str,
)
def test_metrics_that_contradict_themselves_prove_nothing(bounds: dict[str, Any]) -> None:
    assert range_of("int", **bounds) == UNKNOWN


def test_nothing_is_known_without_bounds() -> None:
    assert value_range(column("int"), lambda _: None, 10) == UNKNOWN
    nested = Column(1, ("c",), parse_type({"type": "struct", "fields": []}))  # type: ignore[arg-type]
    assert value_range(nested, lambda _: Bounds(null_count=0), 10) == UNKNOWN


@pytest.mark.parametrize(
    ("path", "rows", "bounds", "expected"),
    [
        (("c",), 10, {"null_count": 0}, (False, True)),
        (("c",), None, {"null_count": 0}, (False, True)),
        (("c",), 10, {}, (True, True)),
        (("c",), 10, {"null_count": 10}, (True, False)),
        (("c",), None, {"null_count": 10}, (True, True)),
        (("c",), 10, {"null_count": 0, "value_count": 9}, (True, True)),  # a row has no value
        (("c",), None, {"null_count": 0, "value_count": 0}, (True, False)),
        (("s", "c"), 10, {"null_count": 0}, (True, True)),  # the struct may be NULL
        (("s", "c"), None, {"null_count": 0, "value_count": 10}, (True, True)),
        (("s", "c"), 10, {"null_count": 0, "value_count": 10}, (False, True)),
    ],
)
def test_null_and_other_values(
    path: tuple[str, ...], rows: int | None, bounds: dict[str, Any], expected: tuple[bool, bool]
) -> None:
    found = value_range(column("int", path=path), lambda _: Bounds(**bounds), rows)
    assert (found.may_null, found.may_value) == expected


@pytest.mark.parametrize(("kind", "value"), [("string", "aa"), ("binary", b"aa"), ("fixed[2]", b"aa")])
def test_truncated_bounds_are_not_the_single_value(kind: str, value: Any) -> None:
    same = {"lower": value, "upper": value, "null_count": 0}
    assert not range_of(kind, **same).single
    assert not range_of(kind, **same, exact_lower=True).single
    assert range_of(kind, **same, exact_lower=True, exact_upper=True).single
    assert range_of("int", lower=5, upper=5, null_count=0).single
