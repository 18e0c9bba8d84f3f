"""Values by their number: those of dictionary pages that pyarrow wrote, and only the wanted ones."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from twostage.formats.parquet.dictionary_lookup import (
    MAX_SLICES,
    ByteArrays,
    FixedWidthValues,
    fixed_width_values,
    read_dictionary,
)
from written_files import Opened

COUNTS = (0, 1, MAX_SLICES, MAX_SLICES + 1, 200)
"""Numbers of wanted values: none, some that are sliced one by one, and some that NumPy takes."""


def dictionary_of(values: list[Any], kind: pa.DataType, max_texts: int | None = None, **options: Any) -> Any:
    opened = Opened(pa.table({"c": pa.array(values, kind)}), [], **options)
    (chunk,) = opened.footer.row_groups[0].columns
    assert chunk.dictionary_page_offset is not None
    raw = memoryview(opened.data)[chunk.dictionary_page_offset : chunk.data_page_offset]
    return read_dictionary(raw, opened.footer.leaves[0], chunk, max_texts, verify=True)


def codes_of(count: int, size: int) -> np.ndarray:
    """Return codes in any order, the first and the last among them where there are several."""
    pick = random.Random(count)
    codes = [pick.randrange(size) for _ in range(count)]
    if count > 2:
        codes[:2] = [size - 1, 0]
    return np.array(codes, np.int64)


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("count", COUNTS)
def test_numbers(codec: str, count: int) -> None:
    for kind, layout in ((pa.int64(), "<i8"), (pa.float32(), "<f4")):
        found = dictionary_of(list(range(300)), kind, compression=codec)
        assert isinstance(found, FixedWidthValues)
        assert len(found) == 300
        codes = codes_of(count, 300)
        assert np.frombuffer(b"".join(found.look_up(codes)), layout).tolist() == codes.tolist()


@pytest.mark.parametrize("count", COUNTS)
def test_texts(count: int) -> None:
    values = ["é" * (i % 7) + str(i) for i in range(1, 100)] + [""]
    found = dictionary_of(values * 2, pa.string())
    assert isinstance(found, ByteArrays)
    assert len(found) == 100
    codes = codes_of(count, 100)
    assert found.look_up(codes) == [values[code].encode() for code in codes]


def test_more_texts_than_are_wanted_at_most() -> None:
    assert dictionary_of(["a", "b"], pa.string(), max_texts=1) is None
    assert len(dictionary_of(["a", "b"], pa.string(), max_texts=2)) == 2
    assert len(dictionary_of([1, 2], pa.int64(), max_texts=1)) == 2


def test_a_page_that_is_not_in_order() -> None:
    opened = Opened(pa.table({"c": [1, 2, 3]}), [], compression="none", write_page_checksum=True)
    (chunk,) = opened.footer.row_groups[0].columns
    leaf = opened.footer.leaves[0]
    assert chunk.dictionary_page_offset is not None
    raw = bytearray(opened.data[chunk.dictionary_page_offset : chunk.data_page_offset])
    assert len(read_dictionary(memoryview(raw), leaf, chunk, None, verify=True)) == 3
    assert read_dictionary(memoryview(raw[:-1]), leaf, chunk, None, verify=True) is None
    # A leaf of another width, or of none: booleans have no dictionary.
    for physical in (0, 1, 3):
        assert (
            read_dictionary(memoryview(raw), replace(leaf, physical=physical), chunk, None, verify=True)
            is None
        )
    raw[-1] ^= 1
    assert read_dictionary(memoryview(raw), leaf, chunk, None, verify=True) is None
    changed = read_dictionary(memoryview(raw), leaf, chunk, None, verify=False)
    assert changed.look_up(np.array([0, 2])) == [(1).to_bytes(8, "little"), (3 + 2**56).to_bytes(8, "little")]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("width", [1, 4, 16])
def test_values_of_one_width(count: int, width: int) -> None:
    plain = random.Random(width).randbytes(250 * width)
    places = codes_of(count, 250)
    found = fixed_width_values(memoryview(plain), 250, width, places)
    assert b"".join(found) == b"".join(plain[place * width :][:width] for place in places.tolist())
