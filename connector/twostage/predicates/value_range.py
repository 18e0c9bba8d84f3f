"""The range of a column's values, from bounds: after its cast, in Spark's order.

Takes a column and its `Bounds` over a set of rows; returns a `ValueRange` of order keys. The range may be wider than
the values and never narrower: bounds that contradict themselves, or a cast that is not exact and monotone, give no
limit.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Callable

    from twostage.predicates.bounds import Bounds
    from twostage.predicates.predicate import Column

    BoundsOf = Callable[[int], Bounds | None]

_FLOATS = frozenset(("float", "double"))
_TRUNCATED = frozenset(("string", "binary", "fixed"))
_PYTHON_TYPES: dict[str, type | tuple[type, ...]] = {
    "boolean": bool,
    "string": str,
    "uuid": str,
    "binary": bytes,
    "fixed": bytes,
    "decimal": (Decimal, int),
    "float": (float, int),
    "double": (float, int),
    **dict.fromkeys("int long date time timestamp timestamptz timestamp_ns timestamptz_ns".split(), int),
}
_FLOAT = struct.Struct("<f")
_MICROS_PER_DAY = 86_400_000_000


@dataclass(frozen=True, slots=True)
class ValueRange:
    """Which values a column may have over a set of rows.

    Attributes:
        lower: Inclusive lower limit as an `order_key`; None if there is no limit.
        upper: Inclusive upper limit, likewise.
        may_null: Some row may be NULL.
        may_value: Some row may be non-NULL.
        single: All non-NULL values equal `lower`, and no bound was truncated.
    """

    lower: Any = None
    upper: Any = None
    may_null: bool = True
    may_value: bool = True
    single: bool = False


_UNKNOWN = ValueRange()


def order_key(kind: Primitive, value: Any) -> Any | None:
    """Return a key that sorts as Spark sorts `value`; None for a value that cannot be compared safely.

    >>> order_key(Primitive("double"), float("nan")) > order_key(Primitive("double"), float("inf"))
    True
    """
    expected = _PYTHON_TYPES.get(kind.name)
    if expected is None or not isinstance(value, expected):
        return None
    if kind.name in _FLOATS:
        return _float_key(value, single=kind.name == "float")
    if isinstance(value, str) and not value.isascii():
        try:  # code points sort as UTF-8 bytes do, but a lone surrogate has no UTF-8
            value.encode()
        except UnicodeEncodeError:
            return None
    if isinstance(value, Decimal) and not value.is_finite():
        return None
    return value


def _float_key(value: Any, *, single: bool) -> Any | None:
    if math.isnan(value):
        return (1, 0.0)
    if single:  # the literal 0.1 means the nearest float
        try:
            value = _FLOAT.unpack(_FLOAT.pack(value))[0]
        except OverflowError:
            return None
    return (0, value)


def value_range(column: Column, bounds_of: BoundsOf, num_rows: int | None) -> ValueRange:
    """Return the range of a column's values after its cast.

    Args:
        column: A column of the predicate.
        bounds_of: Returns the bounds of a field by id; None if nothing is known.
        num_rows: The number of rows, if known.
    """
    source = column.type
    if not isinstance(source, Primitive) or (bounds := bounds_of(column.field_id)) is None:
        return _UNKNOWN
    nulls, count = bounds.null_count, bounds.value_count
    if count is None and len(column.path) == 1:
        count = num_rows
    if (nulls or 0) < 0 or (bounds.nan_count or 0) < 0 or (count is not None and count < (nulls or 0)):
        return _UNKNOWN  # metrics that contradict themselves prove nothing
    may_value = nulls is None or count is None or nulls < count
    may_null = (
        nulls != 0
        or count == 0
        or (num_rows is not None and count is not None and count < num_rows)
        # ORC counts the values of a field in a struct only where the struct is not NULL
        or (len(column.path) > 1 and (count is None or num_rows is None))
    )
    if not may_value:
        has_bound = bounds.lower is not None or bounds.upper is not None
        return _UNKNOWN if has_bound else ValueRange(may_null=True, may_value=False)
    values = None if nulls is None or count is None else count - nulls
    lower, upper = _limits(source, column.cast, bounds, values)
    if column.cast is not None and (lower is None or upper is None):
        may_null = True  # a decimal that overflows its cast is NULL
    if lower is not None and upper is not None and lower > upper:
        lower = upper = None
    single = lower is not None and lower == upper
    if single and source.name in _TRUNCATED:
        single = bounds.exact_lower and bounds.exact_upper
    return ValueRange(lower, upper, may_null, may_value, single)


def _limits(source: Primitive, cast: Primitive | None, bounds: Bounds, values: int | None) -> tuple[Any, Any]:
    """Return the order keys of the least and greatest non-NULL value after the cast, NaN included."""
    low, high = bounds.lower, bounds.upper
    if source.name in _FLOATS:
        low = None if _is_nan(low) else low
        high = None if _is_nan(high) else high
        if bounds.nan_count is None or bounds.nan_count > 0 or high is None:
            high = math.nan  # sorts after all other values
        if bounds.nan_count and bounds.nan_count == values:
            low = math.nan
        low = -math.inf if low is None else low
    target = source
    if cast is not None and cast != source:
        low, high, target = _widened(low, source, cast), _widened(high, source, cast), cast
    return (
        None if low is None else order_key(target, low),
        None if high is None else order_key(target, high),
    )


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _widened(value: Any, source: Primitive, target: Primitive) -> Any:
    """Cast a bound as Spark casts values; None if the cast is not monotone or may fail."""
    if value is None or isinstance(value, bool):
        return None
    match source.name, target.name:
        case ("int", "long") | ("float", "double"):
            return value
        case ("int" | "long", "double"):
            return float(value)  # rounds half to even, as Java does; rounding is monotone
        case ("int" | "long" | "decimal", "decimal"):
            if source.scale > target.scale or abs(value) >= 10 ** (target.precision - target.scale):
                return None
            return Decimal(value)
        case ("date", "timestamp"):
            return value * _MICROS_PER_DAY
        case ("timestamp_ns", "timestamp") | ("timestamptz_ns", "timestamptz"):
            return value // 1000
    return None
