"""ORDER BY … LIMIT in a scan: what is not read, in row groups, pages, windows and one stage."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from core_scan import open_table, scan
from tables import FileOptions, Table
from twostage.errors import CorruptFileError
from twostage.handover import eligibility
from twostage.handover.decide import hand_over
from twostage.handover.eligibility import MAX_TOP_N_SHARE, stays_by_top
from twostage.handover.protocol import ScanDemand
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE, Column, Compare
from twostage.predicates.top import Threshold, TopRows

if TYPE_CHECKING:
    from pathlib import Path

    from core_scan import Opened, Result
    from twostage.predicates.predicate import Predicate
    from twostage.schema import Field
    from twostage.task import ScanPlan

SMALL_PAGES = FileOptions(row_group_size=2000, page_size=256, page_index=True, dictionary=False)
IN_WINDOWS = "read in windows: the filter columns of a row group exceed task-memory"


def first(opened: Opened, name: str, count: int, **changes: Any) -> TopRows:
    field = opened.table.schema.find((name,))
    assert field is not None
    column = Column(field.id, (name,), field.type)
    given = {"descending": True, "nulls_first": False} | changes
    return TopRows(column=column, count=count, **given)


def keys(result: Result, count: int) -> list[int]:
    """Return the greatest keys of a result whose first column is the key: the tests below have no NULL there."""
    return sorted((row[0][1] for row in result.rows), reverse=True)[:count]


def wide(folder: Path, order: list[int], options: FileOptions = SMALL_PAGES, *, files: int = 1) -> Path:
    table = Table(folder, {"k": "long", "other": "long", "text": "string"})
    step = len(order) // files
    for number in range(files):
        rows = [
            {"k": k, "other": k % 10, "text": f"{k}" * 50} for k in order[number * step : (number + 1) * step]
        ]
        table.append(rows, options)
    return table.write()


SHUFFLED = [i * 7919 % 10_000 for i in range(10_000)]
ASCENDING = list(range(10_000))


def test_row_groups_are_read_best_first_and_the_rest_not_at_all(tmp_path: Path) -> None:
    opened = open_table(wide(tmp_path, ASCENDING))
    result = scan(opened, top=first(opened, "k", 10), parallelism=1)
    assert keys(result, 10) == list(range(9999, 9989, -1))
    assert result.count("row_groups.pruned.top-n") == 4
    assert result.count("rows.pruned") == 8000
    assert len(result.rows) == 10
    everything = scan(opened)
    assert result.count("bytes.read") * 5 < everything.count("bytes.read")


def test_rows_that_better_ones_beat_are_not_fetched(tmp_path: Path) -> None:
    """Each row group holds rows that are among the best so far; only those that stay are fetched."""
    opened = open_table(wide(tmp_path, SHUFFLED, replace(SMALL_PAGES, statistics=False)))
    result = scan(opened, top=first(opened, "k", 10), parallelism=1)
    assert keys(result, 10) == list(range(9999, 9989, -1))
    assert len(result.rows) == 10
    assert result.count("rows.top-n") == 9990
    assert result.count("bytes.fetch") * 5 < scan(opened).count("bytes.read")


def test_pages_are_pruned_by_what_was_seen(tmp_path: Path) -> None:
    """A second row group of which a few pages hold better keys."""
    order = [*range(8000, 10_000), *range(2000), *(9_990 - i for i in range(20)), *range(2000, 3980)]
    opened = open_table(wide(tmp_path, order))
    result = scan(opened, top=first(opened, "k", 50), parallelism=1)
    assert keys(result, 50) == sorted(order, reverse=True)[:50]
    assert result.count("row_groups.pruned.top-n") == 1
    assert result.count("rows.pruned") > 2000 + 1500  # a row group, and most pages of another


@pytest.mark.parametrize("predicate", [False, True])
def test_windows_and_one_stage_return_the_first_rows(tmp_path: Path, predicate: bool) -> None:  # noqa: FBT001
    path = wide(tmp_path, SHUFFLED, replace(SMALL_PAGES, row_group_size=10_000))
    wanted = [k for k in range(9999, 0, -1) if not predicate or k % 10 > 4][:25]
    for options in ({"task_memory": "70k"}, {"two_stage": "false"}, {"read.pages": "always"}):
        opened = open_table(path, **options)
        column = opened.table.schema.find(("other",))
        assert column is not None
        test = Compare(">", Column(column.id, ("other",), column.type), 4) if predicate else TRUE
        result = scan(opened, predicate=test, top=first(opened, "k", 25))
        assert keys(result, 25) == wanted, options
        assert (IN_WINDOWS in result.metrics.choices) == ("task_memory" in options)
        if "task_memory" in options:
            assert len(result.rows) < 1000


def test_files_are_pruned_and_ordered_by_bounds(tmp_path: Path) -> None:
    opened = open_table(wide(tmp_path, ASCENDING, files=5))
    for changes, kept in (({}, 1), ({"descending": False}, 1), ({"count": 2001}, 2)):
        wanted = first(opened, "k", **{"count": 10, **changes})
        result = scan(opened, top=wanted)
        assert result.count("files.pruned.top-n") == 5 - kept
        assert result.count("rows.considered") == 10_000
        plan = result.plan
        assert plan is not None
        assert plan.context.top is not None
        assert plan.context.top.threshold is not None
        paths = [task.path for group in plan.groups for task in group.tasks if task.start == 0]
        assert paths == sorted(paths, reverse=wanted.descending)
    reached = scan(opened, top=first(opened, "k", 10)).plan
    assert reached is not None
    assert reached.context.top is not None
    assert reached.context.top.threshold == Threshold(8000)


def test_deletes_and_filters_prove_nothing(tmp_path: Path) -> None:
    """The best file's rows may be deleted or filtered: files behind it stay."""
    table = Table(tmp_path, {"k": "long", "other": "long"})
    best = table.append([{"k": 1000 + i, "other": 1} for i in range(100)])
    table.append([{"k": i, "other": i % 2} for i in range(100)])
    table.delete_positions({best: list(range(100))})
    opened = open_table(table.write())
    result = scan(opened, top=first(opened, "k", 5))
    assert keys(result, 5) == [99, 98, 97, 96, 95]
    column = opened.table.schema.find(("other",))
    assert column is not None
    even = Compare("=", Column(column.id, ("other",), column.type), 0)
    assert keys(scan(opened, predicate=even, top=first(opened, "k", 5)), 5) == [98, 96, 94, 92, 90]


def test_vectors_say_how_many_rows_live(tmp_path: Path) -> None:
    table = Table(tmp_path, {"k": "long"}, version=3)
    best = table.append([{"k": 1000 + i} for i in range(100)])
    table.append([{"k": i} for i in range(100)])
    table.delete_vectors({best: list(range(5, 100))})
    opened = open_table(table.write())
    for count, files in ((5, 1), (6, 2)):
        assert len(scan(opened, top=first(opened, "k", count)).rows) >= count
        assert scan(opened, top=first(opened, "k", count)).count("files.read") == files
        limited = scan(opened, limit=count)
        assert limited.plan is not None
        assert sum(len(group.tasks) for group in limited.plan.groups) == files
    assert keys(scan(opened, top=first(opened, "k", 6)), 6) == [1004, 1003, 1002, 1001, 1000, 99]


def test_a_hint_leaves_rows_unseen_so_that_nothing_is_left_out(tmp_path: Path) -> None:
    opened = open_table(wide(tmp_path, ASCENDING, files=5))
    column = opened.table.schema.find(("other",))
    assert column is not None
    hint = Compare(">=", Column(column.id, ("other",), column.type), 0)
    result = scan(opened, hint=hint, top=first(opened, "k", 5))
    assert len(result.rows) == 10_000


def test_fewer_rows_than_the_manifest_says_are_an_error(tmp_path: Path) -> None:
    """Other files were left out because of them."""
    table = Table(tmp_path, {"k": "long"})
    with table.transaction():
        file = table.append([{"k": 100 + i} for i in range(3)])
        file.entry["record_count"] = 9
        file.entry["value_counts"] = {1: 9}
        table.append([{"k": i} for i in range(50)])
    opened = open_table(table.write())
    with pytest.raises(CorruptFileError, match="Manifest says 9 rows, the data file holds 3"):
        scan(opened, top=first(opened, "k", 5))


@pytest.mark.parametrize("count", [-1, 0])
def test_files_whose_rows_nobody_counted_are_read(tmp_path: Path, count: int) -> None:
    table = Table(tmp_path, {"k": "long"})
    with table.transaction():
        file = table.append([{"k": 100 + i} for i in range(3)])
        file.entry["record_count"] = count
        file.entry["value_counts"] = file.entry["null_value_counts"] = None
        table.append([{"k": i} for i in range(50)])
    result = scan(open_table(table.write()), top=first(open_table(tmp_path), "k", 5))
    assert keys(result, 5) == [102, 101, 100, 49, 48]


def test_many_columns_stay_and_the_key_alone_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the columns outweigh the opening of files."""
    opened = open_table(wide(tmp_path, SHUFFLED, replace(SMALL_PAGES, compression="none")))
    wanted = first(opened, "k", 5)
    plan = scan(opened, top=wanted).plan
    assert plan is not None
    assert stays_by_top(plan) is None  # the whole table is small
    monkeypatch.setattr(eligibility, "MIN_TOP_N_BYTES", 2**20)
    reason = stays_by_top(plan)
    assert reason is not None
    assert reason.startswith("ORDER BY and LIMIT leave about ")
    alone = scan(opened, opened.table.schema.fields[:1], top=wanted).plan
    assert alone is not None
    assert alone.top_share is not None
    assert alone.top_share > MAX_TOP_N_SHARE
    assert stays_by_top(alone) is None
    without = scan(opened).plan
    assert without is not None
    assert stays_by_top(without) is None


def test_what_stays_by_its_files_is_planned_once(tmp_path: Path) -> None:
    """The files of the first rows are some of all: what keeps these here keeps all of them."""
    table = Table(tmp_path, {"k": "long"})
    table.append([{"k": i} for i in range(50)])
    table.delete_equal(["k"], [{"k": 3}])
    opened = open_table(table.write())
    demand = ScanDemand(columns=("k",), returned=("k",))
    planned: list[TopRows | None] = []

    def plan(
        projection: tuple[Field, ...], predicate: Predicate, hint: Predicate, top: TopRows | None
    ) -> ScanPlan:
        planned.append(top)
        return plan_scan(
            opened.table, opened.options, projection=projection, predicate=predicate, hint=hint, limit=None,
            parallelism=1, scan_id="s", top=top,
        )  # fmt: skip

    wanted = first(opened, "k", 5)
    bind = lambda raw: TRUE  # there are no predicates
    reason = hand_over(opened.table, opened.options, demand, bind=bind, plan_scan=plan, top=wanted)
    assert reason == "1 of 1 files have equality deletes, not compiled: file-0.parquet"
    assert planned == [wanted]
