"""What top-n scans (`ORDER BY … LIMIT`) cost where they help and where they cannot, compared with the option off.

Makes two tables of 8 files with the same rows: in one each file has a range of the sort key, in the other
each file has all of it. Queries both for the greatest 100 rows through Spark, with the option `top-n` and
without it (then Spark's own reader reads all); prints CPU seconds of all processes and the table's bytes
read, from the report. ``make bench-top``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from process_tree import ProcessTree
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import twostage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILES = 8
COLUMNS = 9


def main() -> None:
    """Make the tables, query, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        places = make_tables(Path(folder), given.rows)
        spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        twostage.enable(spark)
        tree = ProcessTree(os.getpid())  # the driver, its Java, and Python's workers
        shown = Table(
            "files hold", "top-n", "seconds", "CPU seconds", "MiB read", title="ORDER BY ts DESC LIMIT 100"
        )
        for held, place in places.items():
            answers = []
            for top in ("true", "false"):
                frame = spark.read.format("twostage").option("top-n", top).load(place)
                frame = frame.orderBy("ts", ascending=False).limit(100)
                answers.append([row.ts for row in frame.collect()])
                shown.add_row(held, top, *measure(spark, frame, tree, given.repeats))
            assert answers[0] == answers[1]
        spark.stop()
    Console().print(shown)


def make_tables(folder: Path, rows: int) -> dict[str, str]:
    """Return the tables' paths, by how the sort key is distributed over files."""
    catalog = SqlCatalog("made", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("db")
    random = np.random.default_rng(1)
    times = np.sort(random.integers(1_600_000_000_000_000, 1_700_000_000_000_000, rows))
    columns = {f"v{number}": random.integers(0, 2**62, rows) for number in range(COLUMNS - 1)}
    places = {}
    for held, order in (("a range", np.arange(rows)), ("all of it", random.permutation(rows))):
        values = {name: pa.array(column) for name, column in columns.items()}
        all_rows = pa.table({"ts": pa.array(times[order], pa.timestamp("us")), **values})
        table = catalog.create_table(f"db.{held.replace(' ', '_')}", schema=all_rows.schema)
        step = -(-rows // FILES)
        for start in range(0, rows, step):
            table.append(all_rows.slice(start, step))
        places[held] = table.metadata_location
    return places


def measure(spark: SparkSession, frame: DataFrame, tree: ProcessTree, repeats: int) -> list[str]:
    """Return median seconds and CPU seconds of a query, and the MiB of the table that it read."""
    figures = []
    for _ in range(repeats + 2):
        tree.used()
        started = time.perf_counter()
        frame.collect()
        figures.append((time.perf_counter() - started, tree.used().cpu))
    seconds, cpu = (statistics.median(values) for values in zip(*figures[2:], strict=True))
    report = twostage.last_scan(spark)
    assert report is not None
    read = report.count("bytes.read") + report.count("handed_over.bytes")
    return [f"{seconds:.2f}", f"{cpu:.2f}", f"{read / 2**20:,.1f}"]


if __name__ == "__main__":
    main()
