"""Runs the product's core without Spark: options, plan, tasks, batches.

Takes a metadata path, a query and options; returns the rows, in the oracle's form, and the counters.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import oracle
from twostage.catalog.load_table import load_table
from twostage.metrics import Metrics
from twostage.options import ReadOptions, parse_options
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE
from twostage.reading.pipeline import read_group
from twostage.table.pinned import PinnedTable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from twostage.predicates.predicate import Predicate
    from twostage.predicates.top import TopRows
    from twostage.schema import Field
    from twostage.task import ScanPlan


@dataclass
class Opened:
    """A table pinned by the product."""

    table: PinnedTable
    options: ReadOptions


@dataclass
class Result:
    """Rows, and the counters of planning and reading."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    batch_sizes: list[int] = field(default_factory=list)
    metrics: Metrics = field(default_factory=Metrics)
    plan: ScanPlan | None = None

    def count(self, prefix: str) -> int:
        """Return the sum of all counters whose names start with `prefix`."""
        return sum(number for name, number in self.metrics.counters.items() if name.startswith(prefix))


def open_table(path: Path | str, **options: str) -> Opened:
    """Pin a table; options are written with ``_`` for ``-``."""
    parsed = parse_options(
        {"path": str(path), **{key.replace("_", "-"): value for key, value in options.items()}}
    )
    return Opened(load_table(parsed), parsed)


def with_options(opened: Opened, options: Mapping[str, str]) -> Opened:
    """Return the same pinned table with other options."""
    path = opened.options.path or ""
    return Opened(opened.table, parse_options({"path": path, **options}))


def scan(
    opened: Opened,
    projection: tuple[Field, ...] | None = None,
    predicate: Predicate = TRUE,
    *,
    hint: Predicate = TRUE,
    limit: int | None = None,
    parallelism: int = 2,
    top: TopRows | None = None,
    scan_id: str = "test",
) -> Result:
    """Plan and read; every task group is pickled and unpickled, as in Spark."""
    plan = plan_scan(
        opened.table,
        opened.options,
        projection=opened.table.schema.fields if projection is None else projection,
        predicate=predicate,
        hint=hint,
        limit=limit,
        parallelism=parallelism,
        scan_id=scan_id,
        top=top,
    )
    result = Result(plan=plan)
    result.metrics.counters.update(plan.counters)
    for group in plan.groups:
        for batch in read_group(pickle.loads(pickle.dumps(group)), result.metrics):
            result.batch_sizes.append(batch.num_rows)
            result.rows += oracle.batch_rows(batch)
    return result
