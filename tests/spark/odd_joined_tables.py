"""Tables and other join sides, made in every way: layouts, formats, deletes, and rows from no table.

Each has the columns of `joined_tables.COLUMNS` and those of `ODD_COLUMNS`; for each the view ``plain_<name>``
has the same rows from plain Parquet. `FACTS` are the larger ones.
"""

from __future__ import annotations

import datetime
import random
import uuid
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from joined_tables import COLUMNS, VALUES
from native_scans import load
from tables import Table

if TYPE_CHECKING:
    from collections.abc import Iterable

ODD_COLUMNS = {
    "fine": "decimal(11,4)",
    "local": "timestamp",
    "u": "uuid",
    "p": {"a": "long", "q": {"b": "string"}},
}
_TIME = datetime.datetime(2024, 1, 1)
_ODD_VALUES: dict[str, Any] = {
    "fine": lambda k: Decimal(k * 12500 - 30000 + (k % 3) * 7).scaleb(-4),
    "local": lambda k: _TIME + datetime.timedelta(days=k * 7 - 30, hours=(k % 4) // 3),
    "u": lambda k: str(uuid.UUID(int=k << 64)),
    "p": lambda k: {"a": None if k % 7 == 6 else k, "q": None if k % 5 == 4 else {"b": str(k // 2)}},
}
ALL_COLUMNS = {**COLUMNS, **ODD_COLUMNS}
ALL_VALUES = {**VALUES, **_ODD_VALUES}
KEYS = (*VALUES, "fine", "local", "u", "p.a", "p.q.b")
"""Columns by which two sides are joined without casts."""
MIXED = (
    ("n", "l"),
    ("real", "wide"),
    ("n", "wide"),
    ("n", "amount"),
    ("l", "fine"),
    ("amount", "fine"),
    ("fine", "amount"),
    ("day", "local"),
    ("day", "ts"),
    ("local", "ts"),
    ("p.a", "n"),
    ("u", "s"),
)
"""Columns of two sides that Spark casts in order to compare them."""
COLLATED = ("UTF8_LCASE", "UNICODE_CI", "UTF8_BINARY_RTRIM")
_BUCKETS, _RANGES, _DATES = ["bucket[4](n)"], ["truncate[5](n)"], ["day"]
TABLES: dict[str, dict[str, Any]] = {
    "fact": {"files": 6, "rows": 30, "deletes": "positions"},
    "bucketed": {"files": 2, "rows": 60, "partition": _BUCKETS},
    "ranged": {"files": 2, "rows": 60, "partition": _RANGES, "deletes": "equality"},
    "dated": {"files": 1, "rows": 60, "partition": _DATES, "version": 3, "deletes": "vectors"},
    "vectors": {"files": 5, "rows": 30, "version": 3, "deletes": "vectors"},
    "equal": {"files": 5, "rows": 30, "deletes": "equality"},
    "orc": {"files": 4, "rows": 30, "format": "orc", "deletes": "positions"},
    "avro": {"files": 4, "rows": 30, "format": "avro"},
    "other": {"files": 3, "rows": 20},
    "dim": {"files": 2, "rows": 8, "deletes": "positions"},
    "tiny": {"files": 1, "rows": 3},
    "none": {"files": 1, "rows": 1, "deletes": "all"},
}
"""How tables are made; properties not named are absent."""
FACTS = tuple(name for name, how in TABLES.items() if how["files"] * how["rows"] >= 60 and name != "other")
SIDES = ("other", "dim", "tiny", "none", "made", "cached", "chars", "files")
NAMES = (*TABLES, "made", "cached", "chars", "files")


def ours(query: str) -> str:
    return query.format(**{name: name for name in NAMES})


def plain(query: str) -> str:
    return query.format(**{name: f"plain_{name}" for name in NAMES})


def _rows(pick: random.Random, first: int, count: int, low: int, high: int) -> list[dict[str, Any]]:
    made = []
    for number in range(first, first + count):
        row: dict[str, Any] = {"id": number, "v": pick.randrange(10)}
        for name, value in ALL_VALUES.items():
            row[name] = None if pick.random() < 0.12 else value(pick.randint(low, high))
        made.append(row)
    return made


def make_odd_tables(spark, folder: Path) -> dict[str, str]:
    """Return paths by name; make the views of sides that are not tables, and ``plain_<name>`` for all."""
    pick, found = random.Random(11), {}
    for name, how in TABLES.items():
        path, live = _make_table(folder / name, how, pick)
        found[name] = path
        _plain(spark, folder, name, live, load(spark, path).schema)
    schema = spark.table("plain_dim").schema
    rows = [tuple(row) for row in spark.table("plain_dim").collect()]
    spark.createDataFrame(rows[::2], schema).createOrReplaceTempView("made")
    spark.createDataFrame(rows[::2], schema).write.parquet(str(folder / "plain_made"))
    spark.sql("CREATE OR REPLACE TEMP VIEW cached AS SELECT * FROM plain_dim WHERE v < 7")
    spark.sql("CACHE TABLE cached")
    spark.sql("SELECT * FROM plain_dim WHERE v < 7").write.parquet(str(folder / "plain_cached"))
    spark.table("plain_other").where("v < 4").write.parquet(str(folder / "plain_files"))
    kinds = ", ".join(
        f"{field.name} {'CHAR(6)' if field.name == 's' else field.dataType.simpleString()}"
        for field in schema
    )
    spark.sql("DROP TABLE IF EXISTS chars")
    spark.sql(f"CREATE TABLE chars ({kinds}) USING parquet LOCATION '{folder / 'chars'}'")
    columns = ", ".join("left(s, 6)" if name == "s" else name for name in ALL_COLUMNS)
    spark.sql(f"INSERT INTO chars SELECT {columns} FROM plain_dim")
    spark.table("chars").write.parquet(str(folder / "plain_chars"))  # including the padding
    for name in ("made", "cached", "chars", "files"):
        spark.read.parquet(str(folder / f"plain_{name}")).createOrReplaceTempView(f"plain_{name}")
    spark.read.parquet(str(folder / "plain_files")).createOrReplaceTempView("files")
    return found


def _make_table(folder: Path, how: dict[str, Any], pick: random.Random) -> tuple[str, list[dict[str, Any]]]:
    """Return a table's path and its rows."""
    deletes, rows_of = how.get("deletes"), how["rows"]
    table = Table(
        folder, dict(ALL_COLUMNS), version=how.get("version", 2), partition=how.get("partition", ())
    )
    live: list[dict[str, Any]] = []
    for number in range(how["files"]):
        low = 0 if "partition" in how else number * 12 // how["files"]
        rows = _rows(pick, 1000 * number, rows_of, low, low + (18 if "partition" in how else 6))
        if "partition" in how:
            table.append_all(rows, row_group_size=10, page_index=True)
            live += rows
            continue
        file = table.append(rows, row_group_size=10, format=how.get("format", "parquet"))
        deleted = _deleted_positions(deletes, number, rows_of)
        if deleted and deletes == "vectors":
            table.delete_vectors({file: deleted})
        elif deleted and deletes != "equality":
            table.delete_positions({file: deleted})
        live += [row for place, row in enumerate(rows) if place not in deleted or deletes == "equality"]
    if deletes == "equality" and "partition" not in how:
        keys = [row["id"] for row in live if row["id"] % 4 == 1]
        table.delete_equal(["id"], [{"id": key} for key in keys])
        live = [row for row in live if row["id"] not in keys]
    return str(table.write()), live


def _deleted_positions(deletes: str | None, number: int, count: int) -> list[int]:
    if deletes == "all":
        return list(range(count))
    return sorted({1, 2, count - 1}) if deletes and number % 2 else []


def _plain(spark, folder: Path, name: str, rows: Iterable[dict[str, Any]], schema) -> None:
    made = [tuple(row[column] for column in ALL_COLUMNS) for row in rows]
    spark.createDataFrame(made, schema).write.parquet(str(folder / f"plain_{name}"))
    spark.read.parquet(str(folder / f"plain_{name}")).createOrReplaceTempView(f"plain_{name}")


def view(spark, tables: dict[str, str], **options: str) -> None:
    for name, path in tables.items():
        load(spark, path, **options).createOrReplaceTempView(name)


def range_side(first: int, end: int, step: int) -> str:
    """A side of integers generated by Spark, with the columns of the others.

    `try_cast`: in a join by `l`, Spark infers a filter on the cast for the other side's `l`, and would fail
        with an overflow on rows that do not join, with plain Parquet, too.
    """
    number = "try_cast(r.id AS INT)"
    columns = {
        "id": "r.id",
        "v": f"{number} % 10",
        "n": number,
        "l": "r.id",
        "s": "concat('a', r.id)",
        "real": "CAST(r.id AS FLOAT)",
        "wide": "CAST(r.id AS DOUBLE)",
        "amount": "try_cast(r.id AS DECIMAL(9,2))",
        "day": f"date_add(DATE'2024-01-01', {number})",
        "ts": "timestamp_seconds(1704067200 + 3600 * r.id)",
        "raw": "CAST(CAST(r.id AS STRING) AS BINARY)",
        "flag": "r.id % 2 = 0",
        "fine": "try_cast(r.id AS DECIMAL(11,4))",
        "local": f"CAST(date_add(DATE'2024-01-01', {number}) AS TIMESTAMP_NTZ)",
        "u": "CAST(r.id AS STRING)",
        "p": "named_struct('a', r.id, 'q', named_struct('b', CAST(r.id AS STRING)))",
    }
    assert columns.keys() == ALL_COLUMNS.keys()
    shown = ", ".join(f"{text} AS {name}" for name, text in columns.items())
    return f"(SELECT {shown} FROM range({first}, {end}, {step}) r)"


def grouped_side(table: str, key: str, condition: str) -> str:
    """A side with one row for each value of a column."""
    shown = ", ".join(name if name == key else f"max({name}) AS {name}" for name in ALL_COLUMNS)
    return f"(SELECT {shown} FROM {table} GROUP BY {key} HAVING {condition})"
