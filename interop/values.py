"""Rows with a column of every type that Spark writes, full of edge values.

Takes a range of ids; returns rows as tuples and the DDL of their columns. Row k has value ``k * step`` of
each column's list, so that lists of different lengths combine in many ways; nothing is random.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import Decimal
from typing import Any

UTC = dt.UTC


def _f32(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


NAN, INF = math.nan, math.inf
LONG_TEXT = "prefix-" + "x" * 30
COLUMNS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "b": ("boolean", (True, False, None)),
    "i": ("int", (0, 1, -1, 2**31 - 1, -(2**31), 7, 42, None, 3)),
    "l": ("bigint", (0, 1, -1, 2**63 - 1, -(2**63), 7, 5_000_000_000, None)),
    "f": ("float", (0.0, -0.0, 1.5, -1.5, NAN, INF, -INF, _f32(0.1), _f32(3.4e38), None)),
    "d": ("double", (0.0, -0.0, 1.5, -1.5, NAN, INF, -INF, 0.1, 5e-324, 1.7976931348623157e308, None)),
    "dec": (
        "decimal(9,2)",
        (*map(Decimal, ("0.00", "1.50", "-1.50", "9999999.99", "-9999999.99", "0.01")), None),
    ),
    "de": ("decimal(18,4)", (*map(Decimal, ("0.0000", "1.5000", "-1.5000", "99999999999999.9999")), None)),
    "dl": (
        "decimal(38,10)",
        (*map(Decimal, ("0E-10", "1.5000000000", "-1.5000000000", "9" * 28 + ".0000000001")), None),
    ),
    "s": (
        "string",
        (
            "",
            "a",
            "A",
            "ab",
            "abc",
            "b",
            "naïve",
            "日本",
            "😀",
            "\uffff",
            LONG_TEXT,
            LONG_TEXT + "y",
            " ",
            "a%b",
            "a_b",
            None,
            "xab",
        ),
    ),
    "bin": ("binary", (b"", b"\x00", b"\x00\xff", b"\xff" * 20, b"abc", b"\x80", None)),
    "dt": (
        "date",
        (
            dt.date(1970, 1, 1),
            dt.date(1969, 12, 31),
            dt.date(2024, 2, 29),
            dt.date(1, 1, 1),
            dt.date(9999, 12, 31),
            None,
        ),
    ),
    "ts": (
        "timestamp",
        (
            dt.datetime(1970, 1, 1, tzinfo=UTC),
            dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
            dt.datetime(2024, 2, 29, 12, 34, 56, 789012, tzinfo=UTC),
            dt.datetime(1900, 1, 1, 0, 30, tzinfo=UTC),
            dt.datetime(2300, 7, 1, 23, 0, tzinfo=UTC),
            None,
        ),
    ),
    "tn": (
        "timestamp_ntz",
        (
            dt.datetime(1970, 1, 1),
            dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
            dt.datetime(2024, 2, 29, 12, 34, 56, 789012),
            dt.datetime(1900, 1, 1, 0, 30),
            None,
            dt.datetime(2300, 7, 1, 23, 0),
            dt.datetime(2024, 2, 29, 13, 0),
        ),
    ),
    "st": (
        "struct<a: int, t: string, deep: struct<x: double, y: array<int>>>",
        (
            (1, "one", (0.0, [1, 2])),
            (2, None, (-0.0, [])),
            (None, "three", None),
            (3, "", (NAN, None)),
            None,
            (1, "one", (1.5, [None])),
            (4, "four", (None, [7])),
        ),
    ),
    "ls": ("array<string>", (["a", "b"], [], None, [None], ["", "ü"], ["a"])),
    "mp": ("map<string, int>", ({"k": 1}, {}, None, {"k": None, "z": 2}, {"ä": -1})),
    "la": (
        "array<struct<p: int, q: string>>",
        ([(1, "x")], [], None, [None, (2, None)], [(3, "z"), (None, "w")]),
    ),
}
_STEPS = {
    name: step
    for name, step in zip(COLUMNS, (1, 2, 3, 1, 1, 3, 2, 1, 5, 4, 5, 1, 3, 1, 5, 2, 3), strict=True)
}


def value(row_id: int, name: str) -> Any:
    """Return the value of a column in the row with this id."""
    choices = COLUMNS[name][1]
    return choices[row_id * _STEPS[name] % len(choices)]


def ddl(*names: str) -> str:
    """Return the DDL of ``id`` and these columns; all of them if none is named."""
    return ", ".join(["id bigint", *(f"{name} {COLUMNS[name][0]}" for name in names or COLUMNS)])


def rows(first: int, last: int, *names: str) -> list[tuple[Any, ...]]:
    """Return the rows with ids ``first … last - 1``."""
    return [(row_id, *(value(row_id, name) for name in names or COLUMNS)) for row_id in range(first, last)]
