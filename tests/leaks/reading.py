"""The program that `test_leaks.py` starts: reads one table again and again in one process and prints what it holds.

A read goes the whole way: look the table up, plan it, read every task; some are abandoned after one batch, some filter
to nothing, some fail. Files of all three formats, positional, vector and equality deletes are in the table.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
from pathlib import Path

from check import Columns
from core_scan import open_table
from twostage.errors import TwoStageError
from twostage.metrics import Metrics
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE, Compare
from twostage.reading.pipeline import read_group

WARM_UP = 40


def held(before: dict[str, int] | None = None) -> dict[str, int]:
    """Return resident bytes, open descriptors and threads; wait a while until there are no more of these than before.

    The last reads' threads may be about to end, and hold a file until then.
    """
    gc.collect()
    end = time.monotonic() + 30
    while (
        before
        and time.monotonic() < end
        and (
            threading.active_count() > before["threads"]
            or len(os.listdir("/proc/self/fd")) > before["descriptors"]
        )
    ):
        time.sleep(0.05)
        gc.collect()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return {
        "rss": resident,
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
    }


def read(path: str, turn: int) -> int:
    """Read once; return the rows."""
    opened = open_table(path, split_size="1k", **({"two_stage": "false"} if turn % 7 == 3 else {}))
    column = Columns(opened.table.schema)
    predicate = TRUE if turn % 3 == 0 else Compare(">=", column("id"), turn % 500)
    plan = plan_scan(
        opened.table,
        opened.options,
        projection=opened.table.schema.fields,
        predicate=predicate,
        hint=TRUE,
        limit=None,
        parallelism=2,
        scan_id=f"scan-{turn}",
    )
    rows = 0
    for group in plan.groups:
        batches = read_group(group, Metrics())
        if turn % 5 == 4:  # a limit that stops early
            first = next(batches, None)
            rows += first.num_rows if first else 0
            batches.close()
            continue
        rows += sum(batch.num_rows for batch in batches)
    return rows


def main() -> None:
    """Read `turns` times after a warm-up; print what was held before and after, and what each kind of read gave."""
    path, broken, turns = sys.argv[1], sys.argv[2], int(sys.argv[3])
    wrong: list[str] = []

    def step(turn: int) -> None:
        rows = read(path, turn)
        if turn % 15 == 0 and rows != int(sys.argv[4]):
            wrong.append(f"turn {turn}: {rows} rows")
        if turn % 10 == 9:
            try:
                read(broken, 0)
            except TwoStageError:
                pass
            else:
                wrong.append(f"turn {turn}: the broken table was read")

    for turn in range(WARM_UP):
        step(turn)
    before = held()
    for turn in range(turns):
        step(turn)
    print(json.dumps({"before": before, "after": held(before), "wrong": wrong}))


if __name__ == "__main__":
    main()
