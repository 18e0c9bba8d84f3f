"""Fields of delete files: found by id, by name only where the file has no ids, refused where there are two."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from twostage.deletes.files.wanted_fields import WantedField, leaf_arrays, resolve
from twostage.errors import CorruptFileError
from twostage.formats.file_schema import identify
from twostage.task import DeleteFile

DELETE = DeleteFile(
    content="equality",
    format="parquet",
    path="/t/delete.parquet",
    written_path="/t/delete.parquet",
    file_size=1,
    record_count=1,
    sequence_number=1,
)


def field(name: str, kind: pa.DataType, field_id: int | None) -> pa.Field:
    return pa.field(name, kind, metadata=None if field_id is None else {"PARQUET:field_id": str(field_id)})


def find(fields: list[pa.Field], *wanted: WantedField, name_mapping: Any = None) -> list[int | None]:
    """Return the number of the leaf of each wanted field."""
    found = resolve(identify(pa.schema(fields), name_mapping or (), path=DELETE.path), DELETE, wanted)
    return [None if one is None else one.first_leaf for one in found]


def want(field_id: int, *names: str, named: bool = False) -> WantedField:
    return WantedField(field_id=field_id, names=names, named=named)


INNER = pa.struct([field("x", pa.int32(), 11), field("y", pa.string(), 12)])
FIELDS = [field("a", pa.int32(), 1), field("st", INNER, 2), field("b", pa.string(), 3)]


def test_by_id_whatever_the_name() -> None:
    assert find(FIELDS, want(3, "other"), want(1, "a"), want(12, "st", "x")) == [3, 0, 2]


def test_a_field_that_the_file_lacks() -> None:
    assert find(FIELDS, want(9, "a"), want(3, "b")) == [None, 3]  # it has ids, so names say nothing
    assert find(FIELDS, want(9, "a", named=True)) == [0]  # but for the reserved columns of positional deletes


def test_by_name_where_the_file_has_no_ids() -> None:
    inner = pa.struct([field("x", pa.int32(), None), field("y", pa.string(), None)])
    fields = [field("a", pa.int32(), None), field("st", inner, None)]
    assert find(fields, want(1, "a"), want(12, "st", "y"), want(3, "b"), want(4, "st", "z")) == [
        0,
        2,
        None,
        None,
    ]
    mapping = [{"field-id": 7, "names": ["a"]}]
    assert find(fields, want(7, "renamed"), name_mapping=mapping) == [0]


@pytest.mark.parametrize(
    "fields",
    [
        [field("a", pa.int32(), None), field("a", pa.int32(), None)],
        [field("a", pa.struct([field("x", pa.int32(), None)]), None)],
        [field("a", pa.list_(pa.int32()), None)],
    ],
)
def test_what_is_no_single_plain_column_is_refused(fields: list[pa.Field]) -> None:
    with pytest.raises(CorruptFileError, match=r"CORRUPT_DELETE_FILE.*field id 1.*delete\.parquet"):
        find(fields, want(1, "a"))


def test_leaves_come_in_file_order_with_their_parents_nulls() -> None:
    rows = [{"a": 1, "in": {"b": "x"}}, {"a": None, "in": None}, None]
    array = pa.array(rows, pa.struct([("a", pa.int32()), ("in", pa.struct([("b", pa.string())]))]))
    assert [leaf.to_pylist() for leaf in leaf_arrays(array)] == [[1, None, None], ["x", None, None]]
    plain = pa.array([1, 2])
    assert list(leaf_arrays(plain)) == [plain]


@pytest.mark.parametrize(
    "array",
    [pa.array([[1]]), pa.array([{"a": [1]}]), pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32()))],
)
def test_a_key_in_a_list_or_map_is_refused(array: pa.Array) -> None:
    with pytest.raises(ValueError, match="list or map"):
        list(leaf_arrays(array))
