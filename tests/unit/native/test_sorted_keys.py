"""Ascending numbers in blocks: what was packed comes back, and in how few bits."""

from __future__ import annotations

import random

import numpy as np
import pytest

from twostage_native.sorted_keys import pack_ascending, unpack_ascending


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("count", [8, 64, 1024])
@pytest.mark.parametrize("bits", [0, 1, 10, 11, 24, 40, 52])
def test_round_trip(rows, count, bits):
    seed = random.randrange(2**32)
    print("seed", seed)
    drawn = np.random.default_rng(seed)
    numbers = np.sort(drawn.integers(0, 2**bits, (rows, count)).astype(np.uint64), axis=1)
    if rows == 3:
        numbers[1] = numbers[1, 0]  # all the same
        numbers[2, :-1] = numbers[2, 0]  # all but the last
    packed, widths = pack_ascending(numbers)
    assert len(packed) == len(widths) == rows
    for row, data, width in zip(numbers, packed, widths, strict=True):
        assert len(data) <= (count * (width + 3) + 7) // 8
        found = unpack_ascending(np.frombuffer(data, np.uint8), count, width)
        assert (found + row[0]).tolist() == row.tolist()


@pytest.mark.parametrize("count", [1, 2, 7, 13, 1023])
def test_a_row_of_any_count(count):
    numbers = np.sort(np.random.default_rng(count).integers(0, 2**30, (1, count)).astype(np.uint64), axis=1)
    (data,), (width,) = pack_ascending(numbers)
    found = unpack_ascending(np.frombuffer(data, np.uint8), count, width)
    assert (found + numbers[0, 0]).tolist() == numbers[0].tolist()


def test_scattered_numbers_take_two_and_a_half_bits_beyond_their_distance():
    numbers = np.sort(np.random.default_rng(1).integers(0, 2**32, (1, 64 * 1024)).astype(np.uint64), axis=1)
    packed, _ = pack_ascending(numbers.reshape(64, 1024))
    assert sum(map(len, packed)) * 8 / (64 * 1024) < 16 + 2.6


def test_another_count_is_refused():
    (data,), (width,) = pack_ascending(np.arange(64, dtype=np.uint64).reshape(1, 64) * np.uint64(1000))
    raw = np.frombuffer(data, np.uint8)
    with pytest.raises(ValueError, match="instead of"):
        unpack_ascending(raw, 60, width)
    with pytest.raises(ValueError, match="numbers"):
        unpack_ascending(raw, 64_000, width)
