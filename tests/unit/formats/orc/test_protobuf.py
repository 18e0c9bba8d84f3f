"""Protocol Buffers messages: what was written comes back, and bytes that are no message are refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from thrift_writer import varint
from twostage.formats.orc.protobuf import parse

from .protobuf_writer import blob, number

ITEMS = st.lists(
    st.tuples(st.integers(1, 40), st.integers(0, 2**64 - 1) | st.binary(max_size=20)), max_size=12
)


@settings(deadline=None)
@given(ITEMS)
def test_fields_come_back_with_all_their_occurrences(items: list[tuple[int, int | bytes]]) -> None:
    raw = b"".join(blob(tag, item) if isinstance(item, bytes) else number(tag, item) for tag, item in items)
    found = parse(raw)
    for tag in range(1, 41):
        mine = [item for other, item in items if other == tag]
        assert found.fields.get(tag, []) == mine
        assert (tag in found) == bool(mine)
        if mine and isinstance(mine[-1], int):
            assert found.number(tag) == mine[-1]
        if mine and all(isinstance(item, bytes) for item in mine):
            assert found.blobs(tag) == mine
            assert found.blob(tag) == mine[-1]


def test_what_is_absent() -> None:
    empty = parse(b"")
    assert (empty.number(1), empty.number(1, 7), empty.blob(1), empty.numbers(1), empty.texts(1)) == (
        0,
        7,
        None,
        [],
        [],
    )


def test_repeated_numbers_packed_or_not() -> None:
    packed = blob(3, varint(300) + varint(1)) + number(3, 5)
    assert parse(packed).numbers(3) == [300, 1, 5]


def test_values_of_fixed_length_are_bytes() -> None:
    assert parse(varint(1 << 3 | 1) + b"12345678" + varint(2 << 3 | 5) + b"1234").blobs(1) == [b"12345678"]


def test_a_field_of_the_other_kind() -> None:
    raw = parse(number(1, 5) + blob(2, b"\xff"))
    with pytest.raises(ValueError, match="field 1 is a number"):
        raw.blobs(1)
    with pytest.raises(ValueError, match="field 2 is not a number"):
        raw.number(2)
    with pytest.raises(ValueError, match="utf-8"):
        raw.texts(2)


@pytest.mark.parametrize(
    "raw",
    [
        b"\x08",  # a key without a value
        b"\x0a\x05abc",  # shorter than it says
        b"\x0a\xff\xff\xff\xff\x0f",
        b"\x09abc",
        b"\x00\x01",  # field 0
        b"\x0b",  # groups have been given up
        b"\xff" * 11,
        b"\x08" + b"\x80" * 10 + b"\x01",
    ],
    ids=bytes.hex,
)
def test_bytes_that_are_no_message(raw: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        parse(raw)


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_an_error(raw: bytes) -> None:
    try:
        found = parse(raw)
    except ValueError:
        return
    assert sum(
        len(item) if isinstance(item, bytes) else 1 for items in found.fields.values() for item in items
    ) <= len(raw)
