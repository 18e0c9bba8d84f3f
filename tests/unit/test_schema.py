"""Iceberg's types and values from metadata JSON: the forms of the spec's appendices C and D, and what is refused."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import pytest

from twostage.errors import CorruptFileError
from twostage.schema import MAX_NESTING, Primitive, Schema, leaves, parse_schema, parse_type, parse_value

LIST = {"type": "list", "element-id": 3, "element": "int", "element-required": True}
MAP = {"type": "map", "key-id": 4, "key": "string", "value-id": 5, "value": "double", "value-required": False}
STRUCT = {"type": "struct", "fields": [{"id": 6, "name": "x", "type": "int", "required": True}]}


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("long", "long"),
        ("decimal(9, 2)", "decimal(9,2)"),
        ("decimal( 38 ,38)", "decimal(38,38)"),
        ("fixed[16]", "fixed[16]"),
        ("timestamptz_ns", "timestamptz_ns"),
        ("geometry(srid:4326)", "geometry"),
        ("geography (OGC:CRS84, spherical)", "geography"),
        ({"type": "long"}, "long"),
        (LIST, "list<int>"),
        (MAP, "map<string, double>"),
        (STRUCT, "struct<x: int>"),
    ],
)
def test_types(raw: Any, text: str) -> None:
    assert str(parse_type(raw)) == text


@pytest.mark.parametrize(
    "raw",
    [
        "int32",
        "decimal",
        "decimal(39,0)",
        "decimal(0,0)",
        "decimal(3,4)",
        "fixed",
        "fixed[x]",
        "long(3)",
        "int(",
        "",
    ],
)
def test_types_that_are_none(raw: str) -> None:
    with pytest.raises(CorruptFileError, match="CORRUPT_METADATA"):
        parse_type(raw)


def test_nesting_ends() -> None:
    deep: Any = "int"
    for number in range(MAX_NESTING + 2):
        deep = {"type": "list", "element-id": number, "element": deep}
    with pytest.raises(CorruptFileError, match="too deep"):
        parse_type(deep)


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        ("boolean", True, True),
        ("int", 34, 34),
        ("long", -(2**63), -(2**63)),
        ("double", 1, 1.0),
        ("double", 0.1, 0.1),
        ("float", 0.1, 0.10000000149011612),
        ("float", 1e300, math.inf),
        ("float", -1e300, -math.inf),
        ("decimal(9,2)", "14.20", Decimal("14.20")),
        ("date", "2017-11-16", (datetime.date(2017, 11, 16) - datetime.date(1970, 1, 1)).days),
        ("time", "22:31:08.123456", 81_068_123_456),
        ("timestamp", "1970-01-01T00:00:01.000002", 1_000_002),
        ("timestamptz", "1970-01-01T00:00:01+01:00", -3_599_000_000),
        ("timestamp_ns", "1970-01-01T00:00:01.000000002", 1_000_000_002),
        ("timestamptz_ns", "1969-12-31T23:59:59.999999999+00:00", -1),
        ("timestamptz_ns", "1970-01-01T00:00:00+00:00", 0),
        ("uuid", "F79C3E09-677C-4BBD-A479-3F349CB785E7", "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
        ("binary", "000102ff", b"\x00\x01\x02\xff"),
        ("fixed[2]", "AAE=", b"\x00\x01"),
        ("string", "text", "text"),
        ("string", None, None),
        (STRUCT, {"6": 5}, {6: 5}),
        (STRUCT, {}, {6: None}),
        (LIST, [1, None], [1, None]),
        (MAP, {"keys": ["a"], "values": [1]}, [("a", 1.0)]),
    ],
)
def test_single_values(kind: Any, raw: Any, value: Any) -> None:
    found = parse_value(parse_type(kind), raw)
    assert found == value
    assert type(found) is type(value)


FIELDS = [
    {"id": 1, "name": "Id", "type": "long", "required": True, "doc": "its number"},
    {"id": 2, "name": "st", "type": {"type": "struct", "fields": [{"id": 7, "name": "Inner", "type": LIST}]}},
    {"id": 8, "name": "id", "type": "int", "initial-default": 5},
    {"id": 9, "name": "m", "type": MAP},
]


@pytest.fixture
def schema() -> Schema:
    return parse_schema({"schema-id": 3, "fields": FIELDS})


def test_fields_are_found_by_id_and_by_name(schema: Schema) -> None:
    assert schema.schema_id == 3
    assert schema.field_ids() == (1, 2, 7, 3, 8, 9, 4, 5)
    assert schema.path(3) == ("st", "Inner", "element")
    assert schema.top_level(3).name == "st"
    assert 99 not in schema
    with pytest.raises(KeyError):
        schema.field(99)
    found = schema.find(("st", "Inner"))
    assert found is not None
    assert found.id == 7
    assert schema.find(("st", "Inner", "element")) is None  # a name leads through structs alone
    assert schema.find(()) is None
    assert schema.find(("st", "inner")) is None
    assert schema.find(("st", "inner"), case_sensitive=False) == found
    assert schema.find(("ID",), case_sensitive=False) is None, "two columns that differ by case"
    one = schema.find(("id",), case_sensitive=False)
    assert one is not None
    assert (one.id, one.initial_default) == (8, 5)
    assert schema.field(1).doc == "its number"
    assert schema.field(1).required
    assert schema.field(3).required


def test_leaves_are_the_primitive_fields(schema: Schema) -> None:
    assert [[leaf.id for leaf in leaves(field)] for field in schema.fields] == [[1], [3], [8], [4, 5]]
    empty = parse_schema({"fields": [{"id": 1, "name": "st", "type": {"type": "struct", "fields": []}}]})
    assert list(leaves(empty.fields[0])) == []


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"fields": 5},
        {"fields": [5]},
        {"fields": [{"id": 1, "name": "a"}]},
        {"fields": [{"id": "x", "name": "a", "type": "int"}]},
        {"fields": [{"id": 1, "name": "a", "type": 5}]},
        {"fields": [{"id": 1, "name": "a", "type": {"type": "list", "element": "int"}}]},
        {"fields": [{"id": 1, "name": "a", "type": "int", "initial-default": "x"}]},
        {"fields": [{"id": 1, "name": "a", "type": "int"}, {"id": 1, "name": "b", "type": "int"}]},
    ],
    ids=str,
)
def test_schemas_that_are_none(raw: Any) -> None:
    with pytest.raises(CorruptFileError, match="CORRUPT_METADATA"):
        parse_schema(raw)


def test_types_are_plain_values() -> None:
    assert parse_type("decimal(9,2)") == Primitive("decimal", precision=9, scale=2)
    assert len({parse_type(LIST), parse_type(dict(LIST)), parse_type(MAP)}) == 2
