"""Tables to join, and the same rows in plain Parquet: making and naming them, comparing, and which reader
reads.

Table names in a query are in braces: those of `SIZES`, of which `fact` has the most rows.
"""

from __future__ import annotations

import datetime
import random
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse import canonical
from native_scans import load
from session_settings import settings as set_confs
from tables import Table
from twostage.handover import eligibility

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMNS = {
    "id": "long",
    "v": "int",
    "n": "int",
    "l": "long",
    "s": "string",
    "real": "float",
    "wide": "double",
    "amount": "decimal(9,2)",
    "day": "date",
    "ts": "timestamptz",
    "raw": "binary",
    "flag": "boolean",
}
_DAY = datetime.date(2024, 1, 1)
_TIME = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
NAN = float("nan")
VALUES: dict[str, Any] = {
    "n": lambda k: k,
    "l": lambda k: k * 10**10 if k > 8 else k,
    "s": lambda k: ("", "a", "ab", "ü", "z" * 30)[k % 5] + str(k // 5),
    "real": lambda k: (0.0, -0.0, NAN, 1.5, float("inf"))[k] if k < 5 else k / 4,
    "wide": lambda k: (0.0, -0.0, NAN, 1.5, float("-inf"))[k] if k < 5 else k / 8,
    "amount": lambda k: Decimal(k * 125 - 300).scaleb(-2),
    "day": lambda k: _DAY + datetime.timedelta(days=k * 7 - 30),
    "ts": lambda k: _TIME + datetime.timedelta(hours=k * 31),
    "raw": lambda k: bytes([k, 255 - k]),
    "flag": lambda k: k % 2 == 0,
}
SIZES = {"fact": (6, 30), "other": (3, 20), "dim": (2, 8), "tiny": (1, 3), "none": (1, 1)}
"""Files, and rows per file."""


BROADCAST = "SELECT /*+ BROADCAST(d) */ f.id, f.s, d.v FROM {fact} f JOIN {dim} d ON f.n = d.n WHERE d.v < 3"
SORTED = BROADCAST.replace("BROADCAST", "MERGE")
SCALAR = """SELECT f.id FROM {fact} f JOIN {dim} d ON f.n = d.n
WHERE d.v = (SELECT max(o.v) FROM {fact} o JOIN {tiny} t ON o.n = t.n WHERE t.v >= 0)"""
TWICE = """WITH t AS (SELECT f.id, f.n, f.v FROM {fact} f JOIN {dim} d ON f.n = d.n WHERE d.v < 6)
SELECT a.id, b.v FROM t a JOIN t b ON a.id = b.id"""
NO_KEYS = "no join keys arrived"
LEFT_OUT = "join keys exclude files by"


def _rows(pick: random.Random, first: int, count: int, low: int, high: int) -> list[dict[str, Any]]:
    """Rows whose keys are in a range, so that bounds prune files, or are NULL."""
    made = []
    for number in range(first, first + count):
        row = {"id": number, "v": pick.randrange(10)}
        for name, value in VALUES.items():
            row[name] = None if pick.random() < 0.12 else value(pick.randint(low, high))
        made.append(row)
    return made


def make_tables(spark, folder: Path) -> dict[str, str]:
    """Return paths by name, and make the views ``plain_<name>`` of the same rows in Parquet."""
    pick, found = random.Random(7), {}
    for name, (files, count) in SIZES.items():
        table, live = Table(folder / name, dict(COLUMNS), version=2), []
        for number in range(files):
            low = number * 12 // files
            rows = _rows(pick, 1000 * number, count, low, low + 6)
            file = table.append(rows, row_group_size=10)
            deleted = set()
            if name in ("fact", "dim") and number % 2:
                deleted = {1, 2, count - 1}
                table.delete_positions({file: sorted(deleted)})
            live += [row for place, row in enumerate(rows) if place not in deleted]
        if name == "none":
            table.delete_positions({file: [0]})
            live = []
        found[name] = str(table.write())
        frame = spark.createDataFrame(
            [tuple(row[column] for column in COLUMNS) for row in live], load(spark, found[name]).schema
        )
        frame.write.parquet(str(folder / f"plain_{name}"))
        spark.read.parquet(str(folder / f"plain_{name}")).createOrReplaceTempView(f"plain_{name}")
    return found


def count_as_large(monkeypatch, num_bytes: int, max_column_bytes: int = 0) -> None:
    monkeypatch.setattr(eligibility, "MIN_BYTES_TO_PROBE", num_bytes)
    monkeypatch.setattr(eligibility, "MAX_JOIN_COLUMN_BYTES", max_column_bytes)


def bytes_of(path: str) -> int:
    """Return the bytes of a table's data files, or a little less."""
    return sum(file.stat().st_size for file in (Path(path).parent.parent / "data").rglob("*.parquet")) // 2


@contextmanager
def confs(spark, prefix: str = "spark.sql.", **settings: str) -> Iterator[None]:
    """Set confs below a prefix, dots written as underscores."""
    with set_confs(spark, **{f"{prefix}{name.replace('_', '.')}": value for name, value in settings.items()}):
        yield


def view(spark, tables, **options: str) -> None:
    for name, path in tables.items():
        load(spark, path, **options).createOrReplaceTempView(name)


def plain(query: str) -> str:
    """The same query over plain Parquet; names of tables are in braces."""
    return query.format(**{name: f"plain_{name}" for name in SIZES})


def ours(query: str) -> str:
    return query.format(**{name: name for name in SIZES})


def same(spark, query: str):
    """Return the query, once it has returned the rows of plain Parquet."""
    expected = canonical(spark.sql(plain(query)).collect())
    frame = spark.sql(ours(query))
    assert canonical(frame.collect()) == expected, ours(query)
    return frame


def readers(frame) -> tuple[int, int]:
    """Count the scans by Spark's reader and by Python, in the optimized plan without the sides that supply keys."""
    leaves = frame._jdf.queryExecution().optimizedPlan().collectLeaves()
    names = [str(leaves.apply(place).toString()) for place in range(leaves.size())]
    classes = [leaves.apply(place).getClass().getSimpleName() for place in range(leaves.size())]
    assert len(names) == sum(name in ("LogicalRelation", "DataSourceV2ScanRelation") for name in classes), (
        names
    )
    return classes.count("LogicalRelation"), classes.count("DataSourceV2ScanRelation")


def clear_reports(bridge) -> None:
    with bridge.scans._lock:
        bridge.scans._scans.clear()
