"""Sums of whole numbers, and which of them depend on the order of additions."""

from __future__ import annotations

from decimal import Decimal

import pytest

from twostage.aggregates.sums import (
    MAX_EXACT,
    Sum,
    is_safe,
    is_summed,
    result,
    sum_of,
    type_of_sum,
)
from twostage.schema import Primitive

LONG = Primitive("long")


def decimal(precision: int, scale: int = 2) -> Primitive:
    return Primitive("decimal", precision=precision, scale=scale)


def test_which_types_are_summed():
    assert all(is_summed(kind) for kind in (Primitive("int"), LONG, decimal(9), decimal(28)))
    others = (decimal(29), *map(Primitive, ("float", "double", "date", "timestamp", "string", "boolean")))
    assert not any(map(is_summed, others))


def test_the_type_of_a_sum():
    assert type_of_sum(Primitive("int")) == type_of_sum(LONG) == LONG
    assert type_of_sum(decimal(28, 3)) == decimal(38, 3)


def test_values_each_so_many_times():
    assert sum_of(LONG, [(3, 2), (-10, 1), (0, 99)]) == Sum(-4, 16)
    found = sum_of(decimal(28, 3), [(Decimal("1.5"), 3), (Decimal("-0.001"), 10**9)])
    assert found == Sum(4500 - 10**9, 4500 + 10**9)
    assert result(decimal(28, 3), found) == Decimal("-999995.500")
    assert result(LONG, Sum(5, 5)) == 5


def test_decimals_of_many_digits_are_not_rounded():
    number = Decimal("12345678901234567890123456.78")
    found = sum_of(decimal(28), [(number, 9)])
    assert str(result(decimal(28), found)) == "111111110111111111011111111.02"
    assert str(result(decimal(28), Sum(0, 0))) == "0.00"


@pytest.mark.parametrize(
    ("kind", "magnitude", "as_double", "safe"),
    [
        (LONG, MAX_EXACT, True, True),
        (LONG, MAX_EXACT + 1, True, False),
        (LONG, 2**63 - 1, False, True),
        (LONG, 2**63, False, False),
        (decimal(9), 10**19 - 1, True, True),
        (decimal(9), 10**19, False, False),
    ],
)
def test_what_is_safe(kind, magnitude, as_double, safe):
    assert is_safe(kind, magnitude, as_double=as_double) == safe
