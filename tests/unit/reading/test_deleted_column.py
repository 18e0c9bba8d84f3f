"""`_deleted`: a scan that names it returns every row, marked by whatever deletes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from core_scan import open_table, scan
from tables import Table
from twostage.columns import project_names
from twostage.predicates.sql_filter import parse_filter
from twostage.table.metadata_columns import scan_schema


def make(folder: Path, kind: str) -> Table:
    """Rows 0 to 59 in row groups of 10; those with i % 6 == 5 go by key, 3 and 30 to 39 by position."""
    table = Table(folder, {"id": "long", "k": "int"}, version=3 if kind == "vector" else 2)
    rows = [{"id": i, "k": i % 6} for i in range(60)]
    file = table.append(rows, row_group_size=10, metrics="none")
    (table.delete_vectors if kind == "vector" else table.delete_positions)({file: [3, *range(30, 40)]})
    table.delete_equal(["k"], [{"k": 5}])
    table.write()
    return table


GONE = {i for i in range(60) if i % 6 == 5 or i == 3 or 30 <= i < 40}


@pytest.mark.parametrize("kind", ["position", "vector"])
@pytest.mark.parametrize(
    "options", [{}, {"two-stage": "false"}, {"batch-size": "4"}, {"deletes.stream": "always"}]
)
def test_rows_are_marked_and_none_is_left_out(tmp_path: Path, kind: str, options: dict[str, str]) -> None:
    opened = open_table(make(tmp_path / "t", kind).folder, **options)
    schema = scan_schema(opened.table)
    names = project_names(schema, ["id", "_deleted"])
    marked = {row[0][1]: row[1][1] for row in scan(opened, names).rows}
    assert marked == {i: i in GONE for i in range(60)}
    for text, wanted in (
        ("_deleted", GONE),
        ("NOT _deleted AND k = 4", {i for i in range(60) if i not in GONE and i % 6 == 4}),
        ("_deleted AND id >= 40", {i for i in GONE if i >= 40}),
        ("_deleted OR id = 0", GONE | {0}),
    ):
        result = scan(opened, project_names(schema, ["id"]), parse_filter(text, schema))
        assert {row[0][1] for row in result.rows} == wanted, text


def test_a_scan_that_does_not_name_it_leaves_deleted_rows_out(tmp_path: Path) -> None:
    opened = open_table(make(tmp_path / "t", "position").folder)
    found = scan(opened, project_names(scan_schema(opened.table), ["id"])).rows
    assert sorted(row[0][1] for row in found) == sorted(set(range(60)) - GONE)
