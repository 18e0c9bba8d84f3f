"""Rewrite ``CAST(decimal AS DOUBLE) op double`` as a comparison of the decimal column itself.

Spark reads ``df.price > 1.5`` as ``CAST(price AS DOUBLE) > 1.5``. Bounds of the decimal column can prune only
without the cast. The rewritten predicate has the same truth value for every decimal: the cast rounds to the nearest
double, half to even, so it is monotone, and the decimals that round to one double are those between the midpoints
to its two neighbours.
"""

from __future__ import annotations

import math
import struct
from decimal import Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from twostage.predicates.predicate import Column, Compare, Constant, In, IsNull, Not, Predicate, both

if TYPE_CHECKING:
    from collections.abc import Iterable

_BELOW, _NO_DECIMAL = Decimal(10**39 - 1), Decimal(10**39)
"""Both greater than any decimal, which has at most 38 digits."""
_EXACT = Context(prec=100)


def compare_as_double(op: str, column: Column, value: float) -> Predicate:
    """Return ``CAST(column AS DOUBLE) op value`` for a decimal column.

    >>> from twostage.schema import Primitive
    >>> price = Column(1, ("price",), Primitive("decimal", precision=9, scale=2))
    >>> str(compare_as_double(">", price, 1.5)), str(compare_as_double("=", price, 1.23))
    ('price > 1.50', 'price = 1.23')
    """
    if op == "<>":
        return Not(compare_as_double("=", column, value))
    low, high = decimals_of(value, _scale(column))
    match op:
        case "<":
            return Compare("<", column, low)
        case "<=":
            return Compare("<=", column, high)
        case ">":
            return Compare(">", column, high)
        case ">=":
            return Compare(">=", column, low)
    if low == high:
        return Compare(op, column, low)
    if low > high:
        return Compare(op, column, _NO_DECIMAL)
    within = (Compare(">=", column, low), Compare("<=", column, high))
    return both(Not(IsNull(column)), *within) if op == "<=>" else both(*within)


def any_as_double(column: Column, values: Iterable[float], *, has_null: bool) -> Predicate | None:
    """Return ``CAST(column AS DOUBLE) IN (values)``; None if several decimals round to one of the values."""
    listed = []
    for value in values:
        low, high = decimals_of(value, _scale(column))
        if low < high:
            return None
        if low == high:
            listed.append(low)
    if listed:
        return In(column, tuple(dict.fromkeys(listed)), has_null=has_null)
    return Constant(None) if has_null else Compare("=", column, _NO_DECIMAL)


def decimals_of(value: float, scale: int) -> tuple[Decimal, Decimal]:
    """Return the least and the greatest decimal of this scale that round to the double `value`.

    If there is none, the first is greater than the second; still, decimals below the first round to less than
    `value`, and decimals above the second to more.
    """
    if math.isnan(value) or value > _NO_DECIMAL:
        return _NO_DECIMAL, _BELOW
    if value < -(10**39):
        return Decimal(1 - 10**39), Decimal(-(10**39))
    least = _first_at(value, scale)
    beyond = _first_at(math.nextafter(value, math.inf), scale)
    return _decimal(least, scale), _decimal(beyond - 1, scale)


def _first_at(value: float, scale: int) -> int:
    """Return the least unscaled integer whose decimal of this scale rounds to `value` or more."""
    below = math.nextafter(value, -math.inf)
    shift: int = 10**scale
    midpoint = (Fraction(below) + Fraction(value)) / 2 * shift
    is_even = struct.pack("<d", value)[0] % 2 == 0
    return math.ceil(midpoint) if is_even else math.floor(midpoint) + 1


def _decimal(unscaled: int, scale: int) -> Decimal:
    return Decimal(unscaled).scaleb(-scale, _EXACT)


def _scale(column: Column) -> int:
    kind = column.type
    return getattr(kind, "scale", 0)
