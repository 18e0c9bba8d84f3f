"""Avro's records as Arrow arrays: the values that fastavro was given, of every type and at every depth."""

from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from twostage.errors import CorruptFileError, ResourceLimitError, UnsupportedFeatureError
from twostage.formats.avro.columns import AvroColumns
from twostage.formats.avro.container import AvroFile, open_avro
from twostage.formats.avro.schema import arrow_schema, parse_schema
from twostage.formats.file_schema import identify

LIMIT = 10**6


def opened(
    fields: dict[str, Any], rows: list[dict[str, Any]], **options: Any
) -> tuple[AvroFile, AvroColumns]:
    """Write rows of fields (name, Avro type) and open them."""
    named = [{"name": name, "type": kind} for name, kind in fields.items()]
    out = io.BytesIO()
    fastavro.writer(out, {"type": "record", "name": "row", "fields": named}, rows, **options)
    file = open_avro(out.getvalue(), path="f.avro", code="CORRUPT_AVRO")
    root = parse_schema(file.schema)
    return file, AvroColumns(root, identify(arrow_schema(root), None))


def decoded(kind: Any, values: list[Any]) -> pa.Array:
    file, columns = opened({"a": kind}, [{"a": value} for value in values])
    (array,) = columns.decode(file, set(range(columns.fields[0].end_leaf)), limit=LIMIT)
    array.validate(full=True)
    assert len(array) == len(values)
    return array


def logical(kind: str, name: str) -> dict[str, str]:
    return {"type": kind, "logicalType": name}


DAY = 86_400_000


@pytest.mark.parametrize(
    ("kind", "values", "arrow"),
    [
        ("boolean", [True, False], pa.bool_()),
        ("int", [-(2**31), 2**31 - 1], pa.int32()),
        ("long", [-(2**63), 2**63 - 1], pa.int64()),
        ("float", [0.5, -0.0], pa.float32()),
        ("double", [0.1, float("inf")], pa.float64()),
        ("string", ["", "é"], pa.string()),
        ("bytes", [b"", b"\xff"], pa.binary()),
        ({"type": "fixed", "name": "f", "size": 2}, [b"ab", b"\0\0"], pa.binary(2)),
        ({"type": "enum", "name": "e", "symbols": ["x", "y"]}, ["y", "x"], pa.string()),
    ],
)
def test_plain_types(kind: Any, values: list[Any], arrow: pa.DataType) -> None:
    found = decoded(kind, values)
    assert (found.type, found.to_pylist()) == (arrow, values)
    assert decoded(kind, []).type == arrow
    for union in (["null", kind], [kind, "null"]):
        assert decoded(union, [None, *values, None]).to_pylist() == [None, *values, None]


def test_a_field_that_is_always_null() -> None:
    file, columns = opened({"a": "null", "b": "int"}, [{"a": None, "b": 1}] * 3)
    (found,) = columns.decode(file, {0}, limit=LIMIT)
    assert found.equals(pa.nulls(3))


@pytest.mark.parametrize(
    ("kind", "name", "arrow"),
    [
        ("int", "date", pa.date32()),
        ("int", "time-millis", pa.time32("ms")),
        ("long", "time-micros", pa.time64("us")),
        ("long", "timestamp-millis", pa.timestamp("ms")),
        ("long", "timestamp-micros", pa.timestamp("us")),
        ("long", "timestamp-nanos", pa.timestamp("ns")),
        ("long", "local-timestamp-millis", pa.timestamp("ms")),
        ("long", "local-timestamp-micros", pa.timestamp("us")),
        ("long", "local-timestamp-nanos", pa.timestamp("ns")),
        ("long", "a name that nobody knows", pa.int64()),
    ],
)
def test_dates_and_times_are_the_numbers_that_are_stored(kind: str, name: str, arrow: pa.DataType) -> None:
    """Also where Python's own dates end."""
    numbers: list[int | None] = [0, 1, None, DAY - 1]
    if not name.startswith("time-"):
        numbers += [-1, -(2**31)] + ([-(2**63), 2**63 - 1] if kind == "long" else [])
    out = io.BytesIO()
    fields = [{"name": "a", "type": ["null", kind]}]  # fastavro takes numbers where no type tells otherwise
    fastavro.writer(out, {"type": "record", "name": "row", "fields": fields}, [{"a": one} for one in numbers])
    file = open_avro(out.getvalue(), path="f.avro", code="CORRUPT_AVRO")
    root = parse_schema({**file.schema, "fields": [{"name": "a", "type": ["null", logical(kind, name)]}]})
    (found,) = AvroColumns(root, identify(arrow_schema(root), None)).decode(file, {0}, limit=LIMIT)
    assert found.type == arrow
    assert found.view(pa.int32() if kind == "int" else pa.int64()).to_pylist() == numbers


def test_dates_and_times_as_fastavro_writes_them() -> None:
    moment = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)
    assert decoded(logical("int", "date"), [moment.date()]).to_pylist() == [moment.date()]
    assert decoded(logical("long", "time-micros"), [moment.time()]).to_pylist() == [moment.time()]
    assert decoded(logical("long", "local-timestamp-micros"), [moment]).to_pylist() == [moment]


@pytest.mark.parametrize(
    ("kind", "name", "day"), [("int", "time-millis", DAY), ("long", "time-micros", DAY * 1000)]
)
def test_a_time_outside_of_the_day_is_an_error(kind: str, name: str, day: int) -> None:
    for number in (-1, day):
        with pytest.raises(ValueError, match="not within"):
            decoded(logical(kind, name), [number])
    assert len(decoded(logical(kind, name), [day - 1])) == 1


def decimal(precision: int, scale: int, size: int | None = None) -> dict[str, Any]:
    """Return a decimal in bytes, or in a fixed of `size` bytes."""
    kind = {"type": "bytes"} if size is None else {"type": "fixed", "name": "f", "size": size}
    return {**kind, "logicalType": "decimal", "precision": precision, "scale": scale}


def number(unscaled: int, scale: int) -> Decimal:
    return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.none() | st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-300, 300), max_size=10),
    st.integers(0, 38),
    st.integers(16, 20),
)
def test_decimals_of_any_length(unscaled: list[int | None], scale: int, size: int) -> None:
    """Big-endian two's complement: in bytes as few as do, or padded; in a fixed all of its size."""
    expected = [None if one is None else number(one, scale) for one in unscaled]
    short = [
        None if one is None else one.to_bytes(one.bit_length() // 8 + 1, "big", signed=True)
        for one in unscaled
    ]
    long = [None if one is None else one.to_bytes(size, "big", signed=True) for one in unscaled]
    for kind, raw in (
        (decimal(38, scale), short),
        (decimal(38, scale), long),
        (decimal(38, scale, size), long),
    ):
        found = decoded(["null", kind], raw)
        assert (found.type, found.to_pylist()) == (pa.decimal128(38, scale), expected)


def test_no_bytes_are_the_decimal_zero() -> None:
    assert decoded(decimal(9, 2), [b"", b"\x01"]).to_pylist() == [Decimal("0.00"), Decimal("0.01")]


@pytest.mark.parametrize(
    "raw", [b"\x03\xe8", b"\xfc\x18", b"\x01" + bytes(16), b"\xfe" + b"\xff" * 16, b"\x00" + b"\xff" * 16]
)
def test_a_decimal_of_more_digits_than_its_precision(raw: bytes) -> None:
    assert decoded(decimal(3, 0), [b"\x03\xe7", b"\xfc\x19"]).to_pylist() == [999, -999]
    with pytest.raises(ValueError, match=r"precision|digits"):
        decoded(decimal(3, 0), [raw])


@pytest.mark.parametrize(("precision", "scale"), [(0, 0), (39, 2), (9, 10), (9, -1)])
def test_decimals_that_iceberg_does_not_have(precision: int, scale: int) -> None:
    out = io.BytesIO()
    fields = [{"name": "a", "type": "bytes"}]
    fastavro.writer(out, {"type": "record", "name": "row", "fields": fields}, [{"a": b"\x01"}])
    file = open_avro(out.getvalue(), path="f.avro", code="CORRUPT_AVRO")
    root = parse_schema({**file.schema, "fields": [{"name": "a", "type": decimal(precision, scale)}]})
    with pytest.raises(UnsupportedFeatureError) as caught:
        AvroColumns(root, identify(arrow_schema(root), None)).decode(file, {0}, limit=LIMIT)
    assert caught.value.code == "UNSUPPORTED_AVRO_TYPE"


INNER = {
    "type": "record",
    "name": "inner",
    "fields": [{"name": "x", "type": ["null", logical("int", "date")]}, {"name": "y", "type": "string"}],
}
PAIR = {
    "type": "record",
    "name": "pair",
    "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": ["null", decimal(9, 2)]}],
}
FIELDS = {
    "s": ["null", INNER],
    "l": ["null", {"type": "array", "items": ["null", "inner"]}],
    "m": ["null", {"type": "array", "logicalType": "map", "items": PAIR}],
    "t": {"type": "map", "values": {"type": "array", "items": "long"}},
}
DATE = dt.date(2020, 2, 29)
ROWS: list[dict[str, Any]] = [
    {
        "s": {"x": DATE, "y": "a"},
        "l": [{"x": None, "y": "b"}, None],
        "m": [{"key": 1, "value": Decimal("1.50")}],
        "t": {"k": [1, 2]},
    },
    {"s": None, "l": None, "m": None, "t": {}},
    {"s": {"x": None, "y": "c"}, "l": [], "m": [], "t": {"k": [], "j": [3]}},
    {
        "s": {"x": DATE, "y": ""},
        "l": [{"x": DATE, "y": "d"}],
        "m": [{"key": 2, "value": None}, {"key": -1, "value": Decimal(0)}],
        "t": {},
    },
]


def test_nested_types_over_several_blocks() -> None:
    file, columns = opened(FIELDS, ROWS * 30, sync_interval=100)
    assert len(file.blocks) > 10
    arrays = columns.decode(file, set(range(8)), limit=LIMIT)
    for array in arrays:
        array.validate(full=True)
    structs, lists, maps, texts = (array.to_pylist() for array in arrays)

    def renamed(value: dict[str, Any] | None) -> dict[str, Any] | None:
        return None if value is None else {"f0": value["x"], "f1": value["y"]}

    assert structs == [renamed(row["s"]) for row in ROWS] * 30
    assert lists == [None if row["l"] is None else [*map(renamed, row["l"])] for row in ROWS] * 30
    assert (
        maps
        == [None if row["m"] is None else [(pair["key"], pair["value"]) for pair in row["m"]] for row in ROWS]
        * 30
    )
    assert texts == [[*row["t"].items()] for row in ROWS] * 30


def test_only_wanted_leaves_are_decoded() -> None:
    """A struct has only the wanted fields; a map whose values nobody wants has NULL for them."""
    file, columns = opened(FIELDS, ROWS)
    structs, maps = columns.decode(file, {1, 4}, limit=LIMIT)
    assert structs.to_pylist() == [None if row["s"] is None else {"f0": row["s"]["y"]} for row in ROWS]
    assert maps.type == pa.map_(pa.int32(), pa.null())
    assert maps.to_pylist()[2:] == [[], [(2, None), (-1, None)]]
    assert columns.decode(file, set(), limit=LIMIT) == []


def test_a_map_with_a_key_that_is_null_is_an_error() -> None:
    pair = {**PAIR, "fields": [{"name": "key", "type": ["null", "int"]}, PAIR["fields"][1]]}
    kind = {"type": "array", "logicalType": "map", "items": pair}
    assert decoded(kind, [[{"key": 1, "value": None}]]).to_pylist() == [[(1, None)]]
    with pytest.raises(ValueError, match="NULL key"):
        decoded(kind, [[{"key": None, "value": None}]])


def test_a_union_of_several_types_is_refused_where_it_is_wanted() -> None:
    file, columns = opened({"a": ["int", "string"], "b": "int"}, [{"a": "x", "b": 1}, {"a": 2, "b": 2}])
    assert columns.decode(file, {1}, limit=LIMIT)[0].to_pylist() == [1, 2]
    with pytest.raises(UnsupportedFeatureError) as caught:
        columns.decode(file, {0}, limit=LIMIT)
    assert caught.value.code == "UNSUPPORTED_AVRO_TYPE"


def test_blocks_are_checked_and_bounded_even_where_nothing_is_wanted() -> None:
    file, columns = opened({"a": "string"}, [{"a": "x" * 1000}] * 10)
    for wanted in ({0}, set()):
        with pytest.raises(ResourceLimitError):
            columns.decode(file, wanted, limit=1000)
    count, packed = file.blocks[0]
    for wrong in ((count - 1, packed), (count, packed[:-1])):
        broken = AvroFile(
            path=file.path,
            code=file.code,
            metadata=file.metadata,
            schema=file.schema,
            codec=file.codec,
            blocks=(wrong,),
        )
        for wanted in ({0}, set()):
            with pytest.raises(CorruptFileError):
                columns.decode(broken, wanted, limit=LIMIT)


def test_floats_keep_their_bits() -> None:
    values = np.frombuffer(np.array([0x7FC00001, 0x80000000, 1], np.uint32).tobytes(), np.float32)
    found = decoded("float", values.tolist())
    assert np.isnan(found[0].as_py())
    assert found.to_numpy()[1:].tobytes() == values[1:].tobytes()
