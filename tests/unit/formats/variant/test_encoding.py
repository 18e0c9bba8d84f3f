"""Variants' bytes, against a decoder that shares no code with ours: what is written is read, what does not fit is refused."""

from __future__ import annotations

import datetime
import itertools
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from twostage.formats.variant.encoding import (
    NULL,
    Names,
    encode_array,
    encode_object,
    encode_scalars,
    is_object,
    read_object,
)
from variant_rows import decoded, metadata_of, text

EMPTY = metadata_of()


def scalars(array: pa.Array) -> list[Any]:
    found = encode_scalars(array)
    assert found.null_count == array.null_count
    return [None if value is None else (value[0] >> 2, value[1:]) for value in found.to_pylist()]


@pytest.mark.parametrize(
    ("kind", "values", "number", "form"),
    [
        (pa.int8(), [1, -1], 3, "<b"),
        (pa.int16(), [1, -300], 4, "<h"),
        (pa.int32(), [1, -(2**31)], 5, "<i"),
        (pa.int64(), [1, -(2**63)], 6, "<q"),
        (pa.float64(), [1.5, -0.0], 7, "<d"),
        (pa.float32(), [1.5, -0.0], 14, "<f"),
    ],
)
@pytest.mark.parametrize("start", [0, 1])
def test_numbers(kind: pa.DataType, values: list[Any], number: int, form: str, start: int) -> None:
    array = pa.array([*values, None], kind)[start:]
    assert scalars(array) == [*((number, struct.pack(form, value)) for value in values), None][start:]


DAY, NOON = datetime.date(2024, 5, 1), datetime.datetime(1969, 12, 31, 12, 0, 0, 1)


@pytest.mark.parametrize(
    ("array", "number", "value"),
    [
        (pa.array([DAY, None]), 11, 19844),
        (pa.array([NOON, None], pa.timestamp("us", "UTC")), 12, -43_199_999_999),
        (pa.array([NOON, None], pa.timestamp("us")), 13, -43_199_999_999),
        (pa.array([5, None], pa.timestamp("ns", "UTC")), 18, 5),
        (pa.array([5, None], pa.timestamp("ns")), 19, 5),
        (pa.array([datetime.time(0, 0, 1), None], pa.time64("us")), 17, 10**6),
    ],
)
def test_moments(array: pa.Array, number: int, value: int) -> None:
    (kind, raw), nothing = scalars(array)
    assert (kind, int.from_bytes(raw, "little", signed=True), nothing) == (number, value, None)


@pytest.mark.parametrize(
    ("precision", "values", "number"),
    [
        (9, [Decimal("1.20"), Decimal("-1.20")], 8),
        (18, [Decimal("1.20"), Decimal("12345678901234.56")], 9),
        (38, [Decimal("1.20"), Decimal(10**30)], 10),
    ],
)
def test_decimals(precision: int, values: list[Decimal], number: int) -> None:
    *found, nothing = scalars(pa.array([*values, None], pa.decimal128(precision, 2)))
    assert nothing is None
    for (kind, raw), value in zip(found, values, strict=True):
        assert (kind, raw[0]) == (number, 2)
        assert Decimal(int.from_bytes(raw[1:], "little", signed=True)) == value * 100


def test_booleans_text_and_bytes() -> None:
    assert scalars(pa.array([True, False, None])) == [(1, b""), (2, b""), None]
    long = "é" * 40
    for kind in (pa.string(), pa.large_string()):
        found = encode_scalars(pa.array(["", "é", long, None], kind)).to_pylist()
        assert found[:2] == [text(""), text("é")]  # short strings have their length in the first byte
        assert found[2] == bytes([16 << 2]) + struct.pack("<I", 80) + long.encode()
        assert found[3] is None
    for kind in (pa.binary(), pa.large_binary()):
        assert encode_scalars(pa.array([b"ab", None], kind)).to_pylist() == [b"\x3c\x02\0\0\0ab", None]
    uuid = bytes(range(16))
    assert scalars(pa.array([uuid, None], pa.binary(16))) == [(20, uuid), None]


@pytest.mark.parametrize(
    "array", [pa.array([1], pa.uint8()), pa.array([[1]]), pa.array([1], pa.time32("ms"))]
)
def test_types_that_no_variant_has(array: pa.Array) -> None:
    with pytest.raises(ValueError, match="shredded as"):
        encode_scalars(array)


def test_text_that_is_none() -> None:
    with pytest.raises(ValueError, match="UTF-8"):
        encode_scalars(pa.array([b"\xff"], pa.binary()).view(pa.string()))


def test_no_rows() -> None:
    for kind in (pa.int32(), pa.string(), pa.bool_(), pa.decimal128(9, 2), pa.binary(16)):
        assert encode_scalars(pa.array([], kind)).to_pylist() == []


@settings(deadline=None)
@given(st.lists(st.text(max_size=12), max_size=300))
def test_arrays(values: list[str]) -> None:
    items = [text(value) for value in values]
    offsets = [0, *itertools.accumulate(map(len, items))]
    assert decoded(EMPTY, encode_array(offsets, b"".join(items))) == values


@pytest.mark.parametrize("count", [0, 1, 255, 256, 300])
@pytest.mark.parametrize("size", [0, 30, 300])
def test_objects_of_any_size(count: int, size: int) -> None:
    """Numbers of names, offsets and the count itself take as many bytes as they need."""
    names = [f"n{i:03}" for i in range(count)]
    found = Names(EMPTY)
    ids = [found[name.encode()] for name in names]
    values = [text("x" * min(size, 60))] * count
    raw = encode_object(ids, values)
    assert is_object(raw)
    assert read_object(raw) == list(zip(ids, values, strict=True))
    assert decoded(found.encode(), raw) == dict.fromkeys(names, "x" * min(size, 60))


def test_names_are_added_and_what_was_read_stays() -> None:
    raw = metadata_of("a", "b")
    names = Names(raw)
    assert (names[b"b"], names[b"a"]) == (1, 0)
    assert names.encode() is raw
    assert names[b"new"] == names[b"new"] == 2
    again = Names(names.encode())
    assert [again[name] for name in (b"a", b"b", b"new")] == [0, 1, 2]
    assert again.encode() == names.encode()
    assert Names(metadata_of("a", "a"))[b"a"] == 0  # the first of equal names counts


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x02\x00\x00",
        b"\x01",
        b"\x01\x05\x00",
        b"\x01\x01\x00\x09a",
        b"\x01\x02\x00\x02\x01ab",
        b"\xc1\xff",
    ],
)
def test_metadata_that_is_none(raw: bytes) -> None:
    with pytest.raises(ValueError, match="metadata"):
        Names(raw)


OBJECT = encode_object([0, 1], [text("a"), NULL])


def test_objects_that_reach_beyond_their_end() -> None:
    assert read_object(OBJECT) == [(0, text("a")), (1, NULL)]
    for cut in range(1, len(OBJECT)):
        with pytest.raises((ValueError, IndexError, struct.error)):
            read_object(OBJECT[:cut])
    for raw in (b"", NULL, text("abc"), encode_array([0], b"")):
        assert not is_object(raw)
        with pytest.raises(ValueError, match="shredded as an object"):
            read_object(raw)


def test_fields_that_share_their_bytes_are_refused() -> None:
    """A thousand fields of one 20 kB value would become 20 MB."""
    value = b"\x3c" + struct.pack("<I", 20_000) + bytes(20_000)
    many = 1000
    head = bytes([2 | 3 << 2 | 1 << 4 | 0x40]) + struct.pack("<I", many)
    raw = (
        head
        + struct.pack(f"<{many}H", *range(many))
        + struct.pack(f"<{many + 1}I", *[0] * many, len(value))
        + value
    )
    with pytest.raises(ValueError, match="longer than its bytes"):
        read_object(raw)


@settings(deadline=None)
@given(st.binary(min_size=1, max_size=40))
def test_any_bytes_are_an_object_or_an_error(tail: bytes) -> None:
    raw = bytes([tail[0] & 0xFC | 2]) + tail[1:]
    try:
        found = read_object(raw)
    except (ValueError, IndexError, struct.error):
        return
    assert sum(len(value) for _, value in found) <= len(raw)
