"""A join's keys as a set of integers, if there are too many to list.

Takes what `planner/JoinKeySet.java` writes: the distinct keys in internal form (decimals as unscaled
integers, floats as `ordered` maps their bits), ascending, as 64-bit little-endian differences (the first from
0, modulo 2**64), zlib-compressed. Tells which values of a lane are keys, and whether a range holds any. The
rule: exact, even at the ends of the 64-bit range.
"""

from __future__ import annotations

import enum
import functools
import zlib
from bisect import bisect_left, bisect_right
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from twostage.errors import InternalError
from twostage.predicates.lanes import Numbers, Wide
from twostage.predicates.literals import scaled
from twostage.predicates.predicate import Compare, In, JoinKeySet
from twostage.schema import Primitive
from twostage_native import members

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from twostage.predicates.lanes import Lane
    from twostage.predicates.predicate import InKeys
    from twostage.schema import Type

FLOATS = ("float", "double")
WHOLE = ("int", "long", "date", "timestamp", "timestamptz")
MAX_DIGITS = 18
"""Precision of decimals whose unscaled value fits in 64 bits."""


class KeyCoverage(enum.Enum):
    """How many of a range's values are keys."""

    NONE = enum.auto()
    SOME = enum.auto()
    ALL = enum.auto()


def takes_keys(kind: Type) -> bool:
    """Return whether a key set can hold keys of a type."""
    return isinstance(kind, Primitive) and (kind.name in (*WHOLE, *FLOATS) or has_long(kind))


def has_long(kind: Type) -> bool:
    """Return whether the type is a decimal whose unscaled values fit in 64 bits."""
    return isinstance(kind, Primitive) and kind.name == "decimal" and kind.precision <= MAX_DIGITS


def key_set(keys: NDArray[np.int64]) -> JoinKeySet:
    """Return keys as a set; `keys` are distinct and ascending.

    >>> numbers_of(key_set(np.array([-(2**63), 5, 2**63 - 1]))).tolist()
    [-9223372036854775808, 5, 9223372036854775807]
    """
    differences = np.diff(keys.view(np.uint64), prepend=np.uint64(0))
    return JoinKeySet(zlib.compress(differences.astype("<u8").tobytes(), 1), len(keys))


@functools.lru_cache(maxsize=16)
def numbers_of(keys: JoinKeySet) -> NDArray[np.int64]:
    """Return the keys, ascending.

    Raises:
        InternalError: The bytes are not in the form that the planner writes.
    """
    try:
        differences = np.frombuffer(zlib.decompress(keys.data), "<u8")
    except (zlib.error, ValueError) as error:
        raise InternalError("BAD_PREDICATE", f"No set of keys: {error}", stage="filter") from error
    numbers = np.cumsum(differences, dtype=np.uint64).view(np.int64)
    if len(numbers) != keys.count or not (numbers[1:] > numbers[:-1]).all():
        raise InternalError("BAD_PREDICATE", f"No set of {keys.count} keys", stage="filter")
    numbers.flags.writeable = False
    return numbers


def are_keys(keys: JoinKeySet, lane: Lane, kind: Type, *, kernels: bool) -> NDArray[np.bool_]:
    """Return for each value of a lane whether it is a key; arbitrary where it is NULL.

    Raises:
        InternalError: The lane holds values of another type.
    """
    result: NDArray[np.bool_]
    match lane:
        case Numbers(values) if str(kind) in WHOLE and values.dtype.kind == "i":
            run: Any = members.in_integers if kernels else members.in_integers.twin
            result = run(values, *prepared(keys))
            return result
        case Numbers(values) if str(kind) in FLOATS and values.dtype.kind == "f":
            run = members.in_integers if kernels else members.in_integers.twin
            result = run(ordered(values), *prepared(keys))
            return result
        case Wide(words, scale) if isinstance(kind, Primitive) and takes_keys(kind) and scale == kind.scale:
            run = members.in_integers if kernels else members.in_integers.twin
            low = np.ascontiguousarray(words[:, 0])
            low.flags.writeable = False
            result = run(low, *prepared(keys)) & (words[:, 1] == low >> 63)
            return result
    raise InternalError("BAD_PREDICATE", f"No set has keys of type {kind}", stage="filter")


@functools.lru_cache(maxsize=8)
def prepared(keys: JoinKeySet) -> members.Integers:
    """Return the keys in the form that `members.in_integers` searches."""
    return members.prepare_integers(numbers_of(keys))


def key_coverage(keys: JoinKeySet, kind: Type, lower: Any, upper: Any) -> KeyCoverage:
    """Return how many of the values of a range are keys.

    Args:
        keys: The keys.
        kind: The column's type.
        lower: The least value, as an `order_key`; None: no limit.
        upper: The greatest value, likewise.
    """
    low, high, start, end = _span(keys, kind, lower, upper)
    if start >= end:
        return KeyCoverage.NONE
    return (
        KeyCoverage.ALL
        if low is not None and high is not None and end - start == high - low + 1
        else KeyCoverage.SOME
    )


def listed_between(leaf: InKeys, lower: Any, upper: Any, limit: int) -> In | None:
    """Return the keys within a range as an IN list, with the same result for every value in the range.

    Args:
        leaf: The key test.
        lower: As for `key_coverage`, after the column's cast.
        upper: Likewise.
        limit: Maximum number of keys: None is returned for more, and for none at all.
    """
    _, _, start, end = _span(leaf.keys, leaf.column.value_type, lower, upper)
    if not 0 < end - start <= limit:
        return None
    return In(leaf.column, _values(leaf, numbers_of(leaf.keys)[start:end]))


def _span(keys: JoinKeySet, kind: Type, lower: Any, upper: Any) -> tuple[int | None, int | None, int, int]:
    """Return a range's limits as keys, and the indices of the first key in it and of the key after the last."""
    numbers = numbers_of(keys)
    scale = kind.scale if isinstance(kind, Primitive) and kind.name == "decimal" else 0
    if str(kind) in FLOATS:
        low, high = _number_of(lower), _number_of(upper)
    else:
        low = None if lower is None else _whole(lower, scale, up=True)
        high = None if upper is None else _whole(upper, scale, up=False)
    start = 0 if low is None else bisect_left(numbers, low)
    return low, high, start, len(numbers) if high is None else bisect_right(numbers, high)


def ordered(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return integers that compare as floats do in Spark: -0.0 equals 0.0, and NaN is a single value, the greatest.

    >>> ordered(np.array([-0.0, 0.0])).tolist()
    [0, 0]
    >>> numbers = ordered(np.array([-2.0, -1.0, np.inf, np.nan]))
    >>> bool((numbers[1:] > numbers[:-1]).all())
    True
    """
    numbers = _flipped(members.canonical_bits(values))
    numbers.flags.writeable = False
    return numbers


def _flipped(bits: NDArray[np.int64]) -> NDArray[np.int64]:
    """Map the bits of floats to integers in the order of the floats, and back."""
    flipped: NDArray[np.int64] = bits ^ ((bits >> 63) & np.int64(2**63 - 1))
    return flipped


def _number_of(bound: tuple[int, float] | None) -> int | None:
    """Return a bound as `ordered` maps it."""
    if bound is None:
        return None
    is_nan, value = bound
    return int(ordered(np.array([np.nan if is_nan else value]))[0])


def _whole(value: int | Decimal, scale: int, *, up: bool) -> int:
    """Return ``value · 10^scale``, rounded up or down."""
    whole, is_exact = scaled(value, scale)
    return whole + (up and not is_exact)


def range_of(leaf: InKeys) -> tuple[Compare, Compare]:
    """Return the range of the keys as two comparisons: column >= least, column <= greatest."""
    least, greatest = _values(leaf, numbers_of(leaf.keys)[[0, -1]])
    return Compare(">=", leaf.column, least), Compare("<=", leaf.column, greatest)


def _values(leaf: InKeys, numbers: NDArray[np.int64]) -> tuple[Any, ...]:
    """Return some of the keys in internal form."""
    kind = leaf.column.value_type
    if str(kind) in FLOATS:
        return tuple(_flipped(numbers).view(np.float64).tolist())
    if isinstance(kind, Primitive) and kind.name == "decimal":
        return tuple(Decimal(number).scaleb(-kind.scale) for number in numbers.tolist())
    return tuple(numbers.tolist())
