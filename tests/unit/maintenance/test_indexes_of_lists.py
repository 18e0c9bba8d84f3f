"""``python -m twostage index`` of lists and maps: their elements and keys, and no other kind."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tables import Table
from twostage.__main__ import main


def run(verb: str, table: Table, *more: str) -> int:
    return main(["index", verb, str(table.folder), *more])


def lists_of(folder: Path) -> Table:
    table = Table(
        folder, {"id": "long", "tags": ["string"], "m": ("map", "int", "long"), "deep": [{"x": "int"}]}
    )
    drawn = random.Random(5)
    for number in range(3):
        rows = [
            {
                "id": number * 400 + row,
                "tags": None if row % 9 == 0 else [f"t{drawn.randrange(5000)}" for _ in range(row % 4)],
                "m": None if row % 7 == 0 else [(key, None) for key in drawn.sample(range(90), row % 3)],
                "deep": [{"x": row}],
            }
            for row in range(400)
        ]
        table.append(rows)
    table.write()
    return table


def test_elements_of_lists_and_keys_of_maps(tmp_path, capsys):
    table = lists_of(tmp_path / "t")
    assert run("create", table, "--columns", "tags,m", "--kind", "elements") == 0
    assert "3 data files: 3 indexed" in capsys.readouterr().err
    assert run("verify", table, "--all") == 0
    assert ", 0 wrong; 0 index files missing" in capsys.readouterr().err
    assert run("list", table) == 0
    assert "tags (elements)" in capsys.readouterr().err
    assert run("drop", table) == 0


@pytest.mark.parametrize("kind", ["values", "files", "postings", "sorted", "bins"])
def test_lists_have_no_index_of_another_kind(tmp_path, capsys, kind):
    assert run("create", lists_of(tmp_path / "t"), "--columns", "tags", "--kind", kind) != 0
    assert "cannot have an index of kind" in capsys.readouterr().err


def test_only_lists_have_an_index_of_elements(tmp_path, capsys):
    table = lists_of(tmp_path / "t")
    assert run("create", table, "--columns", "id", "--kind", "elements") != 0
    assert "no elements" in capsys.readouterr().err
    assert run("create", table, "--columns", "deep", "--kind", "elements") != 0
    assert "without indexes" in capsys.readouterr().err


def test_auto_counts_the_elements_of_lists(tmp_path, capsys):
    table = lists_of(tmp_path / "t")
    run("create", table, "--columns", "tags")
    said = capsys.readouterr().err
    assert "tags: " in said
    assert "elements" in said
