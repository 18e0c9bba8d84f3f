"""A read in its steps, so that a writer has its turn between them: planning, each task as Spark sends it, each batch."""

from __future__ import annotations

import pickle

import oracle
from core_scan import Result
from twostage.metrics import Metrics
from twostage.planning.plan import plan_scan
from twostage.reading.pipeline import read_group


def plan_all(opened, predicate):
    return plan_scan(
        opened.table,
        opened.options,
        projection=opened.table.schema.fields,
        predicate=predicate,
        hint=predicate,
        limit=None,
        parallelism=2,
        scan_id="changes",
    )


def read(opened, predicate, change, metrics=None):
    """Plan, then read every task and batch, with the writer's turn between all of them."""
    metrics = Metrics() if metrics is None else metrics
    change()
    plan = plan_all(opened, predicate)
    metrics.counters.update(plan.counters)
    found = Result()
    for group in plan.groups:
        change()
        for batch in read_group(pickle.loads(pickle.dumps(group)), metrics):
            found.rows += oracle.batch_rows(batch)
            change()
    return found.rows
