"""The demo: a few million events with real deletes, three queries through Spark, each with its report.

Run it with ``make demo``; without make it needs ``pip install ".[spark,sql]"``. The warehouse is made once,
in ``demo-warehouse/``.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

from pyspark.sql import SparkSession

import twostage
import warehouse

FOLDER = Path(__file__).resolve().parent.parent / "demo-warehouse"
NUM_FILES = 6

QUERIES = {
    "A few customers' purchases": """
        SELECT event_id, user_id, ts, kind, amount, payload FROM events
        WHERE user_id IN (4711, 4712, 151) AND kind = 'buy'""",
    "A device or a user, whichever matches (an OR over two columns)": """
        SELECT ts, kind, session, payload FROM events
        WHERE user_id = 99 OR device_id = 'device-77' ORDER BY ts LIMIT 20""",
    "How many events a time window holds (columns are not read at all where bounds decide)": """
        SELECT count(*) FROM events WHERE event_id >= 1000000 AND event_id < 2000000""",
}


def make_warehouse(folder: Path, num_files: int = NUM_FILES) -> None:
    """Make the warehouse if it isn't there."""
    catalog = warehouse.open_catalog(folder)
    if catalog.namespace_exists("db") and catalog.table_exists("db.events"):
        return
    print(f"Making {num_files * warehouse.ROWS_PER_FILE:,} events in {folder} …", flush=True)
    table = warehouse.make_events(catalog, num_files)
    warehouse.delete_rows(table, "user_id", list(range(100, 200)))  # customers who asked to be forgotten
    paths = sorted(table.inspect.data_files()["file_path"].to_pylist())
    warehouse.delete_positions(table, paths[0], list(range(0, 5000, 7)))


def start_spark(folder: Path) -> SparkSession:
    """Start a local Spark that knows the warehouse as the catalog ``lake``."""
    return (
        SparkSession.builder.master("local[2]")
        .appName("twostage demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.catalog.lake", "twostage")
        .config("spark.sql.catalog.lake.type", "sql")
        .config("spark.sql.catalog.lake.uri", f"sqlite:///{folder}/catalog.db")
        .config("spark.sql.catalog.lake.warehouse", f"file://{folder}")
        .getOrCreate()
    )


def main() -> None:
    """Make the warehouse if it isn't there, then run the queries."""
    make_warehouse(FOLDER)
    spark = start_spark(FOLDER)
    twostage.enable(spark)
    spark.read.format("twostage").load("lake.db.events").createOrReplaceTempView("events")
    considered = read = 0
    for title, query in QUERIES.items():
        print(f"\n=== {title}\n{query.strip()}\n", flush=True)
        started = time.perf_counter()
        result = spark.sql(query)
        result.show(5)
        print(f"{time.perf_counter() - started:.2f} s\n")
        report = twostage.last_scan(spark)
        print(report, flush=True)
        considered += report.count("bytes.considered")
        read += report.count("bytes.read")
    spark.stop()
    share = 100 * (1 - read / considered)
    print(f"\nNot read: {considered - read:,} of {considered:,} bytes ({share:.1f} %).")


if __name__ == "__main__":
    main()
