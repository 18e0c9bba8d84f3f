"""CPU seconds of scans under equality deletes, through the core alone: plan and read, no Spark.

Takes a table's folder and the cases; returns a table of figures. Every scan runs in a separate process, first
cold and then again with what the first left in memory, and, in another process, with compiled deletes. They
alternate with scans without deletes, and ratios are to the adjacent ones: a busy machine slows both.
"""

from __future__ import annotations

import multiprocessing
import resource
import tempfile
import time
from statistics import median
from typing import TYPE_CHECKING, Any

from delete_report import Report

if TYPE_CHECKING:
    from collections.abc import Callable

    from delete_tables import Case

NEEDLE = 4711
QUERIES = ("amount", "*", "needle")
FIGURES = ("plan", "cold", "warm", "peak")
HEADINGS = ["deletes", "query", "plan", "cold", "warm", "compiled", "cold / none", "warm / none"]
HEADINGS += ["compiled / none", "files opened", "peak MiB", "peak over none"]


def measure(location: str, cases: list[Case], repeats: int, sentence: str) -> Report:
    """Measure all cases; medians of `repeats` runs."""
    report = Report(
        "Equality deletes: CPU of the core",
        [
            sentence,
            f"CPU seconds of planning and reading in one process, without Spark; medians of {repeats} runs.",
            "`amount` reads one column, `*` all six, `needle` keeps about three rows by a column that is no key.",
            "Cold: a process that has read nothing of the deletes, no host's cache; warm: the same scan again in it;",
            "compiled: a new process, with compiled deletes. Ratios: to scans without deletes that ran in between.",
        ],
        HEADINGS,
    )
    clean = next(case for case in cases if not case.files)
    for case in cases:
        with tempfile.TemporaryDirectory() as cache:
            if case.files:
                apart(compile_all, location, case.branch, cache)
            for query in QUERIES:
                report.rows.append(_row(location, case, clean, query, repeats, cache))
    return report


def _row(location: str, case: Case, clean: Case, query: str, repeats: int, cache: str) -> list[str]:
    runs, bases, compiled = [], [], []
    for _ in range(repeats):
        bases.append(apart(scan_twice, location, clean.branch, query))
        if case.files:
            runs.append(apart(scan_twice, location, case.branch, query))
            compiled.append(apart(scan_twice, location, case.branch, query, cache))
    base = {name: median(run[name] for run in bases) for name in FIGURES}
    if not case.files:
        figures = [f"{base['plan']:.3f}", f"{base['cold']:.2f}", f"{base['warm']:.2f}", "", "", "", "", "0"]
        return [str(case), query, *figures, f"{base['peak']:,.0f}", ""]
    found = {name: median(run[name] for run in runs) for name in FIGURES}
    if {run["rows"] for run in (*runs, *compiled)} != {runs[0]["rows"]}:
        raise AssertionError(f"{case}, {query}: the numbers of rows differ")
    kept = median(run["cold"] for run in compiled)
    return [
        str(case),
        query,
        f"{found['plan']:.3f}",
        f"{found['cold']:.2f}",
        f"{found['warm']:.2f}",
        f"{kept:.2f}",
        f"{found['cold'] / base['cold']:.2f}",
        f"{found['warm'] / base['warm']:.2f}",
        f"{kept / base['cold']:.2f}",
        f"{runs[0]['opened']:,}",
        f"{found['peak']:,.0f}",
        f"{found['peak'] - base['peak']:+,.0f}",
    ]


def apart(work: Callable[..., Any], *arguments: Any) -> Any:
    """Run something in a new process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def compile_all(location: str, branch: str, cache: str) -> None:
    """Store the compiled deletes of a branch in a cache directory."""
    from twostage.maintenance import compile_deletes  # noqa: PLC0415 - in the process that measures
    from twostage.options import parse_options  # noqa: PLC0415

    options = parse_options({"path": location, "branch": branch, "deletes.cache-dir": cache})
    for _ in compile_deletes.compile_files(compile_deletes.plan_compiling(options, {})):
        pass


def scan_twice(location: str, branch: str, query: str, cache: str | None = None) -> dict[str, Any]:
    """Run one query twice; return CPU seconds and counters. Without `cache`, nothing on the host is used."""
    from twostage.catalog.load_table import load_table  # noqa: PLC0415
    from twostage.options import parse_options  # noqa: PLC0415 - in the process that measures

    kept = {"deletes.cache": "worker"} if cache is None else {"deletes.cache-dir": cache}
    options = parse_options({"path": location, "branch": branch, **kept})
    table = load_table(options)
    scan(
        load_table(parse_options({"path": location})), options, "one", limit=1
    )  # imports are not in the figures
    first = scan(table, options, query)
    second = scan(table, options, query)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    assert first["rows"] == second["rows"]
    return {
        "plan": first["plan"],
        "cold": first["plan"] + first["read"],
        "warm": second["plan"] + second["read"],
        "rows": first["rows"],
        "opened": first["counters"]["delete_files.opened"],
        "peak": peak,
    }


def scan(table: Any, options: Any, query: str, *, limit: int | None = None) -> dict[str, Any]:
    """Plan and read one query; return CPU seconds, rows and counters."""
    from twostage.metrics import Metrics  # noqa: PLC0415
    from twostage.planning.plan import plan_scan  # noqa: PLC0415
    from twostage.predicates.predicate import TRUE, Column, Compare  # noqa: PLC0415
    from twostage.reading.pipeline import read_group  # noqa: PLC0415

    fields = table.schema.fields
    by_name = {field.name: field for field in fields}
    customer = by_name["customer"]
    predicate: Any = TRUE
    projection = (by_name["amount"],) if query == "amount" else fields
    if query in ("needle", "one"):
        column = Column(customer.id, ("customer",), customer.type)
        predicate = Compare("=", column, NEEDLE if query == "needle" else -1)
    started = time.process_time()
    plan = plan_scan(
        table,
        options,
        projection=projection,
        predicate=predicate,
        hint=TRUE,
        limit=limit,
        parallelism=2,
        scan_id="core",
    )
    planned = time.process_time()
    metrics = Metrics()
    rows = sum(batch.num_rows for group in plan.groups for batch in read_group(group, metrics))
    return {
        "plan": planned - started,
        "read": time.process_time() - planned,
        "rows": rows,
        "counters": metrics.counters,
    }
