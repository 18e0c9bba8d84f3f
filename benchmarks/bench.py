"""The benchmark: all engines in one run on the same files, their answers compared, docs/benchmarks.md written.

    make bench                                  every page, 3,000,000 rows x 120 columns and TPC-H at scale 1
    make bench PAGES="needles scans tpch"       these pages; the others keep their last result
    make bench SIZE=small                       minutes: whether all works and the answers agree
    make bench SIZE=huge                        12,000,000 rows, TPC-H at scale 4
    make bench PAGES=tpcds                      all of TPC-DS, at scale 1 (small: 0.1): only if named
    make bench PAGES=tpcds-10                   the same at scale 10
    make bench PAGES=tpch-all                   the same of TPC-H

Each page's figures go to a JSON file, and docs/benchmarks.md is made from the files that exist, so that pages
can be measured one by one. Engines take turns, query by query, in separate processes, measured from outside.
It fails if two engines disagree.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from collections import deque
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmark_page import write_page
from engine_process import EngineError, EngineProcess, Measured
from machine import describe
from process_tree import forget_files
from queries import (
    CORE,
    CORE_NO_INDEX,
    ICEBERG,
    IN_SESSIONS,
    IN_SPARK,
    PAGES,
    SIZES,
    SPARK,
    TWOSTAGE,
    Page,
    Query,
    Size,
)
from rich.console import Console
from tpc_page import problems_of

ROOT = Path(__file__).resolve().parents[1]
console = Console(width=150)
OTHER_PAGES = ("sessions", "filters", "equality-deletes", "object-store")
ONLY_IF_NAMED = {"tpcds": ("tpcds", None), "tpcds-10": ("tpcds", "huge"), "tpch-all": ("tpch", None)}
"""Measured only if named, because they take long: which TPC benchmark each page runs, and its size if not the
run's."""
WITH_OWN_TABLES = ("filters", "equality-deletes", "object-store", "indexes", *ONLY_IF_NAMED)
INDEX_PATIENCE = 6.0
"""Seconds of repeats per query on the page about indexes: it has many engines, and stays below eight
minutes."""
IN_A_ROW = 10
"""Times that a session runs each of its queries."""


class Bench:
    """Engines on one warehouse, started when a page first needs them."""

    def __init__(self, warehouse: Path, size: Size) -> None:
        self.warehouse = warehouse
        self.size = size
        self._processes: dict[str, EngineProcess] = {}
        self.problems: list[str] = []

    def process(self, engine: str) -> EngineProcess:
        """Return the process of an engine; all ways through Spark share one."""
        key = "Spark" if engine in IN_SPARK else engine
        if key not in self._processes or not self._processes[key].is_running:
            self._processes[key] = EngineProcess(str(self.warehouse))
        return self._processes[key]

    def close(self) -> None:
        """End all processes."""
        for process in self._processes.values():
            process.__exit__()
        self._processes.clear()

    def measure(self, page: Page) -> dict[str, Any]:
        """Run a page's queries on its engines."""
        return {"queries": [self._measure(page, query) for query in page.queries]}

    def _measure(self, page: Page, query: Query) -> dict[str, Any]:
        alone = (CORE, CORE_NO_INDEX)  # which plan and read, and do nothing else
        engines = [name for name in page.engines if name not in alone or query.columns not in {"", "count"}]
        figures: dict[str, dict[str, Any]] = {name: {} for name in engines}
        answers: dict[str, str] = {}
        for name in engines:  # checks, and warms caches and compilers
            started = time.perf_counter()
            try:
                answer = self.process(name).ask("answer", name, query, self.size.cap)
                took = time.perf_counter() - started
                if answer is not None and took < self.size.patience / 4:
                    self.process(name).measure(name, query, self.size.cap)
            except EngineError as error:  # the others are still measured
                self.problems.append(f"{page.name}, {query.title}: {error}")
                figures[name]["failed"] = str(error)[:300]
                continue
            if answer is None:
                figures[name]["stopped"] = self.size.cap
                continue
            answers[name] = answer
        runs: dict[str, list[Measured]] = {name: [] for name in answers}
        for turn in range(self.size.repeats):
            order = deque(
                runs.items()
            )  # each turn starts with another engine: none always follows the same one
            order.rotate(-turn)
            for name, done in order:
                if sum(run.seconds for run in done) > self.size.patience or "stopped" in figures[name]:
                    continue
                run = self.process(name).measure(name, query, self.size.cap)
                if run is None:
                    figures[name]["stopped"] = self.size.cap
                else:
                    done.append(run)
        for name, done in runs.items():
            figures[name].update(
                seconds=[round(run.seconds, 4) for run in done],
                cpu=[round(run.cpu, 3) for run in done],
                read=[run.read for run in done],
                from_disk=[run.from_disk for run in done],
            )
            if query.title in page.cold and done:
                forget_files(self.warehouse / "db")
                if (run := self.process(name).measure(name, query, self.size.cap)) is not None:
                    figures[name]["cold"] = {"seconds": round(run.seconds, 4), "from_disk": run.from_disk}
        self._compare(page, query, answers)
        shown = ", ".join(
            f"{name} {min(f['seconds']):.2f}" if f.get("seconds") else f"{name} -"
            for name, f in figures.items()
        )
        console.print(f"  {query.title}: {next(iter(answers.values()), 'no answer')}: {shown}")
        return {"title": query.title, "answer": next(iter(answers.values()), ""), "engines": figures}

    def _compare(self, page: Page, query: Query, answers: dict[str, str]) -> None:
        if len(set(answers.values())) > 1:
            self.problems.append(f"{page.name}, {query.title}: answers differ: {answers}")
            console.print(f"[red]{self.problems[-1]}[/red]")

    def measure_sessions(self) -> dict[str, Any]:
        """Run a needle repeatedly in new sessions, one engine and one needle in each."""
        self.close()  # nothing else has a Spark session meanwhile
        asked = []
        for query in IN_SESSIONS:
            figures: dict[str, list[dict[str, Any]]] = {}
            for _ in range(self.size.sessions):
                for name in (TWOSTAGE, ICEBERG, SPARK):
                    with EngineProcess(str(self.warehouse)) as process:
                        started = time.perf_counter()
                        process.ask("start", name)
                        session = time.perf_counter() - started
                        runs = [process.measure(name, query, self.size.cap) for _ in range(IN_A_ROW)]
                    done = [run for run in runs if run is not None]
                    seconds = [round(run.seconds, 4) for run in done]
                    figures.setdefault(name, []).append(
                        {
                            "session": round(session, 3),
                            "seconds": seconds,
                            "cpu": [round(run.cpu, 3) for run in done],
                        }
                    )
                    console.print(f"  {query.title}, {name}: session {session:.1f}, queries {seconds}")
            asked.append({"title": query.title, "engines": figures})
        return {"queries": asked}

    def measure_filters(self) -> dict[str, Any]:
        """Run the benchmark of the filters, one process and no Spark."""
        return self._measured_by("filters.py", "--rows", str(min(1_000_000, self.size.rows)))

    def measure_equality_deletes(self) -> dict[str, Any]:
        """Run the benchmark of equality deletes, which has its own table and session."""
        size = "small" if self.size is SIZES["small"] else "full"
        warehouse = str(self.warehouse.with_name(f"{self.warehouse.name}-deletes"))
        return self._measured_by("deletes.py", "--size", size, "--warehouse", warehouse)

    def measure_object_store(self) -> dict[str, Any]:
        """Run the benchmark of a store with latency, which has its own tables and sessions.

        The variable STORE has more options for it, such as ``--latencies 100 --threads 8``.
        """
        size = next(name for name, known in SIZES.items() if known is self.size)
        warehouse = str(self.warehouse.with_name(f"{self.warehouse.name}-object-store"))
        more = shlex.split(os.environ.get("STORE", ""))
        if large := {"small": "small-big", "full": "big"}.get(size):  # the same queries on few large files
            self._measured_by("object_store.py", "--size", large, "--warehouse", f"{warehouse}-big", *more)
        return self._measured_by("object_store.py", "--size", size, "--warehouse", warehouse, *more)

    def measure_indexes(self) -> dict[str, Any]:
        """Query few rows of tables with indexes, which have their own warehouse."""
        self.close()  # nothing else has a Spark session meanwhile
        size = next(name for name, known in SIZES.items() if known is self.size)
        warehouse = self.warehouse.with_name(f"{self.warehouse.name}-indexes")
        subprocess.run(
            [sys.executable, str(Path(__file__).with_name("index_tables.py")), str(warehouse), size],
            check=True,
        )
        own = Bench(
            warehouse,
            replace(
                self.size, repeats=min(self.size.repeats, 9), patience=min(self.size.patience, INDEX_PATIENCE)
            ),
        )
        try:
            figures = own.measure(PAGES["indexes"])
        finally:
            own.close()
        self.problems += own.problems
        return figures | {"built": json.loads((warehouse / "done.json").read_text())}

    def measure_tpc(self, page: str) -> dict[str, Any]:
        """Run TPC-DS or TPC-H, which has its own tables and session; an interrupted run continues."""
        benchmark, size = ONLY_IF_NAMED[page]
        size = size or next(name for name, known in SIZES.items() if known is self.size)
        warehouse = str(self.warehouse.with_name(f"{self.warehouse.name}-{page.removesuffix('-all')}"))
        figures = self._measured_by(
            "tpc.py", "--benchmark", benchmark, "--size", size, "--warehouse", warehouse
        )
        self.problems += problems_of(figures)
        (ROOT / "benchmarks" / "results" / "tpc.py.json").unlink()
        return figures

    def _measured_by(self, program: str, *options: str) -> dict[str, Any]:
        self.close()  # nothing else has a Spark session meanwhile
        target = ROOT / "benchmarks" / "results" / f"{program}.json"
        target.parent.mkdir(exist_ok=True)
        command = [sys.executable, str(Path(__file__).with_name(program)), "--json", str(target), *options]
        subprocess.run(command, check=True)
        return dict(json.loads(target.read_text()))


def main() -> int:
    """Measure pages, write their figures, then the document."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "pages",
        nargs="*",
        help=f"of {', '.join((*PAGES, *OTHER_PAGES, *ONLY_IF_NAMED))}; if none is named, all that are quick enough",
    )
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument(
        "--warehouse", type=Path, help="where the tables are kept (default: benchmarks/data/SIZE)"
    )
    parser.add_argument("--page-only", action="store_true", help="measure nothing, write the document again")
    arguments = parser.parse_args()
    wanted = arguments.pages or [
        *(name for name, page in PAGES.items() if not page.only_if_named),
        *OTHER_PAGES,
    ]
    if unknown := set(wanted) - {*PAGES, *OTHER_PAGES, *ONLY_IF_NAMED}:
        parser.error(f"no such page: {', '.join(sorted(unknown))}")
    is_small = arguments.size == "small"
    folder = ROOT / "benchmarks" / "results" / "small" if is_small else ROOT / "docs" / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    document = folder / "benchmarks.md" if is_small else ROOT / "docs" / "benchmarks.md"
    size = SIZES[arguments.size]
    warehouse = (arguments.warehouse or ROOT / "benchmarks" / "data" / arguments.size).absolute()
    problems: list[str] = []
    if not arguments.page_only:
        started = time.perf_counter()
        if set(wanted) - set(WITH_OWN_TABLES):
            subprocess.run(  # its own Spark session, which ends before the measuring starts
                [
                    sys.executable,
                    str(Path(__file__).with_name("bench_tables.py")),
                    str(warehouse),
                    arguments.size,
                ],
                check=True,
                stderr=subprocess.DEVNULL if is_small else None,
            )
        console.print(f"tables in {warehouse}: {time.perf_counter() - started:.0f} s")
        bench = Bench(warehouse, size)
        try:
            for name in wanted:
                measure_page(bench, name, arguments.size, folder)
        finally:
            bench.close()
        problems = bench.problems
    write_page(folder, document)
    console.print(f"written: {document}")
    for line in problems:
        console.print(f"[red]{line}[/red]")
    return 1 if problems else 0


def measure_page(bench: Bench, name: str, size: str, folder: Path) -> None:
    """Measure one page and write its figures."""
    console.print(f"{name} …")
    started, load = time.perf_counter(), os.getloadavg()[0]
    if name == "sessions":
        figures = bench.measure_sessions()
    elif name == "filters":
        figures = bench.measure_filters()
    elif name == "equality-deletes":
        figures = bench.measure_equality_deletes()
    elif name == "object-store":
        figures = bench.measure_object_store()
    elif name in ONLY_IF_NAMED:
        figures = bench.measure_tpc(name)
    elif name == "indexes":
        figures = bench.measure_indexes()
    else:
        figures = bench.measure(PAGES[name])
    about = {
        "page": name,
        "size": size,
        "written": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "took": round(time.perf_counter() - started),
        "load_before": round(load, 1),
        "machine": describe(bench.warehouse),
    }
    (folder / f"{name}.json").write_text(json.dumps(about | figures, indent=1) + "\n")
    console.print(f"{name}: {about['took']} s")


if __name__ == "__main__":
    sys.exit(main())
