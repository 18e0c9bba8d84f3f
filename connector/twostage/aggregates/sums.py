"""Sums of whole numbers, and how far from zero their partial sums may be.

Takes numbers of rows and values as unscaled integers; gives a `Sum`, and the value of ``sum(c)`` as Spark has it. The rule: a
sum is answered only where the order of additions cannot matter. So there are none of floats, and those of integers stay
within 64 bits with all values taken as positive: then Spark's long sums overflow in no order. Those that an
average is made of stay within 2**53, because Spark's averages add doubles.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Iterable

    from twostage.schema import Type

MAX_DIGITS = 38
"""Digits of a decimal."""
MORE_DIGITS = 10
"""Digits that ``sum`` of a decimal adds before the point, as in Spark: only more than 10**10 rows could overflow it."""
MAX_EXACT = 2**53
"""Up to this a double represents every whole number."""
MAX_LONG = 2**63 - 1
_EXACTLY = Context(prec=2 * MAX_DIGITS)


@dataclass(frozen=True, slots=True)
class Sum:
    """A sum of non-NULL values.

    Attributes:
        value: The sum; of decimals without the point.
        magnitude: The sum of the values without their signs, or more.
    """

    value: int
    magnitude: int

    def __add__(self, other: Sum) -> Sum:
        """Return the sum of both."""
        return Sum(self.value + other.value, self.magnitude + other.magnitude)


def is_summed(kind: Type) -> bool:
    """Tell whether sums of a type are answered: integers, and decimals whose sum has all its digits."""
    if not isinstance(kind, Primitive):
        return False
    return kind.name in ("int", "long") or (
        kind.name == "decimal" and kind.precision + MORE_DIGITS <= MAX_DIGITS
    )


def type_of_sum(kind: Type) -> Primitive:
    """Return the type of ``sum`` of a column."""
    assert isinstance(kind, Primitive)
    if kind.name != "decimal":
        return Primitive("long")
    return Primitive("decimal", precision=kind.precision + MORE_DIGITS, scale=kind.scale)


def sum_of(kind: Type, counted: Iterable[tuple[Any, int]]) -> Sum:
    """Return the sum of values in internal form, each as many times as its count says."""
    value = magnitude = 0
    for number, times in counted:
        unscaled = _unscaled(kind, number)
        value += unscaled * times
        magnitude += abs(unscaled) * times
    return Sum(value, magnitude)


def is_safe(kind: Type, magnitude: int, *, as_double: bool = False) -> bool:
    """Tell whether a sum of this magnitude is the same in whatever order it is added up, perhaps `as_double`."""
    assert isinstance(kind, Primitive)
    if kind.name != "decimal":
        return magnitude <= (MAX_EXACT if as_double else MAX_LONG)
    return bool(magnitude < 10 ** (kind.precision + MORE_DIGITS))


def result(kind: Type, total: Sum) -> int | Decimal:
    """Return a sum in the internal form of its type."""
    assert isinstance(kind, Primitive)
    return Decimal(total.value).scaleb(-kind.scale, _EXACTLY) if kind.name == "decimal" else total.value


def _unscaled(kind: Type, value: Any) -> int:
    assert isinstance(kind, Primitive)
    return int(value.scaleb(kind.scale, _EXACTLY)) if kind.name == "decimal" else int(value)
