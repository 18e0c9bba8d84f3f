"""Column statistics over a set of rows, and the decoding of Iceberg's bounds.

Takes the bytes of `lower_bounds` and `upper_bounds` (Iceberg table spec, appendix D, "Binary single-value
serialization"); returns values in the internal form of `schema.py`. A bound that cannot be trusted decodes to None,
which means unknown; no byte string raises.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twostage.schema import Primitive

_INT = struct.Struct("<i")
_LONG = struct.Struct("<q")
_FLOAT = struct.Struct("<f")
_DOUBLE = struct.Struct("<d")
_EIGHT_BYTES = frozenset(("time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"))
_PROMOTIONS = frozenset((("int", "long"), ("float", "double"), ("decimal", "decimal")))
MAX_DECIMAL_BYTES = 17
"""Bytes of an unscaled decimal: 38 digits need 16, and a writer may pad with one sign byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Statistics of one column over a set of rows (a file, row group or page). None means unknown.

    `lower` and `upper` are inclusive and ignore NULL and NaN; `value_count` includes both. `exact_lower` and
    `exact_upper` are true if the bound is the value of some row; only strings and bytes need them, because their
    bounds may be truncated.

    >>> Bounds(lower=1, upper=7, null_count=0).upper
    7
    """

    lower: Any = None
    upper: Any = None
    null_count: int | None = None
    nan_count: int | None = None
    value_count: int | None = None
    exact_lower: bool = False
    exact_upper: bool = False


def decode_bound(kind: Primitive, raw: bytes, *, written_type: Primitive | None = None) -> Any | None:
    """Decode one bound from the metrics of a data or delete file.

    Bounds written before a promotion are accepted for int to long, float to double and wider decimals, but not for
    date to timestamp.

    Args:
        kind: The column's type in the scan's schema.
        raw: The serialized bound.
        written_type: The column's type when the bound was written, if known.

    Returns:
        The value in internal form; None if the bytes are malformed or NaN, or the type's bounds cannot be trusted.

    >>> from twostage.schema import Primitive
    >>> decode_bound(Primitive("long"), bytes([7, 0, 0, 0]))
    7
    >>> decode_bound(Primitive("decimal", precision=9, scale=2), bytes([0xFF, 0x85]))
    Decimal('-1.23')
    """
    if written_type is not None and not _readable_as(written_type, kind):
        return None
    size = len(raw)
    match kind.name:
        case "boolean":
            return raw != b"\x00" if size == 1 else None
        case "int" | "date":
            return _INT.unpack(raw)[0] if size == 4 else None
        case "long":
            return _integer(raw)
        case name if name in _EIGHT_BYTES:
            return _LONG.unpack(raw)[0] if size == 8 else None
        case "float":
            return _number(_FLOAT.unpack(raw)[0]) if size == 4 else None
        case "double":
            if size not in (4, 8):
                return None
            return _number((_FLOAT if size == 4 else _DOUBLE).unpack(raw)[0])
        case "decimal":
            return decimal_of(raw, kind) if 0 < size <= MAX_DECIMAL_BYTES else None
        case "string":
            try:
                return raw.decode("utf-8")
            except (
                UnicodeDecodeError
            ):  # truncated within a character: may be neither a lower nor an upper bound
                return None
        case "fixed":
            return bytes(raw) if size <= kind.length else None
        case "binary":
            return bytes(raw)
    # uuid: Iceberg's Java library merges the bounds of row groups (and partitions) by signed comparison, which turns
    # [10…, a0…] and [20…, 30…] into [10…, 30…]: pruning by such bounds would drop rows.
    # geometry, geography and variant: their bounds do not order values.
    return None


def decimal_of(raw: bytes, kind: Primitive) -> Decimal | None:
    """Decode a big-endian two's complement unscaled integer; None if it exceeds the type's precision."""
    return unscaled_decimal(int.from_bytes(raw, "big", signed=True), kind)


def unscaled_decimal(unscaled: int, kind: Primitive) -> Decimal | None:
    """Return ``unscaled · 10^-scale`` exactly (no decimal context); None if it exceeds the type's precision."""
    if abs(unscaled) >= 10**kind.precision:
        return None
    return Decimal(f"{unscaled}E-{kind.scale}")


def _integer(raw: bytes) -> int | None:
    return int.from_bytes(raw, "little", signed=True) if len(raw) in (4, 8) else None


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _readable_as(written: Primitive, wanted: Primitive) -> bool:
    if written == wanted:
        return True
    return (written.name, wanted.name) in _PROMOTIONS and (
        written.name != "decimal" or (written.scale == wanted.scale and written.precision <= wanted.precision)
    )
