"""Values at the edges of every type, and a table full of them, with the same rows as plain Parquet for Spark.

Takes a folder and a seed; writes an Iceberg table of several files and small row groups, each holding few
neighbouring values of a column, so that pruning acts. Values are in the plain form of `declared.types`.
"""

from __future__ import annotations

import math
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from declared.types import Column, Struct, arrow_array, plain, walk
from tables import FileOptions, Table

if TYPE_CHECKING:
    from pathlib import Path

DAY = 86_400_000_000
YEAR_1, YEAR_9999 = -719162, 2932896
"""The first day that Python and ANSI dates know, and the last, as days."""
STRUCT = {"a": "int", "s": "string", "d": "double", "inner": {"b": "boolean", "p": "decimal(5,1)"}}
COLUMNS: dict[str, Any] = {
    "id": "long!",
    "b1": "boolean",
    "b2": "boolean",
    "i1": "int",
    "i2": "int",
    "l1": "long",
    "l2": "long",
    "f1": "float",
    "f2": "float",
    "d1": "double",
    "d2": "double",
    "p1": "decimal(9,2)",
    "p2": "decimal(9,2)",
    "q1": "decimal(18,4)",
    "w1": "decimal(38,10)",
    "w2": "decimal(38,10)",
    "z1": "decimal(38,0)",
    "s1": "string",
    "s2": "string",
    "x1": "binary",
    "x2": "binary",
    "day1": "date",
    "day2": "date",
    "ts1": "timestamptz",
    "ts2": "timestamptz",
    "n1": "timestamp",
    "n2": "timestamp",
    "u1": "uuid",
    "st": STRUCT,
}
LONG_TEXT = "long " * 2000
TEXTS = (
    "",
    " ",
    "0",
    "1",
    "-1",
    "1.5",
    " 7 ",
    "1e3",
    "NaN",
    "inf",
    "true",
    "T",
    "false",
    "2024-01-01",
    "2024-03-10 02:30:00",
    "0001-01-01",
    "1969-12-31",
    "A",
    "B",
    "a",
    "aB",
    "ab",
    "abc",
    "abcabc",
    "axb",
    "a%b",
    "a_b",
    "a\\b",
    "a'b",
    'a"b',
    "a\nb",
    "a\x00b",
    "b",
    "straße",
    "STRASSE",
    "ä",
    "a\u0308",
    "İ",
    "ß",
    "\ud7ff",
    "\ue000",
    "\ufffd",
    "\uffff",
    "\U00010000",
    "\U0001f600",
    "a\U0001f600b",
    "\U0010ffff",
    "\U0010ffff" * 17,
    LONG_TEXT,
    LONG_TEXT + "x",
    "x" * 16 + "a",
    "x" * 16 + "b",
)
_DAYS = (YEAR_1, YEAR_1 + 1, -141428, -141427, -25567, -1, 0, 1, 11016, 19782, 19792, 20028, YEAR_9999)
_MOMENTS = sorted(
    {
        *(day * DAY for day in _DAYS),
        YEAR_1 * DAY + 1,
        -1,
        1,
        -1_000_001,
        999_999,
        19792 * DAY + 9_000_000_000,  # 2024-03-10 02:30, which New York does not have
        19792 * DAY + 7 * 3_600_000_000,
        20030 * DAY + 5 * 3_600_000_000 + 1_800_000_000,  # 2024-11-03 01:30, which it has twice
        YEAR_9999 * DAY + DAY - 1,
    }
)
_FLOATS = [-math.inf, -3.4e38, -16777217.0, -1.5, -1.0, -0.1, -1e-45, -0.0, 0.0, 1e-45, 0.1, 0.5, 1.0]
_FLOATS += [1.5, 7.0, 16777216.0, 16777217.0, 3.4028234663852886e38, math.inf, math.nan]
_DOUBLES = [-math.inf, -1.7976931348623157e308, -9007199254740993.0, -1.5, -1.0, -0.1, -5e-324, -0.0, 0.0]
_DOUBLES += [5e-324, 0.1, 0.10000000149011612, 0.5, 1.0, 1.23, 7.0, 2147483648.0, 9007199254740992.0]
_DOUBLES += [9.223372036854775807e18, 3.4028234663852886e38, 1.7976931348623157e308, math.inf, math.nan]
POOLS: dict[str, list[Any]] = {
    "boolean": [False, True],
    "int": [
        -(2**31),
        -(2**31) + 1,
        -16777217,
        -128,
        -7,
        -1,
        0,
        1,
        2,
        7,
        127,
        128,
        32767,
        16777217,
        2**31 - 1,
    ],
    "long": [-(2**63), -(2**63) + 1, -(2**53) - 1, -(2**31) - 1, -1, 0, 1, 2, 7, 300, 2**31, 2**53, 2**53 + 1]
    + [10**18, 2**63 - 2, 2**63 - 1],
    "float": _FLOATS,
    "double": _DOUBLES,
    "decimal(9,2)": [Decimal(t) for t in ("-9999999.99", "-1.50", "-0.01", "0", "0.01", "1", "1.23", "1.5")]
    + [Decimal(t) for t in ("7", "127.00", "9999999.98", "9999999.99")],
    "decimal(18,4)": [Decimal(t) for t in ("-99999999999999.9999", "-1.5", "-0.0001", "0", "0.0001", "1.23")]
    + [Decimal(t) for t in ("1.5", "7", "2147483648", "99999999999999.9999")],
    "decimal(38,10)": [
        Decimal(t) for t in ("-9999999999999999999999999999.9999999999", "-1.5", "-1e-10", "0")
    ]
    + [
        Decimal(t)
        for t in ("1e-10", "0.1", "1.23", "1.5", "7", "9223372036854775808", "18446744073709551616")
    ]
    + [Decimal("9999999999999999999999999999.9999999999")],
    "decimal(38,0)": [Decimal(n) for n in (-(10**38) + 1, -(2**64), -1, 0, 1, 7, 2**63, 2**64, 10**38 - 1)],
    "decimal(5,1)": [Decimal(t) for t in ("-9999.9", "-0.1", "0", "0.1", "1.5", "7", "9999.9")],
    "string": sorted(TEXTS, key=str.encode),
    "binary": [b"", b"\x00", b"\x00\x00", b"\x7f", b"\x80", b"a", b"ab", b"a\xff", b"\xc3\x28", b"\xff"]
    + [b"\xff" * 17, b"x" * 16 + b"a", b"x" * 10_000],
    "date": list(_DAYS),
    "timestamptz": _MOMENTS,
    "timestamp": _MOMENTS,
    "uuid": [f"{first}0000000-0000-4000-8000-00000000000{last}" for first in "0178f" for last in "0f"],
}
_FILES = (
    FileOptions(row_group_size=20),
    FileOptions(row_group_size=12, dictionary=False, page_index=True),
    FileOptions(row_group_size=30, statistics=False, bloom=("i1", "l1", "s1", "x1", "day1"), metrics="none"),
    FileOptions(row_group_size=15, metrics="bounds", integer_decimals=True),
    FileOptions(row_group_size=100, page_size=64),
)


def draw_rows(seed: int, num_rows: int = 300, group: int = 15) -> list[dict[str, Any]]:
    """Draw rows whose columns hold few neighbouring values over `group` rows at a time."""
    random_ = random.Random(seed)
    rows: list[dict[str, Any]] = []
    while len(rows) < num_rows:
        windows = {name: _window(random_, kind) for name, kind in _paths(COLUMNS) if name != "id"}
        for _ in range(group):
            row = {
                name: _draw(random_, windows, name, kind) for name, kind in COLUMNS.items() if name != "id"
            }
            rows.append({"id": len(rows), **row})
    return rows[:num_rows]


def _paths(columns: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found = []
    for name, kind in columns.items():
        found.append((prefix + name, kind))
        if isinstance(kind, dict):
            found += _paths(kind, f"{prefix}{name}.")
    return found


def _window(random_: random.Random, kind: Any) -> tuple[list[Any], float]:
    nulls = random_.choice((0.0, 0.0, 0.1, 0.3, 1.0))
    if isinstance(kind, dict):
        return [], nulls / 2
    pool = POOLS[kind]
    if random_.random() < 0.2:
        return pool, nulls
    first = random_.randrange(len(pool))
    return pool[first : first + random_.choice((1, 2, 4))], nulls


def _draw(random_: random.Random, windows: dict[str, Any], name: str, kind: Any) -> Any:
    values, nulls = windows[name]
    if random_.random() < nulls:
        return None
    if isinstance(kind, dict):
        return {inner: _draw(random_, windows, f"{name}.{inner}", of) for inner, of in kind.items()}
    return random_.choice(values)


def write_both(folder: Path, seed: int) -> tuple[str, str]:
    """Write the rows as an Iceberg table and as one Parquet file; return both paths."""
    rows = draw_rows(seed)
    table = Table(folder / "nasty", COLUMNS)
    size = len(rows) // len(_FILES)
    for number, options in enumerate(_FILES):
        table.append(rows[number * size : (number + 1) * size], options)
    table.write()
    columns = [_carried(column) for column in table.columns]
    values = [plain(Struct(tuple(table.columns)), row) for row in rows]
    arrays = {c.name: arrow_array(c, [row.get(c.id) for row in values], ids=None) for c in columns}
    pq.write_table(pa.table(arrays), folder / "plain.parquet")
    assert len(list(walk(columns))) == len(list(walk(table.columns)))
    return str(folder / "nasty"), str(folder / "plain.parquet")


def _carried(column: Column) -> Column:
    """A UUID is a string in Spark."""
    return Column(column.id, column.name, "string") if column.type == "uuid" else column
