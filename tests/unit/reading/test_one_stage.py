"""Reading without stages: the same rows as with them, batch by batch, and keys that the table has dropped."""

from __future__ import annotations

from pathlib import Path

import pytest

from check import check, ids
from tables import Table
from twostage.predicates.predicate import And, Compare, IsNull, Not

ONE_STAGE = {"two_stage": "false"}


def make(folder: Path) -> Table:
    table = Table(folder, {"id": "long", "k": "int", "st": {"x": "int", "y": "string"}})
    rows = ids(
        90,
        k=lambda i: None if i % 9 == 0 else i % 5,
        st=lambda i: None if i % 7 == 0 else {"x": i % 4, "y": f"y{i % 3}"},
    )
    file = table.append(rows, row_group_size=40)
    table.delete_positions({file: [1, 2, 3, 41]})
    table.delete_equal(["st.x"], [{"st": {"x": 2}}])
    return table


def left(i: int) -> bool:
    return i not in (1, 2, 3, 41) and (i % 7 == 0 or i % 4 != 2)


@pytest.mark.parametrize("batch_size", [1, 7, 40, 1000])
@pytest.mark.parametrize("stream", ["always", "never"])
@pytest.mark.parametrize("select", [None, [], ["st"]])
def test_filters_and_deletes_of_every_kind(
    tmp_path: Path, batch_size: int, stream: str, select: list[str] | None
) -> None:
    options = {**ONE_STAGE, "batch_size": str(batch_size), "deletes.stream": stream}
    table = make(tmp_path / "t")
    check(table, filter(left, range(90)), select=select, **options)
    wanted = [i for i in range(90) if left(i) and i % 9 and i % 5 == 3]
    check(table, wanted, lambda c: Compare("=", c("k"), 3), select=select, **options)
    wanted = [i for i in range(90) if left(i) and i % 7 and i % 4 == 1]
    result = check(
        table,
        wanted,
        lambda c: And((Compare("=", c("st.x"), 1), Not(IsNull(c("st.y"))))),
        select=select,
        **options,
    )
    assert result.count("bytes.filter") == 0
    assert result.count("rows.filtered") > 0


def test_a_row_group_without_a_live_row_is_not_read(tmp_path: Path) -> None:
    table = Table(tmp_path / "t", {"id": "long"})
    file = table.append(ids(20), row_group_size=10)
    table.delete_positions({file: range(10)})
    result = check(table, range(10, 20), **ONE_STAGE)
    assert result.count("row_groups.read") == 1


@pytest.mark.parametrize("options", [ONE_STAGE, {}])
def test_a_key_that_the_table_has_dropped_still_deletes(tmp_path: Path, options: dict[str, str]) -> None:
    table = Table(tmp_path / "t", {"id": "long", "k": "int", "n": "int"})
    table.append(ids(50, k=lambda i: i % 5, n=lambda i: i % 3), row_group_size=20)
    table.delete_equal(["k", "n"], [{"k": 1, "n": 1}])
    table.drop_column("k")
    gone = {i for i in range(50) if i % 5 == 1 and i % 3 == 1}
    check(table, sorted(set(range(50)) - gone), batch_size="8", **options)
