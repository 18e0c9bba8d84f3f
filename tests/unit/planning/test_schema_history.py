"""Fields by id in any schema of a table: dropped columns are found, with the newest of their types."""

from __future__ import annotations

from typing import Any

import pytest

from table_metadata import table_metadata
from twostage.errors import CorruptFileError
from twostage.planning.schema_history import key_field, newest_schema, partition_source_types
from twostage.schema import Primitive
from twostage.table.metadata import parse_metadata
from twostage.table.pinned import PinnedTable
from twostage.task import Storage


def field(number: int, name: str, kind: Any) -> dict[str, Any]:
    return {"id": number, "name": name, "type": kind, "required": False}


STRUCT = {"type": "struct", "fields": [field(5, "inner", "int")]}
LIST = {"type": "list", "element-id": 7, "element": STRUCT | {"fields": [field(8, "deep", "int")]}}
MAP = {"type": "map", "key-id": 10, "key": "int", "value-id": 11, "value": "long"}
SCHEMAS = [
    [field(1, "a", "int"), field(2, "dropped", "int"), field(3, "twice", "int")],
    [field(1, "a", "int"), field(2, "dropped later", "long"), field(3, "twice", "int")],
    [field(1, "a", "long"), field(3, "renamed", "int"), field(4, "s", STRUCT), field(6, "l", LIST), field(9, "m", MAP)],
    [field(12, "abandoned", "int")],
]  # fmt: skip
CURRENT = 2
SPECS = [
    {"spec-id": 0, "fields": []},
    {
        "spec-id": 1,
        "fields": [
            {"source-id": 1, "field-id": 1000, "name": "a", "transform": "identity"},
            {"source-id": 2, "field-id": 1001, "name": "d", "transform": "bucket[4]"},
            {"source-id": 99, "field-id": 1002, "name": "unknown", "transform": "identity"},
        ],
    },
    {"spec-id": 2, "fields": [{"source-id": 4, "field-id": 1003, "name": "s", "transform": "identity"}]},
]


def table(schema_id: int = CURRENT) -> PinnedTable:
    """Return the table as of a snapshot with this schema."""
    raw = table_metadata(
        "/t",
        **{
            "schemas": [
                {"type": "struct", "schema-id": n, "fields": fields} for n, fields in enumerate(SCHEMAS)
            ],
            "current-schema-id": CURRENT,
            "partition-specs": SPECS,
        },
    )
    metadata = parse_metadata(raw, location="/t/metadata/v1.metadata.json")
    return PinnedTable(
        name="t",
        metadata=metadata,
        snapshot=metadata.current_snapshot,
        schema=metadata.schemas[schema_id],
        storage=Storage(root="/t"),
    )


@pytest.mark.parametrize(
    ("pinned", "field_id", "expected"),
    [
        (CURRENT, 1, 2),
        (0, 1, 0),  # the scan's own comes first
        (0, 4, 2),
        (CURRENT, 2, 1),  # then the newest that has it
        (CURRENT, 12, 3),
        (CURRENT, 8, 2),  # at any depth
        (CURRENT, 77, None),
    ],
)
def test_the_newest_schema_with_a_field(pinned: int, field_id: int, expected: int | None) -> None:
    found = newest_schema(table(pinned), field_id)
    assert (None if found is None else found.schema_id) == expected


@pytest.mark.parametrize(
    ("field_id", "name", "kind", "is_column"),
    [
        (1, "a", "long", True),
        (2, "dropped later", "long", True),
        (3, "renamed", "int", True),
        (5, "inner", "int", False),
    ],
)
def test_keys_of_equality_deletes(field_id: int, name: str, kind: str, is_column: bool) -> None:
    found, top = key_field(table(), field_id)
    assert (found.name, str(found.type), top) == (name, kind, is_column)


@pytest.mark.parametrize("field_id", [7, 8, 10, 11, 77])
def test_no_key_is_in_a_list_or_map(field_id: int) -> None:
    with pytest.raises(CorruptFileError, match=rf"CORRUPT_MANIFEST.*list or map: {field_id}.*v1\.metadata"):
        key_field(table(), field_id)


def test_types_of_partition_sources() -> None:
    """Of all specs; without those that no schema has, or that are no primitive columns."""
    assert partition_source_types(table()) == {1: Primitive("long"), 2: Primitive("long")}
    assert partition_source_types(table(0)) == {1: Primitive("int"), 2: Primitive("int")}
