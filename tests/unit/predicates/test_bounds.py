"""Decoding of Iceberg's single-value serialization, against values packed by hand."""

from __future__ import annotations

import math
import random
import struct
from decimal import Decimal
from typing import Any

import pytest

from twostage.predicates.bounds import decode_bound
from twostage.schema import Primitive

DECIMAL = Primitive("decimal", precision=38, scale=2)


@pytest.mark.parametrize(
    ("kind", "raw", "expected"),
    [
        ("boolean", b"\x00", False),
        ("boolean", b"\x01", True),
        ("boolean", b"", None),
        ("int", struct.pack("<i", -5), -5),
        ("int", struct.pack("<q", -5), None),
        ("date", struct.pack("<i", 19000), 19000),
        ("long", struct.pack("<q", -(2**60)), -(2**60)),
        ("long", struct.pack("<i", -7), -7),
        ("long", b"\x01", None),
        ("float", struct.pack("<f", 1.5), 1.5),
        ("float", struct.pack("<f", math.nan), None),
        ("double", struct.pack("<f", 1.5), 1.5),
        ("double", struct.pack("<d", -2.5), -2.5),
        ("double", struct.pack("<d", math.nan), None),
        ("timestamp", struct.pack("<q", 1), 1),
        ("timestamptz", struct.pack("<i", 1), None),
        ("timestamp_ns", struct.pack("<q", 10**18), 10**18),
        ("string", "iceberg é".encode(), "iceberg é"),
        ("string", "é".encode()[:1], None),
        ("string", b"", ""),
        ("binary", b"\xff\x00", b"\xff\x00"),
        ("uuid", bytes(16), None),
        ("variant", b"x", None),
        ("geometry", b"x" * 16, None),
        ("unknown", b"", None),
    ],
)
def test_decodes_each_type(kind: str, raw: bytes, expected: Any) -> None:
    result = decode_bound(Primitive(kind), raw)
    assert result == expected
    assert type(result) is type(expected)


def test_fixed_may_be_truncated_and_not_longer() -> None:
    fixed = Primitive("fixed", length=3)
    assert decode_bound(fixed, b"ab") == b"ab"
    assert decode_bound(fixed, b"abcd") is None


@pytest.mark.parametrize("unscaled", [0, 1, -1, 127, 128, -128, -129, 10**37, -(10**38) + 1])
@pytest.mark.parametrize("padding", [0, 1])
def test_decimals_of_any_length(unscaled: int, padding: int) -> None:
    raw = unscaled.to_bytes((unscaled.bit_length() // 8 + 1) + padding, "big", signed=True)
    result = decode_bound(DECIMAL, raw)
    assert result is not None
    assert (int(result * 100) if abs(unscaled) < 10**20 else int(str(result).replace(".", ""))) == unscaled
    assert result.as_tuple().exponent == -2


def test_decimal_beyond_its_precision_is_unknown() -> None:
    assert decode_bound(Primitive("decimal", precision=3, scale=1), (1000).to_bytes(2, "big")) is None
    assert decode_bound(Primitive("decimal", precision=3, scale=1), b"") is None
    assert decode_bound(DECIMAL, bytes(18)) is None
    assert decode_bound(DECIMAL, b"\x01") == Decimal("0.01")


def test_written_type_must_be_a_promotion() -> None:
    raw = struct.pack("<i", 3)
    assert decode_bound(Primitive("long"), raw, written_type=Primitive("int")) == 3
    assert decode_bound(Primitive("timestamp"), raw, written_type=Primitive("date")) is None
    assert decode_bound(DECIMAL, b"\x01", written_type=Primitive("decimal", precision=9, scale=3)) is None
    assert decode_bound(DECIMAL, b"\x01", written_type=Primitive("decimal", precision=9, scale=2)) == Decimal(
        "0.01"
    )


def test_no_bytes_raise() -> None:
    rng = random.Random(7)
    kinds = [
        *map(
            Primitive, "boolean int long float double date time timestamp string uuid binary unknown".split()
        ),
        DECIMAL,
        Primitive("fixed", length=4),
    ]
    for _ in range(3_000):
        decode_bound(rng.choice(kinds), rng.randbytes(rng.randrange(0, 20)))
