"""Fifty queries through Spark: its Python workers hold no more memory, descriptors or threads than after the first ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from figures import FULL, record

QUERIES = 200 if FULL else 50
MOST_GROWTH = 5 * 2**20


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

    for turn in range(20):
        query(turn)
    before = workers()
    for turn in range(QUERIES):
        query(turn)
    after = workers()
    same = before.keys() & after.keys()
    assert same, "no worker lived through the test"
    assert len(after) <= len(before) + 1, (before, after)
    growth = max(after[one]["rss"] - before[one]["rss"] for one in same)
    record(
        "R11", spark_queries=QUERIES, spark_workers=len(same), spark_rss_growth_mib=round(growth / 2**20, 2)
    )
    print(f"{len(same)} workers, {QUERIES} queries: {growth / 2**20:.2f} MiB more")
    assert growth < MOST_GROWTH, (before, after)
    for one in same:
        assert after[one]["descriptors"] <= before[one]["descriptors"] + 1, (before[one], after[one])
        assert after[one]["threads"] <= before[one]["threads"], (before[one], after[one])
