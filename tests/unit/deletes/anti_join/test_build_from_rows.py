"""Delete files read past the rows that are left: the same rows as by a table of their keys, however little memory there is."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from check import check, ids
from core_scan import open_table, scan
from tables import FileOptions, Table
from twostage.predicates.predicate import Compare, In

STREAM = {"deletes.stream": "always", "deletes.cache": "worker"}


def make(folder: Path, rows: int = 600, **more: Any) -> Table:
    table = Table(folder, {"id": "long", "k": "int", "s": "string", "n": "int"})
    values = {"k": lambda i: None if i % 97 == 0 else i * 7 % rows, "s": lambda i: f"text {i % 200}"}
    table.append(ids(rows, n=lambda i: i % 4, **values), row_group_size=200, **more)
    return table


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("prune", ["true", "false"])
def test_keys_of_several_shapes(tmp_path: Path, file_format: str, prune: str) -> None:
    table = make(tmp_path / "t")
    table.delete_equal(["k"], [{"k": k} for k in (*range(0, 200, 3), None)], file_format)
    table.delete_equal(["s", "n"], [{"s": f"text {n}", "n": n % 4} for n in range(40)], file_format)
    table.delete_equal(["s"], [{"s": "text 199"}, {"s": "no such"}], file_format)
    from oracle import live_rows

    left = [row[1] for row in live_rows(table.content())]
    assert 0 < len(left) < 600
    options = {**STREAM, "prune.deletes": prune}
    result = check(table, left, **options)
    assert result.count("delete_keys.streamed") > 0 == result.count("delete_keys.loaded")
    check(table, [i for i in left if i < 100], lambda c: Compare("<", c("id"), 100), **options)


def test_row_groups_of_a_delete_file_that_hold_no_key_asked_for_are_left_out(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    options = FileOptions(row_group_size=50)
    table.delete_equal(["k"], [{"k": k} for k in range(600)], options=options)
    result = check(table, [0], lambda c: In(c("id"), (0, 1)), **STREAM)  # the key of row 0 is NULL
    assert 0 < result.count("delete_keys.streamed") < 600


@pytest.mark.parametrize("rows", [2000, 20_000])
def test_rows_whose_keys_exceed_the_budget_are_asked_about_in_parts(tmp_path: Path, rows: int) -> None:
    """Text has no other form than itself: 40 bytes a row of 64 KiB, of which half may be keys."""
    pick = random.Random(rows)
    table = Table(tmp_path / "t", {"id": "long", "s": "string"})
    table.append(ids(rows, s=lambda i: f"{i:06} {'x' * 400}"))
    gone = set(pick.sample(range(rows), 100))
    table.delete_equal(["s"], [{"s": f"{i:06} {'x' * 400}"} for i in sorted(gone)])
    table.write()
    result = scan(open_table(table.folder, task_memory="4m", parallelism="1", **STREAM), parallelism=1)
    assert sorted(row[0][1] for row in result.rows) == sorted(set(range(rows)) - gone)
    told = "equality deletes read in several passes: rows' keys exceed task-memory"
    assert (result.metrics.choices[told] > 0) == (rows == 20_000)
