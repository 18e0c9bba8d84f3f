"""Bitmaps as bytes: what does not fit its file is refused."""

from __future__ import annotations

import numpy as np
import pytest
from pyroaring import BitMap

from twostage.indexes import bitmaps
from twostage.indexes.puffin import BadIndexError


@pytest.mark.parametrize("rows", [[], [0], [5, 70_000], list(range(100_000)), [2**32 - 2]])
def test_round_trip(rows):
    bitmap = BitMap(rows)
    data = bitmaps.serialize(bitmap)
    assert bitmaps.deserialize(data, 2**32 - 1) == bitmap
    if rows:
        with pytest.raises(BadIndexError):
            bitmaps.deserialize(data, rows[-1])


@pytest.mark.parametrize("data", [b"", b"\0" * 7, b"\xff" * 40])
def test_what_is_none_is_refused(data):
    with pytest.raises(BadIndexError):
        bitmaps.deserialize(data, 10)


def test_bits_beyond_the_last_row_do_not_count():
    words = np.full(2, ~np.uint64(0))
    assert bitmaps.of_words(words, 70) == BitMap(range(70)) == bitmaps.whole(70)
    assert bitmaps.of_rows(np.array([3, 1])) == BitMap([1, 3])


@pytest.mark.parametrize("share", [0.0, 0.001, 0.05, 0.06, 0.07, 0.9, 1.0])
@pytest.mark.parametrize("rows", [0, 1, 64, 4096, 65_536, 65_537, 300_001])
def test_bits_become_the_same_bitmap_as_positions(rows, share):
    drawn = np.random.default_rng(rows)
    flags = drawn.random(rows) < share
    packed = np.zeros(-(-rows // 64) * 8, np.uint8)
    packed[: -(-rows // 8)] = np.packbits(flags, bitorder="little")
    bitmap = bitmaps.of_words(packed.view(np.uint64), rows)
    assert bitmap == BitMap(np.flatnonzero(flags).tolist())
    assert bitmaps.deserialize(bitmaps.serialize(bitmap), rows) == bitmap
