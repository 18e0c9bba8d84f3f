"""From what a file holds to what the scan's schema says: nested reshaping, promotion, defaults, ids."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from twostage.columns import arrow_type
from twostage.errors import CorruptFileError, UnsupportedFeatureError
from twostage.formats import convert, file_schema
from twostage.schema import parse_schema


def tagged(name, kind, field_id):
    return pa.field(name, kind, metadata={b"PARQUET:field_id": str(field_id).encode()})


def project(array, file_field, fields, constants=()):
    """Convert one file column to the first of `fields` (Iceberg JSON)."""
    table = parse_schema({"schema-id": 0, "fields": fields})
    target = table.fields[0]
    sources = file_schema.identify(pa.schema([file_field]), None, table, "f.parquet")
    wanted = file_schema.wanted_leaves(sources, [target], dict(constants))
    cut = file_schema.cut(sources, wanted)
    found = {field.id: (array, field) for field in cut}
    built = convert.column(found, target, dict(constants), len(array), "f.parquet")
    built.validate(full=True)
    assert built.type == arrow_type(target.type)
    return built


OLD = pa.struct([tagged("x", pa.int32(), 2), tagged("y", pa.string(), 3)])


def struct_column():
    rows = [{"x": 1, "y": "a"}, None, {"x": None, "y": "c"}, {"x": 4, "y": None}]
    return pa.array(rows, OLD), tagged("st", OLD, 1)


def test_struct_fields_are_renamed_reordered_promoted_and_filled():
    array, field = struct_column()
    new = [
        {"id": 3, "name": "why", "type": "string"},
        {"id": 9, "name": "added", "type": "int"},
        {"id": 8, "name": "added_default", "type": "string", "initial-default": "new"},
        {"id": 2, "name": "ex", "type": "long"},
    ]
    target = [{"id": 1, "name": "renamed", "type": {"type": "struct", "fields": new}}]
    for built in (project(array, field, target), project(array.slice(1), field, target)):
        expected = [
            {"why": "a", "added": None, "added_default": "new", "ex": 1},
            None,
            {"why": "c", "added": None, "added_default": "new", "ex": None},
            {"why": None, "added": None, "added_default": "new", "ex": 4},
        ]
        assert built.to_pylist() == expected[4 - len(built) :]


def test_a_struct_of_only_new_fields_keeps_its_nulls():
    array, field = struct_column()
    only_new = {"type": "struct", "fields": [{"id": 9, "name": "added", "type": "int"}]}
    # One leaf must still be read: it tells where the struct is NULL.
    table = parse_schema({"schema-id": 0, "fields": [{"id": 1, "name": "st", "type": only_new}]})
    target = table.fields[0]
    sources = file_schema.identify(pa.schema([field]), None, table, "f.parquet")
    assert file_schema.wanted_leaves(sources, [target]) == {0}
    cut = pa.StructArray.from_arrays([array.field(0)], fields=[OLD.field(0)], mask=array.is_null())
    (source,) = file_schema.cut(sources, {0})
    built = convert.column({source.id: (cut, source)}, target, {}, len(cut), "f")
    assert built.to_pylist() == [{"added": None}, None, {"added": None}, {"added": None}]


def test_lists_and_maps_keep_offsets_and_nulls_when_sliced():
    inner = pa.list_(tagged("item", OLD, 20))
    array = pa.array([[{"x": 1, "y": "a"}, None], None, [], [{"x": 3, "y": "c"}]], inner)
    element = {"type": "struct", "fields": [{"id": 2, "name": "x", "type": "long"}]}
    target = [{"id": 1, "name": "l", "type": {"type": "list", "element-id": 20, "element": element}}]
    built = project(array, tagged("l", inner, 1), target)
    assert built.to_pylist() == [[{"x": 1}, None], None, [], [{"x": 3}]]
    built = project(array.slice(2, 2), tagged("l", inner, 1), target)
    assert built.to_pylist() == [[], [{"x": 3}]]

    kind = pa.map_(
        tagged("key", pa.string(), 30).with_nullable(nullable=False), tagged("value", pa.int32(), 31)
    )
    array = pa.array([[("a", 1), ("b", None)], None, [], [("c", 3)]], kind)
    mapped = {"type": "map", "key-id": 30, "key": "string", "value-id": 31, "value": "long"}
    for start in range(3):
        built = project(array.slice(start), tagged("m", kind, 1), [{"id": 1, "name": "m", "type": mapped}])
        assert built.to_pylist() == array.slice(start).to_pylist()


def test_null_in_a_required_column_is_an_error():
    array = pa.array([1, None])
    required = [{"id": 1, "name": "c", "type": "long", "required": True}]
    with pytest.raises(CorruptFileError) as caught:
        project(array, tagged("c", pa.int64(), 1), required)
    assert caught.value.code == "NULL_IN_REQUIRED_COLUMN"


DEFAULTS = [
    ("date", "2024-02-29", dt.date(2024, 2, 29)),
    ("timestamp", "2024-02-29T01:02:03.000004", dt.datetime(2024, 2, 29, 1, 2, 3, 4)),
    ("decimal(9,2)", "1.25", Decimal("1.25")),
    ("uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7", "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
    ("binary", "00ff", b"\x00\xff"),
    ("boolean", True, True),
    ("double", 1.5, 1.5),
    ({"type": "list", "element-id": 8, "element": "date"}, ["1970-01-02"], [dt.date(1970, 1, 2)]),
    (
        {"type": "map", "key-id": 8, "key": "string", "value-id": 9, "value": "int"},
        {"keys": ["a"], "values": [1]},
        [("a", 1)],
    ),
    (
        {"type": "struct", "fields": [{"id": 8, "name": "q", "type": "int", "initial-default": 7}]},
        {},
        {"q": 7},
    ),
]


@pytest.mark.parametrize(("kind", "default", "expected"), DEFAULTS)
def test_a_missing_column_takes_its_initial_default(kind, default, expected):
    new = [{"id": 5, "name": "new", "type": kind, "initial-default": default}]
    other = pa.array([1, 2])
    built = project(other, tagged("old", other.type, 1), new)
    assert built.to_pylist() == [expected, expected]


def test_a_partition_value_stands_for_the_files_own():
    array = pa.array([1, 2])
    built = project(array, tagged("c", array.type, 1), [{"id": 1, "name": "c", "type": "long"}], {1: 9})
    assert built.to_pylist() == [9, 9]
    built = project(array, tagged("c", array.type, 1), [{"id": 1, "name": "c", "type": "long"}], {1: None})
    assert built.to_pylist() == [None, None]


TABLE = parse_schema(
    {
        "schema-id": 0,
        "fields": [
            {
                "id": 1,
                "name": "b",
                "type": {"type": "struct", "fields": [{"id": 4, "name": "out", "type": "long"}]},
            },
            {"id": 2, "name": "a", "type": "long"},
            {"id": 9, "name": "c", "type": "long"},
        ],
    }
)


def ids_of(schema, mapping):
    fields = file_schema.identify(schema, mapping, TABLE, "f.parquet")
    return [(field.name, field.id) for field in fields], fields


def test_ids_win_over_names_and_places():
    schema = pa.schema([tagged("b", pa.int64(), 1), pa.field("a", pa.int64())])
    assert ids_of(schema, [{"field-id": 2, "names": ["a"]}])[0] == [("b", 1), ("a", None)]


NESTED = pa.struct([pa.field("in", pa.int64()), pa.field("out", pa.int64())])
WITHOUT_IDS = pa.schema([pa.field("b", NESTED), pa.field("a", pa.int64()), pa.field("c", pa.int64())])


def test_a_file_without_ids_takes_them_from_the_name_mapping():
    mapping = [
        {"field-id": 7, "names": ["a", "old_a"]},
        {"field-id": 5, "names": ["b"], "fields": [{"field-id": 6, "names": ["in"]}]},
    ]
    names, fields = ids_of(WITHOUT_IDS, mapping)
    assert names == [("b", 5), ("a", 7), ("c", None)]
    assert [(child.name, child.id) for child in fields[0].children] == [("in", 6), ("out", None)]
    assert [(field.first_leaf, field.end_leaf) for field in fields] == [(0, 2), (2, 3), (3, 4)]


def test_without_a_mapping_places_count_where_names_agree():
    names, fields = ids_of(WITHOUT_IDS, None)
    # The third place would be id 3, which the table does not have; c is id 9 there, added later.
    assert names == [("b", 1), ("a", 2), ("c", None)]
    assert [(child.name, child.id) for child in fields[0].children] == [("in", None), ("out", 4)]


def test_without_a_mapping_names_that_contradict_places_are_refused():
    schema = pa.schema([pa.field("a", pa.int64()), pa.field("b", NESTED)])
    with pytest.raises(UnsupportedFeatureError) as caught:
        ids_of(schema, None)
    assert caught.value.code == "NO_FIELD_IDS"
