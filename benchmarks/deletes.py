"""Times scans of a table under equality deletes: twostage cold and warm, Iceberg's Spark connector, DuckDB.

A cold scan runs in newly started Python workers, on a host and in a driver that have not seen the deletes; a
warm one is the same scan again; a later one runs in new workers, and finds what the host's cache kept; a
compiled one also runs in new workers, and finds what ``compile-deletes`` wrote. Before them the same query
runs without deletes, in new workers and again, and after them in new workers. All run in one Spark session
that has run each query a few times before. The other engines run after twostage, so that files and JVM are
warm for them, each twice; one that takes longer than the cap is stopped, and not measured with more deletes
of that kind. All answers are compared, by the ids of the remaining rows. Finally `delete_parts` measures what
each optimisation gains.

``make bench PAGES=equality-deletes`` runs it; ``--core`` measures CPU seconds of planning and reading instead, without
Spark; ``--json`` writes the figures.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import iceberg_session
from delete_core import apart, compile_all, measure
from delete_engines import (
    BY_HAND,
    EXTENSION,
    FOLDER,
    NEEDLE,
    answer,
    answer_of,
    capped,
    run_duckdb,
    timed,
)
from delete_parts import ROWS as PARTS_ROWS, measure_parts
from delete_tables import NAME, Case, add_deletes, key_files, make_table
from process_tree import ProcessTree
from pyspark.sql import Observation, functions as sql
from queries import ICEBERG
from rich.console import Console

import twostage
from twostage.table import manifest_cache

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUERIES = ("SELECT *", "needle")
KINDS = ("long", "string", "two")
_DAEMONS = {b"pyspark.daemon", b"twostage.spark.worker_daemon"}
CLEAN = Case("long", 0, 0)
SIZES = {"small": (100_000, (1, 20), 4), "full": (10_000_000, (1, 20, 200, 2000), 45)}
"""Rows, numbers of delete files, and seconds after which an engine is stopped."""
DUCKDB_SHARE = 0.4
"""Of the cap, which DuckDB may take: beyond a few keys its extension would take minutes, and always be
stopped."""
PATIENCE = 15.0
"""Seconds of the first answer of Iceberg's connector beyond which it is not run again."""


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


def run(frame: DataFrame, query: str) -> str:
    """Run a query; return what its answer is checked by. Spark drops the rows of a full scan, and sums their ids."""
    if query == "needle":
        return answer_of([row["id"] for row in frame.where(NEEDLE).collect()])
    seen = Observation()
    ids = (sql.count("id").alias("count"), sql.sum("id").alias("total"), sql.bit_xor("id").alias("mixed"))
    frame.observe(seen, *ids).write.format("noop").mode("overwrite").save()
    return answer(**seen.get)


def ours(spark: SparkSession, location: str, case: Case, cache: str, **options: str) -> DataFrame:
    """Return the table as twostage reads it, in Python workers even without deletes."""
    known = {"scan.native": "never", "deletes.cache-dir": cache, "branch": case.branch}
    return spark.read.format("twostage").options(**(known | options)).load(location)


def end_workers() -> None:
    """End this session's Python workers: the next tasks run in new ones, forked by their daemon."""
    python = [pid for pid in ProcessTree(os.getpid()).members() if _is_of_spark(pid)]
    workers = [pid for pid in python if _parent(pid) in python]
    if not python:  # there may be no workers: Spark ends those idle for a minute, while Iceberg works
        raise AssertionError("no Python daemon was found: figures of new workers would be of old ones")
    for pid in workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    # Until its daemon notices, Spark mistakes an ended worker for an idle one.
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        time.sleep(0.01)


def _is_of_spark(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return not _DAEMONS.isdisjoint(command)


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


class Bench:
    """The measurements: seconds by case, query and reader."""

    def __init__(self, arguments: argparse.Namespace, warehouse: str, rows: int) -> None:
        self.arguments = arguments
        self.rows = rows
        self.location = f"{warehouse}/db/orders"
        self.spark = start(warehouse)
        self.answers: dict[tuple[Case, str], str] = {}
        self.stopped: set[tuple[str, str, str]] = set()
        self.reports: list[str] = []

    def prepare(self, cases: list[Case]) -> None:
        """Make the table and the missing branches."""
        if not Path(self.location).exists():
            make_table(self.spark, self.rows)
        there = {row["name"] for row in self.spark.sql(f"SELECT name FROM {NAME}.refs").collect()}
        if missing := [case for case in cases if case.branch not in there]:
            writer = key_files(self.spark)
            for case in missing:
                add_deletes(self.spark, case, self.rows, writer)

    def warm_up(self) -> None:
        """Run each query without deletes on both connectors, a few times: no figure includes the JVM's warm-up."""
        with tempfile.TemporaryDirectory() as cache:
            for query in QUERIES * 3:
                run(ours(self.spark, self.location, CLEAN, cache), query)
                run(ours(self.spark, self.location, CLEAN, cache, **{"scan.native": "auto"}), query)
                run(self.spark.table(NAME), query)

    def measure(self, case: Case) -> dict[str, Any]:
        """Measure the queries of a case on all engines; return its figures."""
        figures: dict[str, dict[str, Any]] = {query: {} for query in QUERIES}
        with tempfile.TemporaryDirectory() as compiled:
            if case.files:
                apart(compile_all, self.location, case.branch, compiled)
            for query in QUERIES:
                with tempfile.TemporaryDirectory() as cache:
                    figures[query]["twostage"] = self._measure(case, query, cache, compiled)
        if self.arguments.engines:
            for query in QUERIES:
                figures[query] |= self._measure_others(case, query)
        return {"kind": case.kind, "files": case.files, "keys": case.keys, "queries": figures}

    def _measure(self, case: Case, query: str, cache: str, compiled: str) -> dict[str, float]:
        seconds = {}

        def once(reader: str, of: Case, folder: str, **options: str) -> None:
            frame = ours(self.spark, self.location, of, folder, **options)
            took, found = timed(lambda: run(frame, query))
            seconds[reader] = round(took, 4)
            self._check(of, query, "twostage", found)
            if self.arguments.report and case.files:
                self.reports.append(f"{case}, {query}, {reader}\n{twostage.last_scan(self.spark)}")

        end_workers()
        once("none", CLEAN, cache)
        once("none again", CLEAN, cache)
        if not case.files:  # as for users: such a full scan goes to Spark's own Parquet reader
            end_workers()
            once("cold", CLEAN, cache, **{"scan.native": "auto"})
            once("warm", CLEAN, cache, **{"scan.native": "auto"})
            return seconds
        end_workers()
        manifest_cache.forget()
        once("cold", case, cache)
        once("warm", case, cache)
        end_workers()
        once("later", case, cache)
        end_workers()
        once("compiled", case, compiled)
        if query == "SELECT *":  # as for users: needs no worker
            once("by Spark", case, compiled, **{"scan.native": "auto"})
        end_workers()
        once("none after", CLEAN, cache)
        return seconds

    def _measure_others(self, case: Case, query: str) -> dict[str, dict[str, float]]:
        """Run the other engines that were not stopped with fewer deletes."""
        figures: dict[str, dict[str, float]] = {}
        engines = [ICEBERG, *((EXTENSION, BY_HAND) if FOLDER.exists() else ())]
        for engine in engines:
            if (engine, case.kind, query) in self.stopped:
                continue
            runs = self._iceberg(case, query) if engine == ICEBERG else self._duckdb(engine, case, query)
            figures[engine] = {}
            for reader, (seconds, found) in zip(("first", "again"), runs, strict=False):
                figures[engine][reader] = round(seconds, 4)
                self._check(case, query, engine, found)
            if not runs:
                figures[engine]["stopped"] = self._cap(engine)
                self.stopped.add((engine, case.kind, query))
        return figures

    def _iceberg(self, case: Case, query: str) -> list[tuple[float, str]]:
        runs: list[tuple[float, str]] = []
        while len(runs) < 2 and (not runs or runs[0][0] < PATIENCE):
            frame = self.spark.sql(f"SELECT * FROM {NAME} VERSION AS OF '{case.branch}'")
            found = capped(self.spark, lambda: run(frame, query), self.arguments.cap)  # noqa: B023
            if found is None:
                break
            runs.append(found)
        return runs

    def _duckdb(self, engine: str, case: Case, query: str) -> list[tuple[float, str]]:
        return run_duckdb(engine, self.location, case.branch, case.kind, query, self._cap(engine))

    def _cap(self, engine: str) -> float:
        """Return the seconds after which an engine is stopped."""
        return round(self.arguments.cap * (1 if engine == ICEBERG else DUCKDB_SHARE), 1)

    def _check(self, case: Case, query: str, engine: str, found: str) -> None:
        """Fail if an engine's answer differs."""
        known = self.answers.setdefault((case, query), found)
        if known != found:
            raise AssertionError(f"{case}, {query}, {engine}: {known} and {found}")


def cases_of(rows: int, files: tuple[int, ...]) -> list[Case]:
    """Return the cases: as many keys as rows in 200 files; more files have fewer each."""
    max_keys = max(1, rows // 200)
    return [CLEAN, *(Case(kind, one, min(max_keys, max(1, rows // one))) for kind in KINDS for one in files)]


def main() -> None:
    """Make the table, measure, print the figures or write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--rows", type=int, help="instead of the size's")
    parser.add_argument("--cap", type=float, help="instead of the size's: seconds until an engine is stopped")
    parser.add_argument("--ours", dest="engines", action="store_false", help="twostage alone")
    parser.add_argument("--warehouse", help="keep the table in this folder, or use the one that is there")
    parser.add_argument("--core", action="store_true", help="CPU seconds in this process, without Spark")
    parser.add_argument("--repeats", type=int, default=3, help="with --core")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--report", action="store_true", help="print the scan reports")
    arguments = parser.parse_args()
    rows, files, cap = SIZES[arguments.size]
    rows = arguments.rows or rows
    arguments.cap = arguments.cap or cap
    cases = cases_of(rows, files)
    console = Console(width=150)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(arguments, arguments.warehouse or folder, rows)
        bench.prepare(cases)
        if arguments.core:
            bench.spark.stop()
            sentence = f"{rows:,} rows x 6 columns, 4 data files; half of the keys are of rows."
            measure(bench.location, cases, arguments.repeats, sentence).show(console)
            return
        if arguments.engines and not FOLDER.exists():
            console.print(f"DuckDB is left out: there is no {FOLDER}", markup=False)
        bench.warm_up()
        found: list[dict[str, Any]] = []
        figures: dict[str, Any] = {}
        for case in cases:
            found.append(bench.measure(case))
            if arguments.json:  # so that an interrupted run is not lost
                figures = {"rows": rows, "cap": arguments.cap, "cases": found}
                arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
            console.print(f"[{time.strftime('%X')}] {case}: {found[-1]['queries']}", markup=False)
        bench.spark.stop()
        if arguments.json:  # without Spark, whose processes would compete with it
            parts = measure_parts(min(PARTS_ROWS, rows), repeats=1 if arguments.size == "small" else 3)
            parts["measured"] = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
            arguments.json.write_text(json.dumps(figures | {"parts": parts}, indent=1) + "\n")
        for report in bench.reports:
            console.print(report)


if __name__ == "__main__":
    sys.exit(main())
