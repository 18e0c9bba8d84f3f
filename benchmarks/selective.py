"""Times selective and unselective queries: twostage, twostage in one stage, and Spark's Parquet reader.

All run in one Spark session over the same files, interleaved, several times each; the figures are medians
in seconds and ratios to Spark's Parquet reader. Run it with ``make bench``; ``--rows`` sets the size.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

import numpy as np
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import twostage

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

ROWS_PER_FILE = 500_000
QUERIES: dict[str, tuple[str, str]] = {
    "SELECT *, user_id IN (3 values)": ("*", "user_id IN (11, 222, 3333)"),
    "SELECT *, string equality": ("*", "device = 'device-000077'"),
    "SELECT *, OR over a long and a string": ("*", "user_id = 11 OR device = 'device-000077'"),
    "16 columns, user_id IN": ("16", "user_id IN (11, 222, 3333)"),
    "SELECT *, clustered range": ("*", "id BETWEEN 100000 AND 100200"),
    "16 columns, half of the rows": ("16", "half < 5"),
    "16 columns, all rows": ("16", ""),
    "count(*), user_id IN": ("count", "user_id IN (11, 222, 3333)"),
}


def make_table(folder: Path, num_rows: int, num_metrics: int) -> tuple[str, list[str]]:
    """Make a wide table; return its location and its data files."""
    catalog = SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("db")
    random = np.random.default_rng(3)
    table = None
    for first in range(0, num_rows, ROWS_PER_FILE):
        count = min(ROWS_PER_FILE, num_rows - first)
        columns = {
            "id": pa.array(np.arange(first, first + count)),
            "user_id": pa.array(random.integers(0, num_rows // 10, count)),
            "device": pa.array(np.char.mod("device-%06d", random.integers(0, num_rows // 5, count))),
            "half": pa.array(random.integers(0, 10, count).astype(np.int32)),
        }
        for number in range(num_metrics):
            values = random.random(count) if number % 2 else random.integers(0, 2**40, count)
            columns[f"m{number}"] = pa.array(values)
        batch = pa.table(columns)
        if table is None:
            properties = {"write.parquet.row-group-limit": "250000"}
            table = catalog.create_table("db.wide", batch.schema, properties=properties)
        table.append(batch)
    assert table is not None
    return table.location(), table.inspect.data_files()["file_path"].to_pylist()


def query(frame: DataFrame, columns: str, predicate: str) -> Callable[[], None]:
    """Return a thunk that runs a query and drops its rows inside Spark."""

    def run() -> None:
        found = frame.where(predicate) if predicate else frame
        if columns == "count":
            found.count()
            return
        if columns != "*":
            found = found.select(*frame.columns[: int(columns)])
        found.write.format("noop").mode("overwrite").save()

    return run


def main() -> None:
    """Make the table, run every query on every reader, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--metrics", type=int, default=56, help="columns besides the four that filter")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each query, after one that warms")
    arguments = parser.parse_args()
    console = Console(width=120)
    with tempfile.TemporaryDirectory() as folder:
        location, files = make_table(Path(folder), arguments.rows, arguments.metrics)
        size = sum(Path(path.removeprefix("file://")).stat().st_size for path in files)
        spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.log.level", "ERROR")
            .config("spark.driver.memory", "4g")
            .getOrCreate()
        )
        twostage.enable(spark)
        readers = {
            "twostage": spark.read.format("twostage").load(location),
            "one stage": spark.read.format("twostage").option("two-stage", "false").load(location),
            "Spark Parquet": spark.read.parquet(*files),
        }
        columns = 4 + arguments.metrics
        console.print(
            f"{arguments.rows:,} rows x {columns} columns, {size / 2**20:,.0f} MiB, {arguments.repeats} runs, medians"
        )
        shown = Table("query", *(f"{name}, s" for name in readers), "twostage / Spark Parquet")
        for title, (wanted, predicate) in QUERIES.items():
            runs = {name: query(frame, wanted, predicate) for name, frame in readers.items()}
            seconds: dict[str, list[float]] = {name: [] for name in runs}
            for repeat in range(arguments.repeats + 1):
                for name, run in runs.items():
                    started = time.perf_counter()
                    run()
                    if repeat:  # the first round warms caches and compilers
                        seconds[name].append(time.perf_counter() - started)
            medians = {name: statistics.median(values) for name, values in seconds.items()}
            ratio = medians["twostage"] / medians["Spark Parquet"]
            shown.add_row(title, *(f"{value:.2f}" for value in medians.values()), f"{ratio:.2f}")
        console.print(shown)
        spark.stop()


if __name__ == "__main__":
    main()
