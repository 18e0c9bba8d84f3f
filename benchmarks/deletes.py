"""Times scans of a table under equality deletes: twostage cold and warm, Iceberg's Spark connector.

A cold scan runs in Python workers that were just started, on a host and in a driver that know nothing of the
deletes; a warm one is the same scan again; a later one runs in new workers, and finds what the host's cache kept; a
compiled one runs in new workers too, and finds what ``compile-deletes`` left. Before them runs the same query
without deletes, in new workers and again, and after them in new workers. All in one Spark session, that has run each query a few times before. Iceberg's
connector is asked after twostage, so that files and JVM are warm for it, and is stopped after a while; then it is asked
no more of that kind of deletes. The figures are seconds, with ratios to twostage's own time without deletes and to
Iceberg's. ``make bench-deletes`` runs it; ``--core`` measures CPU seconds of planning and reading instead, without
Spark; ``--markdown`` writes the page. DuckDB's iceberg extension is not asked: it is not on the package indexes, only on
DuckDB's own server.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import iceberg_session
from delete_core import apart, compile_all, measure
from delete_report import Report
from delete_tables import NAME, Case, add_deletes, make_table
from process_tree import ProcessTree
from pyspark.errors import PySparkException
from rich.console import Console

import twostage
from twostage.table import manifest_cache

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

NEEDLE = "customer = 4711"
QUERIES = ("sum(amount)", "SELECT *", "needle")
"""No connector answers the first one from metadata, as it does a count where there are no deletes."""
READERS = ("cold", "warm", "later", "compiled")
CLEAN = Case("long", 0, 0)


def start(warehouse: str) -> SparkSession:
    """Start Spark 4.1 with Iceberg's runtime and twostage."""
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
    return int(frame.selectExpr("sum(cast(round(amount * 100) AS bigint))").collect()[0][0])


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


def end_workers() -> None:
    """End this session's Python workers: the next tasks run in new ones, which their daemon forks."""
    python = [pid for pid in ProcessTree(os.getpid()).members() if _is_of_spark(pid)]
    workers = [pid for pid in python if _parent(pid) in python]
    if not python:  # workers may be gone: Spark ends those that wait for a minute, while Iceberg works
        raise AssertionError("no Python daemon was found: figures of new workers would be of old ones")
    for pid in workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    # Until its daemon has taken notice, Spark takes a worker that has ended for one that waits for work.
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        time.sleep(0.01)


def _is_of_spark(pid: int) -> bool:
    try:
        return b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


class Bench:
    """What was measured: seconds by case, query and reader."""

    def __init__(self, arguments: argparse.Namespace, warehouse: str) -> None:
        self.arguments = arguments
        self.location = f"{warehouse}/db/orders"
        self.spark = start(warehouse)
        self.seconds: dict[str, dict[str, dict[str, float]]] = {}
        self.answers: dict[tuple[Case, str], int] = {}
        self.reports: list[str] = []

    def prepare(self, cases: list[Case]) -> None:
        """Make the table and the branches that are not there yet."""
        if not Path(self.location).exists():
            make_table(self.spark, self.arguments.rows)
        there = {row["name"] for row in self.spark.sql(f"SELECT name FROM {NAME}.refs").collect()}
        for case in cases:
            if case.branch not in there:
                add_deletes(self.spark, case, self.arguments.rows)

    def warm_up(self) -> None:
        """Run each query without deletes on both connectors, a few times: the JVM's own start is in no figure."""
        with tempfile.TemporaryDirectory() as cache:
            for query in QUERIES * 3:
                run(ours(self.spark, self.location, CLEAN, cache), query)
                if not self.arguments.no_iceberg:
                    run(self.spark.table(NAME), query)

    def measure(self, case: Case) -> None:
        """Measure all queries of a case on twostage."""
        self.seconds[str(case)] = {query: {} for query in QUERIES}
        with tempfile.TemporaryDirectory() as compiled:
            if case.files:
                apart(compile_all, self.location, case.branch, compiled)
            for query in QUERIES:
                with tempfile.TemporaryDirectory() as cache:
                    end_workers()
                    self._measure(CLEAN, query, "none", cache, case)
                    self._measure(CLEAN, query, "none again", cache, case)
                    if not case.files:
                        continue
                    end_workers()
                    manifest_cache.forget()
                    self._measure(case, query, "cold", cache, case)
                    self._measure(case, query, "warm", cache, case)
                    end_workers()
                    self._measure(case, query, "later", cache, case)
                    end_workers()
                    self._measure(case, query, "compiled", compiled, case)
                    end_workers()
                    self._measure(CLEAN, query, "none after", cache, case)

    def _measure(self, case: Case, query: str, reader: str, cache: str, shown: Case) -> None:
        """Measure a query once; it is one of `shown`'s figures."""
        frame = ours(self.spark, self.location, case, cache)
        self.seconds[str(shown)][query][reader], found = timed(lambda: run(frame, query))
        self._check(case, query, found)
        if self.arguments.report and case.files:
            self.reports.append(f"{case}, {query}, {reader}\n{twostage.last_scan(self.spark)}")

    def measure_iceberg(self, case: Case) -> bool:
        """Measure the queries of a case on Iceberg's connector until one is stopped; tell whether none was."""
        for query in QUERIES:
            frame = self.spark.sql(f"SELECT * FROM {NAME} VERSION AS OF '{case.branch}'")
            measured = capped(self.spark, lambda: run(frame, query), self.arguments.cap)  # noqa: B023
            figures = self.seconds[str(case)][query]
            if measured is None:
                figures["iceberg stopped"] = self.arguments.cap
                return False
            figures["iceberg"] = measured[0]
            self._check(case, query, measured[1])
        return True

    def _check(self, case: Case, query: str, found: int) -> None:
        """Refuse figures of readers that do not agree."""
        known = self.answers.setdefault((case, query), found)
        if known != found:
            raise AssertionError(f"{case}, {query}: {known} and {found}")

    def report(self) -> Report:
        """Return what to print."""
        rows, cap = f"{self.arguments.rows:,} rows x 6 columns, 4 data files", self.arguments.cap
        report = Report(
            "Equality deletes at scale",
            [
                f"{rows}; half of the keys are of rows. Seconds, one run each, Spark on two cores, one session.",
                "None: the same query without deletes, new workers, whose start is in the figure; cold: new workers, a host",
                "and a driver that know nothing of the deletes; warm: again; later: new workers, the host's cache filled;",
                "compiled: new workers, after `compile-deletes`. Ratios are to the query without deletes next to it,",
                "in new workers (mean of one before and one after), for warm in the same ones again. Iceberg: its own Spark connector, after",
                f"twostage, stopped after {cap:.0f} s (>), and not asked about more deletes of a kind once it was.",
                "At a million rows or fewer one task reads under deletes and two without, which start a worker each.",
                "DuckDB's iceberg extension was not to be had.",
            ],
            [
                "deletes",
                "query",
                "none",
                *READERS,
                "Iceberg",
                *(f"{one} / none" for one in READERS),
                "Iceberg / cold",
            ],
        )
        for case, queries in self.seconds.items():
            for query, figures in queries.items():
                sign = ">" if "iceberg stopped" in figures else ""
                theirs = figures.get("iceberg", figures.get("iceberg stopped"))
                ratios = {one: figures[one] / base(figures, one) for one in READERS if one in figures}
                is_compared = theirs is not None and "cold" in figures
                report.rows.append(
                    [
                        case,
                        query,
                        *(f"{figures[one]:.2f}" if one in figures else "" for one in ("none", *READERS)),
                        "" if theirs is None else f"{sign}{theirs:.1f}",
                        *(f"{ratios[one]:.2f}" if one in ratios else "" for one in READERS),
                        f"{sign}{theirs / figures['cold']:.1f}" if is_compared else "",
                    ]
                )
        return report


def base(figures: dict[str, float], reader: str) -> float:
    """Return the seconds without deletes to compare with: in the same workers again, or in new ones, before and after."""
    names = ("none again",) if reader == "warm" else ("none", "none after")
    return sum(figures[name] for name in names) / len(names)


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
    cases = [CLEAN]
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
            bench.spark.stop()
            sentence = f"{arguments.rows:,} rows x 6 columns, 4 data files; half of the keys are of rows."
            publish(measure(bench.location, cases, arguments.repeats, sentence), console, arguments.markdown)
            return
        bench.warm_up()
        stopped: set[str] = set()
        for case in cases:
            console.print(f"[{time.strftime('%X')}] {case}", markup=False)
            bench.measure(case)
            if not arguments.no_iceberg and case.kind not in stopped and not bench.measure_iceberg(case):
                stopped.add(case.kind)
        bench.spark.stop()
        for report in bench.reports:
            console.print(report)
        publish(bench.report(), console, arguments.markdown)
        Path("benchmarks/results").mkdir(exist_ok=True)
        Path("benchmarks/results/deletes.json").write_text(json.dumps(bench.seconds, indent=2))


if __name__ == "__main__":
    main()
