"""Partition values as Iceberg's `toHumanString` writes them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
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
        ("day", "date", 10**8, "275760-09-13"),
        ("hour", "int", -1, "1969-12-31-23"),
        ("hour", "int", 25, "1970-01-02-01"),
        ("identity", "date", 19844, "2024-05-01"),
        ("identity", "time", 0, "00:00"),
        ("identity", "time", 3_661_000_000, "01:01:01"),
        ("identity", "time", 3_600_500_000, "01:00:00.500"),
        ("identity", "time", 3_600_000_001, "01:00:00.000001"),
        ("identity", "timestamp", -1, "1969-12-31T23:59:59.999999"),
        ("identity", "timestamptz", MICROS + 60_000_000, "1970-01-02T00:01:00+00:00"),
        ("identity", "binary", b"\x00\xff", "AP8="),
        ("identity", "boolean", True, "true"),
        ("identity", "decimal(9,2)", Decimal("100.00"), "100.00"),
        ("identity", "string", "text", "text"),
        ("bucket", "int", 3, "3"),
        ("year", "int", -1971, "-001"),
        ("year", "int", 20_000, "21970"),
        ("month", "int", -23_652, "-001-01"),
        ("hour", "int", 70_389_533, "10000-01-01-05"),
        ("hour", "int", -17_268_696, "-001-12-31-00"),
        ("identity", "date", -719_528, "0000-01-01"),
        ("identity", "date", -719_529, "-001-12-31"),
        ("identity", "date", -(10**8), "-271821-04-20"),
        ("identity", "timestamp", 253_402_300_800_000_000, "+10000-01-01T00:00:00"),
        ("identity", "timestamp", -62_167_219_200_000_001, "-0001-12-31T23:59:59.999999"),
        ("identity", "timestamptz", -62_135_596_800_000_001, "0000-12-31T23:59:59.999999+00:00"),
        ("identity", "timestamptz", 2_592_000_100_000, "1970-01-31T00:00:00.1+00:00"),
        ("identity", "timestamptz", 2_592_061_000_120, "1970-01-31T00:01:01.00012+00:00"),
        ("identity", "timestamp_ns", 2_592_000_000_001_500, "1970-01-31T00:00:00.0000015"),
        ("identity", "timestamptz_ns", -2_592_000_000_000_995, "1969-12-01T23:59:59.999999005+00:00"),
        ("identity", "decimal(38,10)", Decimal("0.0000000001"), "1E-10"),
        ("identity", "decimal(38,10)", Decimal("0E-10"), "0E-10"),
        ("identity", "decimal(38,10)", Decimal("-0.00000012"), "-1.2E-7"),
        ("identity", "decimal(38,10)", Decimal("123.4500000000"), "123.4500000000"),
        ("identity", "double", float("inf"), "Infinity"),
        ("identity", "double", float("-inf"), "-Infinity"),
        ("identity", "double", -0.0, "-0.0"),
        ("identity", "double", 100.0, "100.0"),
        ("identity", "double", 0.001, "0.001"),
        ("identity", "double", 9.99e-4, "9.99E-4"),
        ("identity", "double", 9_999_999.5, "9999999.5"),
        ("identity", "double", 1e7, "1.0E7"),
        ("identity", "double", 12_345_678.0, "1.2345678E7"),
        ("identity", "double", 2.5e-300, "2.5E-300"),
        ("identity", "float", float(np.float32(0.1)), "0.1"),
        ("identity", "float", float(np.float32(3.4028235e38)), "3.4028235E38"),
        ("identity", "float", float(np.float32(1e10)), "1.0E10"),
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
        ("identity", "date", 2_932_897, "10000-01-01"),
        ("identity", "timestamp", 1_512_123_175_038_194, "2017-12-01T10:12:55.038194"),
        ("identity", "timestamptz", 1_512_123_120_000_000, "2017-12-01T10:12:00+00:00"),
        ("identity", "timestamptz", -1_000, "1969-12-31T23:59:59.999+00:00"),
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
