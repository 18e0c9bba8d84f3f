"""Dictionary arrays of pyarrow's Parquet reader: valid ones pass, and codes or text that are damaged do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from twostage.formats.parquet import dictionary_arrays
from twostage.formats.parquet.dictionary_arrays import checked_codes, decode_if_small, is_text
from written_files import Opened

WORDS = pa.array(["a", "bb", "é"])


def coded(
    codes: list[int | None], words: pa.Array = WORDS, index: pa.DataType | None = None
) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes, index or pa.int32()), words, safe=False)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.string(), True),
        (pa.binary(), True),
        (pa.list_(pa.string()), False),
        (pa.int64(), False),
        (pa.binary(3), False),
        (pa.decimal128(9, 2), False),
        (pa.struct([("x", pa.string())]), True),
    ],
)
def test_which_leaves_pyarrow_decodes_to_dictionary_arrays(kind: pa.DataType, expected: bool) -> None:  # noqa: FBT001
    opened = Opened(pa.table({"c": pa.nulls(2, kind)}), [])
    (leaf,) = opened.footer.leaves
    assert is_text(leaf) == expected
    names = [".".join(leaf.path)]
    found = pq.read_table(opened.file, read_dictionary=names).column(0).type
    inner = found.field(0).type if pa.types.is_struct(found) else found
    assert pa.types.is_dictionary(inner) == expected


def test_valid_codes_pass() -> None:
    for chunks in (
        [coded([0, 2, None, 1])],
        [coded([0]), coded([None, 1])],
        [coded([0, 1, 2])[1:], coded([])],
    ):
        column = pa.chunked_array(chunks)
        found = checked_codes(column)
        assert found is not None
        assert found.to_pylist() == column.to_pylist()
        assert pa.types.is_dictionary(found.type)


@pytest.mark.parametrize("codes", [[0, 3], [-1], [None, 2**31 - 1], [0, -(2**31), 1]])
@pytest.mark.parametrize("index", [pa.int32(), pa.int64()])
def test_a_code_without_a_value(codes: list[int | None], index: pa.DataType) -> None:
    for chunks in ([coded(codes, index=index)], [coded([0], index=index), coded(codes, index=index)]):
        assert checked_codes(pa.chunked_array(chunks)) is None


def test_codes_outside_of_a_slice_do_not_count() -> None:
    assert checked_codes(pa.chunked_array([coded([7, 0, 1, 7])[1:3]])).to_pylist() == ["a", "bb"]


def test_the_code_of_a_null_may_be_anything() -> None:
    """Nobody looks it up; Arrow's own validation decides where it is beyond the dictionary."""
    codes = pa.Array.from_buffers(
        pa.int32(), 2, [pa.py_buffer(b"\x01"), pa.py_buffer(np.array([1, 99], np.int32))], null_count=1
    )
    array = pa.DictionaryArray.from_arrays(codes, WORDS, safe=False)
    assert checked_codes(pa.chunked_array([array])).to_pylist() == ["bb", None]


def test_words_that_are_not_utf8() -> None:
    raw = pa.array([b"a", b"\xff"])
    words = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    assert checked_codes(pa.chunked_array([coded([0, 0], words)])) is None
    assert checked_codes(pa.chunked_array([coded([0, 1], raw)])).to_pylist() == [b"a", b"\xff"]


def test_a_column_that_is_not_coded() -> None:
    column: Any = pa.chunked_array([["a", None], ["b"]])
    assert checked_codes(column).equals(pa.array(["a", None, "b"]))
    raw = pa.array([b"\xff"])
    assert checked_codes(pa.chunked_array([pa.Array.from_buffers(pa.string(), 1, raw.buffers())])) is None


def test_values_up_to_what_32_bit_offsets_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes of all rows count, not those of the words."""
    array = coded([2, 2, None, 1])
    monkeypatch.setattr(dictionary_arrays, "MAX_TEXT_BYTES", 6)
    assert decode_if_small(array).equals(pa.array(["é", "é", None, "bb"]))
    monkeypatch.setattr(dictionary_arrays, "MAX_TEXT_BYTES", 5)
    assert decode_if_small(array) is None
    assert decode_if_small(coded([None, None])).equals(pa.nulls(2, pa.string()))
