"""A unit of work of ``index create``: what of a data file is indexed, within a budget, and what is not."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core_scan import open_table
from tables import Table
from twostage.catalog.load_table import load_table
from twostage.data_files.open_data_file import open_data_file
from twostage.indexes.file_keys import find_files
from twostage.indexes.open_index import read_index
from twostage.indexes.place import IndexGroup, index_place, list_indexes
from twostage.maintenance.index_files import FileColumn, IndexWork, index_files, is_stored
from twostage.metrics import Metrics
from twostage.options import parse_options
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE, Column, Compare

KINDS = {"id": "long", "key": "long", "s": {"x": "int"}, "region": "string"}


def make(folder: Path, file_format: str = "parquet") -> tuple[Table, list[list[dict[str, Any]]]]:
    """Write a table of two data files in two partitions; return it with the rows of each."""
    drawn = random.Random(file_format)
    table = Table(folder, KINDS, partition=["region"])
    rows = [
        [
            {
                "id": 1000 * number + row,
                "key": None if row % 17 == 0 else drawn.randrange(300),
                "s": None if row % 13 == 0 else {"x": drawn.randrange(50)},
                "region": "ab"[number],
            }
            for row in range(700)
        ]
        for number in range(2)
    ]
    for part in rows:
        table.append(part, format=file_format, row_group_size=150)
    table.write()
    return table, rows


def work_of(
    table: Table, kinds: dict[int, tuple[str, ...]], keys: tuple[int, ...] = (), **options: str
) -> IndexWork:
    parsed = parse_options({"path": str(table.folder), **options})
    pinned = load_table(parsed)
    plan = plan_scan(
        pinned, parsed, projection=(), predicate=TRUE, hint=TRUE, limit=None, parallelism=2, scan_id="x"
    )
    tasks = tuple(sorted((task for group in plan.groups for task in group.tasks), key=lambda task: task.path))
    return IndexWork(
        context=plan.context,
        place=index_place(pinned.storage, parsed.settings, pinned.metadata.table_uuid),
        group=IndexGroup(columns=tuple(kinds.items())),
        tasks=tasks,
        lacks_index=(True,) * len(tasks),
        lacks_keys=(keys,) * len(tasks),
    )


def field_id(table: Table, path: str) -> int:
    return open_table(table.folder).table.schema.find(tuple(path.split("."))).id


def values_of(rows: list[dict[str, Any]], path: str) -> list[Any]:
    found: list[Any] = rows
    for name in path.split("."):
        found = [None if one is None else one[name] for one in found]
    return found


@pytest.mark.parametrize("budget", [0, 10**9], ids=["read each time", "kept"])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_column_is_all_values_of_the_file_in_order(tmp_path, file_format, budget):
    table, rows = make(tmp_path / "t", file_format)
    work = work_of(table, {1: ("values",)})
    for task in work.tasks:
        with open_data_file(work.context, task, Metrics()) as data_file:
            for path in ("id", "key", "s.x"):
                column = FileColumn(data_file, field_id(table, path), 700, budget)
                for _ in range(2):
                    found = [value for array in column.chunks() for value in array.to_pylist()]
                    assert found in [values_of(part, path) for part in rows]
                assert (column._kept is not None) == (budget > 0)
            assert is_stored(data_file, field_id(table, "key"))
            assert not is_stored(data_file, field_id(table, "region"))  # one value: the partition's


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_each_data_file_gets_the_index_of_its_values(tmp_path, file_format):
    table, rows = make(tmp_path / "t", file_format)
    key, inner, region = (field_id(table, path) for path in ("key", "s.x", "region"))
    work = work_of(table, {key: ("values",), inner: ("values",), region: ("values",)})
    metrics = index_files(work)
    assert metrics.counters["indexes.made"] == 2
    written = [Path(work.place.index_file(work.group, task)) for task in work.tasks]
    assert metrics.counters["indexes.bytes"] == sum(path.stat().st_size for path in written)
    for task, path in zip(work.tasks, written, strict=True):
        index = read_index(work.place, str(path), task, Metrics())
        with open_data_file(work.context, task, Metrics()) as data_file:
            first = next(FileColumn(data_file, field_id(table, "id"), 700, 0).chunks())[0].as_py()
        for field, name in ((key, "key"), (inner, "s.x")):
            own = values_of(rows[first // 1000], name)
            column = Column(field, work.context.schema.path(field), work.context.schema.field(field).type)
            for value in (3, 49, 10**6):
                answer = index.find(Compare("=", column, value), Metrics(), exactly=True)
                expected = {row for row, one in enumerate(own) if one == value}
                assert set(answer.certain) == set(answer.possible) == expected
        assert index.kinds(region) == ()


def test_one_run_of_keys_for_all_files_of_the_unit(tmp_path):
    table, rows = make(tmp_path / "t")
    key = field_id(table, "key")
    work = replace(work_of(table, {key: ("files",)}, (key,)), lacks_index=(False, False))
    index_files(work)
    indexes = list_indexes(work.place, Metrics())
    assert [run.field_id for run in indexes.runs] == [key]
    column = Column(key, ("key",), work.context.schema.field(key).type)
    held = [set(values_of(part, "key")) for part in rows]
    for value in (*range(0, 300, 7), 10**6):
        found = find_files(work.place, indexes, Compare("=", column, value), Metrics(), 2**24)
        holding = sum(found.may_hold(task) for task in work.tasks)
        assert sum(value in part for part in held) <= holding
        if value == 10**6:
            assert holding == 0
    assert not any(Path(work.place.index_file(work.group, task)).exists() for task in work.tasks)


def test_a_file_of_another_number_of_rows_than_listed_has_no_index(tmp_path):
    table, _ = make(tmp_path / "t")
    key = field_id(table, "key")
    work = work_of(table, {key: ("values",)})
    first, second = work.tasks
    metrics = index_files(replace(work, tasks=(replace(first, record_count=699), second)))
    assert metrics.counters["indexes.made"] == 1
    assert list(metrics.choices) == ["no index of a data file of 700 rows, listed with 699"]
    assert not Path(work.place.index_file(work.group, first)).exists()
    assert Path(work.place.index_file(work.group, second)).exists()
