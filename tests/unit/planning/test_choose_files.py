"""Which files a scan reads: a limit that enough sure rows reach, pruning switched off, formats and keys that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from check import Columns, check, ids
from core_scan import open_table, scan
from tables import Table
from twostage.errors import CorruptFileError, UnsupportedFeatureError
from twostage.predicates.predicate import FALSE, Compare


def make(folder: Path, files: int = 5, **options: object) -> Table:
    table = Table(folder, {"id": "long", "k": "int"}, version=3)
    for number in range(files):
        table.append([{"id": 10 * number + i, "k": number} for i in range(10)], **options)  # type: ignore[arg-type]
    return table


def test_a_limit_reads_as_many_files_as_it_needs(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    table.write()
    opened = open_table(table.folder)
    for limit, files in ((0, 0), (1, 1), (10, 1), (11, 2), (50, 5), (51, 5)):
        result = scan(opened, limit=limit)
        assert result.count("files.read") == files, limit
        assert result.plan is not None
        assert any(text.startswith(f"Limit {limit}: ") for text in result.plan.choices) == (0 < limit <= 50)


def test_rows_that_may_be_deleted_or_filtered_do_not_count(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    first = table.content().data[0]
    table.delete_vectors({first: [0, 1, 2]})
    table.write()
    opened = open_table(table.folder)
    key = Columns(opened.table.schema)("k")
    assert scan(opened, limit=7).count("files.read") == 1  # a vector's rows are counted
    assert scan(opened, limit=8).count("files.read") == 2
    filtered = scan(opened, predicate=Compare(">=", key, 3), limit=15)
    assert (filtered.count("files.read"), filtered.count("files.pruned.bounds")) == (2, 3)
    hinted = scan(opened, hint=Compare(">=", key, 0), limit=5)  # Spark may drop rows later
    assert hinted.plan is not None
    assert sum(len(group.tasks) for group in hinted.plan.groups) == 5


def test_files_of_which_nobody_counts_the_rows(tmp_path: Path) -> None:
    table = make(tmp_path / "t", format="avro", mixed=True)
    table.write()
    assert scan(open_table(table.folder), limit=3).count("files.considered") == 5


@pytest.mark.parametrize("prune", ["true", "false"])
def test_pruning_switched_off_reads_all_and_says_so(tmp_path: Path, prune: str) -> None:
    result = check(
        make(tmp_path / "t"), range(20, 30), lambda c: Compare("=", c("k"), 2), **{"prune.files": prune}
    )
    assert result.count("files.read") == (1 if prune == "true" else 5)
    assert result.plan is not None
    assert ("File pruning is switched off." in result.plan.choices) == (prune == "false")


def test_files_whose_rows_all_match_need_no_filter(tmp_path: Path) -> None:
    result = check(make(tmp_path / "t"), range(30, 50), lambda c: Compare(">=", c("k"), 3))
    assert result.plan is not None
    assert "2 of 2 files need no filtering: all of their rows match." in result.plan.choices
    assert not result.metrics.predicates


def test_nothing_to_read(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    table.write()
    opened = open_table(table.folder)
    for result in (scan(opened, predicate=FALSE), scan(opened, limit=0)):
        assert result.plan is not None
        assert (result.rows, result.plan.groups) == ([], ())
        assert "Nothing to read." in result.plan.choices
    assert scan(opened, predicate=FALSE).count("manifests.considered") == 0
    empty = Table(tmp_path / "empty", {"id": "long"})
    empty.write()
    assert scan(open_table(empty.folder)).rows == []


def test_a_format_that_we_do_not_read_is_refused_only_if_it_would_be_read(tmp_path: Path) -> None:
    table = make(tmp_path / "t", files=1)
    with table.transaction():
        file = table.append([{"id": 99, "k": 9}])
        file.entry["file_format"] = "VORTEX"
    table.write()
    opened = open_table(table.folder)
    key = Columns(opened.table.schema)("k")
    assert len(scan(opened, predicate=Compare("=", key, 0)).rows) == 10
    with pytest.raises(
        UnsupportedFeatureError, match=r"UNSUPPORTED_FILE_FORMAT.*vortex.*Parquet, ORC and Avro"
    ):
        scan(opened)


@pytest.mark.parametrize("field_id", [77, 4])
def test_a_key_that_no_schema_has_or_in_a_list(tmp_path: Path, field_id: int) -> None:
    table = Table(tmp_path / "t", {"id": "long", "k": "int", "xs": ["int"]})
    table.append(ids(3, k=lambda i: i, xs=lambda i: [i]))
    with table.transaction():
        table.delete_equal(["k"], [{"k": 1}]).entry["equality_ids"] = [field_id]
    table.write()
    with pytest.raises(CorruptFileError, match=rf"CORRUPT_MANIFEST.*in a list or map: {field_id}"):
        scan(open_table(table.folder))
