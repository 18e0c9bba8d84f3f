"""A column's values as keys: numbers, wide numbers or bytes, which compare as Spark compares the values.

Takes Arrow arrays in the scan's types, without NULLs; gives sortable int64 keys and 64-bit hashes. The rule: two values
that our predicates find equal (-0.0 and 0.0, all NaN, an int and the same long) have the same key and hash, and different
keys are in the order of their values.
"""

from __future__ import annotations

import math
import struct
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xxhash

from twostage.errors import InternalError
from twostage.predicates.lanes import Numbers, Text, Wide, read_lane
from twostage.schema import Primitive, element_of
from twostage_native.members import canonical_bits
from twostage_native.strings import hash_texts

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from twostage.schema import Type

    Longs = NDArray[np.int64]
    Hashes = NDArray[np.uint64]

KeyClass = Literal["integer", "float", "decimal", "text"]
_CLASSES: dict[str, KeyClass] = {
    **dict.fromkeys(
        ("boolean", "int", "long", "date", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"),
        "integer",
    ),
    **dict.fromkeys(("float", "double"), "float"),
    "decimal": "decimal",
    **dict.fromkeys(("string", "uuid", "fixed", "binary"), "text"),
}
_PROMOTED = {("int", "long"), ("float", "double")}
MAX_SHORT_BYTES = 64
"""Longer texts are hashed one by one, in half a microsecond each."""
_MIX = tuple(np.uint64(number) for number in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53))
_EXACTLY = Context(prec=80)
"""More digits than any decimal has."""
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def key_class(kind: Type) -> KeyClass | None:
    """Return the class of a type's keys; None for a type whose values are not compared."""
    return _CLASSES.get(kind.name) if isinstance(kind, Primitive) else None


def indexed_type(kind: Type) -> Primitive | None:
    """Return the type of the values in an index of a column: its own, its elements' or its keys'; None if it cannot have one."""
    element = element_of(kind)
    inner = kind if element is None else element.type
    return inner if isinstance(inner, Primitive) and inner.name in _CLASSES else None


def is_same_domain(built: Primitive, now: Primitive) -> bool:
    """Tell whether keys of a column's type when it was indexed serve its type now: the same, or Iceberg's promotion of it."""
    if built == now or (built.name, now.name) in _PROMOTED:
        return True
    return (
        built.name == now.name == "decimal" and built.scale == now.scale and built.precision <= now.precision
    )


def order_keys(array: pa.Array) -> Longs | None:
    """Return sortable int64 keys of numbers; None for text, and for decimals beyond 64 bits.

    Raises:
        InternalError: A type whose values are not compared.
    """
    lane = read_lane(array)
    match lane:
        case Numbers(values) if values.dtype.kind == "f":
            return float_keys(values)
        case Numbers(values):
            return values.astype(np.int64)
        case Wide(words):
            fits = (words[:, 0] >> np.int64(63)) == words[:, 1]
            return np.ascontiguousarray(words[:, 0]) if bool(fits.all()) else None
    return None


def float_keys(values: NDArray[np.floating[Any]]) -> Longs:
    """Return int64 keys that order as Spark orders floats: NaN, one value, is the greatest; -0.0 is 0.0.

    >>> keys = float_keys(np.array([-1.5, -0.0, 0.0, np.inf, np.nan]))
    >>> bool(keys[1] == keys[2]), bool((np.diff(keys) >= 0).all())
    (True, True)
    """
    bits = canonical_bits(values)
    return np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)


def value_of_key(key: int, kind: Primitive) -> int | float | Decimal:
    """Return the value in internal form that has a key, of a whole number, a decimal or a double.

    Keys between those of infinity and NaN are NaN.

    >>> value_of_key(-150, Primitive("decimal", precision=9, scale=2)), value_of_key(7, Primitive("date"))
    (Decimal('-1.50'), 7)
    """
    if kind.name == "decimal":
        return Decimal(key).scaleb(-kind.scale, _EXACTLY)
    if kind.name != "double":
        return key
    bits = key ^ 0x7FFFFFFFFFFFFFFF if key < 0 else key
    found: float = struct.unpack("<d", struct.pack("<q", bits))[0]
    return math.nan if math.isnan(found) else found


def hash_values(array: pa.Array) -> Hashes:
    """Return a 64-bit hash of each value: uint64."""
    lane = read_lane(array)
    match lane:
        case Numbers(values) if values.dtype.kind == "f":
            return hash_numbers(canonical_bits(values))
        case Numbers(values):
            return hash_numbers(values.astype(np.int64))
        case Wide(words):
            return hash_words(words)
        case Text(offsets, data):
            return hash_bytes(offsets, data)
    raise InternalError("BAD_INDEX", f"No hash for values of type: {array.type}", stage="index")


def hash_numbers(values: Longs) -> Hashes:
    """Return uint64 hashes of 64-bit numbers (the finalizer of MurmurHash3, which is a bijection)."""
    mixed = values.astype(np.uint64) + _GOLDEN
    for factor in _MIX:
        mixed ^= mixed >> np.uint64(33)
        mixed *= factor
    return mixed ^ mixed >> np.uint64(33)


def hash_words(words: Longs) -> Hashes:
    """Return uint64 hashes of 128-bit numbers: int64 of shape (n, 2), low word first."""
    low, high = np.ascontiguousarray(words[:, 0]), np.ascontiguousarray(words[:, 1])
    return hash_numbers((hash_numbers(high) ^ low.view(np.uint64)).view(np.int64))


def hash_bytes(offsets: NDArray[np.signedinteger[Any]], data: NDArray[np.uint8]) -> Hashes:
    """Return uint64 hashes of texts in Arrow's layout: n + 1 offsets, and their bytes.

    Short ones are hashed together, eight bytes at a time; longer ones one by one, by xxhash.
    """
    lengths = np.diff(offsets)
    is_long = lengths > MAX_SHORT_BYTES
    if not is_long.any():
        return hash_numbers(hash_texts(offsets, data).view(np.int64))
    starts = offsets[:-1].astype(np.int64)
    short = np.flatnonzero(~is_long)
    hashes = np.empty(len(lengths), np.uint64)
    if len(short):
        own = np.zeros(len(short) + 1, np.int64)
        np.cumsum(lengths[short], out=own[1:])
        places = np.repeat(starts[short] - own[:-1], lengths[short]) + np.arange(own[-1])
        hashes[short] = hash_texts(own, data[places])
    view, long = np.ascontiguousarray(data).data, np.flatnonzero(is_long)
    limits = zip(starts[long].tolist(), (starts[long] + lengths[long]).tolist(), strict=True)
    digest = xxhash.xxh3_64_intdigest
    hashes[long] = np.array([digest(view[start:end]) for start, end in limits], np.uint64)
    return hash_numbers(hashes.view(np.int64))


def distinct(ascending: NDArray[Any]) -> NDArray[Any]:
    """Return sorted numbers without repetitions: `np.unique` takes ten times as long for many of them."""
    if not len(ascending):
        return ascending
    return ascending[np.flatnonzero(np.concatenate([[True], ascending[1:] != ascending[:-1]]))]
