"""Which files ORDER BY … LIMIT leaves out: the first rows are there, however bounds and deletes lie."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from check import Columns
from core_scan import open_table, scan
from tables import Table
from twostage.predicates.predicate import TRUE, Compare
from twostage.predicates.top import TopRows


def make(folder: Path, seed: int) -> tuple[Table, list[dict[str, Any]]]:
    """Ten files of ten rows, some ranges apart, some alike, some with deletes or without metrics."""
    pick, rows = random.Random(seed), []
    table = Table(folder, {"id": "long", "k": "int"}, version=3)
    for number in range(10):
        low = pick.choice((number * 100, number % 3 * 100, 500))
        part = [
            {"id": 10 * number + i, "k": None if pick.random() < 0.1 else low + pick.randrange(100)}
            for i in range(10)
        ]
        file = table.append(part, metrics=pick.choice(("full", "full", "full", "none")))
        gone = set(pick.sample(range(10), pick.choice((0, 0, 0, 4, 10))))
        if gone:
            table.delete_vectors({file: sorted(gone)})
        rows += [row for i, row in enumerate(part) if i not in gone]
    if pick.random() < 0.3:
        table.delete_equal(["k"], [{"k": 501}])
        rows = [row for row in rows if row["k"] != 501]
    table.write()
    return table, rows


@pytest.mark.parametrize("seed", range(16))
def test_the_first_rows_are_there(tmp_path: Path, seed: int) -> None:
    table, rows = make(tmp_path / "t", seed)
    pick = random.Random(seed)
    opened = open_table(table.folder, **{"prune.files": pick.choice(("true", "true", "false"))})
    key = Columns(opened.table.schema)("k")
    for where in (TRUE, Compare("<", key, 300)):
        wanted = TopRows(
            column=key,
            count=pick.choice((1, 3, 15, 200)),
            descending=pick.random() < 0.5,
            nulls_first=pick.random() < 0.5,
            has_more_keys=pick.random() < 0.5,
        )
        matching = [r["k"] for r in rows if where is TRUE or (r["k"] is not None and r["k"] < 300)]

        def place(value: int | None, wanted: TopRows = wanted) -> tuple[bool, int]:
            if value is None:
                return not wanted.nulls_first, 0
            return wanted.nulls_first, -value if wanted.descending else value

        best = sorted(matching, key=place)[: wanted.count]
        result = scan(opened, opened.table.schema.fields, where, top=wanted)
        found = [None if row[1] is None else row[1][1] for row in result.rows]
        assert sorted(found, key=place)[: wanted.count] == best


def test_files_that_are_outdone_are_not_read(tmp_path: Path) -> None:
    table = Table(tmp_path / "t", {"id": "long", "k": "int"})
    for number in range(10):
        table.append([{"id": 10 * number + i, "k": 10 * number + i} for i in range(10)])
    table.write()
    opened = open_table(table.folder)
    key = Columns(opened.table.schema)("k")
    for descending, first in ((True, 99), (False, 0)):
        top = TopRows(column=key, count=12, descending=descending, nulls_first=False)
        result = scan(opened, top=top)
        assert result.count("files.pruned.top-n") == 8
        assert result.count("files.read") == 2
        assert first in [row[1][1] for row in result.rows]
        assert result.plan is not None
        assert any(text.startswith("First 12: 2 files have enough rows") for text in result.plan.choices)
        hinted = scan(opened, hint=Compare(">=", key, 0), top=top)  # what Spark drops later proves nothing
        assert len({row[1][1] for row in hinted.rows} & set(range(100))) >= 12


def test_files_whose_rows_nobody_counted_are_read(tmp_path: Path) -> None:
    table = Table(tmp_path / "t", {"id": "long", "k": "int"})
    for number in range(4):
        with table.transaction():
            file = table.append([{"id": 10 * number + i, "k": 10 * number + i} for i in range(10)])
            if number == 3:
                file.entry["record_count"] = 0
    table.write()
    opened = open_table(table.folder)
    top = TopRows(column=Columns(opened.table.schema)("k"), count=3, descending=True, nulls_first=False)
    found = sorted((row[1][1] for row in scan(opened, top=top).rows), reverse=True)
    assert found[:3] == [39, 38, 37]
