"""Column metadata: sizes by formula, and JSON there and back."""

from __future__ import annotations

import json

import pytest

from twostage.advisor.column_metadata import ColumnMetadata, TableColumns, parse_metadata

DEV = ColumnMetadata(
    type="string", rows=1000, nulls=5, distinct=97, distinct_per_file=90, entries_per_row=1.5
)
TABLE = TableColumns(
    table="lake.db.t", snapshot=7, rows=1000, files=4, bytes=10_000, partitioning=("days(ts)",), sort_order=("id",),
    columns={"dev": DEV, "s.x": ColumnMetadata()},
)  # fmt: skip


def test_sizes_of_indexes():
    """Two, three and a half, and one byte a row; three for each key of each of four files."""
    assert [DEV.index_bytes(kind, 4) for kind in ("values", "postings", "bins", "files")] == [
        2000,
        3500,
        1000,
        1080,
    ]
    assert ColumnMetadata(rows=10).index_bytes("files", 4) is None


@pytest.mark.parametrize(
    ("distinct", "least", "most", "fits"),
    [
        (1_000.0, 2.0, 2.0, True),
        (8_000.0, 3.0, 3.6, True),
        (15_000.0, 4.1, 5.0, False),
        (200_000.0, 8.0, 40.0, False),
    ],
)
def test_bitmaps_of_many_values_take_something_for_each(distinct, least, most, fits):
    """Two bytes a row, and of each data file a head and an entry for each value."""
    column = ColumnMetadata(type="long", rows=4_000_000, distinct_per_file=distinct)
    assert least * column.rows <= column.index_bytes("values", 4) <= most * column.rows
    assert column.has_bitmaps(4) is fits
    assert ColumnMetadata(rows=4_000_000).has_bitmaps(4) is False


@pytest.mark.parametrize(
    ("facts", "size"),
    [
        ({"distinct_per_file": 90.0}, 7 * 1000 / 8),
        ({"distinct_per_file": 1.0}, 1000 / 8),
        ({"type": "date"}, 32 * 1000 / 8),
        ({"type": "decimal(38,2)"}, 64 * 1000 / 8),
    ],
)
def test_slices_take_a_bit_of_each_row_for_each_bit_of_its_values(facts, size):
    assert ColumnMetadata(rows=1000, **facts).index_bytes("slices", 4) == size


def test_what_the_formulas_take():
    known = TABLE.cardinalities
    assert (known.distinct, known.entries_per_row) == ({"dev": 97}, {"dev": 1.5, "s.x": 1.0})


def test_json_comes_back():
    assert parse_metadata(TABLE.json()) == TABLE
    more = json.loads(TABLE.json())
    more["columns"]["dev"]["of a later version"] = 1
    assert parse_metadata(json.dumps(more)) == TABLE


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"v":1}', '{"v":1,"columns":{}}', '{"v":2,"columns":{}}', '{"v":1,"columns":{"a":5}}'],
)
def test_something_else_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        parse_metadata(text)


def test_bytes_of_a_row():
    columns = {"a": ColumnMetadata(rows=10, bytes=45), "b": ColumnMetadata(rows=10), "c": ColumnMetadata()}
    known = TableColumns(table="t", snapshot=None, rows=10, files=1, bytes=1, columns=columns)
    assert known.bytes_per_row == {"a": 4.5}


def test_sizes_of_each_kind_that_a_column_can_have():
    """Text has neither slices nor an order of whole numbers; a list has its elements; without a type nothing is said."""
    facts = {"rows": 1000, "distinct_per_file": 90.0, "entries_per_row": 1.5}
    of_text = ColumnMetadata(type="string", **facts).index_sizes(4)
    assert (of_text["values"], of_text["postings"], of_text["files"]) == (2000, 3500, 1080)
    assert "slices" not in of_text
    assert ColumnMetadata(type="long", **facts).index_sizes(4)["slices"] == 875
    assert ColumnMetadata(type="list<string>", **facts).index_sizes(4) == {"elements": 5250}
    assert ColumnMetadata(**facts).index_sizes(4) == {}
    assert json.loads(TABLE.json())["columns"]["dev"]["index_bytes"] == DEV.index_sizes(4) != {}
