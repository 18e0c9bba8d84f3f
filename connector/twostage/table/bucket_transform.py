"""The bucket transform, and pruning by bucket.

Takes values in internal form; returns the spec's hash and bucket. A bucket number bounds no value, so `narrow` evaluates
the leaves of a predicate that a file's bucket decides: ``a = 5`` is FALSE in every bucket but that of 5. A leaf is
replaced only by its truth value for all rows of the bucket; a value that we cannot hash decides nothing.
Source: Iceberg table spec, "Bucket Transform Details" and appendix B.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import mmh3
import numpy as np

from twostage.predicates.predicate import (
    And,
    Column,
    Compare,
    Constant,
    In,
    InKeys,
    Not,
    Or,
    both,
    either,
)
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from twostage.predicates.predicate import JoinKeySet, Predicate

_AS_LONG = frozenset(("int", "long", "date", "time", "timestamp", "timestamptz"))
_WIDENED = frozenset((("int", "long"), ("date", "date"), ("long", "long"), ("int", "int")))
_MAX_BUCKETS = 2**31 - 1


def bucket_of(kind: Primitive, value: Any, num_buckets: int) -> int | None:
    """Return the bucket of a non-NULL value; None if the type or value cannot be bucketed.

    >>> from twostage.schema import Primitive
    >>> bucket_of(Primitive("int"), 34, 100)
    79
    """
    data = hashed_bytes(kind, value)
    if data is None or not 0 < num_buckets <= _MAX_BUCKETS:
        return None
    return int(mmh3.hash(data, signed=False) & 0x7FFFFFFF) % num_buckets


def buckets_of(numbers: NDArray[np.int64], num_buckets: int) -> NDArray[np.uint32]:
    """Return the bucket of each whole number, as `bucket_of` does of one: Murmur3 of its 8 bytes.

    >>> buckets_of(np.array([34]), 100)
    array([79], dtype=uint32)
    """
    words = numbers.astype("<i8").view("<u4").reshape(-1, 2).astype(np.uint32)
    hashed = np.zeros(len(numbers), np.uint32)
    for half in range(2):
        mixed = _rotated(words[:, half] * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        hashed = _rotated(hashed ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    hashed ^= np.uint32(8)
    hashed = (hashed ^ (hashed >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    hashed = (hashed ^ (hashed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    hashed ^= hashed >> np.uint32(16)
    buckets: NDArray[np.uint32] = (hashed & np.uint32(0x7FFFFFFF)) % np.uint32(num_buckets)
    return buckets


def _rotated(words: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    """Return 32-bit words rotated to the left."""
    turned: NDArray[np.uint32] = (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
    return turned


def hashed_bytes(kind: Primitive, value: Any) -> bytes | None:
    """Return the bytes that the spec hashes for a value; None if the type has no hash."""
    try:
        if kind.name in _AS_LONG:
            return int(value).to_bytes(8, "little", signed=True)
        match kind.name:
            case "timestamp_ns" | "timestamptz_ns":  # hashed as microseconds
                return (int(value) // 1000).to_bytes(8, "little", signed=True)
            case "string":
                return str(value).encode()
            case "uuid":
                return UUID(value).bytes
            case "fixed" | "binary":
                return bytes(value)
            case "decimal":
                return _decimal_bytes(value, kind.scale)
    except (ValueError, TypeError, OverflowError, AttributeError):
        return None
    return None


def unscaled(value: Decimal, scale: int) -> int | None:
    """Return ``value · 10^scale`` exactly; None if that is not an integer."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return None
    number = int("".join(map(str, digits)) or "0")
    power: int = 10 ** abs(exponent + scale)
    if exponent + scale >= 0:
        number *= power
    elif number % power:
        return None
    else:
        number //= power
    return -number if sign else number


def _decimal_bytes(value: Decimal | int, scale: int) -> bytes | None:
    number = unscaled(Decimal(value), scale)
    if number is None:
        return None
    # Minimal two's complement with a sign bit, as Java's BigInteger.toByteArray.
    length = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(length, "big", signed=True)


def narrow(
    predicate: Predicate,
    field_id: int,
    decide: Callable[[Primitive, Any], bool | None],
    holds_any: Callable[[JoinKeySet], bool] = lambda _: True,
) -> Predicate:
    """Return the predicate, simplified for rows whose bucketed column is not NULL and within given buckets.

    Args:
        predicate: Any tree.
        field_id: The bucketed column.
        decide: Returns whether a value of a type is in the buckets; False is a proof, None means unknown.
        holds_any: Returns whether one of several whole numbers is in the buckets; False is a proof.
    """

    def is_hashed(column: Column) -> bool:
        kind = column.type
        if column.field_id != field_id or not isinstance(kind, Primitive):
            return False
        return column.cast is None or (kind.name, column.cast.name) in _WIDENED

    def absent(column: Column, value: Any) -> bool:
        return (
            is_hashed(column) and isinstance(column.type, Primitive) and decide(column.type, value) is False
        )

    match predicate:
        case And(children):
            return both(*(narrow(child, field_id, decide, holds_any) for child in children))
        case Or(children):
            return either(*(narrow(child, field_id, decide, holds_any) for child in children))
        case Not(child):
            return Not(narrow(child, field_id, decide, holds_any))
        case Compare("=" | "<=>" | "<>", column, value) if absent(column, value):
            return Constant(predicate.op == "<>")
        case In(column, values, has_null) if column.field_id == field_id:
            kept = tuple(value for value in values if not absent(column, value))
            if not kept:
                return Constant(None if has_null else False)
            return predicate if len(kept) == len(values) else replace(predicate, values=kept)
        case InKeys(column, keys) if (
            is_hashed(column) and str(column.type) in _AS_LONG and not holds_any(keys)
        ):
            return Constant(False)
    return predicate
