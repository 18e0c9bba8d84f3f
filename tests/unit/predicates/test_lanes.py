"""Arrow arrays as lanes: values and NULLs are those of `to_pylist`, whatever the encoding, slice or width."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from twostage.errors import InternalError
from twostage.predicates.lanes import Numbers, Text, Wide, count_characters, gather, read_lane, read_nulls

DAY = datetime.date(1970, 1, 3)
MOMENT = datetime.datetime(1970, 1, 1, 0, 0, 1)
ARRAYS = {
    "bool": (pa.bool_(), [True, None, False, True], [True, None, False, True]),
    "int8": (pa.int8(), [-1, None, 5, 7], [-1, None, 5, 7]),
    "uint32": (pa.uint32(), [1, None, 2**32 - 1, 7], [1, None, 2**32 - 1, 7]),
    "int64": (pa.int64(), [-(2**63), None, 5, 7], [-(2**63), None, 5, 7]),
    "half": (pa.float16(), [1.5, None, -2.0, 7.0], [1.5, None, -2.0, 7.0]),
    "float": (pa.float32(), [1.5, None, -2.0, 7.0], [1.5, None, -2.0, 7.0]),
    "date": (pa.date32(), [DAY, None, DAY, DAY], [2, None, 2, 2]),
    "time": (pa.time64("us"), [datetime.time(0, 0, 1), None] * 2, [10**6, None] * 2),
    "us": (pa.timestamp("us"), [MOMENT, None] * 2, [10**6, None] * 2),
    "ns": (pa.timestamp("ns", "UTC"), [MOMENT, None] * 2, [10**9, None] * 2),
    "decimal": (pa.decimal128(9, 2), [Decimal("-1.23"), None] * 2, [-123, None] * 2),
    "decimal32": (pa.decimal32(9, 2), [Decimal("-1.23"), None] * 2, [-123, None] * 2),
    "decimal256": (pa.decimal256(38, 2), [Decimal("-1.23"), None] * 2, [-123, None] * 2),
    "string": (pa.string(), ["é", None, "", "abc"], ["é".encode(), None, b"", b"abc"]),
    "large string": (pa.large_string(), ["é", None, "", "abc"], ["é".encode(), None, b"", b"abc"]),
    "string view": (pa.string_view(), ["é", None, "", "a" * 20], ["é".encode(), None, b"", b"a" * 20]),
    "binary": (pa.binary(), [b"\xff", None, b"", b"abc"], [b"\xff", None, b"", b"abc"]),
    "large binary": (pa.large_binary(), [b"\xff", None, b"", b"abc"], [b"\xff", None, b"", b"abc"]),
    "binary view": (pa.binary_view(), [b"\xff", None, b"", b"a" * 20], [b"\xff", None, b"", b"a" * 20]),
    "fixed": (pa.binary(2), [b"ab", None, b"\0\0", b"cd"], [b"ab", None, b"\0\0", b"cd"]),
    "uuid": (pa.uuid(), [b"a" * 16, None] * 2, [b"a" * 16, None] * 2),
}


def make(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if isinstance(kind, pa.UuidType):
        return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
    return pa.array(values, kind)


def values_of(array: pa.Array) -> list[Any]:
    """Return a lane's values, None where `read_nulls` says NULL."""
    lane, nulls = read_lane(array), read_nulls(array)
    match lane:
        case Numbers(numbers):
            found = numbers.tolist()
        case Wide(words, _):
            found = [int.from_bytes(pair.tobytes(), "little", signed=True) for pair in words]
        case Text(offsets, data, _):
            found = [data[a:b].tobytes() for a, b in zip(offsets[:-1], offsets[1:], strict=True)]
    assert len(found) == len(array)
    return [None if nulls is not None and nulls[row] else value for row, value in enumerate(found)]


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize(("start", "length"), [(0, 4), (1, 3), (2, 1), (4, 0)])
def test_a_lane_holds_the_values(name: str, start: int, length: int) -> None:
    kind, given, expected = ARRAYS[name]
    assert values_of(make(kind, given).slice(start, length)) == expected[start : start + length]


@pytest.mark.parametrize("name", ARRAYS)
def test_a_lane_of_no_rows(name: str) -> None:
    assert values_of(make(ARRAYS[name][0], [])) == []


def test_text_tells_strings_from_bytes() -> None:
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        lane = read_lane(pa.array(["a"], kind))
        assert isinstance(lane, Text)
        assert lane.is_string
    lane = read_lane(pa.array([b"ab"], pa.binary(2)))
    assert isinstance(lane, Text)
    assert not lane.is_string


@pytest.mark.parametrize("kind", [pa.list_(pa.int32()), pa.timestamp("ms"), pa.duration("us"), pa.null()])
def test_what_no_filter_compares_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(InternalError, match="BAD_PREDICATE"):
        read_lane(pa.array([None], kind))


def nulls(array: pa.Array) -> list[bool]:
    found = read_nulls(array)
    return [False] * len(array) if found is None else found.tolist()


@pytest.mark.parametrize(
    "array",
    [
        pa.nulls(3),
        pa.array([1, 2, 3]),
        pa.array([1, None, 3])[2:],
        pa.array([[1], None, []]),
        pa.array([{"a": 1}, None]),
        pa.RunEndEncodedArray.from_arrays([2, 3], [None, 7]),
        pa.array(["a", None, "b", "a"]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["x", None])),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["x", None])),
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"a" * 16, None], pa.binary(16))),
    ],
    ids=lambda array: str(array.type),
)
def test_nulls_are_found_in_every_encoding(array: pa.Array) -> None:
    assert nulls(array) == [value is None for value in array.to_pylist()]


def test_the_null_of_a_union_is_its_childs() -> None:
    union = pa.UnionArray.from_sparse(
        pa.array([0, 1], pa.int8()), [pa.array([None, 1]), pa.array(["a", None])]
    )
    assert union.null_count == 0
    assert nulls(union) == [value is None for value in union.to_pylist()]


@pytest.mark.parametrize("chosen", [0, 1, 3, 6, 7, 20])
def test_flags_of_a_dictionarys_values_become_flags_of_rows(chosen: int) -> None:
    codes = np.random.default_rng(chosen).integers(0, 20, 200)
    array = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int16()), pa.array([str(i) for i in range(20)]))
    flags = np.zeros(20, np.bool_)
    flags[:chosen] = True
    assert gather(flags, array).tolist() == flags[codes].tolist()
    assert gather(flags, array[3:50]).tolist() == flags[codes[3:50]].tolist()


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_characters_are_code_points(kind: pa.DataType) -> None:
    texts = ["", "a", "é", "e\u0301", "\U0001f600b", None]
    counted = count_characters(pa.array(texts, kind)).values.tolist()
    assert counted[:5] == [len(text or "") for text in texts[:5]]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_characters_of_bytes_that_are_no_text_are_counted_as_spark_does(kind: pa.DataType) -> None:
    """`UTF8String.numBytesForFirstByte`: by the first byte alone, whatever follows; a stray one counts as one."""
    raw = {
        b"\xff": 1,
        b"\x80\x80": 2,
        b"\xc3": 1,  # says two bytes, ends after one
        b"\xe2\x82": 1,
        b"\xf0\x9f\x98\x80a": 2,
        b"\xc0a": 2,  # 0xC0 begins no character
        b"\xf5abc": 4,
        "é€".encode() + b"\xfe": 3,
        b"": 0,
    }
    binary = pa.large_binary() if kind == pa.large_string() else pa.binary()
    array = pa.array([*raw, None], binary).view(kind)
    assert count_characters(array).values.tolist()[: len(raw)] == list(raw.values())
