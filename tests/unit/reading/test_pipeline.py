"""From a task group to batches: limits, order, what a reader that nobody waits for does, every format in one table."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from check import check, ids
from core_scan import open_table, scan
from tables import Table
from twostage.metrics import Metrics
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE, Compare
from twostage.reading.pipeline import read_group
from twostage.task import ScanPlan

ROWS = 100


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Two files of five row groups each; every second row is deleted by a key."""
    table = Table(tmp_path / "t", {"id": "long", "k": "int"})
    for first in (0, 50):
        table.append([{"id": first + i, "k": i % 2} for i in range(50)], row_group_size=10)
    table.delete_equal(["k"], [{"k": 1}])
    table.write()
    return table


def plan_of(table: Table, limit: int | None = None, **options: str) -> ScanPlan:
    opened = open_table(table.folder, **options)
    fields = opened.table.schema.fields
    return plan_scan(
        opened.table,
        opened.options,
        projection=fields,
        predicate=TRUE,
        hint=TRUE,
        limit=limit,
        parallelism=1,
        scan_id="test",
    )


@pytest.mark.parametrize("limit", [1, 5, 25, 26, 50, 51])
@pytest.mark.parametrize("batch_size", [3, 1000])
@pytest.mark.parametrize("stream", ["always", "never"])
def test_a_limit_cuts_each_task(table: Table, limit: int, batch_size: int, stream: str) -> None:
    plan = plan_of(table, limit, **{"batch_size": str(batch_size), "deletes.stream": stream})
    for group in plan.groups:
        metrics = Metrics()
        batches = list(read_group(group, metrics))
        rows = sum(batch.num_rows for batch in batches)
        there = 25 * len(group.tasks)
        assert rows == min(limit, there) == metrics.counters["rows.fetched"]
        assert metrics.counters["tasks.limited"] == (limit <= there)
        if limit <= 5:
            assert metrics.counters["row_groups.read"] == 1  # and no further


def test_rows_come_in_file_order(table: Table) -> None:
    for stream in ("always", "never"):
        result = scan(
            open_table(table.folder, **{"deletes.stream": stream, "parallelism": "1"}), parallelism=1
        )
        assert [row[0][1] for row in result.rows] == list(range(0, ROWS, 2))


def test_a_reader_that_nobody_waits_for_stops(table: Table) -> None:
    """Asked before each row group's rows are fetched."""
    asked = 0

    class NobodyWaitsError(Exception):
        pass

    def still_wanted() -> None:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise NobodyWaitsError

    (group,) = plan_of(table, **{"deletes.stream": "never", "parallelism": "1"}).groups
    metrics = Metrics()
    with pytest.raises(NobodyWaitsError):
        list(read_group(group, metrics, still_wanted))
    assert metrics.counters["row_groups.read"] == 2


@pytest.mark.parametrize("stream", ["always", "never"])
def test_files_are_closed_when_a_reader_stops_early(table: Table, stream: str) -> None:
    def opened() -> set[str]:
        found = set()
        for name in os.listdir("/proc/self/fd"):
            try:
                target = os.readlink(f"/proc/self/fd/{name}")
            except OSError:
                continue
            found |= {target} if str(table.folder) in target else set()
        return found

    batches = read_group(plan_of(table, **{"deletes.stream": stream}).groups[0], Metrics())
    next(batches)
    batches.close()
    assert opened() == set()


def test_the_rows_of_a_metadata_table_travel_in_the_task(table: Table) -> None:
    plan = plan_of(table, **{"metadata-table": "snapshots"})
    rows = [batch.num_rows for group in plan.groups for batch in read_group(group, Metrics())]
    assert sum(rows) == 3


@pytest.mark.parametrize("two_stage", ["true", "false"])
def test_files_of_every_format_in_one_table(tmp_path: Path, two_stage: str) -> None:
    table = Table(tmp_path / "t", {"id": "long", "k": "int"})
    for number, name in enumerate(("parquet", "orc", "avro")):
        rows = [{"id": 100 * number + i, "k": i % 5} for i in range(40)]
        table.append(rows, format=name, mixed=name != "parquet", row_group_size=10)
    table.delete_equal(["k"], [{"k": 2}])
    wanted = [100 * n + i for n in range(3) for i in range(40) if i % 5 in (3, 4)]
    result = check(table, wanted, lambda c: Compare(">", c("k"), 1), two_stage=two_stage)
    assert result.count("files.read") == 3


def test_no_rows_at_all(tmp_path: Path) -> None:
    table = Table(tmp_path / "t", {"id": "long"})
    table.append(ids(0))
    check(table, [])
