"""Partition values as Iceberg's `toHumanString` writes them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from twostage.metadata_tables.human import human
from twostage.schema import Primitive, parse_type
from twostage.table.transforms import Transform

MICROS = 86_400_000_000


@pytest.mark.parametrize(
    ("transform", "kind", "value", "text"),
    [
        ("year", "int", 54, "2024"),
        ("year", "int", -1, "1969"),
        ("month", "int", -1, "1969-12"),
        ("day", "date", -1, "1969-12-31"),
        ("day", "date", 10**8, "100000000"),
        ("hour", "int", -1, "1969-12-31-23"),
        ("hour", "int", 25, "1970-01-02-01"),
        ("identity", "date", 19844, "2024-05-01"),
        ("identity", "time", 0, "00:00"),
        ("identity", "time", 3_661_000_000, "01:01:01"),
        ("identity", "time", 3_600_500_000, "01:00:00.500"),
        ("identity", "time", 3_600_000_001, "01:00:00.000001"),
        ("identity", "timestamp", -1, "1969-12-31T23:59:59.999999"),
        ("identity", "timestamptz", MICROS + 60_000_000, "1970-01-02T00:01Z"),
        ("identity", "binary", b"\x00\xff", "AP8="),
        ("identity", "boolean", True, "true"),
        ("identity", "decimal(9,2)", Decimal("1E+2"), "100"),
        ("identity", "string", "text", "text"),
        ("bucket", "int", 3, "3"),
    ],
)
def test_as_java_writes_it(transform: str, kind: str, value: Any, text: str) -> None:
    found = parse_type(kind)
    assert isinstance(found, Primitive)
    assert human(Transform(transform), found, value) == text


@pytest.mark.parametrize(
    ("transform", "kind", "value", "text"),
    [
        ("identity", "int", -5, "-5"),
        ("identity", "string", "a b", "a b"),
        ("identity", "boolean", True, "true"),
        ("identity", "date", 0, "1970-01-01"),
        ("identity", "date", -719162, "0001-01-01"),
        ("identity", "date", 3_000_000, "3000000"),
        ("identity", "timestamp", 1_512_123_175_038_194, "2017-12-01T10:12:55.038194"),
        ("identity", "timestamptz", 1_512_123_120_000_000, "2017-12-01T10:12Z"),
        ("identity", "timestamptz", -1_000, "1969-12-31T23:59:59.999Z"),
        ("identity", "time", 3_600_000_000, "01:00"),
        ("identity", "binary", b"\x01\x02", "AQI="),
        ("identity", "decimal(38,2)", Decimal("100000000000000000000.50"), "100000000000000000000.50"),
        ("bucket[4]", "int", 3, "3"),
        ("truncate[2]", "string", "ab", "ab"),
        ("year", "int", 0, "1970"),
        ("month", "int", -1, "1969-12"),
        ("month", "int", 648, "2024-01"),
        ("day", "int", 19_000, "2022-01-08"),
        ("hour", "int", -1, "1969-12-31-23"),
    ],
)
def test_human_partition_values(transform, kind, value, text):
    name, _, rest = kind.partition("(")
    primitive = Primitive(name, precision=38, scale=2) if rest else Primitive(name)
    assert human(Transform.parse(transform), primitive, value) == text
