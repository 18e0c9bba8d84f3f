"""A warehouse with real Iceberg tables and a Spark session with twostage enabled."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

ROOT = Path(__file__).parents[2]
SOURCES = [str(ROOT / "connector"), str(ROOT / "native")]
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
os.environ["PYTHONPATH"] = os.pathsep.join([*SOURCES, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)

SPARK_CONFS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "America/New_York",
    # Spark's own cache skips batches by bounds that leave NaN out: `price > 50` would lose NaN in the oracle.
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
                "price": None if number % 13 == 0 else (float("nan") if number % 17 == 0 else number / 4 - 20),
                "amount": None if number % 10 == 3 else Decimal(number).scaleb(-2),
                "flag": None if number % 5 == 0 else number % 2 == 0,
                "day": None if number % 9 == 0 else datetime.date(2024, 1, 1) + datetime.timedelta(number % 40),
                "ts": None if number % 8 == 0 else _EPOCH + datetime.timedelta(minutes=number),
                "local": None if number % 8 == 1 else datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=number),
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


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory):
    """Table db.events: three appends of 100 rows; branch `audit` and tag `first` at the first two of them."""
    from pyiceberg.catalog.sql import SqlCatalog

    root = tmp_path_factory.mktemp("warehouse")
    uri = f"sqlite:///{root}/catalog.db"
    catalog = SqlCatalog("lake", uri=uri, warehouse=f"file://{root}")
    catalog.create_namespace("db")
    table = catalog.create_table("db.events", schema=ARROW)
    for first in (0, 100, 200):
        table.append(pa.Table.from_pylist(rows(first, 100), schema=ARROW))
    snapshots = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
    table.manage_snapshots().create_branch(snapshots[1], "audit").create_tag(snapshots[0], "first").commit()
    catalog.create_table("db.empty", schema=ARROW)
    evolved = catalog.create_table("db.evolved", schema=pa.schema([("id", pa.int64())]))
    evolved.append(pa.table({"id": pa.array([1, 2], pa.int64())}))
    old = evolved.metadata.current_snapshot_id
    with evolved.update_schema() as update:
        from pyiceberg.types import StringType

        update.add_column("name", StringType())
    evolved.append(pa.table({"id": pa.array([3], pa.int64()), "name": ["c"]}))
    evolved.manage_snapshots().create_tag(old, "old").commit()
    catalog.engine.dispose()
    return SimpleNamespace(
        root=root,
        events=str(root / "db" / "events"),
        empty=str(root / "db" / "empty"),
        snapshots=snapshots,
        before=str(table.metadata.snapshots[0].timestamp_ms - 60_000),
        old=old,
        rows=rows(0, 300),
        confs={"type": "jdbc", "uri": uri, "warehouse": f"file://{root}"},
    )


@pytest.fixture(scope="module")
def spark(warehouse, tmp_path_factory):
    """A session that ran a query before twostage was enabled. `plain` is the oracle: the rows without Iceberg."""
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    import twostage
    from twostage.columns import spark_schema

    builder = SparkSession.builder.master("local[2]")
    for key, value in SPARK_CONFS.items():
        builder = builder.config(key, value)
    folder = tmp_path_factory.mktemp("spark")
    builder = builder.config("spark.sql.warehouse.dir", str(folder / "wh"))
    session = builder.getOrCreate().newSession()
    for key, value in SPARK_CONFS.items():
        if key.startswith("spark.sql."):
            session.conf.set(key, value)
    session.sparkContext.setLogLevel("OFF")
    assert session.range(3).count() == 3
    twostage.enable(session, catalogs={"lake": warehouse.confs})
    events = session.read.format("twostage").load(warehouse.events)
    events.createOrReplaceTempView("events")
    assert spark_schema(()) == StructType([]).jsonValue()
    session.createDataFrame(plain_rows(warehouse.rows), events.schema).createOrReplaceTempView("plain")
    session.table("plain").cache().count()
    yield session
    session.catalog.clearCache()


def plain_rows(source):
    """The rows as tuples in the order of the schema, for `createDataFrame`."""
    names = ARROW.names
    return [tuple(row[name] for name in names) for row in source]


@pytest.fixture
def bridge():
    from twostage import session

    return session._the_bridge()


def executed_plan(frame) -> str:
    return frame._jdf.queryExecution().executedPlan().toString()


def canonical(rows) -> list[str]:
    """Rows as sorted text: NaN equals itself, order does not count."""
    return sorted(repr(row) for row in rows)


def run_python(code: str, *, env=None, cwd=None, timeout=120) -> str:
    """Run a script in a Python of its own and return what it printed."""
    full = {**os.environ, **(env or {})}
    for name in [key for key in full if key.startswith("PYSPARK_GATEWAY")]:
        del full[name]
    done = subprocess.run(
        [sys.executable, "-c", code], env=full, cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout
