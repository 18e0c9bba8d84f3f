"""The cases of Velox's tests of equality deletes, each under its name there.

The first ones are of the reader's first form, on generated columns with some, none and only NULLs; the others of the
reader of today. Where Velox refuses what the spec allows or forbids (floating point keys, decimals), the rows are
those of the spec.
Source: facebookincubator/velox, velox/connectors/hive/iceberg/tests, IcebergReadEqualityDeleteTest.cpp (by the proposal's
authors) and EqualityDeleteFileReaderTest.cpp.
"""

from __future__ import annotations

import random
from decimal import Decimal

import pytest

from check import check, ids
from tables import Table
from twostage.predicates.predicate import Compare

NUM_ROWS = 1_000
LETTERS = "abcdefghij"


@pytest.fixture(params=["parquet", "orc", "avro"])
def data_format(request, monkeypatch):
    """The format of data and delete files; Velox has DWRF, ORC's next of kin, and Parquet."""
    monkeypatch.setattr(Table, "data_format", request.param)
    monkeypatch.setattr(Table, "delete_format", request.param)
    return request.param


pytestmark = pytest.mark.usefixtures("data_format")

SHAPES = {
    "int": [("int", 0.0)],
    "long": [("long", 0.0)],
    "int with NULLs": [("int", 0.2)],
    "long with NULLs": [("long", 0.2)],
    "int of NULLs": [("int", 1.0)],
    "long of NULLs": [("long", 1.0)],
    "string with NULLs": [("string", 0.2)],
    "float": [("float", 0.0)],
    "double": [("double", 0.0)],
    "two ints": [("int", 1.0), ("int", 0.2)],
    "two longs": [("long", 0.0), ("long", 0.0)],
    "int and long": [("int", 1.0), ("long", 0.2)],
    "three": [("int", 0.0), ("int", 0.2), ("long", 0.0)],
}


def value_of(kind, row):
    return {"int": row, "long": row * 10**10, "string": f"text {row}", "float": row / 4, "double": row / 10}[
        kind
    ]


def generated(shape, folder):
    """Return a table with columns c0, c1, …, and its rows."""
    pick = random.Random(shape)
    columns = {f"c{i}": kind for i, (kind, _) in enumerate(SHAPES[shape])}
    rows = [
        {
            f"c{i}": None if pick.random() < nulls else value_of(kind, row)
            for i, (kind, nulls) in enumerate(SHAPES[shape])
        }
        for row in range(NUM_ROWS)
    ]
    table = Table(folder, {"id": "long", **columns})
    table.append([{"id": i, **row} for i, row in enumerate(rows)])
    return table, list(columns), rows


def delete_rows(table, columns, rows, chosen):
    """Delete by the values of some rows, and check what is left by comparing them one by one."""
    table.delete_equal(columns, [rows[i] for i in chosen])
    gone = {tuple(rows[i].values()) for i in chosen}
    left = [i for i, row in enumerate(rows) if tuple(row.values()) not in gone]
    check(table, left)
    check(table, left, select=[])


@pytest.mark.parametrize("shape", SHAPES)
def test_delete_first_and_last_rows(shape, tmp_path):
    delete_rows(*generated(shape, tmp_path), [0, NUM_ROWS - 1])


@pytest.mark.parametrize("shape", SHAPES)
def test_delete_random_rows(shape, tmp_path):
    chosen = random.Random(shape).sample(range(NUM_ROWS), 100)
    delete_rows(*generated(shape, tmp_path), chosen)


@pytest.mark.parametrize("shape", SHAPES)
def test_delete_all_rows(shape, tmp_path):
    delete_rows(*generated(shape, tmp_path), range(NUM_ROWS))


@pytest.mark.parametrize("shape", SHAPES)
def test_delete_no_rows(shape, tmp_path):
    delete_rows(*generated(shape, tmp_path), [])


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("decimal(6,2)", ["1234.56", "7890.12", "3456.78", "9012.34", "5678.90"]),
        (
            "decimal(25,5)",
            ["1234567890.12345", "9876543210.98765", "1111111111.11111", "2222222222.22222", "0.00001"],
        ),
    ],
    ids=["short_decimal", "long_decimal"],
)
def test_decimals(kind, texts, tmp_path):
    """Two, all, none."""
    values = [{"c0": Decimal(text)} for text in texts]
    for chosen in ([0, 1], range(5), []):
        table = Table(tmp_path / str(len(chosen)), {"id": "long", "c0": kind})
        table.append([{"id": i, **value} for i, value in enumerate(values)])
        delete_rows(table, ["c0"], values, chosen)


def test_sub_field_equality_delete(tmp_path):
    table = Table(tmp_path, {"id": "long", "c_row": {"c0": "long", "c1": "long", "c2": "long"}})
    table.append([{"id": i, "c_row": {"c0": i, "c1": i, "c2": i}} for i in range(1, 21)])
    table.delete_equal(["c_row.c1"], [{"c_row": {"c1": 1}}, {"c_row": {"c1": 2}}])
    check(table, range(3, 21))
    check(table, range(3, 21), select=[])


def letters(folder, **columns):
    """Return a table of ten rows: id, value."""
    table = Table(folder, {"id": "long", "value": "string", **columns})
    table.append(ids(10, value=list(LETTERS)))
    return table


def by_id(table, *numbers, **more):
    table.delete_equal(["id"], [{"id": number} for number in numbers], **more)


@pytest.mark.parametrize("select", [None, ["value"]])
def test_basic_single_column_delete(select, tmp_path):
    """And equalityColumnNotInProjection: `check` reads without `id` as well."""
    table = letters(tmp_path)
    by_id(table, 3, 7)
    check(table, [0, 1, 2, 4, 5, 6, 8, 9], select=select)


def test_equality_delete_column_added_by_second_split(tmp_path):
    """Three files; only the second is older than the delete."""
    table = Table(tmp_path, {"id": "long", "value": "string"})
    for start, sequence in ((0, 9), (5, 1), (10, 9)):
        rows = [{"id": i, "value": chr(97 + i)} for i in range(start, start + 5)]
        table.append(rows, sequence_number=sequence)
    by_id(table, 1, 6, 8, 12, sequence_number=5)
    check(table, [*range(6), 7, *range(9, 15)])


def test_equality_delete_split_covering_no_rows(tmp_path):
    """Tasks of a few bytes each: most cover no row group."""
    table = letters(tmp_path)
    by_id(table, 1, 3)
    check(table, [0, 2, *range(4, 10)], split_size="64")


def test_multiple_delete_files_same_missing_column(tmp_path):
    """And twoDeleteFiles."""
    table = letters(tmp_path)
    by_id(table, 2, 5)
    by_id(table, 0, 9)
    check(table, [1, 3, 4, 6, 7, 8], select=["value"])


def test_equality_mixed_in_and_out_of_projection(tmp_path):
    table = Table(tmp_path, {"id": "long", "a": "int", "b": "string"})
    table.append(ids(5, a=[1, 2, 3, 4, 5], b=list("xyzxy")))
    table.delete_equal(["a", "b"], [{"a": 2, "b": "y"}, {"a": 1, "b": "y"}])
    check(table, [0, 2, 3, 4], select=["b"])


def test_equality_filter_only_column_not_in_projection(tmp_path):
    table = letters(tmp_path)
    by_id(table, 4, 8)
    check(table, [3, 5, 6, 7, 9], lambda c: Compare(">=", c("id"), 3), select=["value"])


def test_multi_column_delete(tmp_path):
    table = letters(tmp_path)
    table.delete_equal(["id", "value"], [{"id": 3, "value": "d"}, {"id": 4, "value": "d"}])
    check(table, [0, 1, 2, *range(4, 10)])


def test_no_matching_deletes(tmp_path):
    table = letters(tmp_path)
    by_id(table, 100, 200)
    check(table, range(10))


def test_all_rows_deleted(tmp_path):
    table = letters(tmp_path)
    by_id(table, *range(10))
    check(table, [])


def test_string_column_delete(tmp_path):
    """And deleteOnSecondColumn."""
    table = letters(tmp_path)
    table.delete_equal(["value"], [{"value": "b"}, {"value": "d"}])
    check(table, [0, 2, *range(4, 10)])


@pytest.mark.parametrize("select", [None, []])
def test_non_sequential_equality_field_id(select, tmp_path):
    """A column was dropped before the key's."""
    table = Table(tmp_path, {"id": "long", "dropped": "int", "category": "string"})
    table.append(ids(5, dropped=[10, 20, 30, 40, 50], category=list("ABACB")))
    table.drop_column("dropped")
    table.delete_equal(["category"], [{"category": "B"}])
    check(table, [0, 2, 3], select=select)


@pytest.mark.parametrize(
    ("of_data", "of_delete", "applies"),
    [(3, 5, True), (5, 2, False), (5, 5, False), (0, 1, True)],
    ids=["delete_applies", "delete_skipped", "equal_skipped", "zero"],
)
def test_sequence_number(of_data, of_delete, applies, tmp_path):
    """Velox's zero stands for "unknown"; in a table it is a number like others, that of a file of version 1."""
    table = Table(tmp_path, {"id": "long", "value": "string"})
    table.append(ids(5, value=list("abcde")), sequence_number=of_data)
    by_id(table, 2, 4, sequence_number=of_delete)
    check(table, [0, 1, 3] if applies else range(5))


def test_mixed_sequence_numbers(tmp_path):
    table = Table(tmp_path, {"id": "long", "value": "string"})
    table.append(ids(5, value=list("abcde")), sequence_number=5)
    by_id(table, 2, sequence_number=10)
    by_id(table, 4, sequence_number=3)
    check(table, [0, 1, 3, 4])


@pytest.mark.parametrize(
    ("kind", "value", "other"),
    [("int", 2, 99), ("date", 19_345, 19_346)],
    ids=["int", "date_partition_column"],
)
@pytest.mark.parametrize("absent", [(), ("part",)], ids=["in_file", "not_in_file"])
def test_equality_partition_column(kind, value, other, absent, tmp_path):
    """…InFileNotInProjection, …NonMatchingPartition, …MixedPartitionAndRegular: the key's column is the partition's."""
    table = Table(tmp_path, {"id": "long", "part": kind, "value": "string"}, partition=["part"])
    rows = ids(4, part=[value] * 4, value=list("abcd"))
    file = table.append(rows, absent=absent)
    table.delete_equal(
        ["part", "value"], [{"part": value, "value": "b"}, {"part": other, "value": "c"}], like=file
    )
    check(table, [0, 2, 3], select=["value"])
    table.delete_equal(["part", "id"], [{"part": value, "id": 3}, {"part": other, "id": 0}], like=file)
    check(table, [0, 2], select=["value"])


def test_equality_bucket_partition_name_collision(tmp_path):
    """A bucket's number is no value of the column, whatever the partition field is called."""
    table = Table(tmp_path, {"id": "long", "value": "string"}, partition=["bucket[4](id)"])
    files = table.append_all([{"id": i, "value": "x"} for i in (10, 20, 30, 40)])
    for file in files:
        table.delete_equal(["id"], [{"id": 20}, *({"id": n} for n in range(4))], like=file)
    check(table, [10, 30, 40], select=["value"])


def test_equality_void_partition(tmp_path):
    """The void transform's NULL is no value of the column either."""
    table = Table(tmp_path, {"id": "long", "value": "string"}, partition=["void(id)"])
    file = table.append([{"id": i, "value": "x"} for i in (10, 20, 30)])
    table.delete_equal(["id"], [{"id": None}], like=file)
    check(table, [10, 20, 30], select=["value"])


def test_equality_partition_column_with_evolved_schema(tmp_path):
    table = Table(tmp_path, {"id": "long", "a": "int", "b": "string", "c": "int"}, partition=["a", "c"])
    file = table.append(ids(2, a=[6, 6], b=["1006", "1009"], c=[2, 2]))
    table.add_column("d", "string")
    table.delete_equal(["a", "b", "c"], [{"a": 6, "b": "1006", "c": 2}], like=file)
    check(table, [1], select=["a", "b", "d"])
