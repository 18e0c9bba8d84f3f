"""Schemas of Parquet files: levels and types as pyarrow has them, and lists of elements that make no tree."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from twostage.formats.parquet.footer import read_footer
from twostage.formats.parquet.schema_tree import (
    BYTE_ARRAY,
    FIXED,
    INT32,
    INT64,
    MAX_NESTING,
    PHYSICAL_NAMES,
    REPETITIONS,
    LogicalType,
    SchemaNode,
    read_schema,
)

REQUIRED, OPTIONAL, REPEATED = range(3)
TYPE, LENGTH, REPETITION, NAME, CHILDREN, CONVERTED, SCALE, PRECISION, ID, LOGICAL = range(1, 11)
"""Fields of SchemaElement in parquet.thrift."""


def written(table: pa.Table, **options: Any) -> io.BytesIO:
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out


INNER = pa.struct([pa.field("x", pa.int32(), nullable=False), ("y", pa.list_(pa.string()))])
TYPES = {
    "int": pa.int32(),
    "struct": INNER,
    "list": pa.list_(pa.list_(pa.int64())),
    "map": pa.map_(pa.string(), INNER),
    "fixed": pa.binary(7),
    "decimal": pa.decimal128(20, 3),
}


def test_paths_and_levels_are_pyarrows() -> None:
    out = written(pa.table({name: pa.array([], kind) for name, kind in TYPES.items()}))
    theirs = pq.ParquetFile(out).schema
    leaves = read_footer(pa.BufferReader(out.getvalue()), out.tell(), "p").leaves
    assert len(leaves) == len(theirs)
    for leaf in leaves:
        column = theirs.column(leaf.index)
        assert ".".join(leaf.path) == column.path
        assert leaf.physical_name == column.physical_type
        assert leaf.max_definition == column.max_definition_level
        assert leaf.max_repetition == column.max_repetition_level
        assert leaf.type_length == (column.length if leaf.physical == FIXED else leaf.type_length)


@pytest.mark.parametrize("version", ["1.0", "2.6"])
@pytest.mark.parametrize(
    ("kind", "name", "unit", "utc"),
    [
        (pa.string(), "string", "", False),
        (pa.date32(), "date", "", False),
        (pa.time32("ms"), "time", "millis", False),
        (pa.time64("us"), "time", "micros", False),
        (pa.timestamp("ms"), "timestamp", "millis", False),
        (pa.timestamp("us", tz="UTC"), "timestamp", "micros", True),
        (pa.int64(), None, "", False),
        (pa.float64(), None, "", False),
        (pa.binary(), None, "", False),
    ],
)
def test_logical_types_of_pyarrows_writer(
    version: str, kind: pa.DataType, name: str | None, unit: str, utc: bool
) -> None:  # noqa: FBT001
    out = written(pa.table({"c": pa.nulls(1, kind)}), version=version)
    (leaf,) = read_footer(pa.BufferReader(out.getvalue()), out.tell(), "p").leaves
    assert leaf.logical == (None if name is None else LogicalType(name=name, unit=unit, utc=utc))
    theirs = json.loads(pq.ParquetFile(out).schema.column(0).logical_type.to_json())
    assert theirs["Type"].lower() == (name or "none")
    assert theirs.get("isAdjustedToUTC", False) == utc


@pytest.mark.parametrize(
    ("kind", "signed"),
    [(pa.int8(), True), (pa.int16(), True), (pa.uint8(), False), (pa.uint32(), False), (pa.uint64(), False)],
)
def test_integers_of_other_widths(kind: pa.DataType, signed: bool) -> None:  # noqa: FBT001
    out = written(pa.table({"c": pa.nulls(1, kind)}))
    (leaf,) = read_footer(pa.BufferReader(out.getvalue()), out.tell(), "p").leaves
    assert leaf.logical == LogicalType(name="integer", signed=signed)


# --- schemas made by hand -----------------------------------------------------------------------------------


def element(name: str, **fields: Any) -> dict[int, Any]:
    numbers = {
        "physical": TYPE,
        "length": LENGTH,
        "repetition": REPETITION,
        "children": CHILDREN,
        "converted": CONVERTED,
    }
    numbers |= {"scale": SCALE, "precision": PRECISION, "id": ID, "logical": LOGICAL}
    return {NAME: name.encode(), **{numbers[key]: value for key, value in fields.items()}}


def logical_of(**fields: Any) -> LogicalType | None:
    """Return the logical type of the only leaf."""
    _, (leaf,) = read_schema([element("root", children=1), element("c", **({"physical": INT64} | fields))])
    return leaf.logical


def test_a_tree_made_by_hand() -> None:
    root, leaves = read_schema(
        [
            element("root", children=2, repetition=REPEATED),
            element("s", children=2, repetition=OPTIONAL, id=1),
            element("x", physical=INT32, repetition=REQUIRED, id=2),
            element("l", physical=BYTE_ARRAY, repetition=REPEATED, converted=0),
            element("y", physical=FIXED, length=3),
        ]
    )
    assert [(leaf.index, leaf.path, leaf.field_id) for leaf in leaves] == [
        (0, ("s", "x"), 2),
        (1, ("s", "l"), None),
        (2, ("y",), None),
    ]
    assert [(leaf.max_definition, leaf.max_repetition) for leaf in leaves] == [(1, 0), (2, 1), (0, 0)]
    assert (leaves[2].type_length, leaves[2].repetition) == (3, "required")
    assert (root.repetition, [child.name for child in root.children]) == ("required", ["s", "y"])
    struct: SchemaNode = root.children[0]
    assert (struct.field_id, struct.leaf, [child.leaf for child in struct.children]) == (
        1,
        None,
        list(leaves[:2]),
    )


CONVERTED_TYPES = {
    0: LogicalType(name="string"),
    1: LogicalType(name="map"),
    2: LogicalType(name="map_key_value"),
    3: LogicalType(name="list"),
    4: LogicalType(name="enum"),
    5: LogicalType(name="decimal", precision=9, scale=2),
    6: LogicalType(name="date"),
    7: LogicalType(name="time", unit="millis", utc=True),
    8: LogicalType(name="time", unit="micros", utc=True),
    9: LogicalType(name="timestamp", unit="millis", utc=True),
    10: LogicalType(name="timestamp", unit="micros", utc=True),
    **{number: LogicalType(name="integer", signed=False) for number in range(11, 15)},
    **{number: LogicalType(name="integer") for number in range(15, 19)},
    19: LogicalType(name="json"),
    20: LogicalType(name="bson"),
    21: LogicalType(name="interval"),
    22: LogicalType(name="unknown(22)"),
    -1: LogicalType(name="unknown(-1)"),
}


@pytest.mark.parametrize("number", CONVERTED_TYPES)
def test_converted_types(number: int) -> None:
    """By their number in parquet.thrift, in the words of logical types (LogicalTypes.md, "Compatibility")."""
    assert logical_of(converted=number, precision=9, scale=2) == CONVERTED_TYPES[number]


@pytest.mark.parametrize(
    ("union", "expected"),
    [
        ({1: {}}, LogicalType(name="string")),
        ({5: {1: 2, 2: 9}}, LogicalType(name="decimal", precision=9, scale=2)),
        ({7: {1: False, 2: {3: {}}}}, LogicalType(name="time", unit="nanos")),
        ({8: {1: True, 2: {1: {}}}}, LogicalType(name="timestamp", unit="millis", utc=True)),
        ({10: {1: 32, 2: False}}, LogicalType(name="integer", signed=False)),
        ({14: {}}, LogicalType(name="uuid")),
        ({15: {}}, LogicalType(name="float16")),
        ({16: {}}, LogicalType(name="variant")),
        ({99: {}}, LogicalType(name="unknown(99)")),
        ({}, LogicalType(name="date")),
    ],
)
def test_logical_types_count_before_converted_ones(union: Any, expected: LogicalType) -> None:
    assert logical_of(logical=union, converted=6) == expected


def test_a_groups_converted_type_counts_where_its_logical_type_is_none() -> None:
    """Some writers give the logical type null to a group of a map's pairs."""
    for union, name in (({11: {}}, "map_key_value"), ({3: {}}, "list")):
        root, _ = read_schema(
            [
                element("root", children=1),
                element("g", children=1, logical=union, converted=2),
                element("c", physical=INT32),
            ]
        )
        assert root.children[0].logical == LogicalType(name=name)


LEAF = element("c", physical=INT32)
WRONG: dict[str, list[dict[int, Any]]] = {
    "nothing": [],
    "too few elements": [element("root", children=2), LEAF],
    "too many elements": [element("root", children=1), LEAF, LEAF],
    "a negative count": [element("root", children=-1)],
    "a count beyond the list": [element("root", children=2**40), LEAF],
    "nested too deep": [element("g", children=1)] * (MAX_NESTING + 3) + [LEAF],
    "an unknown physical type": [element("root", children=1), element("c", physical=len(PHYSICAL_NAMES))],
    "a physical type that is no number": [element("root", children=1), element("c", physical=True)],
    "an unknown repetition": [
        element("root", children=1),
        element("c", physical=1, repetition=len(REPETITIONS)),
    ],
    "a negative length": [element("root", children=1), element("c", physical=FIXED, length=-1)],
    "a name that is not UTF-8": [element("root", children=1), {**LEAF, NAME: b"\xff"}],
}


@pytest.mark.parametrize("name", WRONG)
def test_what_makes_no_tree_is_an_error(name: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        read_schema(WRONG[name])
