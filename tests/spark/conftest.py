"""A warehouse with real Iceberg tables and a Spark session with twostage enabled."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

from lakehouse import ARROW, SPARK_CONFS, plain_rows, rows
from spark_archive import ONE_JVM

SAME_ON_EVERY_SPARK = {
    "test_spark_aggregate_queries": "random queries; what the planner answers, test_spark_aggregates asks on each version",
    "test_spark_changes": "which snapshot a read sees is decided in Python",
    "test_spark_compile": "a job that maps over data files",
    "test_spark_differential": "random tables and queries; both readers are in test_spark_native* on each version",
    "test_spark_footers": "footers that Arrow refuses, read in Python",
    "test_spark_index": "a job that maps over data files",
    "test_spark_native_flips": "checksums of pages, verified by Parquet's Java library",
    "test_spark_native_stores": "file systems, which are Hadoop's",
    "test_spark_object_store": "what is asked of a store, and when, is decided in Python",
    "test_spark_orc": "files that Spark wrote, read in Python",
    "test_spark_store_faults": "requests to object stores, which Python sends",
    "test_spark_report_listener": "a socket in Python",
    "test_spark_variants": "shredded variants, put together in Python",
    "test_spark_workers": "the memory of Python workers over many queries",
}
"""Files that test nothing that depends on the version of Spark, by reason: the newest Spark runs them, older
ones only at nightly sizes (`make test-all`)."""


def pytest_collection_modifyitems(items):
    """Mark the tests in those files; the Makefile's targets for older versions of Spark skip them."""
    for item in items:
        if item.path.stem in SAME_ON_EVERY_SPARK:
            item.add_marker("newest_spark")


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
    from twostage.spark import session as sessions

    sessions._IMPORT_SECONDS = 120.0  # otherwise a stalled machine gives some files Spark's own daemon
    builder = SparkSession.builder.master("local[2]")
    for key, value in {**SPARK_CONFS, **ONE_JVM}.items():
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


@pytest.fixture(autouse=True)
def no_job_group_stays():
    """A job group set by a test would describe the queries of later tests in this process."""
    yield
    from pyspark import SparkContext

    if (context := SparkContext._active_spark_context) is not None:
        for key in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
            context.setLocalProperty(key, None)


@pytest.fixture
def bridge():
    from twostage.spark import session

    return session._the_bridge()
