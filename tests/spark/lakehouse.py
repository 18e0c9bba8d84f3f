"""The rows of the test warehouse, and how tests inspect a query."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

ROOT = Path(__file__).parents[2]
SOURCES = [str(ROOT / "connector"), str(ROOT / "native")]
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
os.environ["PYTHONPATH"] = os.pathsep.join([*SOURCES, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)

SPARK_CONFS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "America/New_York",
    # Spark's own cache skips batches by bounds that ignore NaN: `price > 50` would lose NaN in the oracle.
    "spark.sql.inMemoryColumnarStorage.partitionPruning": "false",
}
ODD = "odd.name `x y"
_EPOCH = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)


def rows(first: int, count: int) -> list[dict]:
    """Rows by number: every column but `id` is sometimes NULL."""
    made = []
    for number in range(first, first + count):
        made.append(
            {
                "id": number,
                "device": None if number % 11 == 0 else f"d{number % 7}",
                "price": None
                if number % 13 == 0
                else (float("nan") if number % 17 == 0 else number / 4 - 20),
                "amount": None if number % 10 == 3 else Decimal(number).scaleb(-2),
                "flag": None if number % 5 == 0 else number % 2 == 0,
                "day": None
                if number % 9 == 0
                else datetime.date(2024, 1, 1) + datetime.timedelta(number % 40),
                "ts": None if number % 8 == 0 else _EPOCH + datetime.timedelta(minutes=number),
                "local": None
                if number % 8 == 1
                else datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=number),
                "payload": None if number % 6 == 0 else bytes([number % 256]),
                "person": None if number % 12 == 0 else {"name": f"n{number % 5}", "age": number % 50},
                ODD: None if number % 14 == 0 else number % 20,
            }
        )
    return made


ARROW = pa.schema(
    [
        ("id", pa.int64()),
        ("device", pa.string()),
        ("price", pa.float64()),
        ("amount", pa.decimal128(9, 2)),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("payload", pa.binary()),
        ("person", pa.struct([("name", pa.string()), ("age", pa.int32())])),
        (ODD, pa.int32()),
    ]
)


def plain_rows(source):
    """The rows as tuples in the order of the schema, for `createDataFrame`."""
    names = ARROW.names
    return [tuple(row[name] for name in names) for row in source]


def executed_plan(frame) -> str:
    return frame._jdf.queryExecution().executedPlan().toString()


def canonical(rows) -> list[str]:
    """Rows as sorted text: NaN equals itself, order does not count."""
    return sorted(repr(row) for row in rows)


def run_python(code: str, *, env=None, cwd=None, timeout=280) -> str:
    """Run a script in its own Python process and return what it printed."""
    full = {**os.environ, **(env or {})}
    for name in [key for key in full if key.startswith("PYSPARK_GATEWAY")]:
        del full[name]
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=full,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout
