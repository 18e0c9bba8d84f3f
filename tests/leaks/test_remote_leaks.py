"""Many reads of an object store in one process: threads end with each of them, and connections do not grow in number."""

from __future__ import annotations

import gc
import os
import threading
import time

import pytest

from core_scan import open_table, scan
from deleted_tables import TABLES, write_tables
from late_store import BUCKET, Fault, serve_late
from twostage.errors import TwoStageError
from twostage.metrics import Metrics
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE
from twostage.reading.pipeline import read_group

FILES, ROWS, READS = 4, 60, 12
POOLED = 16
"""Connections that a client may open for reads which happen to have more requests in flight than those before."""


def held():
    """Return the descriptors of this process, and its threads that are twostage's."""
    gc.collect()
    own = [one.name for one in threading.enumerate() if one.name.startswith("twostage")]
    return len(os.listdir("/proc/self/fd")), sorted(own)


def abandoned(opened):
    """Read one batch, and no more."""
    plan = plan_scan(
        opened.table,
        opened.options,
        projection=opened.table.schema.fields,
        predicate=TRUE,
        hint=TRUE,
        limit=None,
        parallelism=1,
        scan_id="leaks",
    )
    batches = read_group(plan.groups[0], Metrics())
    next(batches)
    batches.close()


@pytest.mark.timeout(300)
def test_many_reads_of_a_store(tmp_path):
    """Whole, abandoned and failing ones, with deletes of every kind."""
    live = write_tables(tmp_path, f"s3://{BUCKET}", files=FILES, rows=ROWS)
    with serve_late(tmp_path) as store:

        def read(turn):
            name = TABLES[turn % len(TABLES)]
            store.faults = [Fault("404", path=f"{name}/data/file-2")] if turn % 3 == 2 else []
            opened = open_table(f"s3://{BUCKET}/{name}", allow_moved_paths="true", **store.options)
            if turn % 3 == 1:
                abandoned(opened)
                return
            try:
                assert len(scan(opened).rows) == len(live[name])
            except TwoStageError as error:
                assert (error.code, turn % 3) == ("MISSING_FILE", 2)  # noqa: PT017

        for turn in range(READS):
            read(turn)
        descriptors, threads = held()
        assert "twostage-store" in threads, "the one that talks to stores"
        known = threads
        for turn in range(READS, 3 * READS):
            read(turn)
        after, threads = held()
        ends = time.monotonic() + 30
        while (len(threads) > len(known) or after > descriptors + POOLED) and time.monotonic() < ends:
            time.sleep(0.05)  # the last one's may be about to end
            after, threads = held()
        assert set(threads) <= set(known)
        assert len(threads) <= len(known)
        assert after <= descriptors + POOLED
