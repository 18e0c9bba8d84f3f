"""Indexes of files that do not have the columns as the table has them now: the rows and counts are the oracle's."""

from __future__ import annotations

import os
import shutil
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

import oracle
from check import Columns
from core_scan import open_table, scan, with_options
from index_columns import PLAIN_KINDS
from indexed_tables import built
from tables import Table
from twostage.__main__ import main
from twostage.aggregates.metadata_answer import answer
from twostage.aggregates.totals import Aggregate
from twostage.deletes.cache.memory import CACHE
from twostage.indexes import file_stamp
from twostage.indexes.kinds.registered import KINDS
from twostage.planning import index_pruning
from twostage.predicates.predicate import And, Compare, In, IsNull, Not
from twostage.reading import index_answers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

EVERY_KIND = ("files", *PLAIN_KINDS)


@pytest.fixture(autouse=True)
def every_index_pays(monkeypatch) -> Iterator[None]:
    monkeypatch.setattr(index_answers.FileAnswers, "_column_cost", lambda *_: (10**6, 10**9, 10**9))
    monkeypatch.setattr(index_pruning, "MIN_FILES_TO_LOOK_UP", 1)
    CACHE.clear()
    yield
    CACHE.clear()


def predicates(column: Any, values: Sequence[Any]) -> Iterator[Any]:
    """Yield what indexes answer, of some values of a column."""
    for value in values:
        yield Compare("=", column, value)
    for op in ("<=>", "<>", "<", ">="):
        yield Compare(op, column, values[0])
    yield Not(Compare("=", column, values[0]))
    yield And((Compare(">=", column, values[0]), Compare("<", column, values[1])))
    yield In(column, tuple(values[:2]))
    yield Not(IsNull(column))


def compare(table: Table, name: str, values: Sequence[Any]) -> dict[str, int]:
    """Compare rows and counts with the oracle's; return what was counted."""
    opened = open_table(table.write())
    column = Columns(opened.table.schema)(name)
    live = oracle.live_rows(table.content())
    counted: dict[str, int] = {"by index": 0}
    for predicate in predicates(column, values):
        kept = [row for row in live if oracle.evaluate(predicate, row) is True]
        found = scan(opened, predicate=predicate)
        expected = [oracle.project(row, opened.table.schema.fields) for row in kept]
        assert not (problem := oracle.difference(found.rows, expected)), (predicate, problem)
        assert not found.count("indexes.ignored"), found.metrics.choices
        for key, number in found.metrics.counters.items():
            counted[key] = counted.get(key, 0) + number
        told = answer(opened.table, opened.options, aggregates=(Aggregate("rows"),), predicate=predicate)
        if not isinstance(told, str):
            assert told.rows == ((len(kept),),), predicate
            counted["by index"] += told.by_index
    return counted


def indexed(table: Table, name: str, kind: str) -> bool:
    """Index a column; return whether it can have that kind."""
    opened = open_table(table.write())
    column = Columns(opened.table.schema)(name)
    if kind in KINDS and KINDS[kind].refuses(column.type) is not None:
        return False
    built(opened, [name], kind)
    assert main(["index", "verify", str(table.folder), "--all"]) == 0
    return True


def grown(folder: Path, path: str, kind: str, default: Any) -> Table:
    """Six files without a column, then one with it."""
    table = Table(folder, {"id": "long", "s": {"x": "int"}}, version=3)
    for number in range(6):
        table.append([{"id": 10 * number + i, "s": {"x": i} if i % 5 else None} for i in range(10)])
    table.add_column(path, kind, default=default)
    last = [{"id": 100 + i, "s": {"x": i}} for i in range(10)]
    for i, row in enumerate(last):
        (row["s"] if path.startswith("s.") else row)[path.rpartition(".")[2]] = None if i == 3 else i
    table.append(last)
    return table


@pytest.mark.parametrize("default", [5, None])
@pytest.mark.parametrize("path", ["late", "s.late"])
@pytest.mark.parametrize("kind", EVERY_KIND)
def test_columns_that_files_lack_have_their_initial_default(tmp_path, kind, path, default):
    table = grown(tmp_path / "t", path, "long", default)
    assert indexed(table, path, kind)
    counted = compare(table, path, [3, 5, 7, 100])
    if kind == "files":
        assert counted["files.pruned.index"] > 0


def test_a_key_of_an_initial_default_is_found_and_counted(tmp_path):
    table = grown(tmp_path / "t", "late", "long", 5)
    assert indexed(table, "late", "files")
    opened = open_table(table.folder)
    five = Compare("=", Columns(opened.table.schema)("late"), 5)
    assert len(scan(opened, predicate=five).rows) == 61
    told = answer(opened.table, opened.options, aggregates=(Aggregate("rows"),), predicate=five)
    assert isinstance(told, str) or told.rows == ((61,),)


@pytest.mark.parametrize(
    ("before", "after", "make"),
    [
        ("int", "long", int),
        ("float", "double", lambda i: i / 4),
        ("decimal(9,2)", "decimal(18,2)", lambda i: Decimal(i).scaleb(-2)),
        ("decimal(9,2)", "decimal(30,2)", lambda i: Decimal(i).scaleb(-2)),
    ],
)
@pytest.mark.parametrize("kind", EVERY_KIND)
def test_promoted_columns(tmp_path, kind, before, after, make):
    """Some files are indexed with the old type, some that have it with the new one, and some have the new one."""
    table = Table(tmp_path / "t", {"id": "long", "v": before}, version=3)

    def append(number: int) -> None:
        rows = [
            {"id": 20 * number + i, "v": make((i * 7 + number) % 30 - 9) if i % 6 else None}
            for i in range(20)
        ]
        table.append(rows)

    append(0)
    append(1)
    is_refused = not indexed(table, "v", kind)
    if is_refused:  # floats have no slices
        return
    append(2)
    table.widen_column("v", after)
    append(3)
    values = [make(3), make(-9), make(500)]
    compare(table, "v", values)
    table.write()
    assert main(["index", "refresh", str(table.folder)]) == 0
    assert main(["index", "verify", str(table.folder), "--all"]) == 0
    CACHE.clear()
    counted = compare(table, "v", values)
    assert counted.get("indexes.used", 0) + counted.get("files.pruned.index", 0) > 0


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_renamed_and_added_again(tmp_path, kind):
    table = Table(tmp_path / "t", {"id": "long", "v": "int", "s": {"x": "int"}}, version=3)
    for number in range(3):
        table.append([{"id": 10 * number + i, "v": i, "s": {"x": i}} for i in range(10)])
    assert indexed(table, "v", kind)
    assert indexed(table, "s.x", kind)
    table.rename_column("v", "w")
    table.add_column("v", "int", default=4)
    table.drop_column("s.x")
    table.add_column("s.x", "int", default=6)
    table.append([{"id": 50 + i, "w": 9 - i, "v": i, "s": {"x": i}} for i in range(10)])
    for name in ("v", "w", "s.x"):
        compare(table, name, [4, 6, 11])
    assert indexed(table, "v", kind)
    assert indexed(table, "s.x", kind)
    assert main(["index", "refresh", str(table.folder)]) == 0
    for name in ("v", "w", "s.x"):
        compare(table, name, [4, 6, 11])
    table.drop_column("w")
    table.append([{"id": 80 + i, "v": i, "s": {"x": i}} for i in range(10)])
    table.write()
    assert main(["index", "refresh", str(table.folder)]) == 0, "of a dropped column nothing is indexed"
    compare(table, "v", [4, 6])


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_partition_columns(tmp_path, kind):
    """The partition's value stands for the file's; the spec changes in between."""
    table = Table(
        tmp_path / "t", {"id": "long", "v": "int", "s": {"x": "int"}}, partition=["v", "s.x"], version=3
    )
    rows = [{"id": i, "v": i % 3, "s": {"x": i % 2}} for i in range(30)]
    table.append_all(rows)
    table.partition_by(["id"])
    table.append_all([{**row, "id": row["id"] % 2 + 100} for row in rows])
    for name in ("v", "s.x"):
        assert indexed(table, name, kind)
    for name in ("v", "s.x"):
        compare(table, name, [0, 1, 7])


@pytest.mark.parametrize("kind", ["files", "values", "postings"])
def test_what_files_without_ids_hold_depends_on_names(tmp_path, kind):
    """They have no index: a field gets another one's values when names change."""
    table = Table(tmp_path / "t", {"id": "long", "s": {"x": "int", "y": "int"}}, name_mapping=True)
    for number in range(3):
        rows = [{"id": 10 * number + i, "s": {"x": 2 * i, "y": 100 + 2 * i}} for i in range(10)]
        table.append(rows, field_ids=number == 1)
    assert indexed(table, "s.x", kind)
    compare(table, "s.x", [4, 104])
    table.name_mapping = False
    table.rename_column("s.x", "z")
    table.rename_column("s.y", "x")
    opened = open_table(table.write())  # the oracle does not number the columns of files without ids
    off = with_options(opened, {"index": "off"})
    counted = 0
    for name in ("s.z", "s.x"):
        for predicate in predicates(Columns(opened.table.schema)(name), [4, 5, 104, 105]):
            found = scan(opened, predicate=predicate)
            assert sorted(found.rows) == sorted(scan(off, predicate=predicate).rows), predicate
            counted += found.count("indexes.used") + found.count("files.pruned.index")
    assert counted, "the file with ids has an index"


def replaced(tmp_path: Path) -> tuple[Table, Table]:
    """A table, and another one whose data files have other values and the same sizes; they are put in place of its own."""
    one, other = (Table(tmp_path / name / "t", {"id": "long", "v": "long"}) for name in "ab")
    for number in range(5):
        for table, step in ((one, 0), (other, 1)):
            rows = [{"id": 20 * number + i, "v": 2 * i + step * (i % 2) + (i == number)} for i in range(20)]
            table.append(rows, compression="none", metrics="none", statistics=False, dictionary=False)
    return one, other


def put(source: Table, target: Table) -> None:
    """Copy data files over others, with their sizes and the times that the others had."""
    pairs = zip(
        sorted(source.folder.rglob("*.parquet")), sorted(target.folder.rglob("*.parquet")), strict=True
    )
    for one, other in pairs:
        assert one.stat().st_size == other.stat().st_size
        found = other.stat()
        shutil.copyfile(one, other)
        os.utime(other, ns=(found.st_atime_ns, found.st_mtime_ns))


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_a_file_that_was_replaced_with_its_size_and_time_has_no_index(tmp_path, kind, monkeypatch):
    one, other = replaced(tmp_path)
    assert indexed(one, "v", kind)
    before = [len(rows_where_v_is(one, value)) for value in (3, 6, 7)]
    put(other, one)
    assert [len(rows_where_v_is(one, value)) for value in (3, 6, 7)] != before
    assert main(["index", "refresh", str(one.folder)]) == 0
    assert main(["index", "verify", str(one.folder), "--all"]) == 0
    rows_where_v_is(one, 7)
    monkeypatch.setattr(file_stamp, "_host", lambda: b"else")
    CACHE.clear()
    rows_where_v_is(one, 7)  # another host compares no times of change
    assert main(["index", "verify", str(one.folder), "--all"]) == 0


def rows_where_v_is(table: Table, value: int) -> list[Any]:
    """Return the rows, the same with and without indexes."""
    opened = open_table(table.write())
    where = Compare("=", Columns(opened.table.schema)("v"), value)
    found = scan(opened, predicate=where).rows
    assert sorted(found) == sorted(scan(with_options(opened, {"index": "off"}), predicate=where).rows)
    told = answer(opened.table, opened.options, aggregates=(Aggregate("rows"),), predicate=where)
    assert isinstance(told, str) or told.rows == ((len(found),),)
    return found
