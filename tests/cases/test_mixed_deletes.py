"""All kinds of deletes on one file, with filters, limits, branches and time travel on top."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from settings import DELETES, each_of

import oracle
from check import Columns, check, ids
from core_scan import open_table, scan
from tables import Table
from twostage.predicates.predicate import TRUE, And, Compare, In, IsNull, Not, Or

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = each_of(*DELETES)


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
    """In version 3; where the setting says 2 the table was upgraded before the vector came."""
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


def test_a_filter_and_a_limit(table: Table) -> None:
    table.write()
    opened = open_table(table.folder)
    columns = Columns(opened.table.schema)
    for limit in (1, 5, 20, 30):
        predicate = And((Compare(">", columns("k"), 2), Compare("<", columns("k"), 7)))
        found = {row[0][1] for row in scan(opened, predicate=predicate, limit=limit, parallelism=1).rows}
        assert found <= {*range(30, 40), *range(60, 70)}
        assert len(found) >= min(limit, 20)


def test_a_filter_that_bounds_answer_exactly_and_at_most(tmp_path: Path) -> None:
    """Bounds prove every row of the first file, a Bloom filter none of the second; deletes take from both."""
    table = Table(tmp_path, {"id": "long", "k": "int"})
    exact = table.append(ids(10, k=lambda _: 1))
    at_most = table.append(
        ids(10, id=lambda i: 10 + i, k=lambda i: i % 3 + 1), bloom=("k",), dictionary=False
    )
    table.delete_positions({exact: [0], at_most: [3]})
    table.delete_equal(["id"], [{"id": 1}, {"id": 16}])
    result = check(table, [*range(2, 10), 10, 19], lambda c: Compare("=", c("k"), 1))
    assert result.plan is not None
    proven = {task.all_match for group in result.plan.groups for task in group.tasks}
    assert proven == {True, False}
    check(table, [11, 14, 17], lambda c: Compare("=", c("k"), 2))
    check(table, [11, 12, 14, 15, 17, 18], lambda c: Not(Compare("=", c("k"), 1)))
