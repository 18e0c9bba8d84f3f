"""CPU seconds of scans under equality deletes, through the core alone: plan and read, no Spark.

Takes a table's folder and the cases; gives a table of figures. Every scan runs in a process of its own, cold
first and then again with what the first one left in memory.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from typing import TYPE_CHECKING, Any

from rich.table import Table

if TYPE_CHECKING:
    from delete_tables import Case

NEEDLE = 4711


def measure(location: str, cases: list[Case]) -> Table:
    """Measure all cases."""
    shown = Table("deletes", "query", "plan", "cold", "warm", "rows", "opened", "keys", "peak MiB")
    context = multiprocessing.get_context("spawn")
    for case in cases:
        for query in ("amount", "*", "needle"):
            with context.Pool(1) as pool:
                figures = pool.apply(scan_twice, (location, case.branch, query))
            shown.add_row(str(case), query, *figures)
    return shown


def scan_twice(location: str, branch: str, query: str) -> list[str]:
    """Run one query twice; return CPU seconds and what was counted, as texts."""
    from twostage.options import parse_options  # noqa: PLC0415 - in the process that measures
    from twostage.table.catalog import load_table  # noqa: PLC0415

    options = parse_options({"path": location, "branch": branch, "deletes.cache": "worker"})
    started = time.process_time()
    table = load_table(options)
    scan(table, options, "one", limit=1)  # imports and compiled kernels are not in the figures
    opened = time.process_time() - started
    first = scan(table, options, query)
    second = scan(table, options, query)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    counters = first["counters"]
    assert first["rows"] == second["rows"]
    assert opened > 0
    return [
        f"{first['plan']:.2f}",
        f"{first['read']:.2f}",
        f"{second['plan'] + second['read']:.2f}",
        f"{first['rows']:,}",
        f"{counters['delete_files.opened']:,}",
        f"{counters['delete_keys.loaded']:,}",
        f"{peak:,.0f}",
    ]


def scan(table: Any, options: Any, query: str, *, limit: int | None = None) -> dict[str, Any]:
    """Plan and read one query; return CPU seconds, rows and counters."""
    from twostage.metrics import Metrics  # noqa: PLC0415
    from twostage.planning.plan import plan_scan  # noqa: PLC0415
    from twostage.predicates.predicate import TRUE, Column, Compare  # noqa: PLC0415
    from twostage.reading.read import read_group  # noqa: PLC0415

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
