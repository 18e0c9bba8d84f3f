"""Key sets that a worker keeps: the next scan finds them, and a table made anew in the same place does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from check import check, ids
from core_scan import open_table, scan
from tables import Table
from twostage.deletes.cache.memory import CACHE

WORKER = {"deletes.cache": "worker", "deletes.stream": "never"}


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    CACHE.clear()


def make(folder: Path, gone: range) -> Table:
    table = Table(folder, {"id": "long", "k": "int", "n": "int"})
    table.append(ids(100, k=lambda i: i, n=lambda i: i % 2))
    table.delete_equal(["k"], [{"k": k} for k in gone])
    return table


def test_the_next_scan_finds_the_keys(tmp_path: Path) -> None:
    table = make(tmp_path / "t", range(30))
    table.write()
    opened = open_table(table.folder, **WORKER)
    first, second = scan(opened), scan(opened)
    assert len(first.rows) == len(second.rows) == 70
    assert (first.count("delete_files.opened"), second.count("delete_files.opened")) == (1, 0)
    assert second.count("delete_files.cached") == 1


def test_another_delete_file_is_added_to_what_is_kept(tmp_path: Path) -> None:
    table = make(tmp_path / "t", range(30))
    check(table, range(30, 100), **WORKER)
    table.delete_equal(["k"], [{"k": k} for k in range(90, 100)])
    result = check(table, range(30, 90), **WORKER)
    assert result.count("delete_files.opened") <= 2


def test_ways_of_reading_keep_sets_of_their_own(tmp_path: Path) -> None:
    table = make(tmp_path / "t", range(30))
    table.write()
    for options in (
        {},
        {"filter.kernels": "false"},
        {"verify-checksums": "false"},
        {"deletes.dense": "false"},
    ):
        result = scan(open_table(table.folder, **WORKER, **options))
        assert (len(result.rows), result.count("delete_files.opened")) == (70, 1), options


def test_keys_that_shorter_ones_make_redundant(tmp_path: Path) -> None:
    table = make(tmp_path / "t", range(30))
    table.delete_equal(["k", "n"], [{"k": k, "n": k % 2} for k in range(20, 40)])
    for _ in range(2):
        for simplify in ("true", "false"):
            check(table, range(40, 100), **WORKER, **{"deletes.simplify": simplify})


def test_a_table_made_anew_in_the_same_place(tmp_path: Path) -> None:
    """As many keys and bytes, other keys: the file's time tells."""
    path = tmp_path / "t"
    make(path, range(30))
    first = make(path, range(30))
    check(first, range(30, 100), **WORKER)
    for file in sorted(path.rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    second = make(path, range(60, 90))
    second.write()
    for file in path.rglob("*.parquet"):
        later = file.stat().st_mtime_ns + 10**9
        os.utime(file, ns=(later, later))
    check(second, [*range(60), *range(90, 100)], **WORKER)
