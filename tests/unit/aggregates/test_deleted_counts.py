"""Delete files that an aggregate would need read in the driver: each counted once, and when they are too many."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from check import ids
from core_scan import open_table
from tables import Table
from twostage.aggregates.deleted_counts import PositionDeleteCounts, WantedDeletes
from twostage.options import parse_options
from twostage.planning.choose_files import Planning
from twostage.predicates.predicate import TRUE
from twostage.task import DeleteFile

DELETE = DeleteFile(
    content="position",
    format="parquet",
    path="d",
    written_path="d",
    file_size=1,
    record_count=10,
    sequence_number=1,
)


def vector(number: int, rows: int) -> DeleteFile:
    return replace(DELETE, content="vector", format="puffin", content_offset=number, record_count=rows)


def test_each_delete_file_counts_once_and_each_vector() -> None:
    wanted = WantedDeletes(2, 100)
    for _ in range(5):
        wanted.add([DELETE])
    assert (len(wanted), wanted.too_much) == (1, None)
    wanted.add([vector(1, 10**9)])  # its positions are not counted here
    assert (len(wanted), wanted.too_much) == (2, None)
    wanted.add([vector(2, 1)])
    assert wanted.too_much == "more than 2 delete files would have to be read first"


def test_too_many_rows() -> None:
    wanted = WantedDeletes(10, 100)
    wanted.add([replace(DELETE, record_count=101)])
    assert wanted.too_much == "more than 100 rows are deleted"
    either = WantedDeletes(10)
    either.add([vector(1, 2**20 + 1)])
    assert either.too_much is not None
    assert "rows are deleted" in either.too_much


def test_too_many_data_files_that_a_delete_file_may_name() -> None:
    wanted = WantedDeletes(10, 100)
    wanted.add([DELETE] * 50_001)
    assert wanted.too_much is not None
    assert "looked up more than 50,000 times" in wanted.too_much


@pytest.mark.parametrize("version", [2, 3])
def test_deleted_rows_of_files(tmp_path: Path, version: int) -> None:
    table = Table(tmp_path / "t", {"id": "long"}, version=version)
    files = [table.append(ids(100)) for _ in range(3)]
    gone = {files[0]: [1, 2, 3], files[1]: list(range(50, 100))}
    (table.delete_vectors if version == 3 else table.delete_positions)(gone)
    table.write()
    opened = open_table(table.folder)
    options = parse_options({"path": str(table.folder)})
    planning = Planning(opened.table, options, (), TRUE, TRUE)
    found = [(file, deletes) for file, _, deletes in planning.files(metrics=False)]
    counter = PositionDeleteCounts(opened.table, options)
    assert sorted(counter.counts(found)) == [0, 3, 50]
    assert counter.metrics.counters["delete_files.opened"] >= 1
