"""Which column of a file is which field: by id, by the name mapping, by position only where names agree."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from twostage.errors import CorruptFileError, UnsupportedFeatureError
from twostage.formats.file_schema import FileField, cut, find, identify, wanted_leaves
from twostage.schema import Schema, parse_schema


def field(
    name: str, kind: pa.DataType, field_id: int | str | None = None, key: str = "PARQUET:field_id"
) -> pa.Field:
    return pa.field(name, kind, metadata=None if field_id is None else {key: str(field_id)})


def shape(fields: tuple[FileField, ...]) -> list[Any]:
    """Names, ids and leaves at every depth."""
    return [(one.name, one.id, one.first_leaf, one.end_leaf, *shape(one.children)) for one in fields]


NESTED = pa.schema(
    [
        field("a", pa.int32(), 1),
        field("st", pa.struct([field("x", pa.int32(), 3), field("y", pa.string(), 4)]), 2),
        field("xs", pa.list_(field("item", pa.int32(), 6)), 5),
        field(
            "m", pa.map_(field("key", pa.string(), 8).with_nullable(False), field("value", pa.int32(), 9)), 7
        ),
    ]
)


def test_ids_and_leaves_at_every_depth() -> None:
    assert shape(identify(NESTED, None)) == [
        ("a", 1, 0, 1),
        ("st", 2, 1, 3, ("x", 3, 1, 2), ("y", 4, 2, 3)),
        ("xs", 5, 3, 4, ("element", 6, 3, 4)),
        ("m", 7, 4, 6, ("key", 8, 4, 5), ("value", 9, 5, 6)),
    ]


@pytest.mark.parametrize(("raw", "expected"), [("7", 7), ("-1", None), ("x", None), ("", None), ("0", 0)])
def test_ids_as_metadata_has_them(raw: str, expected: int | None) -> None:
    (found,) = identify(pa.schema([field("a", pa.int32(), raw)]), None)
    assert found.id == expected
    (orc,) = identify(pa.schema([field("a", pa.int32(), raw, "iceberg.id")]), None)
    assert orc.id == expected


def test_one_id_on_two_columns() -> None:
    twice = pa.schema([field("a", pa.int32(), 1), field("st", pa.struct([field("x", pa.int32(), 1)]), 2)])
    with pytest.raises(CorruptFileError, match=r"DUPLICATE_FIELD_ID.*: 1; file name"):
        identify(twice, None, path="name")


PLAIN = pa.schema(
    [
        field("a", pa.int32()),
        field("st", pa.struct([field("x", pa.int32()), field("z", pa.int32())])),
        field("xs", pa.large_list(field("anything", pa.int32()))),
        field("m", pa.map_(pa.string(), pa.int32())),
    ]
)
MAPPING = [
    {"field-id": 1, "names": ["other", "a"]},
    {"field-id": 2, "names": ["st"], "fields": [{"field-id": 3, "names": ["x"]}]},
    {"field-id": 5, "names": ["xs"], "fields": [{"field-id": 6, "names": ["element"]}]},
    {"field-id": 7, "names": ["m"], "fields": [{"field-id": 8, "names": ["key"]}, {"names": ["value"]}]},
]


def test_the_name_mapping_gives_ids_to_files_without_any() -> None:
    assert shape(identify(PLAIN, MAPPING)) == [
        ("a", 1, 0, 1),
        ("st", 2, 1, 3, ("x", 3, 1, 2), ("z", None, 2, 3)),
        ("xs", 5, 3, 4, ("element", 6, 3, 4)),
        ("m", 7, 4, 6, ("key", 8, 4, 5), ("value", None, 5, 6)),
    ]
    assert [one.id for one in identify(NESTED, [{"field-id": 99, "names": ["a"]}])] == [1, 2, 5, 7]
    assert [one.id for one in identify(PLAIN, [])] == [None] * 4


def schema(*names: str) -> Schema:
    return parse_schema({"fields": [{"id": i, "name": n, "type": "int"} for i, n in enumerate(names, 1)]})


def test_positions_count_only_where_the_names_agree() -> None:
    two = pa.schema([field("a", pa.int32()), field("b", pa.int32())])
    assert [one.id for one in identify(two, None, schema("a", "b", "c"))] == [1, 2]
    assert [one.id for one in identify(two, None, schema("a"))] == [1, None]
    assert [one.id for one in identify(two, None)] == [None, None]
    with pytest.raises(
        UnsupportedFeatureError, match=r"NO_FIELD_IDS.*column 2 is 'b' in the file and 'c'.*name-mapping"
    ):
        identify(two, None, schema("a", "c"))


TABLE = parse_schema(
    {
        "fields": [
            {"id": 1, "name": "a", "type": "int"},
            {
                "id": 2,
                "name": "st",
                "type": {
                    "type": "struct",
                    "fields": [
                        {"id": 4, "name": "y", "type": "string"},
                        {"id": 44, "name": "new", "type": "int"},
                    ],
                },
            },
            {"id": 5, "name": "xs", "type": {"type": "list", "element-id": 6, "element": "int"}},
            {
                "id": 7,
                "name": "m",
                "type": {"type": "map", "key-id": 8, "key": "string", "value-id": 9, "value": "int"},
            },
            {"id": 70, "name": "absent", "type": "int"},
        ]
    }
)


def leaves(*ids: int, constants: tuple[int, ...] = ()) -> set[int]:
    targets = [TABLE.field(number) for number in ids]
    return wanted_leaves(identify(NESTED, None), targets, constants)


def test_leaves_to_decode() -> None:
    assert leaves(1, 70) == {0}
    assert leaves(1, 70, constants=(1,)) == set()
    assert leaves(2) == {2}  # the sub-field that is wanted
    assert leaves(5, 7) == {3, 4, 5}


def test_a_struct_of_which_the_file_has_no_wanted_field_needs_one_leaf() -> None:
    """It tells where the struct itself is NULL."""
    only_new = parse_schema(
        {
            "fields": [
                {
                    "id": 2,
                    "name": "st",
                    "type": {"type": "struct", "fields": [{"id": 44, "name": "new", "type": "int"}]},
                }
            ]
        }
    )
    assert wanted_leaves(identify(NESTED, None), only_new.fields) == {1}


def test_fields_cut_to_leaves() -> None:
    fields = identify(NESTED, None)
    assert shape(cut(fields, {2, 5})) == [
        ("st", 2, 1, 3, ("y", 4, 2, 3)),
        ("m", 7, 4, 6, ("value", 9, 5, 6)),
    ]
    assert cut(fields, set()) == ()
    found = find(fields, 5)
    assert found is not None
    assert found.name == "xs"
    assert find(fields, 6) is None  # only at this level
