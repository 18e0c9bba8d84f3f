"""Reads a table through twostage's core, without Spark: options, plan, tasks, batches."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pyarrow as pa

from twostage.catalog.load_table import load_table
from twostage.metrics import Metrics
from twostage.options import parse_options
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE
from twostage.reading.pipeline import read_group
from twostage.spark.source import chosen_fields, option_filter

if TYPE_CHECKING:
    from collections.abc import Mapping


def read(path: str, options: Mapping[str, str], metrics: Metrics | None = None) -> pa.Table:
    """Return all rows that the options select.

    Args:
        path: The table's folder.
        options: The reader's options.
        metrics: Gains the counters, if given.
    """
    metrics = metrics or Metrics()
    parsed = parse_options({"path": path, **options})
    table = load_table(parsed)
    projection = chosen_fields(table, parsed)
    plan = plan_scan(
        table,
        parsed,
        projection=projection,
        predicate=option_filter(table, parsed),
        hint=TRUE,
        limit=None,
        parallelism=2,
        scan_id="interop",
    )
    metrics.counters.update(plan.counters)
    batches = [
        batch for group in plan.groups for batch in read_group(pickle.loads(pickle.dumps(group)), metrics)
    ]
    if not batches:
        return pa.table({field.name: [] for field in projection})
    return pa.Table.from_batches(batches)
