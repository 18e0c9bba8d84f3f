"""Bounds from the statistics of stripes: of files by pyarrow's writer, and messages that prove nothing."""

from __future__ import annotations

import datetime as dt
import io
import math
import struct
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from pyarrow import orc

from twostage.formats.orc import protobuf
from twostage.formats.orc.statistics import CPP, JAVA, PRESTO, TRINO, stripe_bounds
from twostage.formats.orc.tail import OrcType, Stripe, Tail, read_tail
from twostage.formats.varint import write_zigzag
from twostage.predicates.bounds import Bounds
from twostage.schema import Primitive

from .protobuf_writer import blob, number

P = Primitive


def opened(array: pa.Array) -> Tail:
    out = io.BytesIO()
    orc.write_table(pa.table({"a": array}), out)
    return read_tail(pa.BufferReader(out.getvalue()), len(out.getvalue()))


def bounds_of(array: pa.Array, kind: Primitive, meaning: str | None = None) -> Bounds | None:
    tail = opened(array)
    columns = protobuf.parse(tail.stripe_statistics[0]).blobs(1)
    return stripe_bounds(tail, tail.stripes[0], columns, tail.schema.children[0], kind, meaning)


@pytest.mark.parametrize(
    ("arrow", "kind", "values", "lower", "upper"),
    [
        (pa.bool_(), P("boolean"), [True, False, None], False, True),
        (pa.bool_(), P("boolean"), [True, True], True, True),
        (pa.bool_(), P("boolean"), [False], False, False),
        (pa.int8(), P("int"), [-128, 127], -128, 127),
        (pa.int32(), P("int"), [3, None, -7], -7, 3),
        (pa.int32(), P("long"), [3, None, -7], -7, 3),
        (pa.int64(), P("long"), [-(2**63), 2**63 - 1], -(2**63), 2**63 - 1),
        (pa.float32(), P("float"), [0.5, None, -1.5], -1.5, 0.5),
        (pa.float32(), P("double"), [0.5, -1.5], -1.5, 0.5),
        (pa.float64(), P("double"), [0.1, math.inf], 0.1, math.inf),
        (pa.date32(), P("date"), [dt.date(1969, 12, 31), dt.date(2020, 1, 1)], -1, 18262),
        (pa.decimal128(9, 2), P("decimal", 9, 2), [Decimal("1.50"), Decimal(-20)], -20, Decimal("1.5")),
        (pa.decimal128(38, 0), P("decimal", 38, 0), [Decimal(10**37), None], 10**37, 10**37),
        (pa.string(), P("string"), ["b", None, "é", "a"], "a", "é"),
    ],
)
def test_of_files_by_pyarrow(
    arrow: pa.DataType, kind: Primitive, values: list[Any], lower: Any, upper: Any
) -> None:
    found = bounds_of(pa.array(values, arrow), kind)
    assert found is not None
    assert (found.lower, found.upper) == (lower, upper)
    assert (found.null_count, found.value_count) == (values.count(None), len(values))
    is_exact = kind.name != "string"  # which a writer may have cut
    assert found.exact_lower == found.exact_upper == is_exact
    assert found.nan_count == (0 if kind.name in ("float", "double") else None)


def test_a_time_is_a_long_that_means_one() -> None:
    array = pa.array([5, 86_400_000_000 - 1])
    found = bounds_of(array, P("time"), "time")
    assert found is not None
    assert (found.lower, found.upper) == (5, 86_400_000_000 - 1)
    for kind, meaning in ((P("time"), None), (P("long"), "time")):
        unknown = bounds_of(array, kind, meaning)
        assert unknown is not None
        assert (unknown.lower, unknown.upper, unknown.null_count) == (None, None, 0)


@settings(deadline=None, max_examples=80)
@given(st.lists(st.integers(-(10**16), 10**16) | st.integers(-2_000_000, 2_000_000), min_size=1, max_size=5))
def test_timestamps_hold_their_rows(micros: list[int]) -> None:
    """Statistics have milliseconds: a bound may be two further out. Before 1970 a writer may be a second late."""
    zones = {"timestamp": None, "timestamptz": "UTC"}
    for name, zone in zones.items():
        array = pa.array(micros, pa.timestamp("us", tz=zone))
        found = bounds_of(array, P(name))
        assert found is not None
        assert found.lower <= min(micros) <= max(micros) <= found.upper
        assert min(micros) - found.lower <= 3_000
        assert found.upper - max(micros) <= 2_000_000
        assert not found.exact_lower
    plain = pa.array(micros, pa.timestamp("us"))
    for kind, meaning in (
        (P("timestamptz"), "instant"),
        (P("timestamptz"), None),
        (P("timestamp"), "instant"),
    ):
        unknown = bounds_of(plain, kind, meaning)
        assert unknown is not None
        assert unknown.lower is unknown.upper is None


def test_nan_makes_both_bounds_unknown() -> None:
    for values in ([1.0, math.nan], [math.nan, 1.0], [math.inf, -math.inf]):
        found = bounds_of(pa.array(values), P("double"))
        assert found is not None
        assert (found.lower, found.upper, found.nan_count) == (None, None, None)


def test_only_null() -> None:
    found = bounds_of(pa.array([None, None], pa.int64()), P("long"))
    assert found is not None
    assert (found.lower, found.upper, found.null_count, found.value_count) == (None, None, 2, 2)


@pytest.mark.parametrize(
    ("arrow", "kind"),
    [
        (pa.int64(), P("int")),
        (pa.float64(), P("float")),
        (pa.decimal128(9, 2), P("decimal", 9, 3)),
        (pa.string(), P("binary")),
        (pa.binary(), P("binary")),
        (pa.int32(), P("date")),
    ],
)
def test_types_of_which_bounds_say_nothing(arrow: pa.DataType, kind: Primitive) -> None:
    """But the number of NULLs counts for every type."""
    found = bounds_of(pa.array([None, None, 1]).cast(pa.string()).cast(arrow), kind)
    assert found is not None
    assert (found.lower, found.upper, found.null_count) == (None, None, 2)


# --- messages made by hand ----------------------------------------------------------------------------------


def made(
    kind: str, message: bytes, target: Primitive, *, rows: int = 10, writer: int = CPP, version: int = 6
) -> Bounds | None:
    """Return the bounds of a column whose statistics are `message`, of a stripe of `rows`."""
    column = OrcType(column=1, kind=kind, names=(), children=(), precision=38, scale=2, attributes={})
    root = replace(column, column=0, kind="struct", names=("a",), children=(column,))
    stripe = Stripe(
        index=0, first_row=0, num_rows=rows, offset=3, index_length=0, data_length=0, footer_length=0
    )
    tail = Tail(
        codec="none",
        block_size=0,
        writer=writer,
        writer_version=version,
        num_rows=rows,
        schema=root,
        num_columns=2,
        stripes=(stripe,),
        stripe_statistics=(b"",),
        num_bytes=0,
    )
    return stripe_bounds(tail, stripe, [b"", message], column, target, None)


def limits(kind: str, part: bytes, target: Primitive) -> tuple[Any, Any]:
    found = made(kind, number(1, 10) + part, target)
    assert found is not None
    return found.lower, found.upper


def signed(tag: int, value: int) -> bytes:
    return bytes([tag << 3]) + write_zigzag(value)


LONGS = blob(2, signed(1, -3) + signed(2, 4))


def test_bounds_made_by_hand() -> None:
    assert limits("long", LONGS, P("long")) == (-3, 4)
    assert limits("long", blob(2, signed(1, -3)), P("long")) == (-3, None)
    assert limits("long", b"", P("long")) == (None, None)


@pytest.mark.parametrize(
    ("writer", "version", "is_known"),
    [
        (JAVA, 0, False),
        (JAVA, 1, True),
        (CPP, 0, True),
        (PRESTO, 0, True),
        (3, 6, False),
        (TRINO, 0, True),
        (5, 6, False),
    ],
)
def test_writers_whose_statistics_count(writer: int, version: int, is_known: bool) -> None:  # noqa: FBT001
    """Java's of before HIVE-8732 could be too narrow; of unknown writers nobody knows."""
    found = made("long", number(1, 10) + LONGS, P("long"), writer=writer, version=version)
    assert (found is not None) == is_known


@pytest.mark.parametrize(
    "message",
    [LONGS, number(1, 11) + LONGS, number(1, 10) + number(10, 1) + LONGS],
    ids=["without a count", "more values than rows", "NULLs, and as many values as rows"],
)
def test_counts_that_contradict_the_rows_prove_nothing(message: bytes) -> None:
    assert made("long", message, P("long")) is None


def test_statistics_of_another_number_of_columns_prove_nothing() -> None:
    tail = opened(pa.array([1, 2]))
    columns = protobuf.parse(tail.stripe_statistics[0]).blobs(1)
    for wrong in (columns[:1], [*columns, b""]):
        assert stripe_bounds(tail, tail.stripes[0], wrong, tail.schema.children[0], P("long"), None) is None


@pytest.mark.parametrize("counts", [b"", number(1, 11), number(1, 1) + number(1, 2)])
def test_booleans_whose_counts_contradict(counts: bytes) -> None:
    assert limits("boolean", blob(5, blob(1, b"\x04")), P("boolean")) == (False, True)
    assert limits("boolean", blob(5, counts), P("boolean")) == (None, None)


def test_doubles_need_a_sum_that_is_a_number() -> None:
    """A NaN that comes first stays minimum and maximum or is skipped; but it always reaches the sum."""

    def doubles(*values: float) -> bytes:
        fixed = b"".join(
            bytes([tag << 3 | 1]) + struct.pack("<d", one) for tag, one in enumerate(values, start=1)
        )
        return blob(3, fixed)

    assert limits("double", doubles(-1.0, 2.0, 1.0), P("double")) == (-1.0, 2.0)
    assert limits("double", doubles(-1.0, 2.0), P("double")) == (None, None)
    assert limits("double", doubles(-1.0, 2.0, math.nan), P("double")) == (None, None)
    assert limits("double", doubles(math.nan, 2.0, 1.0), P("double")) == (None, None)


@pytest.mark.parametrize("text", [b"", b"x", b"NaN", b"Infinity", b"1e38", b"0.001", b"\xff", b"1e-99999999"])
def test_decimals_that_the_column_cannot_hold(text: bytes) -> None:
    target = P("decimal", 38, 2)
    assert limits("decimal", blob(6, blob(1, b"-1.5") + blob(2, b"1e37")), target) == (
        Decimal("-1.5"),
        10**37,
    )
    assert limits("decimal", blob(6, blob(1, text) + blob(2, b"7")), target) == (None, 7)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (blob(1, b"a") + blob(2, b"b"), ("a", "b")),
        (blob(4, b"a") + blob(5, b"b"), ("a", "b")),
        (blob(1, b"a") + blob(4, b"x") + blob(5, b"b"), ("a", "b")),
        (blob(1, b"a\0z") + blob(2, b"b\0"), ("a", "b\x01")),
        (blob(1, b"\xff") + blob(2, b"b"), (None, "b")),
        (b"", (None, None)),
    ],
)
def test_text_whole_or_cut_and_up_to_a_nul(part: bytes, expected: Any) -> None:
    """The C++ writer compares text only up to a NUL character."""
    assert limits("string", blob(4, part), P("string")) == expected


def test_the_second_before_1970_is_read_late() -> None:
    lower, upper = limits("timestamp", blob(9, signed(3, -500) + signed(4, -1)), P("timestamp"))
    assert (lower, upper) == (-501_000, 1_000_000)
    assert limits("timestamp", blob(9, signed(1, -500) + signed(2, 7)), P("timestamp")) == (None, None)
