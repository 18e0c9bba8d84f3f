"""A decimal cast to double against a double: the restated predicate answers as the cast itself, decimal by decimal."""

from __future__ import annotations

import math
from decimal import Context, Decimal

import pytest
from hypothesis import given, settings, strategies as st

import oracle
from twostage.predicates.decimal_as_double import any_as_double, compare_as_double, decimals_of
from twostage.predicates.predicate import COMPARISONS, Column, Constant
from twostage.schema import Primitive

SCALES = (0, 2, 10, 38)
DOUBLES = (0.0, -0.0, 1.23, -1.5, 0.1, 1e22, 1e23, -1e38, 9.9e38, 1e39, 1e300, -1e300, 5e-324, math.inf, -math.inf, math.nan)  # fmt: skip


def column(scale: int) -> Column:
    return Column(1, ("price",), Primitive("decimal", precision=38, scale=scale))


def decimal(unscaled: int, scale: int) -> Decimal:
    return Decimal(f"{unscaled}E-{scale}")


@st.composite
def cases(draw: st.DrawFn) -> tuple[int, list[Decimal | None], float]:
    """A scale, decimals that meet each other in the doubles, and a double at or beside one of them."""
    scale = draw(st.sampled_from(SCALES))
    center = draw(st.integers(-(10**38) + 10, 10**38 - 10) | st.integers(-1000, 1000))
    near = draw(st.lists(st.integers(-9, 9), min_size=1, max_size=6))
    values = [decimal(center + step, scale) for step in near]
    value = draw(st.sampled_from(DOUBLES) | st.sampled_from([float(one) for one in values]))
    if draw(st.booleans()):
        value = math.nextafter(value, draw(st.sampled_from((-math.inf, math.inf))))
    return scale, [*values, None], value


@settings(deadline=None)
@given(cases(), st.sampled_from(COMPARISONS))
def test_a_comparison_answers_as_the_cast_does(
    case: tuple[int, list[Decimal | None], float], op: str
) -> None:
    scale, values, value = case
    restated = compare_as_double(op, column(scale), value)
    for one in values:
        as_double = None if one is None else float(one)  # rounds half to even, as Java does
        assert oracle.evaluate(restated, {1: one}) is oracle._compare(op, as_double, value), (one, op, value)


@settings(deadline=None)
@given(cases(), st.booleans())
def test_a_list_answers_as_the_cast_does(
    case: tuple[int, list[Decimal | None], float], has_null: bool
) -> None:
    scale, values, value = case
    restated = any_as_double(column(scale), (value, 0.5), has_null=has_null)
    if restated is None:
        ranges = [decimals_of(listed, scale) for listed in (value, 0.5)]
        assert any(low < high for low, high in ranges)
        return
    for one in values:
        found = None
        if one is not None:
            found = True if float(one) in (value, 0.5) else None if has_null else False
        assert oracle.evaluate(restated, {1: one}) is found


@pytest.mark.parametrize("value", DOUBLES)
@pytest.mark.parametrize("scale", SCALES)
def test_the_decimals_of_a_double_are_those_that_become_it(scale: int, value: float) -> None:
    low, high = decimals_of(value, scale)
    exact = Context(prec=100)
    if low > high:  # none: nothing between the two, and the double lies there
        assert math.isnan(value) or (float(high) < value < float(low)) or abs(value) > 10**38
    else:
        assert float(low) == float(high) == value
        step = decimal(1, scale)
        assert float(exact.subtract(low, step)) < value < float(exact.add(high, step))


def test_a_list_of_doubles_that_no_decimal_becomes_matches_nothing() -> None:
    two = column(2)
    assert any_as_double(two, (0.001, math.nan), has_null=True) == Constant(None)
    nothing = any_as_double(two, (0.001, math.nan), has_null=False)
    assert nothing is not None
    assert oracle.evaluate(nothing, {1: Decimal("0.00")}) is False
    assert oracle.evaluate(nothing, {1: None}) is None


def test_a_double_that_stands_for_several_decimals_is_not_listed() -> None:
    """At 2^60 doubles lie 256 apart, and decimals of two digits 0.01."""
    assert any_as_double(column(2), (1.5, 2.0**60), has_null=False) is None
