"""Rounds of fifty queries through Spark: from one on, its Python workers hold no more memory, descriptors or threads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from figures import FULL, record

QUERIES = 200 if FULL else 50
MOST_GROWTH = 5 * 2**20
ROUNDS = 4


def workers():
    """Return what each Python process below this one holds: resident bytes, descriptors, threads."""
    above, found = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                above[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    below = [os.getpid()]
    for one in below:
        below += [child for child, parent in above.items() if parent == one]
    for process in below[1:]:
        try:
            command = Path(f"/proc/{process}/cmdline").read_bytes()
            if b"pyspark" not in command or b"java" in command.partition(b"\0")[0]:
                continue
            resident = int(Path(f"/proc/{process}/statm").read_text().split()[1])
            found[process] = {
                "rss": resident * os.sysconf("SC_PAGE_SIZE"),
                "descriptors": len(os.listdir(f"/proc/{process}/fd")),
                "threads": len(os.listdir(f"/proc/{process}/task")),
            }
        except OSError:
            continue
    return found


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_python_workers_do_not_grow(spark, warehouse):
    frame = spark.read.format("twostage").option("split-size", "1k").load(warehouse.events)

    def query(turn):
        first = turn * 7 % 300
        if turn % 5 == 0:
            assert len(frame.limit(3).collect()) == 3  # stops early
        assert frame.where(f"id >= {first}").select("id", "device").count() == 300 - first

    def grown(before, after):
        """Return what the processes that lived through both hold more: bytes, descriptors and threads, the worst of each."""
        same = before.keys() & after.keys()
        assert same, "no worker lived through the round"
        return {
            held: max(after[one][held] - before[one][held] for one in same)
            for held in ("rss", "descriptors", "threads")
        }

    for turn in range(20):
        query(turn)
    before = workers()
    # Spark chooses which of its idle workers a task gets: one that only waited so far grows once, when it first
    # works (142 MiB of imports and compiled filters). What leaks grows in every round.
    for _ in range(ROUNDS):
        for turn in range(QUERIES):
            query(turn)
        after = workers()
        growth = grown(before, after)
        steady = len(after) <= len(before) + 1 and growth["descriptors"] <= 1 and growth["threads"] <= 0
        if steady and growth["rss"] < MOST_GROWTH:
            break
        before = after
    else:
        pytest.fail(f"workers grew in each of {ROUNDS} rounds, at last by {growth}: {before} and {after}")
    mebibytes = round(growth["rss"] / 2**20, 2)
    record("R11", spark_queries=QUERIES, spark_workers=len(after), spark_rss_growth_mib=mebibytes)
    print(f"{len(after)} processes, {QUERIES} queries: {mebibytes} MiB more")
