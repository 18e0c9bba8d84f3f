"""Avro schemas: types and ids as declared, and projections that fastavro resolves whatever fields are called."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from twostage.formats.avro.schema import MAX_DEPTH, AvroType, arrow_schema, parse_schema, read_schema
from twostage.formats.file_schema import identify


def record(*fields: Any, name: str = "r", **more: Any) -> dict[str, Any]:
    """Return a record of fields (name, type, perhaps its id)."""
    made = [
        {"name": one[0], "type": one[1], **({"field-id": one[2]} if len(one) > 2 else {})} for one in fields
    ]
    return {"type": "record", "name": name, "fields": made, **more}


def type_of(kind: Any) -> AvroType:
    """Return the only field's type."""
    return parse_schema(record(("a", kind))).children[0]


@pytest.mark.parametrize("kind", ["null", "boolean", "int", "long", "float", "double", "string", "bytes"])
def test_primitives(kind: str) -> None:
    assert (
        type_of(kind) == type_of({"type": kind}) == type_of({"type": {"type": kind}}) == AvroType(kind=kind)
    )


@pytest.mark.parametrize(
    ("union", "branches"),
    [
        (["null", "int"], ("null", "type")),
        (["int", "null"], ("type", "null")),
        (["int"], ("type",)),
        ([{"type": "int"}, "null"], ("type", "null")),
    ],
)
def test_what_may_be_null_and_in_which_order(union: Any, branches: tuple[str, ...]) -> None:
    assert type_of(union) == AvroType(kind="int", branches=branches)


def test_unions_of_several_types_are_named_so() -> None:
    found = type_of(["null", "int", "string"])
    assert (found.kind, [part.kind for part in found.parts]) == ("union", ["null", "int", "string"])
    assert type_of(["null"]).kind == "null"


def test_logical_types_keep_their_parameters() -> None:
    fixed = {"type": "fixed", "name": "d", "size": 5, "logicalType": "decimal", "precision": 9, "scale": 2}
    assert type_of(fixed) == AvroType(kind="fixed", size=5, logical="decimal", precision=9, scale=2)
    assert type_of({"type": "long", "logicalType": "timestamp-micros"}).logical == "timestamp-micros"
    assert type_of({"type": "enum", "name": "e", "symbols": ["x", "y"]}).symbols == ("x", "y")


def test_names_and_ids_of_children() -> None:
    """By the table spec: ``field-id``, ``element-id``, ``key-id`` and ``value-id``; sanitized names tell the real one."""
    field = {"name": "_x31", "iceberg-field-name": "1", "type": "int", "field-id": 4}
    root = parse_schema({"type": "record", "name": "r", "fields": [field, {"name": "b", "type": "int"}]})
    assert (root.names, root.ids) == (("1", "b"), (4, None))
    assert type_of({"type": "array", "items": "int", "element-id": 7}).ids == (7,)
    found = type_of({"type": "map", "values": "int", "key-id": 8, "value-id": 9})
    assert (found.kind, found.names, found.ids) == ("map", ("key", "value"), (8, 9))
    assert [child.kind for child in found.children] == ["string", "int"]


@pytest.mark.parametrize("wrong", ["4", -1, True, 4.0, None])
def test_an_id_that_is_none(wrong: Any) -> None:
    assert parse_schema(record(("a", "int", wrong))).ids == (None,)


def test_an_array_of_pairs_is_a_map_where_it_says_so() -> None:
    pair = record(("key", "int", 8), ("value", ["null", "string"], 9), name="k8_v9")
    found = type_of({"type": "array", "logicalType": "map", "items": pair})
    assert (found.kind, found.names, found.ids) == ("map", ("key", "value"), (8, 9))
    assert type_of({"type": "array", "items": pair}).kind == "array"
    three = record(("key", "int"), ("value", "int"), ("more", "int"))
    assert type_of({"type": "array", "logicalType": "map", "items": three}).kind == "array"


def test_references_to_named_types() -> None:
    """By the name, by the full name, and within the namespace that encloses them."""
    inner = record(("x", "int"), name="inner")
    root = parse_schema(record(("a", inner), ("b", "inner"), ("c", ["null", "n.inner"]), namespace="n"))
    first, second, third = root.children
    assert first == second
    assert parse_schema(record(("a", inner), ("b", {"type": "inner"}))).children[1] == first
    assert (third.branches, third.children) == (("null", "type"), first.children)
    with pytest.raises(ValueError, match="unknown type 'other'"):
        parse_schema(record(("a", "other")))


def test_schemas_without_bound_are_refused() -> None:
    """A record within itself; nested too deep; and names that unfold to 2**100 types."""
    with pytest.raises(ValueError, match="nested too deep"):
        parse_schema(record(("a", ["null", "r"])))
    deep: Any = "int"
    for _ in range(MAX_DEPTH + 1):
        deep = {"type": "array", "items": deep}
    with pytest.raises(ValueError, match="nested too deep"):
        parse_schema(record(("a", deep)))
    fields: list[Any] = [("f0", record(("x", "int"), name="t0"))]
    fields += [(f"f{i}", record(("x", f"t{i - 1}"), ("y", f"t{i - 1}"), name=f"t{i}")) for i in range(1, 40)]
    with pytest.raises(ValueError, match="nested too deep"):
        parse_schema(record(*fields))


PAIR = record(("key", "int", 8), ("value", "string", 9), name="pair")
SCHEMA = record(
    ("a", "long", 1),
    ("b", ["null", record(("x", "int", 3), ("y", ["string", "null"], 4), name="inner")], 2),
    ("c", {"type": "array", "items": "double", "element-id": 6}, 5),
    ("d", {"type": "array", "logicalType": "map", "items": PAIR}, 7),
    ("e", {"type": "map", "values": "int", "key-id": 11, "value-id": 12}, 10),
    ("f", {"type": "fixed", "name": "two", "size": 2}, 13),
    ("g", {"type": "enum", "name": "letters", "symbols": ["q", "p"]}, 14),
    ("h", ["null", "int", "string"], 15),
)
ROW = {
    "a": 1,
    "b": {"x": 2, "y": "three"},
    "c": [0.5, 1.5],
    "d": [{"key": 1, "value": "one"}, {"key": 2, "value": "two"}],
    "e": {"k": 4},
    "f": b"ab",
    "g": "p",
    "h": "union",
}
READ = {
    "f0": 1,
    "f1": {"f0": 2, "f1": "three"},
    "f2": [0.5, 1.5],
    "f3": [{"f0": 1, "f1": "one"}, {"f0": 2, "f1": "two"}],
    "f4": [{"f0": "k", "f1": 4}],
    "f5": b"ab",
    "f6": "p",
    "f7": "union",
}
"""The row as `read_schema` has it: fields by their places, maps as pairs."""


def test_the_shape_in_which_fields_are_found() -> None:
    """Every leaf is binary; names, ids and nesting are the file's."""
    found = arrow_schema(parse_schema(SCHEMA))
    assert found.names == list("abcdefgh")
    leaf = pa.binary()
    assert [field.type for field in found] == [
        leaf,
        pa.struct([("x", leaf), ("y", leaf)]),
        pa.list_(pa.field("element", leaf)),
        pa.map_(leaf, leaf),
        pa.map_(leaf, leaf),
        *[leaf] * 3,
    ]
    ids = [(field.id, [child.id for child in field.children]) for field in identify(found, None)]
    assert ids == [(1, []), (2, [3, 4]), (5, [6]), (7, [8, 9]), (10, [11, 12]), (13, []), (14, []), (15, [])]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (None, READ),
        ({0}, {"f0": 1}),
        ({2}, {"f1": {"f1": "three"}}),
        ({1, 3}, {"f1": {"f0": 2}, "f2": [0.5, 1.5]}),
        ({5}, {"f3": [{"f1": "one"}, {"f1": "two"}]}),
        ({6, 8}, {"f4": [{"f0": "k"}], "f5": b"ab"}),
        ({9, 10}, {"f6": "p", "f7": "union"}),
        (set(range(11)), READ),
    ],
)
def test_fastavro_reads_only_the_wanted_leaves(wanted: set[int] | None, expected: Any) -> None:
    root = parse_schema(SCHEMA)
    fields = identify(arrow_schema(root), None)
    written = io.BytesIO()
    fastavro.schemaless_writer(written, SCHEMA, ROW)
    written.seek(0)
    whole, projection = read_schema(root, fields), read_schema(root, fields, wanted)
    assert fastavro.schemaless_reader(written, whole, projection) == expected
    assert written.tell() == len(written.getvalue())
