"""Times the same queries on the same files: twostage, Iceberg's Spark connector, Spark's Parquet reader, others.

The table is written by Iceberg's own connector on Spark 4.1, the newest that it exists for, and read in one
Spark session by each reader in turn, interleaved; DuckDB and Polars read the same data files in a process of
their own, where they are installed. `whole chunks` is twostage without page-level reads and without handing
over full scans, `unverified` without page checksums. The figures are medians in seconds and ratios to twostage. Run it with
``make bench-peers``; ``--rows`` and ``--columns`` set the size.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from iceberg_session import start
from rich.console import Console
from rich.table import Table
from selective import query

import twostage

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

QUERIES: dict[str, tuple[str, str]] = {
    "SELECT *, user_id IN (3 values)": ("*", "user_id IN (11, 222, 3333)"),
    "SELECT *, string equality": ("*", "device = 'device-000077'"),
    "SELECT *, OR over a long and a string": ("*", "user_id = 11 OR device = 'device-000077'"),
    "16 columns, user_id IN": ("16", "user_id IN (11, 222, 3333)"),
    "SELECT *, clustered": ("*", "id BETWEEN 500000 AND 500219"),
    "16 columns, half of the rows": ("16", "half < 5"),
    "16 columns, all rows": ("16", ""),
}


def make_table(spark: SparkSession, rows: int, columns: int) -> None:
    """Write the table by Iceberg's connector, its ids ascending and everything else scattered."""
    scattered = f"pmod(xxhash64(id, 1), {max(1, rows // 12)})"
    parts = [
        "id",
        f"{scattered} AS user_id",
        f"concat('device-', lpad(cast(pmod(xxhash64(id, 2), {max(1, rows // 3)}) AS string), 6, '0')) AS device",
        "cast(pmod(xxhash64(id, 3), 10) AS int) AS half",
        "timestamp_micros(1700000000000000 + id * 1000) AS ts",
        "elt(cast(pmod(xxhash64(id, 4), 5) AS int) + 1, 'DE', 'FR', 'US', 'IN', 'BR') AS country",
    ]
    for number in range(columns - len(parts)):
        seed = number + 10
        parts.append(
            (
                f"cast(pmod(xxhash64(id, {seed}), 1000000007) AS double) / 1000 AS m{number}",
                f"pmod(xxhash64(id, {seed}), 1000000007) AS m{number}",
                f"cast(pmod(xxhash64(id, {seed}), 1000) AS int) AS m{number}",
                f"concat('v', cast(pmod(xxhash64(id, {seed}), 5000) AS string)) AS m{number}",
            )[number % 4]
        )
    spark.range(rows, numPartitions=2).selectExpr(*parts).createOrReplaceTempView("rows")
    spark.sql("CREATE TABLE ice.db.wide USING iceberg AS SELECT * FROM rows")


def ours(spark: SparkSession, location: str, options: dict[str, str]) -> DataFrame:
    """Return the table read by twostage with some options."""
    return spark.read.format("twostage").options(**options).load(location)


def native_readers(files: list[str]) -> dict[str, Callable[[str, str], object]]:
    """Return the readers outside Spark that are installed: (columns, predicate) -> rows."""
    readers: dict[str, Callable[[str, str], object]] = {}
    try:
        import duckdb  # noqa: PLC0415

        connection = duckdb.connect(config={"threads": 2})
        names = [
            row[0] for row in connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [files]).fetchall()
        ]

        def by_duckdb(columns: str, predicate: str) -> object:
            wanted = "*" if columns == "*" else ", ".join(names[: int(columns)])
            where = f" WHERE {predicate}" if predicate else ""
            return connection.execute(
                f"SELECT {wanted} FROM read_parquet(?){where}", [files]
            ).to_arrow_table()

        readers["DuckDB"] = by_duckdb
    except ImportError:
        pass
    try:
        import polars  # noqa: PLC0415

        def by_polars(columns: str, predicate: str) -> object:
            frame = polars.scan_parquet(files)
            if predicate:
                frame = frame.filter(polars.sql_expr(predicate))
            if columns != "*":
                frame = frame.select(frame.collect_schema().names()[: int(columns)])
            return frame.collect()

        readers["Polars"] = by_polars
    except ImportError:
        pass
    return readers


def main() -> None:
    """Make the table, run every query on every reader, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--columns", type=int, default=120)
    parser.add_argument("--repeats", type=int, default=3, help="runs of each query, after one that warms")
    parser.add_argument("--warehouse", help="keep the table in this folder, or use the one that is there")
    parser.add_argument("--only", help="run only the readers whose names hold this text")
    parser.add_argument("--report", action="store_true", help="print the scan report of each query")
    arguments = parser.parse_args()
    console = Console(width=150)
    with tempfile.TemporaryDirectory() as folder:
        warehouse = arguments.warehouse or folder
        spark = start(warehouse)
        location = f"{warehouse}/db/wide"
        if not Path(location).exists():
            make_table(spark, arguments.rows, arguments.columns)
        files = sorted(str(path) for path in Path(location, "data").rglob("*.parquet"))
        frames = {
            "twostage": ours(spark, location, {}),
            "whole chunks": ours(spark, location, {"read.pages": "never", "scan.native": "never"}),
            "unverified": ours(spark, location, {"verify-checksums": "false"}),
            "Iceberg-Spark": spark.table("ice.db.wide"),
            "Spark Parquet": spark.read.parquet(*files),
        }
        outside = native_readers(files)
        size = sum(Path(path).stat().st_size for path in files)
        rows, columns = frames["Spark Parquet"].count(), len(frames["Spark Parquet"].columns)
        console.print(
            f"{rows:,} rows x {columns} columns, {size / 2**20:,.0f} MiB, PySpark {spark.version}, "
            f"{arguments.repeats} runs, medians, seconds (ratio to twostage)"
        )
        names = [n for n in (*frames, *outside) if arguments.only is None or arguments.only in n]
        shown = Table("query", *names)
        figures = {}
        for title, (wanted, predicate) in QUERIES.items():
            runs: dict[str, Callable[[], object]] = {
                name: query(frame, wanted, predicate) for name, frame in frames.items() if name in names
            }
            for name, reader in outside.items():
                if name in names:
                    runs[name] = lambda reader=reader, wanted=wanted, predicate=predicate: reader(
                        wanted, predicate
                    )
            seconds: dict[str, list[float]] = {name: [] for name in runs}
            for repeat in range(arguments.repeats + 1):
                for name, run in runs.items():
                    started = time.perf_counter()
                    run()
                    if repeat:  # the first round warms caches and compilers
                        seconds[name].append(time.perf_counter() - started)
                    if arguments.report and name == "twostage" and repeat == arguments.repeats:
                        console.print(str(twostage.last_scan(spark)))
            medians = {name: statistics.median(values) for name, values in seconds.items()}
            figures[title] = medians
            base = medians.get("twostage", next(iter(medians.values())))
            shown.add_row(title, *(f"{value:.2f} ({value / base:.1f})" for value in medians.values()))
        console.print(shown)
        Path("benchmarks/results").mkdir(exist_ok=True)
        Path("benchmarks/results/peers.json").write_text(json.dumps(figures, indent=2))
        spark.stop()


if __name__ == "__main__":
    main()
