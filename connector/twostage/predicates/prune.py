"""Decide from bounds whether a set of rows can match a predicate.

Takes a predicate and what is known of each column over the rows of a file or row group; gives NONE (no row
can be TRUE), ALL (every row is TRUE) or SOME. The rule: NONE and ALL are proofs in Spark's semantics, NaN,
-0.0, NULL and truncated strings included; when in doubt the answer is SOME.

Each leaf gives the set of outcomes {true, false, NULL} that its rows may have; AND, OR and NOT combine such
sets by the three-valued tables, so that NOT needs no normal form.
"""

from __future__ import annotations

import enum
import math
import struct
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

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
)
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from twostage.predicates.bounds import Bounds
    from twostage.predicates.predicate import Predicate

    BoundsOf = Callable[[int], Bounds | None]

_T, _F, _N = 1, 2, 4
_ANY = _T | _F | _N
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
_DAY_MICROS = 86_400_000_000


class Match(enum.IntEnum):
    """How many rows of a set are TRUE: none, some (or unknown), all."""

    NONE = 0
    SOME = 1
    ALL = 2


@dataclass(frozen=True, slots=True)
class ValueRange:
    """What a column's values may be: order keys, None for no limit. `may_value`: some row is not NULL."""

    lower: Any = None
    upper: Any = None
    may_null: bool = True
    may_value: bool = True
    single: bool = False
    """All values are equal: to `lower`, and nothing was truncated."""


_UNKNOWN = ValueRange()


def match(predicate: Predicate, bounds_of: BoundsOf, num_rows: int | None = None) -> Match:
    """Tell how many of the rows that `bounds_of` describes can be TRUE.

    Args:
        predicate: Any tree; `Unknown` leaves prove nothing.
        bounds_of: What is known of a field over the rows, by field id; None: nothing.
        num_rows: How many rows there are, where known.

    >>> from twostage.predicates.bounds import Bounds
    >>> column = Column(1, ("a",), Primitive("int"))
    >>> match(Compare(">", column, 9), lambda _: Bounds(lower=1, upper=7)).name
    'NONE'
    >>> match(Compare(">", column, 0), lambda _: Bounds(lower=1, upper=7, null_count=0)).name
    'ALL'
    """
    if num_rows == 0:
        return Match.NONE
    outcomes = _outcomes(predicate, bounds_of, num_rows)
    if not outcomes & _T:
        return Match.NONE
    return Match.ALL if outcomes == _T else Match.SOME


def order_key(kind: Primitive, value: Any) -> Any | None:
    """Return a value that orders as Spark orders `value`; None for what cannot be compared safely.

    >>> order_key(Primitive("double"), float("nan")) > order_key(Primitive("double"), float("inf"))
    True
    """
    expected = _PYTHON_TYPES.get(kind.name)
    if expected is None or not isinstance(value, expected):
        return None
    if kind.name in _FLOATS:
        return _float_key(value, single=kind.name == "float")
    if isinstance(value, str) and not value.isascii():
        try:  # code point order is UTF-8 byte order, except where a lone surrogate has no UTF-8
            value.encode()
        except UnicodeEncodeError:
            return None
    if isinstance(value, Decimal) and not value.is_finite():
        return None
    return value


def _float_key(value: Any, *, single: bool) -> Any | None:
    if math.isnan(value):
        return (1, 0.0)
    if single:  # a literal typed as 0.1 means the nearest float
        try:
            value = _FLOAT.unpack(_FLOAT.pack(value))[0]
        except OverflowError:
            return None
    return (0, value)


def _tables() -> tuple[list[list[int]], list[list[int]]]:
    """Build AND and OR of outcome sets: every combination of a left and a right outcome."""

    def both(a: int, b: int) -> int:
        return _F if _F in (a, b) else _N if _N in (a, b) else _T

    def either(a: int, b: int) -> int:
        return _T if _T in (a, b) else _N if _N in (a, b) else _F

    def table(combine: Callable[[int, int], int]) -> list[list[int]]:
        rows = [[0] * 8 for _ in range(8)]
        for left in range(8):
            for right in range(8):
                for a in (_T, _F, _N):
                    for b in (_T, _F, _N):
                        if left & a and right & b:
                            rows[left][right] |= combine(a, b)
        return rows

    return table(both), table(either)


_AND, _OR = _tables()


def _outcomes(predicate: Predicate, bounds_of: BoundsOf, num_rows: int | None) -> int:
    match predicate:
        case And(children) | Or(children):
            table, result, absorbing = (_AND, _T, _F) if isinstance(predicate, And) else (_OR, _F, _T)
            for child in children:
                result = table[result][_outcomes(child, bounds_of, num_rows)]
                if result == absorbing:
                    break
            return result
        case Not(child):
            outcomes = _outcomes(child, bounds_of, num_rows)
            return (outcomes & _N) | (_F if outcomes & _T else 0) | (_T if outcomes & _F else 0)
        case Constant(value):
            return _N if value is None else _T if value else _F
        case Compare(op, column, value):
            values = value_range(column, bounds_of, num_rows)
            return _compared(op, column, value, values)
        case In():
            return _listed(predicate, value_range(predicate.column, bounds_of, num_rows))
        case IsNull(column):
            values = value_range(column, bounds_of, num_rows)
            return (_T if values.may_null else 0) | (_F if values.may_value else 0)
        case StringMatch():
            return _string_matched(predicate, value_range(predicate.column, bounds_of, num_rows))
        case CompareColumns(op, left, right):
            if left.value_type != right.value_type:
                return _ANY
            return _columns_compared(
                op, value_range(left, bounds_of, num_rows), value_range(right, bounds_of, num_rows)
            )
    return _ANY


def value_range(column: Column, bounds_of: BoundsOf, num_rows: int | None) -> ValueRange:
    """Turn a column's bounds into the range of its values, after its cast."""
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
        # ORC counts a struct's field only where the struct is not NULL
        or (len(column.path) > 1 and (count is None or num_rows is None))
    )
    if not may_value:
        said = bounds.lower is not None or bounds.upper is not None
        return _UNKNOWN if said else ValueRange(may_null=True, may_value=False)
    values = None if nulls is None or count is None else count - nulls
    lower, upper = _limits(source, column.cast, bounds, values)
    if column.cast is not None and (lower is None or upper is None):
        may_null = True  # a decimal that overflows is NULL
    if lower is not None and upper is not None and lower > upper:
        lower = upper = None
    single = lower is not None and lower == upper
    if single and source.name in _TRUNCATED:
        single = bounds.exact_lower and bounds.exact_upper
    return ValueRange(lower, upper, may_null, may_value, single)


def _limits(source: Primitive, cast: Primitive | None, bounds: Bounds, values: int | None) -> tuple[Any, Any]:
    """Return the order keys of the least and greatest value, NaN counted, after the cast."""
    low, high = bounds.lower, bounds.upper
    if source.name in _FLOATS:
        low = None if _is_nan(low) else low
        high = None if _is_nan(high) else high
        if bounds.nan_count is None or bounds.nan_count > 0 or high is None:
            high = math.nan  # the greatest of all
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
    """Cast a bound as Spark casts the value; None where that is not exact, monotone and free of errors."""
    if value is None or isinstance(value, bool):
        return None
    match source.name, target.name:
        case ("int", "long") | ("float", "double"):
            return value
        case ("int" | "long", "double"):
            return float(value)  # rounds half to even, as Java does, and rounding is monotone
        case ("int" | "long" | "decimal", "decimal"):
            if source.scale > target.scale or abs(value) >= 10 ** (target.precision - target.scale):
                return None
            return value
        case ("date", "timestamp"):
            return value * _DAY_MICROS
        case ("timestamp_ns", "timestamp") | ("timestamptz_ns", "timestamptz"):
            return value // 1000
    return None


def _compared(op: str, column: Column, value: Any, values: ValueRange) -> int:
    kind = column.value_type
    key = order_key(kind, value) if isinstance(kind, Primitive) else None
    null = (_F if op == "<=>" else _N) if values.may_null else 0
    if not values.may_value:
        return null
    if key is None:
        return null | (_T | _F)
    return null | _ordered("=" if op == "<=>" else op, values, ValueRange(key, key, single=True))


def _ordered(op: str, left: ValueRange, right: ValueRange) -> int:
    """Return the outcomes of a comparison between any value of `left` and any of `right`."""
    match op:
        case "=":
            apart = _before(left.upper, right.lower) or _before(right.upper, left.lower)
            equal = left.single and right.single and left.lower == right.lower
            return _F if apart else _T if equal else _T | _F
        case "<>":
            outcomes = _ordered("=", left, right)
            return {_T: _F, _F: _T}.get(outcomes, _T | _F)
        case "<":
            if _before(left.upper, right.lower):
                return _T
            return _F if _not_after(right.upper, left.lower) else _T | _F
        case "<=":
            if _not_after(left.upper, right.lower):
                return _T
            return _F if _before(right.upper, left.lower) else _T | _F
        case ">":
            return _ordered("<", right, left)
        case ">=":
            return _ordered("<=", right, left)
    return _T | _F


def _before(upper: Any, lower: Any) -> bool:
    return upper is not None and lower is not None and bool(upper < lower)


def _not_after(upper: Any, lower: Any) -> bool:
    return upper is not None and lower is not None and bool(upper <= lower)


def _columns_compared(op: str, left: ValueRange, right: ValueRange) -> int:
    outcomes = _ordered("=" if op == "<=>" else op, left, right) if left.may_value and right.may_value else 0
    if op != "<=>":
        return outcomes | (_N if left.may_null or right.may_null else 0)
    if left.may_null and right.may_null:
        outcomes |= _T
    if (left.may_null and right.may_value) or (right.may_null and left.may_value):
        outcomes |= _F
    return outcomes


_SORTED: dict[int, tuple[In, Sequence[Any] | None]] = {}


def _sorted_keys(leaf: In) -> Sequence[Any] | None:
    """Return the list's distinct order keys, ascending; None if one has none.

    Kept for the last leaves by identity: sorting 10,000 values takes milliseconds, and a plan asks the same
    leaf about each of its files.
    """
    held = _SORTED.get(id(leaf))
    if held is not None and held[0] is leaf:
        return held[1]
    kind = leaf.column.value_type
    keys: list[Any] = [
        order_key(kind, value) if isinstance(kind, Primitive) else None for value in leaf.values
    ]
    result = None if any(key is None for key in keys) else sorted(set(keys))
    if len(_SORTED) >= 64:
        _SORTED.clear()
    _SORTED[id(leaf)] = (leaf, result)
    return result


def _listed(leaf: In, values: ValueRange) -> int:
    null = _N if values.may_null else 0
    miss = _N if leaf.has_null else _F
    if not values.may_value:
        return null
    keys = _sorted_keys(leaf)
    if keys is None:
        return null | _T | _F | miss
    start = 0 if values.lower is None else bisect_left(keys, values.lower)
    end = len(keys) if values.upper is None else bisect_right(keys, values.upper)
    if start >= end:
        return null | miss
    lower, upper = values.lower, values.upper
    whole = isinstance(lower, int) and isinstance(upper, int) and end - start == upper - lower + 1
    if values.single or whole:
        return null | _T  # each value that the bounds allow is listed
    return null | _T | miss


def _string_matched(leaf: StringMatch, values: ValueRange) -> int:
    null = _N if values.may_null else 0
    if not values.may_value:
        return null
    lower, upper, text = values.lower, values.upper, leaf.value
    if order_key(Primitive("string"), text) is None:
        return null | _T | _F
    if values.single and isinstance(lower, str):
        return null | (_T if _holds(leaf.kind, lower, text) else _F)
    if not text:
        return null | _T
    if leaf.kind == "prefix":
        low = lower if isinstance(lower, str) else ""
        high = upper if isinstance(upper, str) else None
        if (high is not None and high < text) or (low > text and not low.startswith(text)):
            return null | _F
        if high is not None and low.startswith(text) and high.startswith(text):
            return null | _T  # strings with one prefix are neighbours, so truncated bounds prove it too
    return null | _T | _F


def _holds(kind: str, value: str, text: str) -> bool:
    if kind == "prefix":
        return value.startswith(text)
    return value.endswith(text) if kind == "suffix" else text in value
