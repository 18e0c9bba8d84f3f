"""One SparkSession with Apache Iceberg's own runtime and twostage side by side.

Iceberg's JAR comes from Maven Central through Spark's own resolver, so the first run needs the network. Both
read the same warehouse: ``ice`` is Iceberg's catalog, ``lake`` is ours (``icefile`` and ``lakefile`` with ``file:`` locations).
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

import resolver
import twostage
from comparison import Prepared
from spark_archive import ONE_JVM, jvm_options
from workshop import Workshop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from case import Case

# Python's datetimes are converted to Spark in the process's zone.
os.environ["TZ"] = "UTC"
time.tzset()
os.environ.setdefault("JDK_JAVA_OPTIONS", jvm_options())


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start Spark with Iceberg's catalogs: ``ice`` names files ``/…``, ``icefile`` names them ``file:/…``."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    warehouse = tmp_path_factory.mktemp("warehouse")
    builder = SparkSession.builder.master("local[2]").appName("interop")
    confs = {
        **resolver.PACKAGES,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **ONE_JVM,
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        # Finding 1: its cache keeps delete keys per file, whatever projection they were read for, so that one
        # query's keys inside structs are wrong for the next.
        "spark.sql.iceberg.executor-cache.enabled": "false",
        # Tables of a few hundred rows: compiling an expression costs more than interpreting it.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(warehouse),
        "spark.sql.catalog.icefile": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.icefile.type": "hadoop",
        "spark.sql.catalog.icefile.warehouse": f"file://{warehouse}/file",
        "spark.sql.catalog.lake": "twostage",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(warehouse),
        "spark.sql.catalog.lakefile": "twostage",
        "spark.sql.catalog.lakefile.type": "hadoop",
        "spark.sql.catalog.lakefile.warehouse": f"file://{warehouse}/file",
        "interop.warehouse": str(warehouse),
    }
    for key, value in confs.items():
        builder = builder.config(key, value)
    session = resolver.start(builder)
    session.sparkContext.setLogLevel("ERROR")
    assert session.version.startswith("4.1."), "Iceberg's runtime is for Spark 4.1: run `make interop`"
    twostage.enable(session)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def workshop(spark: SparkSession) -> Workshop:
    """Return the maker of tables."""
    return Workshop(spark)


@pytest.fixture(scope="session")
def prepare(workshop: Workshop) -> Callable[[Case], Prepared]:
    """Return a function that makes a case's table, once, and gets Iceberg's and Spark's answers."""
    made: dict[str, Prepared | Exception] = {}

    def prepared(case: Case) -> Prepared:
        if case.name not in made:
            try:
                made[case.name] = Prepared.build(workshop, case)
            except Exception as error:  # noqa: BLE001 - each test of the case fails with it, at no more cost
                made[case.name] = error
        found = made[case.name]
        if isinstance(found, Exception):
            raise found
        return found

    return prepared
