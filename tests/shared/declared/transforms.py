"""Partition transforms, written from the spec's text: identity, bucket, truncate, dates, void."""

from __future__ import annotations

import datetime
import re
import struct
import uuid
from decimal import Decimal
from typing import Any

from declared.types import EPOCH, EXACT, Kind, decimal_of

_MICROS = {"timestamp": 1, "timestamptz": 1, "timestamp_ns": 1000, "timestamptz_ns": 1000}


def result_type(transform: str, source: Kind) -> Kind:
    """Return the type of a transform's results."""
    if transform in ("year", "month", "hour") or transform.startswith("bucket"):
        return "int"
    return "date" if transform == "day" else source


def apply(transform: str, kind: Kind, value: Any) -> Any:
    """Return the partition value of a source value."""
    if value is None or transform == "void":
        return None
    if transform == "identity":
        return value
    if match := re.fullmatch(r"bucket\[(\d+)\]", transform):
        return (murmur3(_hashed_bytes(kind, value)) & 0x7FFFFFFF) % int(match[1])
    if match := re.fullmatch(r"truncate\[(\d+)\]", transform):
        return _truncate(kind, value, int(match[1]))
    if kind == "date":
        moment = EPOCH + datetime.timedelta(days=value)
    else:
        moment = EPOCH + datetime.timedelta(microseconds=value // _MICROS[str(kind)])
    match transform:
        case "year":
            return moment.year - 1970
        case "month":
            return (moment.year - 1970) * 12 + moment.month - 1
        case "day":
            return (moment - EPOCH).days
        case "hour":
            return (moment - EPOCH) // datetime.timedelta(hours=1)
    raise ValueError(transform)


def _truncate(kind: Kind, value: Any, width: int) -> Any:
    if isinstance(value, int):  # wraps around as in Java, whose writers make most tables
        half = 2**31 if kind == "int" else 2**63
        return (value - value % width + half) % (2 * half) - half
    if isinstance(value, Decimal):
        scale = value.as_tuple().exponent
        unscaled = int(value.scaleb(-scale, EXACT))
        return Decimal(unscaled - unscaled % width).scaleb(scale, EXACT)
    return value[:width]


def _hashed_bytes(kind: Kind, value: Any) -> bytes:
    if kind in ("int", "long", "date", "time", "timestamp", "timestamptz"):
        return struct.pack("<q", value)
    if kind in ("timestamp_ns", "timestamptz_ns"):
        return struct.pack("<q", value // 1000)
    if kind == "uuid":
        return uuid.UUID(value).bytes
    if spec := decimal_of(kind):
        return minimal_twos_complement(int(value.scaleb(spec[1], EXACT)))
    return value.encode() if isinstance(value, str) else value


def minimal_twos_complement(number: int) -> bytes:
    """Return big-endian two's complement in as few bytes as hold it."""
    length = 1
    while not -(1 << (8 * length - 1)) <= number < 1 << (8 * length - 1):
        length += 1
    return number.to_bytes(length, "big", signed=True)


def murmur3(data: bytes) -> int:
    """Return the 32-bit Murmur3 hash (x86 variant, seed 0), unsigned."""
    mask = 0xFFFFFFFF

    def mix(block: int) -> int:
        block = block * 0xCC9E2D51 & mask
        block = (block << 15 | block >> 17) & mask
        return block * 0x1B873593 & mask

    state = 0
    whole = len(data) // 4 * 4
    for start in range(0, whole, 4):
        state ^= mix(int.from_bytes(data[start : start + 4], "little"))
        state = (state << 13 | state >> 19) & mask
        state = (state * 5 + 0xE6546B64) & mask
    if data[whole:]:
        state ^= mix(int.from_bytes(data[whole:], "little"))
    state ^= len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B & mask
    state = (state ^ state >> 13) * 0xC2B2AE35 & mask
    return state ^ state >> 16
