"""Times scans of a table under equality deletes: twostage cold and warm, Iceberg's Spark connector.

A cold scan runs in Python workers that were just started, on a host that knows nothing of the deletes; a warm one is
the same scan again; a later one runs in new workers, and finds what the host's cache kept; a compiled one
finds what ``compile-deletes`` left. Iceberg's connector is stopped after a while, and not asked about more deletes of a kind once it was. The figures are
seconds, with ratios to twostage's own time without deletes and to Iceberg's. ``make bench-deletes`` runs it;
``--core`` measures CPU seconds of planning and reading instead, without Spark; ``--markdown`` writes the page.
DuckDB's iceberg extension is not asked: it is not on the package indexes, only on DuckDB's own server.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import iceberg_session
from delete_core import apart, compile_all, measure
from delete_report import Report
from delete_tables import NAME, Case, add_deletes, make_table
from pyspark.errors import PySparkException
from rich.console import Console

import twostage

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

NEEDLE = "customer = 4711"
QUERIES = ("count(amount)", "SELECT *", "needle")
READERS = ("cold", "warm", "later", "compiled")


def start(warehouse: str) -> SparkSession:
    """Start Spark 4.1 with Iceberg's runtime and twostage; its Python workers are new."""
    return iceberg_session.start(
        warehouse,
        **{
            "spark.sql.catalog.ice.cache-enabled": "false",
            "spark.driver.memory": "6g",
            "spark.log.level": "OFF",
        },
    )


def run(frame: DataFrame, query: str) -> int:
    """Run a query; return what its answer can be checked by."""
    if query == "needle":
        return len(frame.where(NEEDLE).collect())
    if query == "SELECT *":
        frame.write.format("noop").mode("overwrite").save()
        return 0
    return int(frame.selectExpr("count(amount)").collect()[0][0])


def timed(work: Callable[[], int]) -> tuple[float, int]:
    """Return the seconds that something takes, and what it returns."""
    started = time.perf_counter()
    found = work()
    return time.perf_counter() - started, found


def ours(spark: SparkSession, location: str, case: Case, cache: str) -> DataFrame:
    """Return the table as twostage reads it."""
    reader = spark.read.format("twostage").option("scan.native", "never").option("deletes.cache-dir", cache)
    return reader.option("branch", case.branch).load(location)


def capped(spark: SparkSession, work: Callable[[], int], seconds: float) -> tuple[float, int] | None:
    """Run something in Spark; None if it was stopped after so many seconds."""
    timer = threading.Timer(seconds, spark.sparkContext.cancelAllJobs)
    timer.start()
    try:
        return timed(work)
    except PySparkException:
        return None
    except Exception as error:
        if "cancel" not in str(error).lower():
            raise
        return None
    finally:
        timer.cancel()


class Bench:
    """What was measured: seconds by case, query and reader."""

    def __init__(self, arguments: argparse.Namespace, warehouse: str) -> None:
        self.arguments = arguments
        self.warehouse = warehouse
        self.location = f"{warehouse}/db/orders"
        self.seconds: dict[str, dict[str, dict[str, float]]] = {}
        self.reports: list[str] = []

    def prepare(self, cases: list[Case]) -> None:
        """Make the table and the branches that are not there yet."""
        spark = start(self.warehouse)
        if not Path(self.location).exists():
            make_table(spark, self.arguments.rows)
        there = {row["name"] for row in spark.sql(f"SELECT name FROM {NAME}.refs").collect()}
        for case in cases:
            if case.branch not in there:
                add_deletes(spark, case, self.arguments.rows)
        spark.stop()

    def measure(self, case: Case) -> None:
        """Measure all queries of a case on twostage, cold and warm."""
        self.seconds.setdefault(str(case), {query: {} for query in QUERIES})
        with tempfile.TemporaryDirectory() as compiled:
            if case.files:
                apart(compile_all, self.location, case.branch, compiled)
            for query in QUERIES if case.files else ():
                self._measure(case, query, ("compiled",), compiled)
        for query in QUERIES:
            with tempfile.TemporaryDirectory() as cache:
                for readers in (("cold", "warm"), ("later",)):
                    self._measure(case, query, readers, cache)

    def _measure(self, case: Case, query: str, readers: tuple[str, ...], cache: str) -> None:
        """Measure a query in new workers, as often as there are names for it."""
        spark = start(self.warehouse)
        spark.range(10).selectExpr("sum(id)").collect()  # the JVM's own start is not in the figure
        for reader in readers:
            frame = ours(spark, self.location, case, cache)
            self.seconds[str(case)][query][reader], found = timed(lambda: run(frame, query))  # noqa: B023
            self._check(case, query, found)
            if self.arguments.report:
                self.reports.append(f"{case}, {query}, {reader}\n{twostage.last_scan(spark)}")
        spark.stop()

    def measure_iceberg(self, case: Case) -> bool:
        """Measure all queries of a case on Iceberg's connector; tell whether all came to an end."""
        spark = start(self.warehouse)
        figures = self.seconds[str(case)]
        for query in QUERIES:
            frame = spark.sql(f"SELECT * FROM {NAME} VERSION AS OF '{case.branch}'")
            measured = capped(spark, lambda: run(frame, query), self.arguments.cap)  # noqa: B023
            if measured is not None:
                figures[query]["iceberg"] = measured[0]
                self._check(case, query, measured[1])
            else:
                figures[query]["iceberg stopped"] = self.arguments.cap
        spark.stop()
        return all("iceberg" in one for one in figures.values())

    def _check(self, case: Case, query: str, found: int) -> None:
        """Refuse figures of readers that do not agree."""
        known = self.answers.setdefault((case, query), found)
        if known != found:
            raise AssertionError(f"{case}, {query}: {known} and {found}")

    answers: dict[tuple[Case, str], int] = {}  # noqa: RUF012 - one run, one dictionary

    def report(self) -> Report:
        """Return what to print."""
        rows, cap = f"{self.arguments.rows:,} rows x 6 columns, 4 data files", self.arguments.cap
        report = Report(
            "Equality deletes at scale",
            [
                f"{rows}; half of the keys are of rows. Seconds, one run each, Spark on two cores.",
                "Cold: new workers, a host that knows nothing of the deletes; warm: the same query again;",
                "later: new workers, the host's cache filled; compiled: new workers, after `compile-deletes`.",
                "Ratios are to the same query without deletes. Iceberg: its own Spark connector, stopped after",
                f"{cap:.0f} s (>), and not asked about more deletes of a kind once it was. DuckDB's iceberg extension",
                "was not to be had.",
            ],
            [
                "deletes",
                "query",
                *READERS,
                "Iceberg",
                *(f"{one} / none" for one in READERS),
                "Iceberg / cold",
            ],
        )
        clean = self.seconds[str(Case("long", 0, 0))]
        for case, queries in self.seconds.items():
            for query, figures in queries.items():
                sign = ">" if "iceberg stopped" in figures else ""
                theirs = figures.get("iceberg", figures.get("iceberg stopped"))
                none = {"compiled": clean[query]["later"], **clean[query]}
                report.rows.append(
                    [
                        case,
                        query,
                        *(f"{figures[one]:.2f}" if one in figures else "" for one in READERS),
                        "" if theirs is None else f"{sign}{theirs:.1f}",
                        *(f"{figures[one] / none[one]:.2f}" if one in figures else "" for one in READERS),
                        "" if theirs is None else f"{sign}{theirs / figures['cold']:.1f}",
                    ]
                )
        return report


def publish(report: Report, console: Console, page: Path | None) -> None:
    """Print a report; write its page if there is one."""
    report.show(console)
    if page is not None:
        report.write(page)


def main() -> None:
    """Make the table, measure, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--files", default="1,20,200,2000", help="delete files of long keys")
    parser.add_argument(
        "--other-files", default="1,20,200,2000", help="delete files of string and of two-column keys"
    )
    parser.add_argument("--cap", type=float, default=40, help="seconds after which Iceberg is stopped")
    parser.add_argument("--no-iceberg", action="store_true")
    parser.add_argument("--warehouse", help="keep the table in this folder, or use the one that is there")
    parser.add_argument("--core", action="store_true", help="CPU seconds in this process, without Spark")
    parser.add_argument("--repeats", type=int, default=3, help="with --core")
    parser.add_argument("--markdown", type=Path, help="write the figures to this page too")
    parser.add_argument("--report", action="store_true", help="print the scan reports")
    arguments = parser.parse_args()
    most = max(1, arguments.rows // 200)  # as many keys as rows in 200 files; more files hold fewer each
    cases = [Case("long", 0, 0)]
    for kind, files in (
        ("long", arguments.files),
        ("string", arguments.other_files),
        ("two", arguments.other_files),
    ):
        numbers = [int(number) for number in files.split(",") if number]
        cases += [Case(kind, number, min(most, max(1, arguments.rows // number))) for number in numbers]
    console = Console(width=150)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(arguments, arguments.warehouse or folder)
        bench.prepare(cases)
        if arguments.core:
            sentence = f"{arguments.rows:,} rows x 6 columns, 4 data files; half of the keys are of rows."
            publish(measure(bench.location, cases, arguments.repeats, sentence), console, arguments.markdown)
            return
        stopped: set[str] = set()
        for case in cases:
            bench.measure(case)
            if not arguments.no_iceberg and case.kind not in stopped and not bench.measure_iceberg(case):
                stopped.add(case.kind)
        for report in bench.reports:
            console.print(report)
        publish(bench.report(), console, arguments.markdown)
        Path("benchmarks/results").mkdir(exist_ok=True)
        Path("benchmarks/results/deletes.json").write_text(json.dumps(bench.seconds, indent=2))


if __name__ == "__main__":
    main()
