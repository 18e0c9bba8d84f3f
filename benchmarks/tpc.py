"""All queries of TPC-DS or TPC-H: twostage and Iceberg's Spark connector, in turn, in one session on the same tables.

Each query is first answered by both, and the answers are compared; that warms files, caches and compilers for
both. Then they take turns, and the order alternates with each turn and each query: the second one benefits
from what the first one compiles of Spark's code. A run starts with the SQL text and ends when its rows are in
Python; CPU seconds and bytes are those of this process and its descendants (`process_tree`). What twostage's
scans read comes from their reports.

``make bench PAGES="tpcds tpch-all"`` runs it. With ``--json`` figures are written after each query, and
queries with figures in the file are not run again: an interrupted run continues.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import answers
import iceberg_session
import tpc_tables
from process_tree import ProcessTree
from queries import ICEBERG, TWOSTAGE
from rich.console import Console
from tpc_page import problems_of
from tpc_tables import BENCHMARKS, Benchmark

import twostage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twostage.report.scan_report import ScanReport

ENGINES = (TWOSTAGE, ICEBERG)
SIZES = {"small": (0.1, 1, 60.0), "full": (1, 5, 300.0), "huge": (10, 1, 1800.0)}
"""The scale, turns, and seconds after which a query is stopped."""
PATIENCE = 20.0
"""Seconds of a turn by the slower engine beyond which a query has no second turn."""
console = Console(width=150)


class Bench:
    """The two engines on one warehouse: a session for each, in one Spark."""

    def __init__(self, benchmark: Benchmark, warehouse: Path, scale: float, cap: float) -> None:
        self._spark = iceberg_session.start(
            str(warehouse),
            **{"spark.driver.memory": tpc_tables.driver_memory(scale), "spark.log.level": "OFF"},
        )
        if not tpc_tables.is_made(benchmark, warehouse, scale):
            tpc_tables.make_tables(benchmark, self._spark, warehouse, scale)
        self.queries = tpc_tables.read_queries(warehouse)
        self._cap = cap
        self._tree = ProcessTree(os.getpid())
        self._sessions: dict[str, SparkSession] = {name: self._spark.newSession() for name in ENGINES}
        for table in tpc_tables.tables(benchmark, warehouse):
            theirs = self._sessions[ICEBERG].table(f"ice.{benchmark.name}.{table}")
            theirs.createOrReplaceTempView(table)
            ours = (
                self._sessions[TWOSTAGE].read.format("twostage").load(f"{warehouse}/{benchmark.name}/{table}")
            )
            ours.createOrReplaceTempView(table)

    def measure(self, number: int, turns: int) -> dict[str, Any]:
        """Answer a query by both engines, compare, and time it."""
        found: dict[str, Any] = {"query": number, "engines": {name: {} for name in ENGINES}}
        texts = {}
        for name in _in_turn(number):
            run = self._run(name, number)
            if "table" in run:
                texts[name] = answers.digest(run["table"], exact=False)
            else:
                found["engines"][name] = run
        found["answer"] = next(iter(texts.values()), "")
        if len(set(texts.values())) > 1:
            found["differ"] = texts
        if len(texts) < len(ENGINES):
            return found
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in ENGINES}
        for turn in range(turns):
            for name in _in_turn(number + turn):
                known = {report.scan_id for report in twostage.scans(self._spark)} if name == TWOSTAGE else ()
                runs[name].append(self._run(name, number))
                if name == TWOSTAGE:
                    reports = twostage.scans(self._spark)
                    found["scans"] = sorted(scanned(one) for one in reports if one.scan_id not in known)
            if max(done[-1].get("seconds", 0) for done in runs.values()) > PATIENCE:
                break
        for name, done in runs.items():
            found["engines"][name] = {
                measure: [run[measure] for run in done if measure in run]
                for measure in ("seconds", "cpu", "read")
            }
        return found

    def _run(self, name: str, number: int) -> dict[str, Any]:
        """Run a query once; return its rows and figures, or why there are none."""
        session, is_late = self._sessions[name], threading.Event()

        def stop() -> None:
            is_late.set()
            self._spark.sparkContext.cancelAllJobs()

        timer = threading.Timer(self._cap, stop)
        self._tree.used()
        started = time.perf_counter()
        timer.start()
        try:
            table = session.sql(self.queries[number]).toArrow()
        except Exception as error:  # noqa: BLE001 - the other queries are still measured
            return (
                {"stopped": self._cap}
                if is_late.is_set()
                else {"failed": f"{type(error).__name__}: {error}"[:500]}
            )
        finally:
            timer.cancel()
        seconds, used = time.perf_counter() - started, self._tree.used()
        return {"table": table, "seconds": round(seconds, 3), "cpu": round(used.cpu, 2), "read": used.read}

    def explain(self, number: int) -> str:
        """Return the plans of a query, run by both engines, as Spark shows them, and the scans' reports."""
        parts = []
        for name in ENGINES:
            frame = self._sessions[name].sql(self.queries[number])
            frame.toArrow()
            execution = frame._jdf.queryExecution()  # noqa: SLF001 - explain() does not show the final plan of a finished query
            parts.append(f"== {name}\n{execution.toString()}")
        return "\n".join(parts)

    def close(self) -> None:
        """End Spark."""
        self._spark.stop()


def _in_turn(number: int) -> tuple[str, ...]:
    return ENGINES if number % 2 == 0 else ENGINES[::-1]


def scanned(report: ScanReport) -> str:
    """Return what a scan of twostage read, and with which reader."""
    count = report.count
    table = report.table.rpartition("/")[2]
    if report.is_from_metadata:
        return f"{table}: metadata"
    reader = "Spark" if report.is_handed_over else "Python"
    if report.is_handed_over:
        files, rows, read = (count(f"handed_over.{name}") for name in ("files", "rows", "bytes"))
        returned, files = count("spark.rows"), f"{count('spark.files')} of {files}"
    else:
        files, rows, read = (count(name) for name in ("files.read", "rows.considered", "bytes.read"))
        returned = count("rows.fetched")
    return f"{table}: {reader}, {files} files, {returned:,} of {rows:,} rows, {read / 2**20:.1f} MiB"


def main() -> int:
    """Measure queries; print figures, and write them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("queries", nargs="*", type=int, help="their numbers; all if none is given")
    parser.add_argument("--benchmark", choices=BENCHMARKS, default="tpcds")
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--turns", type=int, help="instead of the size's")
    parser.add_argument("--warehouse", type=Path, required=True, help="where the tables are kept")
    parser.add_argument("--json", type=Path, help="add the figures to those of this file")
    parser.add_argument(
        "--explain", type=Path, help="write the plans of each query into this folder, untimed"
    )
    arguments = parser.parse_args()
    scale, turns, cap = SIZES[arguments.size]
    benchmark = BENCHMARKS[arguments.benchmark]
    bench = Bench(benchmark, arguments.warehouse.absolute(), scale, cap)
    figures: dict[str, Any] = {"scale": scale, **benchmark.parameters, "queries": []}
    if arguments.json and arguments.json.exists():
        figures = json.loads(arguments.json.read_text())
        if figures["scale"] != scale:
            parser.error(f"{arguments.json} has figures of scale {figures['scale']}")
    known = {one["query"] for one in figures["queries"]}
    for number in arguments.queries or sorted(bench.queries):
        if number in known:
            continue
        if arguments.explain:
            arguments.explain.mkdir(parents=True, exist_ok=True)
            (arguments.explain / f"{number}.txt").write_text(bench.explain(number))
            continue
        load = round(os.getloadavg()[0], 1)
        found = bench.measure(number, arguments.turns or turns) | {"load_before": load}
        figures["queries"] = sorted([*figures["queries"], found], key=lambda one: one["query"])
        if arguments.json:  # so that an interrupted run is not lost
            arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
        console.print(
            f"[{time.strftime('%X')}] {shown(found)}", markup=False, highlight=False, soft_wrap=True
        )
    bench.close()
    for line in problems_of(figures):
        console.print(line, markup=False, highlight=False)
    return 1 if problems_of(figures) else 0


def shown(found: dict[str, Any]) -> str:
    """Return a query's figures as a line."""
    parts = [f"query {found['query']}, {found['answer']}, load {found['load_before']}"]
    for name, figures in found["engines"].items():
        if "seconds" in figures:
            parts.append(f"{name} {figures['seconds']} s, CPU {figures['cpu']}")
        else:
            parts.append(f"{name} {figures}")
    ours, theirs = (found["engines"][name].get("seconds") for name in ENGINES)
    if ours and theirs:
        parts.append(f"ratio {min(ours) / min(theirs):.2f}")
    return "; ".join([*parts, *(["ANSWERS DIFFER"] if "differ" in found else [])])


if __name__ == "__main__":
    sys.exit(main())
