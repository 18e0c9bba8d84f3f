"""Names of columns on the command line of ``index``, as users of Spark write them: whatever is in backticks is one name."""

from __future__ import annotations

import pytest

from indexed_by_command import opened_indexes, run_index
from tables import Table
from twostage.maintenance.index_command import names_in

NAMES = ("a,b", "c d", "e.f", "g`h", " i ", "'j'", '"k"', "s.x,y")
AS_WRITTEN = "`a,b`, c d ,e.f,`g``h`,` i `,'j',\"k\",s.`x,y`"


def make(folder):
    columns = {name: "int" for name in NAMES[:-1]}
    table = Table(folder, {"id": "long", **columns, "s": {"x,y": "int"}})
    table.append(
        [{"id": row, **{name: row % 7 for name in columns}, "s": {"x,y": row % 5}} for row in range(60)]
    )
    table.write()
    return table


def indexed(table) -> set[str]:
    context, _, _, indexes = opened_indexes(table)
    return {".".join(context.schema.path(i)) for group in indexes.groups for i in group.field_ids}


def test_each_name_is_found_listed_and_dropped(tmp_path, capsys):
    table = make(tmp_path / "t")
    assert run_index("create", table, "--columns", AS_WRITTEN, "--kind", "values") == 0
    assert indexed(table) == set(NAMES)
    assert run_index("list", table) == 0
    said = capsys.readouterr().err
    assert all(f"{name} (values)" in said for name in NAMES)
    assert run_index("drop", table, "--columns", AS_WRITTEN) == 0
    assert indexed(table) == set()


@pytest.mark.parametrize("name", NAMES)
def test_each_name_alone_in_backticks(tmp_path, name):
    table = make(tmp_path / "t")
    quoted = name.removeprefix("s.").replace("`", "``")
    prefix = "s." if name.startswith("s.") else ""
    assert run_index("create", table, "--columns", f"{prefix}`{quoted}`", "--kind", "values") == 0
    assert indexed(table) == {name}


def test_a_name_with_a_comma_that_is_not_quoted_is_two(tmp_path, capsys):
    table = make(tmp_path / "t")
    assert run_index("create", table, "--columns", "a,b", "--kind", "values") == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "No such column: 'a'" in said
    assert "in backticks: `a,b`" in said
    assert run_index("create", table, "--columns", "`a,b", "--kind", "values") == 1
    assert "[TWOSTAGE.BAD_OPTION]" in capsys.readouterr().err
    assert indexed(table) == set()


@pytest.mark.parametrize("text", ["", " ", ",", " , ,"])
def test_nothing_is_no_name(text):
    assert names_in(text) == []
