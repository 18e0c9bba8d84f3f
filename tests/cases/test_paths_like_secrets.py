"""A table whose partition column is named like a secret: two of its files that are alike in all else stay two files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from check import Columns
from core_scan import open_table, scan
from indexed_tables import everything_pays
from tables import Table
from twostage.__main__ import main
from twostage.deletes.cache.memory import CACHE
from twostage.predicates.predicate import TRUE, Compare

DELETED = {5, 150}


@pytest.fixture(params=["token", "api_secret", "region"])
def table(request, tmp_path):
    """Two files of one size, time, number of rows and sequence number, in folders as Iceberg names them."""
    made = Table(tmp_path / "t", {"id": "long", request.param: "string"}, version=2)
    with made.transaction():
        for value, first in (("a", 0), ("b", 100)):
            rows = [{"id": first + n, request.param: value} for n in range(100)]
            file = made.append(rows, compression="none", dictionary=False)
            moved = Path(file.path).parent / f"{request.param}={value}" / "0.parquet"
            moved.parent.mkdir()
            Path(file.path).rename(moved)
            os.utime(moved, (1_700_000_000, 1_700_000_000))
            file.entry["file_path"] = str(moved)
    made.delete_equal(["id"], [{"id": value} for value in DELETED])
    made.write()
    sizes = {path.stat().st_size for path in (tmp_path / "t").rglob("0.parquet")}
    assert len(sizes) == 1, "the two would be told apart by size"
    return made


def ids_of(table, predicate=TRUE, **options):
    CACHE.clear()
    opened = open_table(table.folder, **options)
    where = TRUE if predicate is TRUE else Compare("=", Columns(opened.table.schema)("id"), predicate)
    return sorted(row[0][1] for row in scan(opened, opened.table.schema.fields[:1], where).rows)


def test_compiled_deletes(table, tmp_path):
    assert (
        main(
            ["compile-deletes", str(table.folder), "--compiled-dir", str(tmp_path / "compiled"), "--no-spark"]
        )
        == 0
    )
    live = sorted(set(range(200)) - DELETED)
    assert ids_of(table, **{"deletes.compiled-dir": str(tmp_path / "compiled")}) == live
    (tmp_path / "cache").mkdir(mode=0o700)
    for _ in range(2):
        assert ids_of(table, **{"deletes.cache-dir": str(tmp_path / "cache")}) == live


def test_indexes(table, capsys):
    assert main(["index", "create", str(table.folder), "--columns", "id", "--kind", "values,files"]) == 0
    assert main(["index", "list", str(table.folder)]) == 0
    assert "2 of 2 data files" in capsys.readouterr().err
    index_files = list(table.folder.parent.rglob("columns*/*.puffin"))
    assert len(index_files) == 2
    with everything_pays():
        assert [ids_of(table, value) for value in (3, 5, 103, 150)] == [[3], [], [103], []]
