"""Packed numbers and bit slices against plain Python."""

from __future__ import annotations

import random

import numpy as np
import pytest

from twostage_native.bit_packing import (
    MAX_WIDTH,
    less_equal,
    pack,
    pack_slices,
    packed_bytes,
    slice_bits,
    unpack,
)


@pytest.mark.parametrize("width", [0, 1, 3, 8, 19, 24, 31, 32, 33, 48, MAX_WIDTH])
@pytest.mark.parametrize("count", [0, 1, 7, 64, 1024])
def test_round_trip(width, count):
    drawn = random.Random(width * 10_000 + count)
    numbers = [drawn.getrandbits(width) if width else 0 for _ in range(count)]
    data = pack(np.array(numbers, np.uint64), width)
    assert len(data) == packed_bytes(count, width)
    as_one = int.from_bytes(data.tobytes(), "little")
    assert as_one == sum(number << place * width for place, number in enumerate(numbers))
    assert unpack(data, count, width).tolist() == numbers


def test_too_few_bytes_are_refused():
    for count, width in ((9, 8), (1, 57), (-1, 3)):
        with pytest.raises(ValueError, match="numbers of"):
            unpack(np.zeros(8, np.uint8), count, width)


@pytest.mark.parametrize("rows", [1, 64, 65, 1000])
def test_slices_compare(rows):
    drawn = np.random.default_rng(rows)
    values = drawn.integers(0, 256, rows).astype(np.uint64)
    slices = slice_bits(values, 8).view(np.uint64)
    for bound in (0, 1, 100, 255):
        bits = np.unpackbits(less_equal(slices, bound).view(np.uint8), count=rows, bitorder="little")
        assert (bits.astype(bool) == (values <= bound)).all()


@pytest.mark.parametrize("rows", [0, 1, 64, 65, 200_000])
@pytest.mark.parametrize("step", [1, 63, 64, 1000, 300_000])
def test_chunks_of_any_length_are_sliced_as_one(rows, step):
    if rows > 1000 * step:
        step = 999
    values = np.random.default_rng(rows).integers(0, 2**20, rows).astype(np.uint64)
    chunks = [values[start : start + step] for start in range(0, rows, step)]
    assert (pack_slices(chunks, 7, rows) == slice_bits(values, 7)).all()
