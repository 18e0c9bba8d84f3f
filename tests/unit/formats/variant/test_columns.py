"""Variant columns as Spark's two byte strings: the parts as a file stores them, in any order, or a typed error."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from twostage.columns import arrow_type
from twostage.errors import CorruptFileError
from twostage.formats.file_schema import FileField, identify
from twostage.formats.variant.columns import variant_column
from twostage.schema import Field, Primitive
from variant_rows import EMPTY, NULL, decoded, shredded, text

TARGET = Field(id=1, name="v", type=Primitive("variant"), required=False)


def column_of(array: pa.Array) -> pa.Array:
    source: FileField = identify(pa.schema([pa.field("v", array.type)]), None)[0]
    built = variant_column(array, source, TARGET, "f.parquet")
    built.validate(full=True)
    assert built.type == arrow_type(TARGET.type)
    return built


def code_of(array: pa.Array) -> str:
    with pytest.raises(CorruptFileError) as caught:
        column_of(array)
    assert caught.value.path == "f.parquet"
    return caught.value.code


def parts(kind: pa.DataType, *names: str) -> pa.DataType:
    return pa.struct([(name, kind) for name in names])


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()])
@pytest.mark.parametrize("names", [("metadata", "value"), ("value", "metadata")])
def test_parts_of_any_kind_of_bytes_and_in_any_order(kind: pa.DataType, names: tuple[str, ...]) -> None:
    rows = [{"metadata": EMPTY, "value": text("x")}, None, {"metadata": EMPTY, "value": NULL}]
    array = pa.array(rows, parts(kind, *names))
    assert column_of(array).to_pylist() == rows
    assert column_of(array.slice(1)).to_pylist() == rows[1:]
    assert column_of(array.slice(0, 0)).to_pylist() == []


def test_a_column_of_nothing_but_null() -> None:
    assert column_of(pa.nulls(3)).to_pylist() == [None] * 3
    assert column_of(pa.nulls(3, parts(pa.binary(), "metadata", "value"))).to_pylist() == [None] * 3


@pytest.mark.parametrize("part", ["metadata", "value"])
def test_a_variant_without_one_of_its_parts_is_an_error(part: str) -> None:
    kind = parts(pa.binary(), "metadata", "value")
    whole: dict[str, Any] = {"metadata": EMPTY, "value": NULL}
    assert code_of(pa.array([whole, {**whole, part: None}], kind)) == "CORRUPT_VARIANT"
    # Where the variant itself is NULL, nothing is missing.
    children = [pa.array([whole[name], None], pa.binary()) for name in kind.names]
    masked = pa.StructArray.from_arrays(children, fields=list(kind), mask=pa.array([False, True]))
    assert column_of(masked).to_pylist() == [whole, None]


@pytest.mark.parametrize(
    "kind",
    [
        pa.binary(),
        parts(pa.binary(), "metadata"),
        parts(pa.binary(), "metadata", "value", "more"),
        parts(pa.binary(), "metadata", "bytes"),
        parts(pa.string(), "metadata", "value"),
        pa.list_(parts(pa.binary(), "metadata", "value")),
    ],
)
def test_what_is_no_variant(kind: pa.DataType) -> None:
    assert code_of(pa.nulls(2, kind)) == "TYPE_MISMATCH"


def test_a_shredded_variant_is_put_together() -> None:
    rows = [{"metadata": EMPTY, "typed_value": "a"}, None, {"metadata": EMPTY, "value": text("b")}]
    found = column_of(pa.array(rows, shredded(pa.string(), metadata=True))).to_pylist()
    assert [row and decoded(row["metadata"], row["value"]) for row in found] == ["a", None, "b"]


def test_parts_that_contradict_each_other_are_an_error() -> None:
    row = {"metadata": EMPTY, "value": NULL, "typed_value": "a"}
    assert code_of(pa.array([row], shredded(pa.string(), metadata=True))) == "CORRUPT_VARIANT"
    assert code_of(pa.array([{"typed_value": "a"}], shredded(pa.string()))) == "CORRUPT_VARIANT"
