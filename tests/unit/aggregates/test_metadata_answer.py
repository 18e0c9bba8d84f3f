"""Answers from metadata: what manifests prove is what reading all rows gives; whatever they do not prove is refused."""

from __future__ import annotations

import math
import os
import random
import shutil
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

import oracle
from aggregated_rows import aggregated
from check import Columns
from core_scan import open_table, scan
from figures import FULL
from metadata_questions import asked
from random_queries import random_query
from random_tables import random_table
from tables import Table
from twostage.aggregates import deleted_counts, metadata_answer
from twostage.aggregates.file_proofs import COMPARED, COUNTED, GROUPED
from twostage.aggregates.metadata_answer import Aggregate, AggregateAnswer, answer
from twostage.planning.choose_files import Planning
from twostage.predicates.predicate import TRUE, Compare, IsNull, Not, either
from twostage.schema import Primitive
from twostage.table import manifest
from twostage.table.metadata_columns import scan_schema

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from core_scan import Opened

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))
TABLES = int(os.environ.get("TWOSTAGE_TABLES_MADE", "300" if FULL else "75"))
QUESTIONS = 8


def test_the_manifest_list_is_read_once(tmp_path, monkeypatch):
    """The count of very many files looks at it first, and leaves fewer to the planning."""
    table = Table(tmp_path, {"id": "long"})
    table.append([{"id": 1}, {"id": 2}])
    opened = open_table(table.write())
    read = []
    for name in ("read_immutable", "read_all"):
        real = getattr(manifest, name)
        monkeypatch.setattr(
            manifest, name, lambda storage, path, real=real: read.append(path) or real(storage, path)
        )
    assert asked(opened, "count(*)") == [(2,)]
    assert len(read) == len(set(read)) == 2  # the list, and its manifest


# ---- random tables


@pytest.fixture(scope="module")
def answered() -> Any:
    """What was answered; at the end of a run of some length, neither nothing nor everything."""
    found = Counter[str]()
    yield found
    if found["asked"] >= 500:
        print(f"\nanswers from metadata, seed {SEED}: {dict(found)}")
        assert found["answered"] >= found["asked"] // 20, found
        assert found["refused"] >= found["asked"] // 10, found
        for name in ("rows", "count", "min", "max", "groups", "filtered", "deleted", "non-empty"):
            assert found[name] > 0, (name, found)


@pytest.mark.parametrize("seed", range(SEED, SEED + TABLES))
def test_answers_are_the_oracles(seed: int, tmp_path: Path, answered: Counter[str]) -> None:
    table, pools = random_table(seed, tmp_path)
    opened = open_table(tmp_path)
    deleted = Counter[str]()
    live = oracle.live_rows(table.content(), deleted)
    schema = opened.table.schema
    pick = random.Random(seed)
    identity = {part.source_id for spec in opened.table.metadata.specs.values() for part in spec.fields}
    for index in range(QUESTIONS):
        query = random_query(seed * 1000 + index, schema, pools, live)
        predicate = TRUE if index % 2 else query.predicate
        groups = tuple(
            field
            for field in schema.fields
            if field.id in identity
            and isinstance(field.type, Primitive)
            and field.type.name in GROUPED
            and index % 3 == 0
        )
        aggregates = [Aggregate("rows")] if index % 4 else []
        for field in pick.sample(schema.fields, min(len(schema.fields), 1 + index % 2)):
            if not isinstance(field.type, Primitive):
                continue
            for function in pick.sample(("count", "min", "max"), 2):
                if field.type.name in (COUNTED if function == "count" else COMPARED | GROUPED):
                    aggregates.append(Aggregate(function, field))  # type: ignore[arg-type]
        found = answer(
            opened.table, opened.options, aggregates=tuple(aggregates), groups=groups, predicate=predicate
        )
        answered["asked"] += 1
        if isinstance(found, str):
            answered["refused"] += 1
            continue
        rows = [row for row in live if oracle.evaluate(predicate, row) is True]
        got = Counter(tuple(map(oracle.exact, row)) for row in found.rows)
        place = f"TWOSTAGE_SEED={seed}: {aggregates} BY {groups} WHERE {predicate}"
        assert got == aggregated(rows, aggregates, groups), place
        answered.update(["answered", *(part.function for part in aggregates)])
        answered.update({"groups": bool(groups), "filtered": predicate != TRUE, "non-empty": bool(rows)})
        answered["deleted"] += bool(deleted)
    shutil.rmtree(tmp_path)


# ---- what proves, and what does not


def one_file(folder: Path, columns: dict[str, Any], rows: list[dict[str, Any]], **options: Any) -> Opened:
    table = Table(folder, columns)
    table.append(rows, **options)
    return open_table(table.write())


def test_counts_and_bounds(tmp_path: Path) -> None:
    rows = [{"id": i, "d": None if i == 2 else Decimal(i), "x": i / 2 + 1} for i in range(5)]
    opened = one_file(tmp_path, {"id": "long", "d": "decimal(9,2)", "x": "double", "n": "int"}, rows)
    assert asked(opened, "count(*)", "count(d)", "min(id)", "max(id)") == [(5, 4, 0, 4)]
    assert asked(opened, "min(d)", "max(d)", "min(x)", "max(x)") == [(Decimal(0), Decimal(4), 1.0, 3.0)]
    assert asked(opened, "count(n)", "min(n)") == [(0, None)]


def test_empty_table(tmp_path: Path) -> None:
    opened = open_table(Table(tmp_path, {"id": "long", "p": "int"}, partition=["p"]).write())
    assert asked(opened, "count(*)", "count(id)", "min(id)") == [(0, 0, None)]
    assert asked(opened, "count(*)", by=["p"]) == []


@pytest.mark.parametrize(
    ("kind", "low", "high"), [("string", "a", "b"), ("binary", b"a", b"b"), ("fixed[2]", b"aa", b"bb")]
)
def test_text_and_bytes_are_counted_and_never_compared(
    tmp_path: Path, kind: str, low: Any, high: Any
) -> None:
    opened = one_file(tmp_path, {"c": kind}, [{"c": low}, {"c": high}])
    assert asked(opened, "count(c)") == [(2,)]
    assert asked(opened, "min(c)") == "bounds do not give min(c)"


@pytest.mark.parametrize("values", [[0.0, 1.0], [-0.0, 1.0]])
def test_zeros_of_floats_are_read(tmp_path: Path, values: list[float]) -> None:
    """Writers store -0.0 as the lower bound of 0.0, and Spark's min returns the one that a row has."""
    opened = one_file(tmp_path, {"x": "double"}, [{"x": value} for value in values])
    assert asked(opened, "max(x)") == [(1.0,)]
    assert asked(opened, "min(x)") == "a file's metadata does not give the min of x"


def test_nan_is_read(tmp_path: Path) -> None:
    opened = one_file(tmp_path, {"x": "float"}, [{"x": 1.0}, {"x": math.nan}])
    assert asked(opened, "count(x)") == [(2,)]
    assert isinstance(asked(opened, "max(x)"), str)


def damaged(folder: Path, damage: Callable[[dict[str, Any]], None], **more: Any) -> Opened:
    table = Table(folder, {"id": "long", "x": "double"}, **more)
    with table.transaction():
        damage(table.append([{"id": i, "x": i + 1.0} for i in range(4)]).entry)  # type: ignore[arg-type]
    return open_table(table.write())


@pytest.mark.parametrize(
    ("damage", "question", "reason"),
    [
        (lambda entry: entry.update(record_count=-1), "count(*)", "a file's rows were not counted"),
        (lambda entry: entry.update(record_count=0), "count(*)", "a file's rows were not counted"),
        (lambda entry: entry["value_counts"].update({1: 3}), "count(id)", "a file has no metrics of id"),
        (lambda entry: entry["null_value_counts"].update({1: 5}), "count(id)", "a file has no metrics of id"),
        (lambda entry: entry["null_value_counts"].pop(1), "count(id)", "a file has no metrics of id"),
        (lambda entry: entry["null_value_counts"].update({1: 4}), "min(id)", "a file has no metrics of id"),
        (
            lambda entry: entry["lower_bounds"].pop(1),
            "min(id)",
            "a file's metadata does not give the min of id",
        ),
        (
            lambda entry: entry["lower_bounds"].update({1: b"\x09\0\0\0\0\0\0\0"}),
            "max(id)",
            "a file's metadata does not give the max of id",
        ),
        (
            lambda entry: entry["upper_bounds"].update({1: b"\0"}),
            "max(id)",
            "a file's metadata does not give the max of id",
        ),
        (
            lambda entry: entry["nan_value_counts"].pop(2),
            "max(x)",
            "a file's metadata does not give the max of x",
        ),
    ],
)
def test_metrics_that_lack_or_contradict(tmp_path: Path, damage: Any, question: str, reason: str) -> None:
    assert asked(damaged(tmp_path, damage), question) == reason


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_other_formats(tmp_path: Path, file_format: str) -> None:
    rows = [{"id": i, "day": i} for i in range(3)]
    opened = one_file(tmp_path, {"id": "long", "day": "date"}, rows, format=file_format)
    if file_format == "avro":
        assert asked(opened, "count(*)") == "a data file has the format avro"
    else:
        assert asked(opened, "count(*)", "count(day)", "max(id)") == [(3, 3, 2)]
        assert isinstance(asked(opened, "max(day)"), str)


# ---- deletes


def test_a_vector_tells_how_many_rows_are_gone(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "one": "int", "p": "int", "n": "int"}, version=3, partition=["p"])
    file = table.append([{"id": i, "one": 7, "p": 1} for i in range(5)])
    gone = table.append([{"id": i, "one": 9, "p": 2} for i in range(3)])
    table.delete_vectors({file: [0, 3]})
    table.delete_vectors({gone: [0, 1, 2]})
    opened = open_table(table.write())
    assert asked(opened, "count(*)", "count(id)", "count(n)") == [(3, 3, 0)]
    assert asked(opened, "min(one)", "max(p)", "max(n)") == [(7, 1, None)]
    assert asked(opened, "count(*)", by=["p"]) == [(1, 3)]
    assert asked(opened, "min(id)") == "a file's metadata does not give the min of id"


def test_a_vector_and_nulls(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "n": "int"}, version=3)
    table.delete_vectors({table.append([{"id": i, "n": i or None} for i in range(5)]): [0]})
    opened = open_table(table.write())
    assert asked(opened, "count(*)") == [(4,)]
    assert asked(opened, "count(n)") == "a file does not say how many values n has"


def test_a_filter_that_names_deleted_is_read(tmp_path: Path) -> None:
    """The scan then returns deleted rows too, although the bounds prove the filter for all rows."""
    table = Table(tmp_path, {"id": "long"}, version=3)
    table.delete_vectors({table.append([{"id": i} for i in range(5)]): [1, 2]})
    opened = open_table(table.write())
    c = Columns(scan_schema(opened.table))
    predicate = either(Compare(">=", c("id"), 0), Compare("=", c("_deleted"), value=True))
    assert len(scan(opened, predicate=predicate).rows) == 5
    assert asked(opened, "count(*)", predicate=predicate) == "the filter shows deleted rows"


def test_equality_deletes_are_read(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long"})
    table.delete_positions({table.append([{"id": i} for i in range(5)]): [1]})
    table.delete_equal(["id"], [{"id": 1}])
    assert asked(open_table(table.write()), "count(*)") == "a file has equality deletes"


@pytest.mark.parametrize("delete_format", ["parquet", "orc", "avro"])
def test_positions_are_counted_once_and_up_to_the_last_row(tmp_path: Path, delete_format: str) -> None:
    table = Table(tmp_path, {"id": "long", "p": "int"}, partition=["p"])
    first = table.append([{"id": i, "p": 1} for i in range(5)])
    second = table.append([{"id": i, "p": 2} for i in range(7)])
    gone = table.append([{"id": i, "p": 3} for i in range(2)])
    others = [("file:/elsewhere", 2)]
    table.delete_positions({first: [1, 2, 5, 6, 10**12], gone: [0, 1]}, delete_format, others=others)
    table.delete_positions({first: [2, 4], second: [0]}, delete_format)
    opened = open_table(table.write())
    assert len(scan(opened).rows) == 8
    found = answer(opened.table, opened.options, aggregates=(Aggregate("rows"),))
    assert isinstance(found, AggregateAnswer)
    assert (found.rows, found.files, found.delete_files) == (((8,),), 3, 4)
    assert asked(opened, "count(*)", by=["p"]) == [(1, 2), (2, 6)]


def test_files_in_which_positions_delete_nothing_are_known_whole(tmp_path: Path) -> None:
    """A delete file of a partition may be about another data file."""
    table = Table(tmp_path, {"id": "long"})
    whole = table.append([{"id": i} for i in range(5)])
    other = table.append([{"id": 7}])
    table.delete_positions({other: [0], whole: [5]})
    opened = open_table(table.write())
    assert asked(opened, "count(id)", "min(id)", "max(id)") == [(5, 0, 4)]
    table.delete_positions({whole: [0], other: [0]})
    reason = "a file's metadata does not give the min of id"
    assert asked(open_table(table.write()), "min(id)") in (reason, "files have rows deleted by position")


def test_delete_files_are_not_read_in_vain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(tmp_path, {"id": "long"})
    files = [table.append([{"id": i} for i in range(5)]) for _ in range(3)]
    for file in files:
        table.delete_positions({file: [1]})
    opened = open_table(table.write())
    for path in tmp_path.rglob("deletes-*"):
        path.unlink()
    assert asked(opened, "min(id)") == "files have rows deleted by position"
    monkeypatch.setattr(metadata_answer, "MAX_DELETE_FILES_TO_READ", 2)
    assert asked(opened, "count(*)") == "more than 2 delete files would have to be read first"
    monkeypatch.setattr(deleted_counts, "MAX_POSITIONS", 2)
    assert asked(opened, "count(*)") == "more than 2 rows are deleted"


def test_files_are_not_asked_in_vain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once too many delete files are known, no manifest and no entry is looked at any more."""
    table = Table(tmp_path, {"id": "long"})
    files = [table.append([{"id": i} for i in range(5)]) for _ in range(9)]
    for file in files:
        table.delete_positions({file: [1]})
    opened = open_table(table.write())
    seen = []
    judge = Planning._judge
    monkeypatch.setattr(Planning, "_judge", lambda self, file: seen.append(file) or judge(self, file))
    monkeypatch.setattr(metadata_answer, "MAX_DELETE_FILES_TO_READ", 2)
    assert asked(opened, "count(*)") == "more than 2 delete files would have to be read first"
    assert len(seen) == 3
    seen.clear()
    monkeypatch.setattr(metadata_answer, "MAX_UNPROVEN_FILES", 5)
    assert isinstance(answer(opened.table, opened.options, aggregates=(Aggregate("rows"),), mix=True), str)
    assert len(seen) == 6


def test_each_of_many_files_is_not_looked_up_in_each_of_many_delete_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(tmp_path, {"id": "long"})
    files = [table.append([{"id": i} for i in range(5)]) for _ in range(4)]
    for _ in range(3):
        table.delete_positions({files[0]: [1], files[3]: [2]})
    opened = open_table(table.write())
    monkeypatch.setattr(deleted_counts, "MAX_PAIRS", 12)
    assert asked(opened, "count(*)") == [(18,)]
    monkeypatch.setattr(deleted_counts, "MAX_PAIRS", 11)
    assert asked(opened, "count(*)") == "deleted rows would have to be looked up more than 11 times first"


def test_a_file_without_applicable_deletes_is_not_touched_by_those_of_others(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "p": "int"}, partition=["p"])
    file = table.append([{"id": i, "p": 1} for i in range(5)])
    table.append([{"id": i, "p": 2} for i in range(4)])
    table.delete_positions({file: [1]})
    opened = open_table(table.write())
    c = Columns(opened.table.schema)
    assert asked(opened, "count(*)", "max(id)", predicate=Compare("=", c("p"), 2)) == [(4, 3)]
    assert isinstance(asked(opened, "max(id)"), str)


# ---- filters and groups


def test_filters_that_keep_files_whole(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long"})
    for first in (0, 10, 20):
        table.append([{"id": first + i} for i in range(10)])
    opened = open_table(table.write())
    c = Columns(opened.table.schema)
    assert asked(opened, "count(*)", "min(id)", predicate=Compare(">=", c("id"), 10)) == [(20, 10)]
    assert asked(opened, "count(*)", "min(id)", predicate=Compare(">", c("id"), 99)) == [(0, None)]
    assert (
        asked(opened, "count(*)", predicate=Compare(">", c("id"), 10))
        == "the filter splits the rows of a file"
    )
    assert asked(opened, "count(*)", predicate=Not(IsNull(c("id")))) == [(30,)]


def test_groups_of_identity_partitions(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "p": "string", "q": "int"}, partition=["p", "bucket[4](q)"])
    table.append_all([{"id": i, "p": (None, "a", "b")[i % 3], "q": i % 5} for i in range(12)])
    opened = open_table(table.write())
    assert asked(opened, "count(*)", "max(id)", by=["p"]) == [("a", 4, 10), ("b", 4, 11), (None, 4, 9)]
    assert asked(opened, "min(p)", "max(p)", "count(p)") == [("a", "b", 8)]
    assert asked(opened, by=["p"]) == [("a",), ("b",), (None,)]
    assert asked(opened, "count(*)", by=["q"]) == "q is not an identity partition"
    assert asked(opened, "count(*)", by=["id"]) == "id is not an identity partition"


def test_partition_evolution_is_read(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long", "p": "int"}, partition=["p"])
    table.append([{"id": 1, "p": 1}])
    table.partition_by(["bucket[2](id)"])
    table.append([{"id": 2, "p": 1}])
    opened = open_table(table.write())
    assert asked(opened, "count(*)", by=["p"]) == "a file's partition does not determine p"
    assert asked(opened, "max(p)", "count(*)") == [(1, 2)]


def test_switched_off_pruning_proves_no_filter(tmp_path: Path) -> None:
    table = Table(tmp_path, {"id": "long"})
    table.append([{"id": 1}])
    opened = open_table(table.write(), **{"prune.files": "false"})
    c = Columns(opened.table.schema)
    assert asked(opened, "count(*)") == [(1,)]
    assert isinstance(asked(opened, "count(*)", predicate=Compare("=", c("id"), 1)), str)
