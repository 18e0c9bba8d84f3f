"""The shape of ORC files, and which columns mean more than their ORC type says."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from twostage.formats.file_schema import identify
from twostage.formats.orc.schema import arrow_schema, meanings
from twostage.formats.orc.tail import OrcType, read_tail
from twostage.schema import parse_schema

NTZ = {"spark.sql.catalyst.type": "timestamp_ntz"}


def field(name: str, kind: pa.DataType, field_id: int | None = None, **more: str) -> pa.Field:
    metadata = more if field_id is None else {"iceberg.id": str(field_id), **more}
    return pa.field(name, kind, metadata=metadata)


def root_of(*fields: pa.Field) -> OrcType:
    """Return the types of a file that pyarrow wrote."""
    out = io.BytesIO()
    orc.write_table(pa.Table.from_pylist([], pa.schema(fields)), out)
    data = out.getvalue()
    return read_tail(pa.BufferReader(data), len(data)).schema


def test_shape_names_and_ids() -> None:
    """Every leaf is binary; ids come from the types' attributes."""
    leaf = pa.binary()
    inner = pa.struct([field("x", pa.int32(), 3), field("y", pa.string())])
    root = root_of(
        field("a", pa.int64(), 1),
        field("s", inner, 2),
        field("l", pa.list_(pa.float64()), 5),
        field("m", pa.map_(pa.string(), pa.struct([("x", pa.int32()), ("y", pa.string())]))),
    )
    found = arrow_schema(root)
    assert found.names == ["a", "s", "l", "m"]
    shape = pa.struct([("x", leaf), ("y", leaf)])
    assert [one.type for one in found] == [
        leaf,
        shape,
        pa.list_(pa.field("element", leaf)),
        pa.map_(leaf, shape),
    ]
    sources = identify(found, None)
    assert [one.id for one in sources] == [1, 2, 5, None]
    assert [one.id for one in sources[1].children] == [3, None]


def meanings_of(fields: list[pa.Field], kinds: dict[int, Any]) -> dict[int, str]:
    """Return the meanings of a file's columns where the table's fields have these types."""
    listed = [{"id": number, "name": f"c{number}", "type": kind} for number, kind in kinds.items()]
    table = parse_schema({"schema-id": 0, "fields": listed})
    root = root_of(*fields)
    return dict(meanings(root.children, identify(arrow_schema(root), None), table))


@pytest.mark.parametrize(
    ("attributes", "kind", "found"),
    [
        ({}, "uuid", "uuid"),
        ({}, "binary", None),
        ({"iceberg.binary-type": "UUID"}, "binary", "uuid"),
        ({"iceberg.binary-type": "FIXED"}, "uuid", None),
    ],
)
def test_what_the_writer_declared_counts_before_the_table(
    attributes: dict[str, str], kind: str, found: str | None
) -> None:
    assert meanings_of([field("c", pa.binary(), 1, **attributes)], {1: kind}).get(1) == found


@pytest.mark.parametrize(
    ("attributes", "kind", "found"),
    [
        ({}, "time", "time"),
        ({}, "long", None),
        ({"iceberg.long-type": "TIME"}, "long", "time"),
        ({"iceberg.long-type": "LONG"}, "time", None),
    ],
)
def test_longs(attributes: dict[str, str], kind: str, found: str | None) -> None:
    assert meanings_of([field("c", pa.int64(), 1, **attributes)], {1: kind}).get(1) == found


def test_sparks_timestamps_without_zone_are_longs() -> None:
    made = pa.field("c", pa.int64(), metadata={"iceberg.id": "1", **NTZ})
    assert meanings_of([made], {1: "timestamp"}) == {1: "micros"}
    assert meanings_of([made], {1: "long"}) == {}


@pytest.mark.parametrize("kind", ["timestamp", "timestamptz", "timestamptz_ns"])
def test_a_timestamp_without_zone_that_the_table_has_as_an_instant(kind: str) -> None:
    plain, instant = field("a", pa.timestamp("us"), 1), field("b", pa.timestamp("us", tz="UTC"), 2)
    expected = {} if kind == "timestamp" else {1: "instant"}
    assert meanings_of([plain, instant], {1: kind, 2: kind}) == expected


def test_columns_at_every_depth_and_those_the_table_lacks() -> None:
    inner = pa.struct([field("x", pa.binary(), 3), field("t", pa.int64(), 4)])
    fields = [field("s", inner, 1), field("other", pa.binary(), 9), field("none", pa.int64())]
    fields.append(field("l", pa.list_(pa.field("element", pa.binary(), metadata={"iceberg.id": "6"})), 5))
    struct = {
        "type": "struct",
        "fields": [{"id": 3, "name": "x", "type": "uuid"}, {"id": 4, "name": "t", "type": "time"}],
    }
    array = {"type": "list", "element-id": 6, "element": "uuid"}
    assert meanings_of(fields, {1: struct, 5: array}) == {2: "uuid", 3: "time", 7: "uuid"}
