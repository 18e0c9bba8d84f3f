"""Row group statistics as bounds: of files that pyarrow and DuckDB wrote, and of fields made by hand."""

from __future__ import annotations

import datetime
import io
import math
import random
import struct
import uuid
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from twostage.formats.parquet.file_metadata import ColumnChunk, Footer, RowGroupMetadata, Statistics
from twostage.formats.parquet.footer import read_footer
from twostage.formats.parquet.schema_tree import (
    BYTE_ARRAY,
    DOUBLE,
    FIXED,
    INT32,
    INT64,
    INT96,
    Leaf,
    LogicalType,
    SchemaNode,
)
from twostage.formats.parquet.statistics import row_group_bounds
from twostage.predicates.bounds import Bounds
from twostage.schema import Primitive

P = Primitive
EPOCH = datetime.datetime(1970, 1, 1)
ID = uuid.UUID("f0000000-0000-4000-8000-00000000000a")


def bounds_of(array: pa.Array, kind: Primitive, **options: Any) -> Bounds:
    sink = io.BytesIO()
    pq.write_table(pa.table({"c": array}), sink, **options)
    data = pa.BufferReader(sink.getvalue())
    footer = read_footer(data, data.size(), "p")
    return row_group_bounds(footer, footer.row_groups[0], footer.leaves[0], kind)


MOMENTS = [
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000),
    datetime.datetime(2024, 2, 29, 1, 2, 3, 4_000),
]
MICROS = [(moment - EPOCH) // datetime.timedelta(microseconds=1) for moment in MOMENTS]


@pytest.mark.parametrize(
    ("values", "arrow", "kind", "expected"),
    [
        ([3, -2, None], pa.int32(), P("int"), (-2, 3)),
        ([3, -2, None], pa.int32(), P("long"), (-2, 3)),
        ([3, -2], pa.int8(), P("int"), (-2, 3)),
        ([3, -(2**60)], pa.int64(), P("long"), (-(2**60), 3)),
        ([3, 2], pa.int64(), P("int"), (None, None)),
        ([3, 2], pa.uint32(), P("long"), (None, None)),
        ([3, 2], pa.uint8(), P("int"), (None, None)),
        ([True, False], pa.bool_(), P("boolean"), (False, True)),
        ([1.5, -1.5], pa.float32(), P("double"), (-1.5, 1.5)),
        ([1.5, -1.5, math.nan], pa.float64(), P("double"), (-1.5, 1.5)),
        ([math.nan, None], pa.float64(), P("double"), (None, None)),
        (MOMENTS, pa.timestamp("ms"), P("timestamp"), (MICROS[0], MICROS[1])),
        (MOMENTS, pa.timestamp("us"), P("timestamp"), (MICROS[0], MICROS[1])),
        (MOMENTS, pa.timestamp("us", tz="UTC"), P("timestamptz"), (MICROS[0], MICROS[1])),
        (MOMENTS, pa.timestamp("ns"), P("timestamp_ns"), (MICROS[0] * 1000, MICROS[1] * 1000)),
        ([-1_000_001], pa.timestamp("ns"), P("timestamp"), (-1_001, -1_000)),
        ([datetime.time(0, 0, 1)], pa.time32("ms"), P("time"), (1_000_000, 1_000_000)),
        ([datetime.time(0, 0, 1)], pa.time64("us"), P("time"), (1_000_000, 1_000_000)),
        ([datetime.date(1970, 1, 2)], pa.date32(), P("date"), (1, 1)),
        ([datetime.date(1970, 1, 2)], pa.date32(), P("timestamp"), (None, None)),
        (["b", "é", None], pa.string(), P("string"), ("b", "é")),
        ([b"b", b"\xff"], pa.binary(), P("binary"), (b"b", b"\xff")),
        ([b"ab", b"\xffz"], pa.binary(2), P("fixed", length=2), (b"ab", b"\xffz")),
        ([b"ab", b"\xffz"], pa.binary(2), P("fixed", length=3), (None, None)),
        ([bytes(16), ID.bytes], pa.binary(16), P("uuid"), (str(uuid.UUID(int=0)), str(ID))),
        ([Decimal("-1.5"), Decimal("99.5")], pa.decimal128(30, 1), P("decimal", 38, 1), (Decimal("-1.5"), Decimal("99.5"))),
        ([Decimal("-1.5")], pa.decimal128(30, 1), P("decimal", 38, 2), (None, None)),
        ([Decimal("-1.5")], pa.decimal128(30, 1), P("double"), (None, None)),
    ],
    ids=str,
)  # fmt: skip
def test_of_files_by_pyarrow(values: list[Any], arrow: pa.DataType, kind: Primitive, expected: Any) -> None:
    array = pa.array(values, arrow)
    known = bounds_of(array, kind)
    assert (known.lower, known.upper) == expected
    assert type(known.lower) is type(expected[0])
    assert known.null_count == values.count(None)
    assert known.value_count == len(values)
    assert known.nan_count is None


@pytest.mark.parametrize("precision", [7, 16])
def test_decimals_stored_as_integers(precision: int) -> None:
    array = pa.array([Decimal("-1.25"), Decimal("7.00")], pa.decimal128(precision, 2))
    known = bounds_of(array, P("decimal", precision, 2), store_decimal_as_integer=True)
    assert (known.lower, known.upper) == (Decimal("-1.25"), Decimal("7.00"))


def test_of_a_file_by_duckdb(tmp_path: Path) -> None:
    path = str(tmp_path / "d.parquet")
    duckdb.sql(
        f"COPY (SELECT range::INT AS i, ('v' || range) AS s, (range/4)::DECIMAL(9,2) AS d,"
        f" CASE WHEN range > 90 THEN NULL ELSE range::DOUBLE END AS f FROM range(100)) TO '{path}' (FORMAT PARQUET)"
    )
    with pa.OSFile(path) as file:
        footer = read_footer(file, file.size(), path)
    kinds = [P("int"), P("string"), P("decimal", 9, 2), P("double")]
    expected = [(0, 99), ("v0", "v99"), (Decimal("0.00"), Decimal("24.75")), (0.0, 90.0)]
    for leaf, kind, answer in zip(footer.leaves, kinds, expected, strict=True):
        known = row_group_bounds(footer, footer.row_groups[0], leaf, kind)
        assert (known.lower, known.upper) == answer
    assert row_group_bounds(footer, footer.row_groups[0], footer.leaves[3], P("double")).null_count == 9


def test_nulls_of_a_struct_count_for_its_fields() -> None:
    array = pa.array([None, {"x": None}, {"x": 5}], pa.struct([("x", pa.int32())]))
    assert bounds_of(array, P("int")).null_count == 2


def test_lists_say_nothing() -> None:
    assert bounds_of(pa.array([[1, 2], [3]]), P("long")) == Bounds()


# --- made by hand -----------------------------------------------------------------------------------------


def made(
    physical: int,
    statistics: Statistics | None,
    *,
    logical: LogicalType | None = None,
    ordered: bool = True,
    created_by: str | None = None,
    type_length: int = 0,
    definition: int = 1,
) -> tuple[Footer, RowGroupMetadata, Leaf]:
    leaf = Leaf(
        index=0, path=("c",), field_id=1, physical=physical, type_length=type_length, logical=logical,
        repetition="optional", max_definition=definition, max_repetition=0,
    )  # fmt: skip
    chunk = ColumnChunk(
        codec=0, encodings=(0,), num_values=10, compressed_size=1, uncompressed_size=1,
        data_page_offset=4, dictionary_page_offset=None, statistics=statistics, encoding_stats=None,
        bloom_filter_offset=None, bloom_filter_length=None, offset_index=None, column_index=None,
    )  # fmt: skip
    group = RowGroupMetadata(index=0, num_rows=10, first_row=0, compressed_bytes=1, start=4, columns=(chunk,))
    schema = SchemaNode(name="root", field_id=None, repetition="required", logical=None)
    footer = Footer(
        path="p", file_size=100, num_rows=10, created_by=created_by, schema=schema, leaves=(leaf,),
        row_groups=(group,), ordered=(ordered,), key_values={}, offset=90, raw=b"",
    )  # fmt: skip
    return footer, group, leaf


def limits(kind: Primitive, *arguments: Any, **changed: Any) -> tuple[Any, Any]:
    known = row_group_bounds(*made(*arguments, **changed), kind)
    return known.lower, known.upper


I32 = struct.Struct("<i").pack
F64 = struct.Struct("<d").pack
DECIMAL = LogicalType(name="decimal", precision=9, scale=2)


def test_deprecated_fields_count_only_for_signed_numbers() -> None:
    old = Statistics(old_minimum=I32(-5), old_maximum=I32(6))
    assert limits(P("int"), INT32, old, ordered=False) == (-5, 6)
    assert limits(P("int"), INT32, old, logical=LogicalType(name="integer", signed=False)) == (None, None)
    text = Statistics(old_minimum=b"a", old_maximum=b"b")
    assert limits(P("string"), BYTE_ARRAY, text) == (None, None)
    assert limits(P("fixed", length=1), FIXED, text, type_length=1) == (None, None)
    assert limits(P("timestamp"), INT96, Statistics(old_minimum=bytes(12), old_maximum=bytes(12))) == (
        None,
        None,
    )


def test_new_fields_count_only_where_the_order_is_the_types_own() -> None:
    new = Statistics(minimum=b"a", maximum=b"b")
    assert limits(P("string"), BYTE_ARRAY, new) == ("a", "b")
    assert limits(P("string"), BYTE_ARRAY, new, ordered=False) == (None, None)


@pytest.mark.parametrize(
    ("created_by", "trusted"),
    [
        (None, True),
        ("parquet-mr version 1.12.3 (build x)", True),
        ("parquet-cpp version 1.5.1-SNAPSHOT", False),
        ("parquet-cpp-arrow version 0.17.1", False),
        ("parquet-cpp-arrow version 1.0.0", False),
        ("parquet-cpp-arrow version 12.0.1", True),
    ],
)
def test_decimals_of_writers_that_compared_them_wrongly(created_by: str | None, trusted: bool) -> None:
    raw = Statistics(minimum=b"\xff\xff", maximum=b"\x00\x01")
    expected = (Decimal("-0.01"), Decimal("0.01")) if trusted else (None, None)
    arguments = {"logical": DECIMAL, "type_length": 2, "created_by": created_by}
    assert limits(P("decimal", 9, 2), FIXED, raw, **arguments) == expected


def test_nan_in_statistics_makes_both_unknown() -> None:
    assert limits(P("double"), DOUBLE, Statistics(minimum=F64(1.0), maximum=F64(math.nan))) == (None, None)
    assert limits(P("double"), DOUBLE, Statistics(minimum=F64(-0.0), maximum=F64(0.0))) == (0.0, 0.0)


def test_text_cut_within_a_character_bounds_from_below_only() -> None:
    raw = Statistics(minimum="aé".encode()[:2], maximum="aé".encode()[:2])
    assert limits(P("string"), BYTE_ARRAY, raw) == ("a", None)


@pytest.mark.parametrize(
    ("minimum", "flag", "expected"),
    [(b"a", None, False), (b"a", True, True), (b"a", False, False)],
)
def test_text_is_exact_only_where_the_writer_says_so(
    minimum: bytes, flag: bool | None, expected: bool
) -> None:
    raw = Statistics(minimum=minimum, maximum=minimum, minimum_exact=flag, maximum_exact=flag)
    known = row_group_bounds(*made(BYTE_ARRAY, raw), P("string"))
    assert (known.exact_lower, known.exact_upper) == (expected, expected)


@pytest.mark.parametrize("nulls", [-1, 11, 2**62])
def test_impossible_null_counts_are_unknown(nulls: int) -> None:
    footer, group, leaf = made(INT32, Statistics(null_count=nulls))
    assert row_group_bounds(footer, group, leaf, P("int")).null_count is None
    assert row_group_bounds(footer, group, replace(leaf, max_definition=0), P("int")).null_count == 0


def test_statistics_of_any_bytes_never_raise() -> None:
    rng = random.Random(3)
    kinds = [P("int"), P("long"), P("double"), P("string"), P("binary"), P("uuid"), P("decimal", 9, 2),
             P("fixed", length=4), P("timestamp"), P("boolean"), P("date"), P("time")]  # fmt: skip
    logicals = [None, DECIMAL, LogicalType(name="timestamp", unit="micros"), LogicalType(name="string"),
                LogicalType(name="date"), LogicalType(name="time", unit="millis"), LogicalType(name="uuid")]  # fmt: skip
    reached = 0
    for _ in range(4_000):
        raw = Statistics(
            minimum=rng.randbytes(rng.choice([0, 1, 4, 8, 16, 20])),
            maximum=rng.randbytes(rng.choice([0, 1, 4, 8, 16, 20])),
            null_count=rng.randrange(-2, 12),
        )
        footer, group, leaf = made(
            rng.randrange(8), raw, logical=rng.choice(logicals), type_length=rng.choice([0, 4, 16])
        )
        reached += row_group_bounds(footer, group, leaf, rng.choice(kinds)).lower is not None
    assert reached > 20
    assert INT64 == 2
