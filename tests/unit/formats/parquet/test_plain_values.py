"""Plain-encoded values: the bytes of pages that pyarrow wrote are the values that it was given."""

from __future__ import annotations

import datetime as dt
import random
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from twostage.formats.parquet.pages import data_page_header
from twostage.formats.parquet.plain_values import decode, texts, width_of
from twostage.formats.parquet.schema_tree import (
    BOOLEAN,
    BYTE_ARRAY,
    DOUBLE,
    FIXED,
    FLOAT,
    INT32,
    INT64,
    INT96,
    Leaf,
    LogicalType,
)
from written_files import Opened

MOMENT = dt.datetime(2020, 2, 29, 12, 30, 0, 123_000)


def leaf_of(physical: int, logical: LogicalType | None = None, *, length: int = 0) -> Leaf:
    return Leaf(
        index=0,
        path=("c",),
        field_id=None,
        physical=physical,
        type_length=length,
        logical=logical,
        repetition="required",
        max_definition=0,
        max_repetition=0,
    )


def page_of(array: pa.Array, **options: Any) -> tuple[memoryview, Leaf]:
    """Return the bytes of the values in the only page of a file, and its leaf."""
    table = pa.table([array], pa.schema([pa.field("c", array.type, nullable=False)]))
    opened = Opened(table, [], compression="none", use_dictionary=False, **options)
    (chunk,) = opened.footer.row_groups[0].columns
    page = opened.data[chunk.start :][: chunk.compressed_size]
    header = data_page_header(page)
    assert header is not None
    assert header.num_values == len(array)
    return memoryview(page)[header.length :], opened.footer.leaves[0]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int32(), [-(2**31), 0, 2**31 - 1]),
        (pa.int64(), [-(2**63), 2**63 - 1]),
        (pa.float32(), [0.5, -0.0, float("inf")]),
        (pa.float64(), [0.1, -1e300]),
        (pa.date32(), [dt.date(1969, 12, 31), dt.date(9999, 12, 31)]),
        (pa.time32("ms"), [MOMENT.time()]),
        (pa.time64("us"), [dt.time(23, 59, 59, 999_999)]),
        (pa.time64("ns"), [MOMENT.time()]),
        (pa.timestamp("ms"), [MOMENT, dt.datetime(1960, 1, 1)]),
        (pa.timestamp("us"), [MOMENT]),
        (pa.timestamp("ns"), [MOMENT]),
        (pa.timestamp("us", tz="UTC"), [MOMENT.replace(tzinfo=dt.UTC)]),
        (pa.string(), ["", "é" * 100, "x"]),
        (pa.binary(), [b"", b"\xff\x00", b"x" * 1000]),
        (pa.binary(5), [b"12345", bytes(5)]),
        (pa.decimal128(5, 2), [Decimal("1.50"), Decimal("-999.99")]),
        (pa.decimal128(38, 0), [Decimal(10**38 - 1), Decimal(-(10**38) + 1)]),
    ],
)
def test_values_that_pyarrow_wrote(kind: pa.DataType, values: list[Any]) -> None:
    array = pa.array(values, kind)
    plain, leaf = page_of(array)
    found = decode(plain, len(array), leaf)
    found.validate(full=True)
    assert found.equals(array)
    assert decode(plain[:0], 0, leaf).equals(array[:0])
    for wrong in (plain[:-1], bytes(plain) + b"\x00"):
        assert decode(memoryview(wrong), len(array), leaf) is None
    for count in (len(array) - 1, len(array) + 1):
        assert decode(plain, count, leaf) is None


def test_integers_of_other_widths_are_as_wide_as_they_are_stored() -> None:
    leaf = leaf_of(INT32, LogicalType(name="integer"))
    assert decode(memoryview(struct.pack("<2i", -128, 127)), 2, leaf).equals(
        pa.array([-128, 127], pa.int32())
    )


@pytest.mark.parametrize("precision", [1, 9, 10, 18])
def test_decimals_stored_as_integers(precision: int) -> None:
    most = Decimal("9" * precision).scaleb(-1)
    array = pa.array([most, -most, Decimal(0)], pa.decimal128(precision, 1))
    plain, leaf = page_of(array, store_decimal_as_integer=True)
    assert leaf.physical == (INT32 if precision <= 9 else INT64)
    assert decode(plain, 3, leaf).equals(array)


@pytest.mark.parametrize("width", range(1, 17))
def test_decimals_of_any_width(width: int) -> None:
    """Big-endian in two's complement."""
    pick = random.Random(width)
    bits = min(8 * width - 1, 126)
    numbers = [pick.randrange(-(2**bits), 2**bits) for _ in range(20)]
    numbers = [number for number in numbers if abs(number) < 10**38]
    plain = b"".join(number.to_bytes(width, "big", signed=True) for number in numbers)
    leaf = leaf_of(FIXED, LogicalType(name="decimal", precision=38), length=width)
    assert decode(memoryview(plain), len(numbers), leaf).to_pylist() == numbers


def test_a_decimal_of_more_digits_than_its_precision_is_an_error() -> None:
    leaf = leaf_of(INT32, LogicalType(name="decimal", precision=3, scale=1))
    assert decode(memoryview(struct.pack("<i", -999)), 1, leaf).to_pylist() == [Decimal("-99.9")]
    with pytest.raises(pa.ArrowInvalid):
        decode(memoryview(struct.pack("<i", 1000)), 1, leaf)


@pytest.mark.parametrize(
    ("leaf", "width"),
    [
        (leaf_of(INT32), 4),
        (leaf_of(FLOAT), 4),
        (leaf_of(INT64), 8),
        (leaf_of(DOUBLE), 8),
        (leaf_of(FIXED, length=7), 7),
        (leaf_of(BYTE_ARRAY), 0),
        (leaf_of(BOOLEAN), 0),
        (leaf_of(INT96), 0),
    ],
)
def test_widths(leaf: Leaf, width: int) -> None:
    assert width_of(leaf) == width


@pytest.mark.parametrize(
    "leaf",
    [
        leaf_of(BOOLEAN),
        leaf_of(INT96),
        leaf_of(FIXED),
        leaf_of(BYTE_ARRAY, LogicalType(name="decimal", precision=9)),
        leaf_of(FIXED, LogicalType(name="decimal", precision=9), length=17),
        leaf_of(INT32, LogicalType(name="decimal", precision=39)),
        leaf_of(INT32, LogicalType(name="decimal", precision=0)),
    ],
)
def test_leaves_that_are_left_to_pyarrow(leaf: Leaf) -> None:
    width = max(leaf.type_length, 1 if leaf.physical == BOOLEAN else 4)
    assert decode(memoryview(bytes(width * 2)), 2, leaf) is None
    assert decode(memoryview(b""), 0, leaf) is None


def test_text_or_bytes() -> None:
    """Strings, enums, JSON and BSON are text to pyarrow; text that is not UTF-8 is an error."""
    for name in ("string", "enum", "json", "bson"):
        leaf = leaf_of(BYTE_ARRAY, LogicalType(name=name))
        assert texts([b"\xc3\xa9", b""], leaf).equals(pa.array(["é", ""]))
        with pytest.raises(UnicodeDecodeError):
            texts([b"\xff"], leaf)
    assert texts([b"\xff"], leaf_of(BYTE_ARRAY)).equals(pa.array([b"\xff"]))


def test_lengths_that_lie() -> None:
    leaf = leaf_of(BYTE_ARRAY)
    whole = b"\x02\x00\x00\x00ab" + b"\x01\x00\x00\x00c"
    assert decode(memoryview(whole), 2, leaf).to_pylist() == [b"ab", b"c"]
    for wrong in (b"\x03" + whole[1:], b"\xff\xff\xff\xff" + whole[4:], b"\xff\xff\xff\x7f" + whole[4:]):
        assert decode(memoryview(wrong), 2, leaf) is None
