"""Literals as a query would write them, and moments never as numbers."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from twostage.predicates.shown import show
from twostage.schema import parse_type


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (True, "boolean", "TRUE"),
        (5, "int", "5"),
        (-0.0, "double", "-0.0"),
        (math.inf, "double", "Infinity"),
        (-math.inf, "double", "-Infinity"),
        (math.nan, "float", "NaN"),
        (Decimal("1E+3"), "decimal(9,2)", "1000"),
        (Decimal("NaN"), "decimal(9,2)", "NaN"),
        ("it's \\", "string", "'it\\'s \\\\'"),
        ("x" * 41, "string", f"'{'x' * 40}…'"),
        (b"\x00\xff", "binary", "X'00ff'"),
        (b"\x01" * 21, "binary", f"X'{'01' * 20}…'"),
        (-1, "date", "DATE '1969-12-31'"),
        (10**7, "date", "DATE_FROM_UNIX_DATE(10000000)"),
        (3_661_000_001, "time", "TIME '01:01:01.000001'"),
        (0, "timestamp", "TIMESTAMP_NTZ '1970-01-01 00:00:00'"),
        (-1, "timestamptz", "TIMESTAMP '1969-12-31 23:59:59.999999Z'"),
        (2**62, "timestamptz", f"TIMESTAMP_MICROS({2**62})"),
        (7, "timestamp_ns", "7"),
        (7, {"type": "list", "element-id": 1, "element": "int"}, "7"),
    ],
)
def test_as_sql(value: Any, kind: Any, text: str) -> None:
    assert show(value, parse_type(kind)) == text
