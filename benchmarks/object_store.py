"""Queries of a table of many small files in a store with latency: engines in one run, on the same files.

The store is `late_s3.py`, on this machine: 30 or 100 ms to the first byte of each answer, 80 MB/s per
connection, any number of concurrent requests. `object_store_table.py` writes the table through it,
`object_store_engines.py` has the engines. Each runs in a separate process, one after another: the first query
of its session, then every query a few times. Measured are seconds, CPU seconds of the process with its
descendants, and what the store saw: requests, megabytes, most requests in flight. Answers are compared; a
difference fails the run. A query that takes long is run once, and Iceberg's connector, which waits for one
request after another, runs only some of them unless ``--all`` is given.

``make bench PAGES=object-store`` runs it at 30 ms with two threads; ``--latencies 100`` and ``--threads 8`` (STORE="…" for
make) add tables to the figures already in the file of ``--json``, and so does ``--size big``, a table of few
large files (with another ``--warehouse``).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from late_s3 import LateStore, ask_store
from object_store_engines import DATAFUSION, DUCKDB, ENGINES, ICEBERG, NEEDLE, TWOSTAGE, Engine, queries
from object_store_table import BRANCHES, INDEXES, data_files, number_of
from rich.console import Console

SIZES = {
    "small": (40, 2_000, 2),
    "full": (400, 20_000, 3),
    "small-big": (2, 60_000, 2),
    "big": (8, 520_000, 3),
    "huge": (10_000, 500, 2),
}
"""Files, rows per file, and runs of each query after the first. The files of `big` have about 62 MB."""
WITHOUT_BRANCHES = ("big", "huge", "small-big")
FIRST, WARM, SCAN = "needle, first", "needle", "scan of 3 columns"
WITH_DELETES = {WARM: "needle", SCAN: "scan"}
"""The queries that run on branches, and, on the table itself, again after them: otherwise the branches would
benefit from warmer caches."""
AGAIN = "{}, after the branches"
ICEBERG_QUERIES = (WARM, SCAN, "range", "count")
ICEBERG_WITH_DELETES = {"positions": (WARM,)}
"""The queries that a slow engine runs by default: a needle takes it most of a minute."""
SLOW_SECONDS = 10.0
"""A query whose run takes longer is run once."""
PATIENCE_SECONDS = 6.0
"""Once the runs of a query have taken this long, there are no more."""
COLUMNS = ("query", "engine", "seconds", "CPU s", "requests", "MB", "most in flight", "store late, ms")
console = Console(width=150)


class Run:
    """Engines at one latency, with one number of threads."""

    def __init__(self, store: LateStore, folder: Path, threads: int, repeats: int) -> None:
        self._store = store
        self._folder = folder
        self._threads = threads
        self._repeats = repeats
        self._answers: dict[str, dict[str, Any]] = {}
        self.medians: dict[tuple[str, str], dict[str, float]] = {}
        """By query and engine."""
        self.problems: list[str] = []

    def measure(
        self,
        engine: str,
        asked: dict[str, str],
        branches: dict[str, tuple[str, ...]],
        indexes: tuple[str, ...],
    ) -> None:
        """Run an engine's queries, some also on branches and again on the table, and the needle with indexes."""
        catalog = self._folder / "catalog.db"
        try:
            with Engine(engine, self._store.port, self._folder, catalog, self._threads) as process:
                self._take(FIRST, engine, [process.ask(asked[WARM])])
                for name, sql in asked.items():
                    self._take(name, engine, self._runs(process, sql, was_asked=name == WARM))
                again = [name for name in WITH_DELETES if any(name in names for names in branches.values())]
                for branch, names in branches.items():
                    for name in (one for one in names if one in asked):
                        runs = self._runs(process, asked[name], branch)
                        self._take(f"{WITH_DELETES[name]}, {branch}", engine, runs)
                for name in (one for one in again if one in asked):
                    runs = self._runs(process, asked[name], was_asked=True)
                    self._take(AGAIN.format(WITH_DELETES[name]), engine, runs)
                for kind in indexes:
                    self._take(f"needle, index: {kind}", engine, self._runs(process, asked[WARM], kind))
        except (OSError, RuntimeError, ValueError) as error:
            self.problems.append(f"{engine}: {error}")

    def _runs(
        self, process: Engine, sql: str, branch: str = "", *, was_asked: bool = False
    ) -> list[dict[str, Any]]:
        """Return the figures of runs, without the first if there are others, unless the query ran before."""
        runs = [process.ask(sql, branch)]
        if runs[0].get("seconds", SLOW_SECONDS) >= SLOW_SECONDS:
            return runs
        began = time.perf_counter() - (runs[0]["seconds"] if was_asked else 0)
        while len(runs) < self._repeats + (not was_asked) and time.perf_counter() - began < PATIENCE_SECONDS:
            runs.append(process.ask(sql, branch))
        return runs if was_asked else runs[1:]

    def _take(self, name: str, engine: str, runs: list[dict[str, Any]]) -> None:
        failed = next((run["error"] for run in runs if "error" in run), None)
        if failed is not None:
            self.problems.append(f"{engine}, {name}: {failed}")
            return
        self.problems.extend(
            f"{engine}, {name}: answers differ: {run['answer']} {self._answers[name]}"
            for run in runs
            if self._answers.setdefault(name, run["answer"]) != run["answer"]
        )
        found = {
            key: float(statistics.median(run[key] for run in runs))
            for key in ("seconds", "cpu", "requests", "bytes", "most_in_flight", "late")
        }
        self.medians[name, engine] = found
        console.print("  " + "  ".join(line_of(name, engine, found)))

    def lines(self) -> list[list[str]]:
        """Return the rows of the table, grouped by query."""
        order = list(dict.fromkeys(name for name, _ in self.medians))
        return [
            line_of(*key, self.medians[key])
            for key in sorted(self.medians, key=lambda one: order.index(one[0]))
        ]

    def ratios(self) -> str:
        """Return the others' times relative to twostage's, and its own with deletes relative to those without."""

        def seconds(name: str, engine: str = TWOSTAGE) -> float:
            return self.medians.get((name, engine), {}).get("seconds", 0.0)

        said = []
        own, iceberg = seconds(WARM), seconds(WARM, ICEBERG)
        if own and iceberg:
            said.append(f"Iceberg-Spark took {iceberg / own:.1f} times as long for a warm needle")
        peers = [found for engine in (DUCKDB, DATAFUSION) if (found := seconds(WARM, engine))]
        if own and peers:
            said.append(
                f"twostage took {own / min(peers):.2f} times as long as the faster of DuckDB and DataFusion"
            )
        for kind, plain in (("needle", WARM), ("scan", SCAN)):
            without = seconds(AGAIN.format(kind)) or seconds(plain)
            slower = [found / without for one in BRANCHES if (found := seconds(f"{kind}, {one}")) and without]
            if slower:
                said.append(
                    f"with deletes, a {kind} took it at most {max(slower):.2f} times as long as without"
                )
        return "; ".join(said) + "." if said else ""


def line_of(name: str, engine: str, found: dict[str, float]) -> list[str]:
    """Return a row of the table."""
    return [
        name,
        engine,
        f"{found['seconds']:.2f}",
        f"{found['cpu']:.2f}",
        f"{found['requests']:.0f}",
        f"{found['bytes'] / 1e6:.1f}",
        f"{found['most_in_flight']:.0f}",
        f"{1000 * found['late'] / max(1.0, found['requests']):.1f}",
    ]


def branches_of(engine: str, size: str, *, is_every: bool) -> dict[str, tuple[str, ...]]:
    """Return the branches that an engine reads, and the queries on each."""
    if size in WITHOUT_BRANCHES or engine not in (TWOSTAGE, ICEBERG):
        return {}
    if engine == ICEBERG and not is_every:
        return ICEBERG_WITH_DELETES
    return dict.fromkeys(BRANCHES, tuple(WITH_DELETES))


def make_table(store: LateStore, folder: Path, files: int, rows: int, *, has_branches: bool) -> int:
    """Write the table if it does not exist, without latency; return the number of a row."""
    known = folder / "number.json"
    if not known.exists():
        ask_store(store.port, "reset?latency_ms=0&mbps=0")
        program = str(Path(__file__).with_name("object_store_table.py"))
        given = [str(store.port), str(folder / "catalog.db")]
        branches = "branches" if has_branches else "none"
        subprocess.run([sys.executable, program, *given, str(files), str(rows), branches], check=True)
        subprocess.run([sys.executable, program, *given], check=True)  # its indexes
        known.write_text(json.dumps(number_of(folder)))
    return int(json.loads(known.read_text()))


def measure(given: argparse.Namespace) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a table for each latency, and the errors."""
    files, rows, repeats = SIZES[given.size]
    folder = given.warehouse.absolute()
    tables, problems = [], []
    with LateStore(folder) as store:
        number = make_table(store, folder, files, rows, has_branches=given.size not in WITHOUT_BRANCHES)
        size = sum((folder / url.removeprefix("s3://")).stat().st_size for url in data_files(folder))
        asked = {
            name: sql
            for name, sql in {WARM: f"{NEEDLE}{number}", **queries(files * rows)}.items()
            if not given.queries or name in (WARM, *given.queries.split(","))
        }
        for latency in map(int, given.latencies.split(",")):
            ask_store(store.port, f"reset?latency_ms={latency}&mbps=80")
            run = Run(store, folder, given.threads, repeats)
            began, load = time.perf_counter(), os.getloadavg()[0]
            for engine in given.engines.split(","):
                few = engine == ICEBERG and not given.all
                run.measure(
                    engine,
                    {name: sql for name, sql in asked.items() if name in ICEBERG_QUERIES or not few},
                    branches_of(engine, given.size, is_every=given.all),
                    tuple(INDEXES) if engine == TWOSTAGE else (),
                )
            title = f"{files} files, {latency} ms to the first byte, {given.threads} threads"
            text = (
                f"{title}: {files * rows:,} rows in files of {size // files // 1000} kB, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, "
                f"load {load:.1f} before, {time.perf_counter() - began:.0f} s. {run.ratios()}"
            )
            console.print(text)
            tables.append({"title": title, "text": text, "columns": list(COLUMNS), "rows": run.lines()})
            problems += run.problems
    return tables, problems


def main() -> int:
    """Make the table if it does not exist, measure, write the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--warehouse", type=Path, required=True)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--latencies", default="30", help="milliseconds to the first byte, one or more")
    parser.add_argument("--threads", type=int, default=2, help="of each engine")
    parser.add_argument("--queries", default="", help="names; the needle is always asked")
    parser.add_argument(
        "--all", action="store_true", help="ask Iceberg's connector every query: half an hour more"
    )
    parser.add_argument(
        "--json", type=Path, help="where figures are; those of other latencies and threads stay"
    )
    given = parser.parse_args()
    tables, problems = measure(given)
    if given.json is not None:
        before = json.loads(given.json.read_text())["tables"] if given.json.exists() else []
        new = {one["title"] for one in tables}
        kept = [one for one in before if one["title"] not in new]
        figures = {
            "text": about(given.size),
            "tables": sorted(
                kept + tables, key=lambda one: [int(n) for n in re.findall(r"\d+", one["title"])]
            ),
        }
        given.json.write_text(json.dumps(figures, indent=1))
    for problem in problems:
        console.print(f"[red]{problem}[/red]")
    return 1 if problems else 0


def about(size: str) -> str:
    """Return what the tables show."""
    return (
        f"Medians of up to {SIZES[size][2]} runs; one that takes {SLOW_SECONDS:.0f} s or more is the only one. `needle, first` is the first "
        "query of a session, which has begun by then. `store late`: milliseconds by which the store answered a request later than it should "
        "have, because the machine was busy. DuckDB, DataFusion and Polars read the data files alone: their tables have no deletes "
        "and no metadata. `index: postings`: of the column's rows, for each data file; `index: files`: of the data files that hold a value. "
        "Branches have three deleted rows in each file as positions or deletion vectors, or 20 equality-delete files of 500 keys; "
        "`after the branches` is the table itself once more, as warm as they are, with which they are compared."
    )


if __name__ == "__main__":
    sys.exit(main())
