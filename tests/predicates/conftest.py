"""A session in which `nasty` is the table through twostage, and `plain` the same rows evaluated by Spark."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from nasty_values import write_both

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
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    # The oracle must evaluate: nothing may be skipped by bounds, neither in its cache nor in its Parquet file.
    "spark.sql.inMemoryColumnarStorage.partitionPruning": "false",
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
}


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    from pyspark.sql import SparkSession

    import twostage

    folder = tmp_path_factory.mktemp("predicates")
    builder = SparkSession.builder.master("local[2]")
    for key, value in CONFS.items():
        builder = builder.config(key, value)
    session = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse")).getOrCreate().newSession()
    for key, value in CONFS.items():
        if key.startswith("spark.sql."):
            session.conf.set(key, value)
    session.sparkContext.setLogLevel("OFF")
    twostage.enable(session)
    nasty, plain = write_both(folder, SEED)
    session.read.format("twostage").load(nasty).createOrReplaceTempView("nasty")
    session.read.parquet(plain).coalesce(1).cache().createOrReplaceTempView("plain")
    assert session.table("plain").count() == session.table("nasty").count() == 300
    yield session
    session.catalog.clearCache()
