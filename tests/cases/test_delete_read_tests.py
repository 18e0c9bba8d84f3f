"""The cases of Iceberg's own `DeleteReadTests`, each under its name there, in the formats that it runs them in.

Tables are written by hand, all columns are read, then `id` alone: the key columns are not selected then.
Source: apache/iceberg, data/src/test/java/org/apache/iceberg/data/DeleteReadTests.java.
"""

from __future__ import annotations

from datetime import date

import pytest

from check import check
from tables import Table
from twostage.errors import UnsupportedFeatureError

LETTERS = dict(zip((29, 43, 61, 89, 100, 121, 122), "abcdefg", strict=True))
ROWS = [{"id": number, "data": letter} for number, letter in LETTERS.items()]
DELETED = [{"data": letter} for letter in "adg"]
LEFT = [43, 61, 100, 121]
PARTITION = ["bucket[1](data)"]
"""One for all rows, as there."""


@pytest.fixture(
    params=[("parquet", 2), ("avro", 2), ("orc", 2), ("parquet", 3)], ids=lambda p: f"{p[0]}-v{p[1]}"
)
def table(request, tmp_path, monkeypatch):
    """An empty table; its delete files have the data files' format."""
    data_format, version = request.param
    monkeypatch.setattr(Table, "data_format", data_format)
    monkeypatch.setattr(Table, "delete_format", data_format)
    return Table(
        tmp_path,
        {
            "id": "int!",
            "data": "string!",
            "binaryData": "binary",
            "structData": {"structInnerData": "string"},
        },
        version=version,
        partition=PARTITION,
    )


def expect(table, ids, removed):
    """Check the rows and how many were removed, then the same of `id` alone."""
    for select in (None, []):
        assert check(table, ids, select=select).count("rows.deleted.") == removed


def delete_positions(table, file, positions):
    """Delete by position as the version does it."""
    if table.version == 3:
        table.delete_vectors({file: positions})
    else:
        table.delete_positions({file: positions})


def test_equality_deletes(table):
    file = table.append(ROWS)
    table.delete_equal(["data"], DELETED, like=file)
    expect(table, LEFT, 3)


def test_equality_date_deletes(table):
    """Five days, each in its partition; three delete files, one for each of the first days."""
    days = Table(
        table.folder / "dates",
        {"dt": "date!", "data": "string!", "id": "int!"},
        version=table.version,
        partition=["day(dt)"],
    )
    first = (date(2021, 9, 1) - date(1970, 1, 1)).days
    rows = [{"dt": first + i, "data": "abcde"[i], "id": i + 1} for i in range(5)]
    files = [days.append([row]) for row in rows]
    for file, row in zip(files[:3], rows, strict=False):
        days.delete_equal(["dt", "data", "id"], [row], like=file)
    expect(days, [4, 5], 3)


def test_equality_deletes_with_required_eq_column(table):
    file = table.append(ROWS)
    table.delete_equal(["data"], DELETED, like=file)
    check(table, LEFT, select=["id"])


def test_equality_deletes_spanning_multiple_data_files(table):
    file = table.append(ROWS)
    table.append([*ROWS, {"id": 144, "data": "a"}])
    table.delete_equal(["data"], DELETED, like=file)
    expect(table, [*LEFT, *LEFT], 7)


def test_position_deletes(table):
    file = table.append(ROWS)
    delete_positions(table, file, [0, 3, 6])
    expect(table, LEFT, 3)


def test_multiple_pos_delete_files(table):
    if table.version == 3:
        pytest.skip("version 3 has one vector a data file")
    file = table.append(ROWS)
    table.delete_positions({file: [0, 3]})
    table.delete_positions({file: [6]})
    expect(table, LEFT, 3)


def test_mixed_position_and_equality_deletes(table):
    file = table.append(ROWS)
    with table.transaction():
        table.delete_equal(["data"], DELETED, like=file)
        delete_positions(table, file, [3, 5])
    expect(table, [43, 61, 100], 4)


def test_multiple_equality_delete_schemas(table):
    file = table.append(ROWS)
    with table.transaction():
        table.delete_equal(["data"], DELETED, like=file)
        table.delete_equal(["id"], [{"id": 121}, {"id": 29}], like=file)
    expect(table, [43, 61, 100], 4)


def test_equality_delete_by_null(table):
    """`data` is optional here from the start; NULL lies in a bucket of its own, NULL, where there it is called 0."""
    table = Table(
        table.folder / "nulls", {"id": "int!", "data": "string"}, version=table.version, partition=PARTITION
    )
    file = table.append(ROWS)
    null = table.append([{"id": 131, "data": None}])
    assert file.partition != null.partition
    table.delete_equal(["data"], [{"data": None}], like=null)
    expect(table, list(LETTERS), 1)


def optional_rows():
    return [
        {
            "id": 200 + i,
            "data": "testData",
            "binaryData": b"binaryData_%d" % i,
            "structData": {"structInnerData": f"structInnerData_{i}"},
        }
        for i in range(10)
    ]


def test_equality_delete_binary_column(table):
    table.append(ROWS)
    file = table.append(optional_rows())
    table.delete_equal(["binaryData"], [{"binaryData": b"binaryData_%d" % i} for i in range(3)], like=file)
    expect(table, [*LETTERS, *range(203, 210)], 3)


def test_equality_delete_struct_column(table):
    """Iceberg's Java compares whole structs as keys. That is not supported, and refused by name while planning."""
    table.append(ROWS)
    file = table.append(optional_rows())
    table.delete_equal(["structData"], optional_rows()[:3], like=file)
    with pytest.raises(UnsupportedFeatureError, match="not of a primitive type"):
        check(table, [*LETTERS, *range(203, 210)])


def test_equality_deletes_with_nested_field_identifier(table):
    table.append(ROWS)
    file = table.append(optional_rows())
    keys = [{"structData": {"structInnerData": f"structInnerData_{i}"}} for i in range(3)]
    table.delete_equal(["structData.structInnerData"], keys, like=file)
    expect(table, [*LETTERS, *range(203, 210)], 3)
