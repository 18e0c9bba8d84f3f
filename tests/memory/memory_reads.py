"""Reads one table in a child process and tells the most memory that the read held; see `limited_process`.

Takes ``path``, ``columns`` (names; None for all), ``where`` (operator, column, literal; None for none) and ``options``;
gives the rows, the bytes of the largest batch, how far the resident set rose above what the process held before, and
what was decided while reading.
The kernel's high-water mark is set back first: `getrusage` keeps it for the process's life, its parent's included.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pyarrow as pa

from check import Columns
from core_scan import open_table
from limited_process import memory_of_this_process
from twostage.errors import TwoStageError
from twostage.metrics import Metrics
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE, Compare
from twostage.reading.pipeline import read_group


def read(request: dict[str, Any]) -> dict[str, Any]:
    """Answer one request; see the module."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    Path("/proc/self/clear_refs").write_text("5")
    before = memory_of_this_process("VmRSS")
    opened = open_table(request["path"], **request.get("options", {}))
    schema = opened.table.schema
    wanted, where = request.get("columns"), request.get("where")
    plan = plan_scan(
        opened.table,
        opened.options,
        projection=schema.fields if wanted is None else tuple(f for f in schema.fields if f.name in wanted),
        predicate=Compare(where[0], Columns(schema)(where[1]), where[2]) if where else TRUE,
        hint=TRUE,
        limit=None,
        parallelism=1,
        scan_id="memory",
    )
    metrics = Metrics()
    rows = largest = 0
    answer: dict[str, Any] = {"class": "rows"}
    try:
        for group in plan.groups:
            for batch in read_group(group, metrics):
                rows += batch.num_rows
                largest = max(largest, batch.nbytes)
                del batch
    except TwoStageError as error:
        answer = {"class": error.code, "detail": str(error)}
    held = memory_of_this_process("VmHWM") - before
    return {**answer, "rows": rows, "largest": largest, "held": held, "choices": [*metrics.choices]}
