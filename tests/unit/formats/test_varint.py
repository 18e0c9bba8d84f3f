"""Variable-length integers: the examples of the formats' specifications, and whatever is written is read again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from twostage.formats.varint import (
    MAX_VARINT_BYTES,
    MAX_WIDE_VARINT_BYTES,
    decode_zigzag,
    decode_zigzags,
    read_varint,
    read_wide_zigzags,
    read_zigzag,
    write_varint,
    write_zigzag,
)

# Avro 1.11 specification, "Binary Encoding": zigzag codes of int and long.
AVRO = [(0, "00"), (-1, "01"), (1, "02"), (-2, "03"), (2, "04"), (-64, "7f"), (64, "8001")]
# ORC specification v1, "Base 128 Varint".
ORC = [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (129, "8101"), (16383, "ff7f"), (16384, "808001")]


@pytest.mark.parametrize(("number", "encoded"), AVRO)
def test_signed_examples_of_avro(number: int, encoded: str) -> None:
    assert write_zigzag(number).hex() == encoded
    assert read_zigzag(bytes.fromhex(encoded), 0) == (number, len(encoded) // 2)


@pytest.mark.parametrize(("number", "encoded"), ORC)
def test_unsigned_examples_of_orc(number: int, encoded: str) -> None:
    assert write_varint(number).hex() == encoded
    assert read_varint(bytes.fromhex(encoded), 0) == (number, len(encoded) // 2)


@settings(deadline=None)
@given(
    st.binary(max_size=5), st.integers(0, 2**64 - 1), st.integers(-(2**63), 2**63 - 1), st.binary(max_size=5)
)
def test_numbers_come_back_from_any_position(before: bytes, plain: int, signed: int, behind: bytes) -> None:
    one, other = write_varint(plain), write_zigzag(signed)
    data = memoryview(before + one + other + behind)
    middle = len(before) + len(one)
    assert read_varint(data, len(before)) == (plain, middle)
    assert read_zigzag(data, middle) == (signed, middle + len(other))
    assert max(len(one), len(other)) <= MAX_VARINT_BYTES


@pytest.mark.parametrize("read", [read_varint, read_zigzag])
def test_a_number_that_does_not_end(read) -> None:
    for data in (b"", b"\x80", b"\xff" * 9):
        with pytest.raises(ValueError, match="cut off"):
            read(data, 0)
    with pytest.raises(ValueError, match="more than ten bytes"):
        read(b"\x80" * 10 + b"\x00", 0)


def test_a_number_is_cut_to_64_bits() -> None:
    """Ten bytes hold 70 bits."""
    assert read_varint(b"\xff" * 9 + b"\x7f", 0) == (2**64 - 1, 10)
    assert read_zigzag(b"\xff" * 9 + b"\x7f", 0) == (-(2**63), 10)


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1), max_size=20))
def test_zigzag_codes_one_by_one_and_as_arrays(codes: list[int]) -> None:
    expected = [code // 2 if code % 2 == 0 else -(code + 1) // 2 for code in codes]
    assert [decode_zigzag(code) for code in codes] == expected
    assert decode_zigzags(np.array(codes, np.uint64)).view(np.int64).tolist() == expected


@settings(deadline=None)
@given(st.lists(st.integers(-(2**127), 2**127 - 1) | st.integers(-300, 300), max_size=20))
def test_wide_numbers_come_back(numbers: list[int]) -> None:
    """The low and the high 64 bits, in two's complement."""
    found = read_wide_zigzags(b"".join(map(write_zigzag, numbers)), len(numbers))
    assert found.shape == (len(numbers), 2)
    bits = [low | high << 64 for low, high in found.tolist()]
    assert bits == [number % 2**128 for number in numbers]


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"\x02", 0),
        (b"\x02", 2),
        (b"", 1),
        (b"\x02\x80", 1),
        (b"\x80", 1),
        (b"\x80" * MAX_WIDE_VARINT_BYTES + b"\x00", 1),
    ],
)
def test_streams_of_other_wide_numbers(data: bytes, count: int) -> None:
    with pytest.raises(ValueError, match="decimal"):
        read_wide_zigzags(data, count)
