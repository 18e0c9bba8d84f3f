"""Reads one table in a child process that has a limit of memory; see `limited_process`.

Takes ``path`` and ``options``; gives the class (``rows`` or the error's code), how many rows had the id 1, 2 or 3,
the most memory that the process has held, and the seconds of CPU that the answer took.
"""

from __future__ import annotations

import time
from typing import Any

from check import Columns
from core_scan import open_table
from limited_process import memory_of_this_process
from twostage.errors import TwoStageError
from twostage.metrics import Metrics
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE, In
from twostage.reading.pipeline import read_group


def read_bomb(request: dict[str, Any]) -> dict[str, Any]:
    """Answer one request; see the module."""
    before, started = memory_of_this_process("VmRSS"), time.process_time()
    try:
        opened = open_table(request["path"], **request["options"])
        schema = opened.table.schema
        plan = plan_scan(
            opened.table,
            opened.options,
            projection=schema.fields,
            predicate=In(Columns(schema)("id"), (1, 2, 3)),
            hint=TRUE,
            limit=None,
            parallelism=1,
            scan_id="bomb",
        )
        metrics = Metrics()
        rows = sum(batch.num_rows for group in plan.groups for batch in read_group(group, metrics))
        answer: dict[str, Any] = {"class": "rows", "rows": rows}
    except TwoStageError as error:
        answer = {"class": error.code, "path": error.path, "stage": error.stage, "detail": str(error)}
    return {
        **answer,
        "held": memory_of_this_process("VmHWM") - before,
        "cpu": time.process_time() - started,
    }
