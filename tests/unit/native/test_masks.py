"""Arrow's bit maps as bools, from any bit on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from twostage_native.masks import unpack_bits


@settings(deadline=None)
@given(st.lists(st.booleans(), max_size=100), st.integers(0, 100), st.integers(0, 100))
def test_bits(bits: list[bool], offset: int, length: int) -> None:
    offset = min(offset, len(bits))
    length = min(length, len(bits) - offset)
    packed = np.packbits(np.array(bits, np.bool_), bitorder="little")
    found = unpack_bits(packed, offset, length)
    assert found.dtype == np.bool_
    assert found.tolist() == bits[offset : offset + length]


@pytest.mark.parametrize("length", [0, 8])
def test_only_bytes_that_are_touched_are_read(length: int) -> None:
    assert len(unpack_bits(np.zeros(2, np.uint8), 8, length)) == length
