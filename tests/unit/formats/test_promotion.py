"""Values of a file's type in the table's: exactly what Iceberg's schema evolution allows, and damage is an error."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from twostage.columns import NULL_TEST, arrow_type
from twostage.errors import CorruptFileError
from twostage.formats import promotion
from twostage.formats.promotion import decode_dictionary, promote, uuid_text
from twostage.schema import Primitive, parse_schema


def kind_of(name: str) -> Primitive:
    """Return a type as Iceberg writes it, such as ``decimal(9,2)``."""
    kind = parse_schema({"schema-id": 0, "fields": [{"id": 1, "name": "c", "type": name}]}).fields[0].type
    assert isinstance(kind, Primitive)
    return kind


def promoted(array: pa.Array, name: str) -> pa.Array:
    built = promote(array, kind_of(name), "f.parquet", "c")
    built.validate(full=True)
    assert built.type == arrow_type(kind_of(name))
    return built


def code_of(array: pa.Array, name: str) -> str:
    """Return the code of the error that the promotion ends in."""
    with pytest.raises(CorruptFileError) as caught:
        promote(array, kind_of(name), "f.parquet", "c")
    assert caught.value.path == "f.parquet"
    return caught.value.code


PROMOTIONS: list[tuple[pa.DataType, list[Any], str, list[Any]]] = [
    (pa.int32(), [1, None], "int", [1, None]),
    (pa.string(), [None, None], "string", [None, None]),
    (pa.int8(), [-128, None], "int", [-128, None]),
    (pa.uint16(), [65535, None], "int", [65535, None]),
    (pa.uint32(), [2**32 - 1, None], "long", [2**32 - 1, None]),
    (pa.float16(), [np.float16(0.5), None], "float", [0.5, None]),
    (pa.string_view(), ["a", None], "string", ["a", None]),
    (pa.binary_view(), [b"a", None], "binary", [b"a", None]),
    (pa.string(), ["a", None], "binary", [b"a", None]),
    (pa.binary(2), [b"ab", None], "binary", [b"ab", None]),
    (pa.date64(), [dt.date(1969, 12, 31), None], "date", [dt.date(1969, 12, 31), None]),
    (pa.time32("ms"), [dt.time(1, 2, 3, 4000), None], "time", [dt.time(1, 2, 3, 4000), None]),
    (pa.null(), [None, None], "long", [None, None]),
    (pa.int64(), [1, 2], "unknown", [None, None]),
    (pa.decimal256(9, 2), [Decimal("1.25"), None], "decimal(9,2)", [Decimal("1.25"), None]),
    (pa.int32(), [1, None, -(2**31)], "long", [1, None, -(2**31)]),
    (pa.float32(), [0.5, None, math.inf], "double", [0.5, None, math.inf]),
    (pa.decimal128(9, 2), [Decimal("1.25"), None], "decimal(20,2)", [Decimal("1.25"), None]),
    (pa.date32(), [dt.date(1969, 12, 31), None], "timestamp", [dt.datetime(1969, 12, 31), None]),
    (pa.large_string(), ["a", None], "string", ["a", None]),
    (pa.dictionary(pa.int32(), pa.string()), ["a", None, "a"], "string", ["a", None, "a"]),
    (pa.binary(), [b"abc", None], "string", ["abc", None]),
    (pa.binary(2), [b"ab", None], "fixed[2]", [b"ab", None]),
    (
        pa.timestamp("ms"),
        [dt.datetime(2020, 1, 1, 0, 0, 0, 1000)],
        "timestamp",
        [dt.datetime(2020, 1, 1, 0, 0, 0, 1000)],
    ),
    (pa.time64("us"), [dt.time(1, 2, 3, 4)], "time", [dt.time(1, 2, 3, 4)]),
]


@pytest.mark.parametrize(("file_type", "values", "target", "expected"), PROMOTIONS)
def test_promotions(file_type: pa.DataType, values: list[Any], target: str, expected: list[Any]) -> None:
    array = pa.array(values, file_type)
    assert promoted(array, target).to_pylist() == expected
    assert promoted(array.slice(1), target).to_pylist() == expected[1:]


@pytest.mark.parametrize(
    ("file_type", "target"),
    [
        (pa.int64(), "int"),
        (pa.uint32(), "int"),
        (pa.uint64(), "long"),
        (pa.int32(), "boolean"),
        (pa.int32(), "float"),
        (pa.int64(), "double"),
        (pa.float64(), "float"),
        (pa.string(), "long"),
        (pa.int32(), "string"),
        (pa.binary(16), "string"),
        (pa.binary(), "uuid"),
        (pa.binary(15), "uuid"),
        (pa.decimal128(9, 2), "decimal(9,3)"),
        (pa.int32(), "date"),
        (pa.timestamp("us"), "date"),
        (pa.date32(), "timestamptz"),
        (pa.int64(), "timestamp"),
        (pa.timestamp("us"), "time"),
        (pa.list_(pa.int32()), "int"),
        (pa.int64(), "variant"),
    ],
)
def test_what_iceberg_does_not_promote_is_refused(file_type: pa.DataType, target: str) -> None:
    assert code_of(pa.nulls(2, file_type), target) == "TYPE_MISMATCH"


def test_a_narrower_decimal_is_refused_where_a_value_does_not_fit() -> None:
    fits = pa.array([Decimal("1234567.01")], pa.decimal128(20, 2))
    assert promoted(fits, "decimal(9,2)").to_pylist() == [Decimal("1234567.01")]
    assert (
        code_of(pa.array([Decimal("123456789.01")], pa.decimal128(20, 2)), "decimal(9,2)") == "TYPE_MISMATCH"
    )


def test_nanoseconds_before_1970_are_floored() -> None:
    array = pa.array([-1, -1000, -1001, 1999, None], pa.int64()).view(pa.timestamp("ns"))
    assert promoted(array, "timestamp").view(pa.int64()).to_pylist() == [-1, -1, -2, 1, None]


@pytest.mark.parametrize("kind", ["timestamp", "timestamptz"])
def test_an_instant_does_not_move_with_the_files_zone(kind: str) -> None:
    array = pa.array([0, 1, None], pa.int64()).view(pa.timestamp("us", tz="America/New_York"))
    assert promoted(array, kind).view(pa.int64()).to_pylist() == [0, 1, None]


def test_a_moment_beyond_64_bits_is_refused() -> None:
    """A thousand times the greatest millisecond is no number of microseconds."""
    most = (2**63 - 1) // 1000
    for number in (most, -most):
        array = pa.array([number, None], pa.int64()).view(pa.timestamp("ms"))
        assert promoted(array, "timestamp").view(pa.int64()).to_pylist() == [number * 1000, None]
    for number in (most + 1, -most - 2):
        array = pa.array([number, None], pa.int64()).view(pa.timestamp("ms"))
        assert code_of(array, "timestamp") == "VALUE_OUT_OF_RANGE"


def test_uuids_become_text() -> None:
    random = np.random.default_rng(5)
    values = [random.bytes(16) if i % 5 else None for i in range(50)]
    array = pa.array(values, pa.binary(16))
    for part in (array, array.slice(7, 20), array.slice(0, 0)):
        expected = [None if v is None else str(uuid.UUID(bytes=v)) for v in part.to_pylist()]
        assert promoted(part, "uuid").to_pylist() == expected
        assert uuid_text(part).to_pylist() == expected


def test_an_extension_type_counts_as_what_stores_it() -> None:
    """pyarrow reads Parquet's UUIDs as an extension type where it is told to."""
    one = uuid.UUID(int=7)
    array = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([one.bytes, None], pa.binary(16)))
    assert promoted(array, "uuid").to_pylist() == [str(one), None]


@pytest.mark.parametrize("kind", ["string", "large_string", "dictionary"])
def test_text_that_is_not_utf8_is_refused(kind: str) -> None:
    raw = pa.array([b"before", b"\xff\xfe", "äöü".encode()], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    if kind == "large_string":
        text = pa.Array.from_buffers(pa.large_string(), 3, raw.cast(pa.large_binary()).buffers())
    if kind == "dictionary":
        text = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int32()), text)
    assert code_of(text, "string") == "CORRUPT_DATA_FILE"
    if kind != "dictionary":  # whose words no row may use
        assert promoted(text.slice(2), "string").to_pylist() == ["äöü"]
        assert promoted(text.slice(0, 1), "string").to_pylist() == ["before"]


def test_a_code_outside_its_dictionary_is_refused() -> None:
    codes, words = pa.array([0, 2, None], pa.int32()), pa.array(["a", "b"])
    array = pa.DictionaryArray.from_arrays(codes, words, safe=False)
    assert code_of(array, "string") == "CORRUPT_DATA_FILE"
    with pytest.raises(CorruptFileError, match="code outside its dictionary"):
        decode_dictionary(array, "f.parquet", "c")


@pytest.mark.parametrize("file_type", [pa.binary(), pa.struct([("metadata", pa.binary())])])
def test_of_a_variant_that_is_only_tested_for_null_nothing_else_is_kept(file_type: pa.DataType) -> None:
    values = [b"x", None] if file_type == pa.binary() else [{"metadata": b"x"}, None]
    built = promote(pa.array(values, file_type), NULL_TEST, "f.parquet", "c")
    assert built.is_valid().to_pylist() == [True, False]


@pytest.mark.parametrize("name", ["geometry", "geography"])
def test_shapes_keep_only_whether_they_are_null(name: str) -> None:
    """In whatever type the file has them: nobody reads their bytes."""
    assert promote(pa.array([1.5, None]), Primitive(name), "f.parquet", "c").to_pylist() == [b"", None]


def test_text_beyond_32_bit_offsets_stays_large(monkeypatch: pytest.MonkeyPatch) -> None:
    array = pa.array(["abc", "ä", None], pa.large_string())
    assert promote(array, kind_of("string"), "f", "c").type == pa.string()
    monkeypatch.setattr(promotion, "MAX_TEXT_BYTES", 4)
    assert promote(array, kind_of("string"), "f", "c").equals(array)
