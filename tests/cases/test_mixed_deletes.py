"""All kinds of deletes on one file, with filters, limits, branches and time travel on top."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import oracle
from check import Columns, check, ids
from core_scan import open_table, scan
from tables import Table
from twostage.predicates.predicate import TRUE, And, Compare, In, IsNull, Not, Or

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Rows 0 to 99 in ten row groups, minus 0 to 9 (positions), 40 to 59 (equality)."""
    table = Table(tmp_path, {"id": "long", "k": "int", "s": "string"})
    table.append([])
    file = table.append(ids(100, k=lambda i: i // 10, s=lambda i: f"row {i}"), row_group_size=10)
    table.delete_positions({file: range(10)})
    table.delete_equal(["k"], [{"k": 4}, {"k": 5}])
    return table


LEFT = [*range(10, 40), *range(60, 100)]


def test_positions_and_equality(table: Table) -> None:
    check(table, LEFT)


def test_positions_vector_and_equality_on_one_file(table: Table) -> None:
    (file,) = (f for f in table.content().data if f.rows)
    table.version = 3
    table.delete_vectors({file: [*range(10), 99]})
    check(table, [*range(10, 40), *range(60, 99)])


def test_a_filter_on_the_deleted_column(table: Table) -> None:
    check(table, [], lambda c: Compare("=", c("k"), 4))
    check(table, range(30, 40), lambda c: In(c("k"), (0, 3, 4, 5)))
    check(table, [*range(60, 70)], lambda c: And((Compare(">", c("k"), 3), Compare("<", c("k"), 7))))


def test_a_filter_on_another_column(table: Table) -> None:
    check(table, [10, 60], lambda c: In(c("s"), ("row 0", "row 10", "row 45", "row 60")))


@pytest.mark.parametrize("limit", [0, 1, 7, 69, 70, 1000])
def test_a_limit_and_the_next_read(table: Table, limit: int) -> None:
    table.write()
    opened = open_table(table.folder)
    found = scan(opened, limit=limit, parallelism=1).rows
    assert min(limit, 70) <= len(found)
    assert {row[0][1] for row in found} <= set(LEFT)
    assert len({row[0][1] for row in found}) == len(found)
    check(table, LEFT)


def test_a_count_without_columns(table: Table) -> None:
    table.write()
    opened = open_table(table.folder)
    assert len(scan(opened, ()).rows) == 70
    columns = Columns(opened.table.schema)
    assert len(scan(opened, (), Compare("<", columns("k"), 3)).rows) == 20
    assert len(scan(opened, (), Not(IsNull(columns("s")))).rows) == 70


def test_delete_then_insert_again(table: Table) -> None:
    table.append(ids(2, id=[40, 200], k=[4, 4], s=["again", "again"]))
    check(table, [*LEFT, 40, 200])
    check(table, [40, 200], lambda c: Compare("=", c("k"), 4))
    table.delete_equal(["k", "s"], [{"k": 4, "s": "again"}])
    check(table, LEFT)


def test_branches_and_tags_have_their_own_deletes(table: Table) -> None:
    table.tag("before")
    table.on("audit")
    table.delete_equal(["k"], [{"k": 9}])
    table.on("main")
    table.delete_equal(["k"], [{"k": 1}])
    check(table, [*range(20, 40), *range(60, 100)])
    check(table, LEFT, reference="before")
    check(table, [*range(10, 40), *range(60, 90)], reference="audit")


def test_every_snapshot_stays_readable(table: Table) -> None:
    table.write()
    for snapshot, count in zip(table.snapshots, (0, 100, 90, 70), strict=True):
        opened = open_table(table.folder, snapshot_id=str(snapshot.id))
        assert len(scan(opened).rows) == len(oracle.live_rows(table.content(snapshot.id))) == count


def test_an_or_across_key_and_other_columns(table: Table) -> None:
    check(
        table, [12, *range(70, 80)], lambda c: Or((Compare("=", c("s"), "row 12"), Compare("=", c("k"), 7)))
    )


def test_a_table_of_nothing_but_deleted_rows(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long"})
    table.append(ids(5))
    table.delete_equal(["id"], [{"id": i} for i in range(5)])
    check(table, [])


def test_an_empty_table(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long"})
    check(table, [])
    table.append([])
    check(table, [])


def test_a_hint_prunes_and_never_drops_what_matches(table: Table) -> None:
    table.write()
    opened = open_table(table.folder)
    columns = Columns(opened.table.schema)
    rows = scan(opened, predicate=TRUE, hint=Compare("=", columns("k"), 7)).rows
    assert {row[0][1] for row in rows} >= set(range(70, 80))
    assert {row[0][1] for row in rows} <= set(LEFT)
