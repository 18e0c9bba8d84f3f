"""Query logs of real scans without Spark: the product's core plans and reads, and its log writer writes."""

from __future__ import annotations

import datetime
import random
from typing import TYPE_CHECKING, Any

from tables import Table
from twostage.advisor.logged_scan import LoggedScan, QueryFacts, log_scan
from twostage.advisor.query_log import QueryLogFile
from twostage.catalog.load_table import load_table
from twostage.columns import project_names
from twostage.metrics import Metrics
from twostage.options import parse_options
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE
from twostage.predicates.sql_filter import parse_filter
from twostage.reading.pipeline import read_group
from twostage.report.scan_report import ScanReport

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

EVENT_COLUMNS = {"id": "long", "user": "string", "device": "string", "kind": "string", "price": "double"}


def make_events(folder: Path, files: int = 4, rows: int = 30_000) -> str:
    """Make a table whose columns are scattered over its files, and return its path."""
    rng = random.Random(5)
    made = Table(folder, EVENT_COLUMNS)
    for number in range(files):
        made.append(
            ({
                "id": number * rows + place,
                "user": f"{rng.getrandbits(128):032x}" if place % 10 else f"u{rng.randrange(10_000)}",
                "device": f"d{rng.randrange(300)}",
                "kind": rng.choice(["view", "click", "buy"]),
                "price": rng.random() * 1000,
            }
            for place in range(rows)),
            dictionary=False, page_index=True, page_size=1 << 14,
        )  # fmt: skip
    return str(made.write())


def log_scans(
    path: str,
    queries: Iterable[tuple[str, list[str]]],
    log: Path,
    *,
    name: str = "lake.db.events",
    literals: bool = True,
    **options: Any,
) -> list[LoggedScan]:
    """Read a table for each (filter, columns), append a line of each to a log, and return them."""
    parsed = parse_options({"path": path, **options})
    table = load_table(parsed)
    found = []
    for number, (text, columns) in enumerate(queries):
        plan = plan_scan(
            table, parsed, projection=project_names(table.schema, columns), predicate=parse_filter(text, table.schema),
            hint=TRUE, limit=None, parallelism=2, scan_id=f"scan-{number}",
        )  # fmt: skip
        reports = []
        for group in plan.groups:
            metrics = Metrics()
            reports.append(metrics)
            for _ in read_group(group, metrics):
                pass
        facts = QueryFacts(
            time=datetime.datetime(2026, 11, 23, tzinfo=datetime.UTC), milliseconds=10, query=number
        )
        scan = log_scan(plan, ScanReport.build(plan, reports), facts, literals=literals)
        found.append(LoggedScan(**{name_: getattr(scan, name_) for name_ in FIELDS} | {"table": name}))
    QueryLogFile(str(log), {}).append(found)
    return found


FIELDS = tuple(LoggedScan.__dataclass_fields__)
