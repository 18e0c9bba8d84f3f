"""Aggregates and top-n answered by indexes, compared with reading and with Iceberg's connector, in one session.

    python benchmarks/index_answers.py FOLDER [rows] [columns] [repeats]

Writes the benchmark's wide table with Iceberg's connector into FOLDER, unless it exists, with a branch that
has one row in a hundred deleted, and indexes the columns `country`, `half` and `user_id` (`values`), `m1` and
`m2` (`slices`), `m0` and `m5` (`sorted`). Prints for each query the median of the wall seconds, warm, with
indexes, with ``index=off`` and with Iceberg's connector, and whether the rows were the same.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_tables import PROPERTIES, ROWS_PER_FILE, wide_columns
from iceberg_session import start

import twostage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = {
    "count(*), which metadata answers for all": "SELECT count(*) FROM {t}",
    "count(*) of a needle": "SELECT count(*) FROM {t} WHERE user_id IN (11, 222, 3333)",
    "count(*), country = 'DE' AND half < 5": "SELECT count(*) FROM {t} WHERE country = 'DE' AND half < 5",
    "group by country": "SELECT country, count(*) FROM {t} GROUP BY country",
    "group by country, half": "SELECT country, half, count(*) FROM {t} GROUP BY country, half",
    "group by country, half = 3": "SELECT country, count(*) FROM {t} WHERE half = 3 GROUP BY country",
    "count(DISTINCT country)": "SELECT count(DISTINCT country) FROM {t} WHERE half = 3",
    "min, max of country": "SELECT min(country), max(country) FROM {t} WHERE half = 3",
    "sum, avg of m1": "SELECT sum(m1), avg(m1) FROM {t}",
    "sum of m1, m2, half = 3": "SELECT sum(m1), sum(m2) FROM {t} WHERE half = 3",
    "sum, avg, max of m1 by country": "SELECT country, sum(m1), avg(m1), max(m1) FROM {t} GROUP BY country",
    "count(*), sum of m2, m1 in a range": "SELECT count(*), sum(m2) FROM {t} WHERE m1 BETWEEN 1000000 AND 400000000",
}
TOP = {
    "first 10 by m5, 3 columns": "SELECT id, m5, country FROM {t} ORDER BY m5 LIMIT 10",
    "last 10 by m0, 2 columns": "SELECT id, m0 FROM {t} ORDER BY m0 DESC LIMIT 10",
    "last 10 by m0, 20 columns": "SELECT id, user_id, device, half, ts, country, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13 FROM {t} ORDER BY m0 DESC LIMIT 10",
    "last 10 by m5, all columns": "SELECT * FROM {t} ORDER BY m5 DESC LIMIT 10",
}
"""Not on the branch: its deletes are by position, and indexes do not tell which rows they delete."""
WARM_UP = 5
"""Unmeasured runs: Java compiles what it runs often."""
INDEXED = {"values": "country,half,user_id", "slices": "m1,m2", "sorted": "m0,m5"}
"""Columns by kind."""


def make(spark: SparkSession, warehouse: Path, rows: int, columns: int) -> None:
    """Write the table and its branch."""
    if (warehouse / "db" / "wide" / "metadata" / "version-hint.text").exists():
        return
    spark.range(rows, numPartitions=max(2, rows // ROWS_PER_FILE)).selectExpr(
        *wide_columns(rows, columns)
    ).createOrReplaceTempView("rows")
    spark.sql(f"CREATE TABLE ice.db.wide USING iceberg {PROPERTIES} AS SELECT * FROM rows")
    spark.sql("ALTER TABLE ice.db.wide CREATE BRANCH deleted")
    spark.sql("DELETE FROM ice.db.wide.branch_deleted WHERE pmod(xxhash64(id), 100) = 0")


def index(warehouse: Path) -> None:
    """Index the columns, unless they are indexed."""
    from twostage.__main__ import main  # noqa: PLC0415

    if not (warehouse / "db" / "_twostage_indexes").exists():
        started = time.perf_counter()
        for kind, columns in INDEXED.items():
            main(["index", "create", str(warehouse / "db" / "wide"), "--columns", columns, "--kind", kind])
        print(f"indexed in {time.perf_counter() - started:.1f} s")


def measure(spark: SparkSession, warehouse: Path, repeats: int) -> None:
    """Print the medians."""
    path = str(warehouse / "db" / "wide")
    for branch in ("main", "deleted"):
        for name, options in (("on", {}), ("off", {"index": "off"})):
            spark.read.format("twostage").options(branch=branch, **options).load(
                path
            ).createOrReplaceTempView(f"wide_{name}")
        ways = {
            "indexes": "wide_on",
            "index=off": "wide_off",
            "Iceberg": "ice.db.wide" if branch == "main" else "ice.db.wide.branch_deleted",
        }
        queries = QUERIES | (TOP if branch == "main" else {})
        for sql in list(queries.values()) * 2 if branch == "main" else ():
            for table in ways.values():
                spark.sql(sql.format(t=table)).collect()
        for title, sql in queries.items():
            shown, answers = [], []
            for way, table in ways.items():
                seconds, rows = _median(spark, sql.format(t=table), repeats)
                answers.append(rows)
                note = ""
                if way == "indexes":
                    report = twostage.last_scan(spark)
                    note = f" ({report.count('files.answered.index')} files, {report.count('indexes.bytes_read'):,} bytes)"
                shown.append(f"{way} {seconds:.3f}{note}")
            verdict = "same rows" if all(one == answers[0] for one in answers) else "OTHER ROWS"
            print(f"{branch}: {title}: {'; '.join(shown)}; {verdict}", flush=True)


def _median(spark: SparkSession, sql: str, repeats: int) -> tuple[float, list[Any]]:
    for _ in range(WARM_UP):
        spark.sql(sql).collect()
    seconds, rows = [], []
    for _ in range(repeats):
        started = time.perf_counter()
        rows = spark.sql(sql).collect()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds), sorted(map(repr, rows))


def run(folder: str, rows: int = 3_000_000, columns: int = 120, repeats: int = 7) -> None:
    """Make what is missing, then measure; ``repeats`` 0: make only."""
    warehouse = Path(folder).resolve()
    warehouse.mkdir(parents=True, exist_ok=True)
    spark = start(str(warehouse))
    spark.sparkContext.setLogLevel("ERROR")
    make(spark, warehouse, rows, columns)
    index(warehouse)
    if repeats:
        measure(spark, warehouse, repeats)
    print(json.dumps({"rows": rows, "columns": columns, "repeats": repeats}))
    spark.stop()


if __name__ == "__main__":
    run(sys.argv[1], *map(int, sys.argv[2:]))
