"""ORC's decimals: varints of any length, each with a scale of its own, exactly or not at all."""

from __future__ import annotations

from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from twostage.formats.orc.decimals import read_decimals


def encode(numbers: list[int]) -> bytes:
    out = bytearray()
    for number in numbers:
        code = number << 1 if number >= 0 else (-number << 1) - 1
        while code >= 128:
            out.append(code & 127 | 128)
            code >>= 7
        out.append(code)
    return bytes(out)


def read(numbers: list[int], scales: list[int], precision: int = 38, scale: int = 2) -> list[Decimal]:
    return read_decimals(encode(numbers), np.array(scales, np.int64), precision, scale).to_pylist()


BIG = st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-300, 300)


@settings(deadline=None)
@given(st.lists(BIG, max_size=20), st.integers(0, 38))
def test_numbers_of_one_scale(numbers: list[int], scale: int) -> None:
    found = read(numbers, [scale] * len(numbers), scale=scale)
    assert found == [Decimal(number).scaleb(-scale, Context(prec=50)) for number in numbers]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-(10**9), 10**9), st.integers(0, 6)), min_size=1, max_size=20))
def test_numbers_of_any_scale(pairs: list[tuple[int, int]]) -> None:
    found = read([number for number, _ in pairs], [scale for _, scale in pairs], scale=6)
    assert found == [Decimal(number).scaleb(-scale) for number, scale in pairs]


@pytest.mark.parametrize(
    ("number", "scale", "precision", "wanted"),
    [
        (123, 3, 9, 2),  # a digit would be cut
        (10**9, 2, 9, 2),  # ten digits
        (10**37, 0, 38, 2),
    ],
)
def test_what_the_type_cannot_hold_exactly_is_refused(
    number: int, scale: int, precision: int, wanted: int
) -> None:
    with pytest.raises(pa.ArrowInvalid):
        read([number], [scale], precision, wanted)


@pytest.mark.parametrize(("number", "scale"), [(1, -1), (1, 39)])
def test_scales_that_no_decimal_has(number: int, scale: int) -> None:
    with pytest.raises(ValueError, match="scale"):
        read([number], [scale])


@pytest.mark.parametrize(
    ("data", "count"),
    [(b"", 1), (b"\x02\x02", 1), (b"\x02", 2), (b"\x02\x80", 1), (b"\x80" * 19 + b"\x01", 1)],
)
def test_streams_that_hold_other_numbers(data: bytes, count: int) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        read_decimals(data, np.full(count, 2), 38, 2)


def test_none() -> None:
    assert read([], []) == []
