"""What Spark's optimizer is told: rows after deletes, bytes of a value and of a scan."""

from __future__ import annotations

import pytest

from twostage.planning.estimates import (
    MIN_ROWS_PER_KEY_TO_SORT,
    drops_rows,
    estimate_bytes,
    live_rows,
    value_width,
)
from twostage.predicates.predicate import (
    TRUE,
    And,
    Column,
    Compare,
    IsNull,
    Not,
)
from twostage.schema import Field, Primitive, Schema, parse_type
from twostage.task import DeleteFile, ScanTask


def delete(content: str, rows: int, referenced: str | None = "file") -> DeleteFile:
    return DeleteFile(
        content=content,
        format="parquet",
        path="d",
        written_path="d",
        file_size=1,
        record_count=rows,
        sequence_number=1,
        referenced_data_file=referenced,
    )


def scan_task(file_size: int = 1, deletes: tuple[DeleteFile, ...] = ()) -> ScanTask:
    return ScanTask(
        path="file",
        written_path="file",
        format="parquet",
        file_size=file_size,
        record_count=100,
        start=0,
        length=file_size,
        sequence_number=0,
        spec_id=0,
        deletes=deletes,
    )


@pytest.mark.parametrize(
    ("deletes", "expected"),
    [
        ((), 100),
        ((delete("vector", 30),), 70),
        ((delete("position", 30), delete("position", 20)), 50),
        ((delete("position", 30, None),), 100),  # of many files: nobody knows how many rows of this one
        ((delete("equality", 30),), 100),
        ((delete("vector", 130),), 0),
    ],
)
def test_rows_that_are_left(deletes: tuple[DeleteFile, ...], expected: int) -> None:
    assert live_rows(scan_task(deletes=deletes)) == expected


@pytest.mark.parametrize(
    ("kind", "width"),
    [
        ("boolean", 1),
        ("int", 4),
        ("long", 8),
        ("string", 20),
        ("decimal(9,2)", 16),
        ("timestamptz", 8),
        ({"type": "struct", "fields": [{"id": 1, "name": "a", "type": "int"}, {"id": 2, "name": "b", "type": "long"}]}, 12),
        ({"type": "list", "element-id": 1, "element": "string"}, 20),
        ({"type": "map", "key-id": 1, "key": "int", "value-id": 2, "value": "double"}, 12),
    ],
    ids=str,
)  # fmt: skip
def test_bytes_of_a_value(kind: object, width: int) -> None:
    assert value_width(parse_type(kind)) == width


WIDE = Schema(
    schema_id=0,
    fields=tuple(Field(id=n, name=f"c{n}", type=Primitive("string" if n else "long")) for n in range(5)),
)


@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    [
        (200, 5, 3000),  # all columns: the files' bytes
        (200, 1, 3000 * 16 // 96),
        (200, 0, 3000 * 8 // 96),
        (10_000, 5, 10_000 * 96 // 8),  # of files that are compressed better than that
        (10_000, 1, 10_000 * 16 // 8),
        (10, 5, 960),  # of a limit, or all others deleted: the rows' width
        (0, 5, 0),
    ],
)
def test_bytes_of_a_scan(rows: int, columns: int, expected: int) -> None:
    tasks = [scan_task(1000), scan_task(2000)]
    assert estimate_bytes(rows, tasks, WIDE.fields[:columns], WIDE) == expected


def test_a_column_that_is_not_the_table_s_counts_at_most_as_the_files() -> None:
    columns = (*WIDE.fields, Field(id=99, name="_file", type=Primitive("string")))
    assert estimate_bytes(50, [scan_task(1000)], columns, WIDE) == 1000


def test_rows_that_a_filter_drops_need_no_memory() -> None:
    tasks = [scan_task(1000), scan_task(2000)]
    assert estimate_bytes(10_000, tasks, WIDE.fields, WIDE, is_filtered=True) == 3000
    column = Column(1, ("c1",), Primitive("string"))
    not_null = Not(IsNull(column))
    assert not drops_rows(TRUE)
    assert not drops_rows(And((not_null, Not(IsNull(Column(2, ("c2",), Primitive("string")))))))
    assert drops_rows(IsNull(column))
    assert drops_rows(And((not_null, Compare("=", column, "a"))))


def test_rows_of_which_keys_have_many_count_with_all_their_memory() -> None:
    """Spark then sorts both sides of the join, where a hash table would have long chains."""
    tasks = [scan_task(1000), scan_task(2000)]
    few, many = MIN_ROWS_PER_KEY_TO_SORT - 0.1, float(MIN_ROWS_PER_KEY_TO_SORT)
    assert estimate_bytes(10_000, tasks, WIDE.fields[:1], WIDE, rows_a_key=few) == 10_000 * 16 // 8
    assert estimate_bytes(10_000, tasks, WIDE.fields[:1], WIDE, rows_a_key=many) == 10_000 * 16
    filtered = estimate_bytes(10_000, tasks, WIDE.fields, WIDE, rows_a_key=many, is_filtered=True)
    assert filtered == 3000


def test_columns_of_the_scan_s_own_are_taken_off_again_by_spark() -> None:
    """Its estimate of a projection is the share of the columns' widths."""
    tasks = [scan_task(3000)]
    bare = estimate_bytes(200, tasks, WIDE.fields[:1], WIDE)
    told = estimate_bytes(200, tasks, WIDE.fields[:1], WIDE, extra_width=12)
    assert told * 16 // (16 + 12) == bare == 500
