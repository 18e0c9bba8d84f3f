"""Loads deletes in a child process and reports its peak memory; see `limited_process`.

Takes the delete file (``path``, ``content`` and arguments of `scan_values.delete_of`), the key columns'
types, and rows to probe; returns which of them are deleted, bytes and seconds. The resident set's high-water
mark is reset first.
"""

from __future__ import annotations

import gc
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from declared.types import Column
from limited_process import memory_of_this_process
from scan_values import context_of, delete_of, task_of
from twostage.deletes.anti_join.load_key_sets import load_equality
from twostage.deletes.positions.position_deletes import load_positions
from twostage.errors import TwoStageError
from twostage.metrics import Metrics


def load(request: dict[str, Any]) -> dict[str, Any]:
    """Answer one request; see the module."""
    path = Path(request["path"])
    kinds = request.get("types", [])
    columns = [
        Column(number, f"k{number}", kind, required=False) for number, kind in enumerate(kinds, start=1)
    ]
    delete = delete_of(path, **{"equality_ids": tuple(range(1, len(kinds) + 1)), **request["delete"]})
    budget = {"settings": {"task_memory": request["budget"]}} if "budget" in request else {}
    context, task = context_of(path.parent, columns, **budget), task_of(delete, record_count=2**31)
    keys = {
        column.id: pa.array(values, {"long": pa.int64(), "string": pa.string()}[column.type])
        for column, values in zip(columns, request.get("asked", []), strict=False)
    }
    gc.collect()
    pa.default_memory_pool().release_unused()
    Path("/proc/self/clear_refs").write_text("5")
    before, started = memory_of_this_process("VmRSS"), time.perf_counter()
    answer: dict[str, Any] = {"class": "loaded"}
    try:
        if kinds:
            equality = load_equality(context, task, Metrics())
            answer["deleted"] = equality.deleted(keys, len(keys[1])).tolist()
        else:
            positions = load_positions(context, task, Metrics())
            answer["deleted"] = positions.within(*request["asked"]).tolist()
            answer["count"] = positions.count
    except TwoStageError as error:
        answer = {"class": error.code, "detail": str(error)}
    seconds = time.perf_counter() - started
    return {**answer, "held": memory_of_this_process("VmHWM") - before, "seconds": seconds}
