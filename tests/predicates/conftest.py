"""A session in which `nasty` is the table through twostage; `local` and `plain` are the same rows in Spark."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from nasty_values import write_both

from spark_archive import ONE_JVM

_ROOT = Path(__file__).resolve().parents[2]
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
# Spark's workers are processes of their own: they need the sources too.
_SOURCES = os.pathsep.join(
    [str(_ROOT / "connector"), str(_ROOT / "native"), os.environ.get("PYTHONPATH", "")]
)
os.environ["PYTHONPATH"] = _SOURCES.rstrip(os.pathsep)
SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))
CONFS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    # The oracle must evaluate: nothing may be skipped by bounds, neither in its cache nor in its Parquet file.
    "spark.sql.inMemoryColumnarStorage.partitionPruning": "false",
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    from pyspark.sql import SparkSession

    import twostage

    folder = tmp_path_factory.mktemp("predicates")
    builder = SparkSession.builder.master("local[2]")
    for key, value in {**CONFS, **ONE_JVM}.items():
        builder = builder.config(key, value)
    session = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse")).getOrCreate().newSession()
    for key, value in CONFS.items():
        if key.startswith("spark.sql."):
            session.conf.set(key, value)
    session.sparkContext.setLogLevel("OFF")
    logging.getLogger("SQLQueryContextLogger").disabled = True  # writes each expected error with its stack
    twostage.enable(session)
    nasty, plain = write_both(folder, SEED)
    session.read.format("twostage").load(nasty).createOrReplaceTempView("nasty")
    session.read.parquet(plain).coalesce(1).cache().createOrReplaceTempView("plain")
    # Spark evaluates a local relation while it optimizes, without compiling: ten times as fast for few rows.
    schema = session.table("plain").schema
    session.createDataFrame(pq.read_table(plain), schema).createOrReplaceTempView("local")
    types = [table.schema.simpleString() for table in map(session.table, ("plain", "local", "nasty"))]
    assert types[0] == types[1] == types[2]
    hashed = "SELECT id, xxhash64(*) FROM {} ORDER BY id"
    hashes = session.sql(hashed.format("plain")).collect()
    assert hashes == session.sql(hashed.format("local")).collect()
    assert hashes == session.sql(hashed.format("nasty")).collect()
    assert session.table("plain").count() == session.table("nasty").count() == 300
    yield session
    session.catalog.clearCache()
