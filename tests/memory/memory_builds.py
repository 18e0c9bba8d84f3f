"""Indexes one table in a child process and tells the most memory that this held; see `memory_reads`.

Takes ``path``, ``columns``, ``kinds`` and ``options``; gives how many data files were indexed, and how far the resident set
rose above what the process held before.
"""

from __future__ import annotations

import gc
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa

from core_scan import open_table
from indexed_tables import place_of
from limited_process import memory_of_this_process
from twostage.maintenance.index_files import index_files
from twostage.maintenance.table_indexes import OwnedIndexes


def build(request: dict[str, Any]) -> dict[str, Any]:
    """Answer one request; see the module."""
    opened = open_table(request["path"], **request.get("options", {}))
    shutil.rmtree(place_of(opened).folder, ignore_errors=True)
    gc.collect()
    pa.default_memory_pool().release_unused()
    Path("/proc/self/clear_refs").write_text("5")
    before = memory_of_this_process("VmRSS")
    owned = OwnedIndexes(opened.options, {}, lambda work: map(index_files, work), lambda text: None)
    metrics = owned.create(request["columns"], request["kinds"])
    held = memory_of_this_process("VmHWM") - before
    return {"class": "built", "made": metrics.counters["indexes.made"], "held": held}
