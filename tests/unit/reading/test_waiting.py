"""Row groups that wait for delete files streamed past all of them, or for better rows: order, limits, memory, files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from check import check, ids
from core_scan import open_table, scan
from tables import Table
from twostage.predicates.predicate import Column, Compare
from twostage.predicates.top import TopRows
from twostage.reading.aligned_columns import LiveColumns
from twostage.reading.task_state import AwaitDeletes
from twostage.reading.waiting import WaitingRowGroups
from twostage.schema import Primitive
from twostage.selection import Selection

ALWAYS = {"deletes.stream": "always"}


def make(folder: Path, files: int = 3, rows: int = 200) -> Table:
    table = Table(folder, {"id": "long", "k": "int", "s": "string"})
    for first in range(0, files * rows, rows):
        given = ids(rows, id=lambda i, first=first: first + i, k=lambda i: i % 20, s=lambda i: f"text {i}")
        table.append(given, row_group_size=50)
    table.delete_equal(["k"], [{"k": 3}, {"k": 19}])
    table.delete_equal(["id"], [{"id": 7}, {"id": 208}])
    return table


def is_left(i: int) -> bool:
    return i % 20 not in (3, 19) and i not in (7, 208)


@pytest.mark.parametrize("budget", ["1k", "64k", "1g"])
def test_rows_that_wait_come_in_order_and_none_twice(tmp_path: Path, budget: str) -> None:
    """However many row groups may wait at once: delete files pass once for each time that they are let go."""
    table = make(tmp_path / "t")
    wanted = [i for i in range(600) if is_left(i) and i % 20 >= 5]
    result = check(table, wanted, lambda c: Compare(">=", c("k"), 5), task_memory=budget, **ALWAYS)
    if budget != "1k":  # with so little, rows are read in one stage: deletes before the filter
        assert result.count("rows.deleted.equality") == 600 * 15 // 20 - len(wanted)
    opened = open_table(table.folder, parallelism="1", task_memory=budget, **ALWAYS)
    found = scan(opened, parallelism=1)
    assert [row[0][1] for row in found.rows] == [i for i in range(600) if is_left(i)]


def test_delete_files_pass_once_for_all_that_wait(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    table.write()
    passes = {}
    for budget in ("1k", "1g"):
        opened = open_table(table.folder, parallelism="1", task_memory=budget, **ALWAYS)
        passes[budget] = scan(opened, parallelism=1).count("delete_files.opened")
    assert passes["1g"] == 2 < passes["1k"]


def test_with_a_limit_nothing_waits_for_later_row_groups(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    table.write()
    result = scan(open_table(table.folder, parallelism="1", **ALWAYS), limit=5, parallelism=1)
    assert len(result.rows) == 5
    assert result.count("row_groups.considered") == 1


@pytest.mark.parametrize("stream", ["always", "never"])
@pytest.mark.parametrize("count", [1, 10, 300])
@pytest.mark.parametrize("descending", [True, False])
def test_row_groups_that_better_rows_outdo(tmp_path: Path, stream: str, count: int, descending: bool) -> None:
    table = make(tmp_path / "t")
    table.write()
    key = Column(1, ("id",), Primitive("long"))
    wanted = TopRows(column=key, count=count, descending=descending, nulls_first=False)
    opened = open_table(table.folder, **{"deletes.stream": stream})
    result = scan(opened, top=wanted, parallelism=1)
    found = sorted((row[0][1] for row in result.rows), reverse=descending)
    best = sorted(filter(is_left, range(600)), reverse=descending)[:count]
    assert found[:count] == best
    assert set(found) <= set(filter(is_left, range(600)))
    if count == 1:
        assert result.count("row_groups.pruned.top-n") + result.count("files.pruned.top-n") > 0


class File:
    """An open file of a task; `held` bytes were asked for ahead of each of its row groups."""

    def __init__(self, held: int) -> None:
        self.held = held
        self.let_go = 0
        self.data_file = self
        self.learned = SimpleNamespace(best=None, holds_enough=False)

    def expected_bytes(self, _: object) -> int:
        return self.held

    def expect(self, _: object, targets: tuple[()]) -> None:
        assert targets == ()
        self.let_go += 1


def waiting(budget: int) -> WaitingRowGroups:
    return WaitingRowGroups(SimpleNamespace(limit=None, settings=SimpleNamespace(memory_budget=budget)))


def awaits(rows: int) -> AwaitDeletes:
    columns = LiveColumns(Selection.all(rows), lambda *_: None)
    return AwaitDeletes(SimpleNamespace(num_rows=rows), columns, None, lambda _: None)


def test_what_was_asked_for_ahead_counts_among_the_bytes_that_wait() -> None:
    group, file = waiting(8000), File(held=400)
    group.add(file, awaits(500))
    assert not file.learned.holds_enough
    group.add(file, awaits(500))
    assert file.learned.holds_enough
    assert not group.is_full
    file.held = 0
    group.add(file, awaits(300))
    assert group.is_full  # 2100 of 2000 bytes; without what was asked for, 1300
    assert file.let_go == 0


def test_too_much_that_was_asked_for_ahead_is_let_go_of_before_deletes_are_streamed_for_it() -> None:
    group, file = waiting(8000), File(held=400)
    for _ in range(20):
        group.add(file, awaits(1))
    assert file.let_go == 18  # 800 of 1000 bytes are held
    assert not group.is_full
