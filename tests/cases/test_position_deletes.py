"""Positional deletes: which rows go, by file, position, order, format, sequence number and scope."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from settings import DELETES, each_of

from check import Columns, check, ids
from core_scan import open_table, scan
from tables import Table
from twostage.errors import CorruptFileError
from twostage.predicates.predicate import Compare

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = each_of(*DELETES)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path, {"id": "long", "k": "int"})


@pytest.mark.parametrize(
    "positions",
    [[0], [29], [0, 29], list(range(30)), list(range(10, 20)), list(range(8, 23)), [9, 10], [19, 20, 21]],
    ids=["first", "last", "both ends", "whole file", "whole row group", "across row groups", "edge", "edges"],
)
def test_positions_in_a_file_of_three_row_groups(table: Table, positions: list[int]) -> None:
    file = table.append(ids(30), row_group_size=10)
    table.delete_positions({file: positions})
    result = check(table, set(range(30)) - set(positions))
    assert result.metrics.counters["rows.deleted.position"] == len(positions)


def test_duplicates_and_disorder(table: Table) -> None:
    file = table.append(ids(10))
    table.delete_positions({file: [7, 3, 3, 9, 0, 7]}, in_order=False)
    check(table, [1, 2, 4, 5, 6, 8])


def test_several_delete_files_overlap(table: Table) -> None:
    file = table.append(ids(10))
    table.delete_positions({file: [1, 2]})
    table.delete_positions({file: [2, 3]})
    table.delete_positions({file: [3, 9]}, "parquet")
    check(table, [0, 4, 5, 6, 7, 8])


@pytest.mark.parametrize("bounds", [True, False])
def test_one_delete_file_for_many_data_files(table: Table, bounds: bool) -> None:
    rows = ids(30)
    files = [table.append(rows[start : start + 10]) for start in (0, 10, 20)]
    table.delete_positions({files[0]: [0, 5], files[2]: [1]}, bounds=bounds)
    check(table, set(range(30)) - {0, 5, 21})


def test_a_delete_file_of_400_rows_over_many_row_groups(table: Table) -> None:
    rows = ids(1000)
    files = [table.append(rows[start : start + 100]) for start in range(0, 1000, 100)]
    table.delete_positions({file: range(0, 80, 2) for file in files})
    check(table, [i for i in range(1000) if i % 100 >= 80 or i % 2])


def test_rows_about_unknown_files_delete_nothing(table: Table) -> None:
    file = table.append(ids(3))
    table.delete_positions({file: [1]}, others=[("/nowhere/a.parquet", 0), (file.path + "x", 2)])
    check(table, [0, 2])


def test_a_position_beyond_the_rows_deletes_nothing(table: Table) -> None:
    file = table.append(ids(3))
    table.delete_positions({file: [1, 3, 2**40]})
    check(table, [0, 2])


def test_an_equal_sequence_number_applies(table: Table) -> None:
    with table.transaction():
        file = table.append(ids(3))
        table.delete_positions({file: [0]})
    check(table, [1, 2])


def test_a_lower_sequence_number_does_not_apply(table: Table) -> None:
    table.append(ids(1))
    file = table.append(ids(3, id=lambda i: i + 10))
    table.delete_positions({file: [0]}, sequence_number=1)
    check(table, [0, 10, 11, 12])


def test_path_bounds_leave_delete_files_unopened(table: Table) -> None:
    rows = ids(20)
    first, second = table.append(rows[:10]), table.append(rows[10:])
    table.delete_positions({first: [0]})
    deletes = table.delete_positions({second: [0]})
    check(table, set(range(20)) - {0, 10})
    table.remove(second)
    result = check(table, range(1, 10))
    assert result.plan is not None
    paths = {d.written_path for group in result.plan.groups for task in group.tasks for d in task.deletes}
    assert deletes[0].path not in paths


def test_a_referenced_data_file_scopes_the_delete(table: Table) -> None:
    rows = ids(20)
    first, _second = table.append(rows[:10]), table.append(rows[10:])
    table.delete_positions({first: [0]}, referenced=True, bounds=False)
    result = check(table, range(1, 20))
    assert result.plan is not None
    tasks = [task for group in result.plan.groups for task in group.tasks]
    assert sorted({(task.written_path == first.path, len(task.deletes)) for task in tasks}) == [
        (False, 0),
        (True, 1),
    ]


def test_a_delete_of_another_partition_does_not_apply(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "p": "int"}, partition=["p"])
    zero, one = table.append_all(ids(10, p=lambda i: i // 5))
    table.delete_positions({zero: [0]}, bounds=False)
    table.delete_positions({one: [1]}, bounds=False, scope=zero)  # in zero's partition: not about `one`
    check(table, set(range(10)) - {0})


@pytest.mark.parametrize("how", ["referenced", "bounds"])
def test_a_delete_that_names_a_file_of_another_partition_is_refused(tmp_path: Path, how: str) -> None:
    """The spec leaves it out, Iceberg before 1.12 applied it, 1.12 refuses the table; a guess would be wrong rows."""
    table = Table(tmp_path, {"id": "long", "p": "int"})
    table.partition_by(["p"])
    zero, one = table.append_all(ids(10, p=lambda i: i // 5))
    table.delete_positions({one: [1]}, scope=zero, bounds=how == "bounds", referenced=how == "referenced")
    opened = open_table(table.write())
    with pytest.raises(CorruptFileError, match="CORRUPT_MANIFEST.*another partition"):
        scan(opened)
    where = Columns(opened.table.schema)
    assert len(scan(opened, predicate=Compare("=", where("p"), 0)).rows) == 5


def test_deletes_of_each_partition_apply(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "p": "string"}, partition=["truncate[1](p)"])
    files = table.append_all(ids(10, p=lambda i: ["a1", "b", None, "a2", "äx"][i % 5]))
    table.delete_positions({file: [0] for file in files})
    check(table, [3, 5, 6, 7, 8, 9])


@pytest.mark.parametrize("scheme", ["file:", "file://"])
def test_paths_are_compared_as_their_writers_mean_them(tmp_path: Path, scheme: str) -> None:
    table = Table(tmp_path, {"id": "long"})
    file = table.append(ids(4))
    table.delete_positions({}, bounds=False)
    table.delete_positions({file: [0]}, others=[(scheme + file.path, 2)], bounds=False)
    table.write()
    assert [row[0][1] for row in scan(open_table(tmp_path)).rows] == [1, 3]


def test_a_removed_delete_file_no_longer_applies(table: Table) -> None:
    file = table.append(ids(4))
    (first,) = table.delete_positions({file: [0]})
    table.delete_positions({file: [1]})
    table.remove(first)
    check(table, [0, 2, 3])


def test_deletes_apply_to_every_split_of_a_file(table: Table) -> None:
    file = table.append(ids(100), row_group_size=10)
    table.delete_positions({file: range(0, 100, 9)})
    check(table, set(range(100)) - set(range(0, 100, 9)), split_size="1")


def test_a_wholly_deleted_row_group_is_not_read(table: Table) -> None:
    file = table.append(ids(30), row_group_size=10)
    table.delete_positions({file: range(10, 20)})
    result = check(table, [*range(10), *range(20, 30)])
    if table.data_format == "parquet":  # stripes and blocks are of the writer's making
        assert result.metrics.counters["row_groups.read"] == 2
