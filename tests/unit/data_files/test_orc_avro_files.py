"""ORC and Avro files written by pyarrow and fastavro: every type, layout and codec, compared with what was written."""

from __future__ import annotations

import math
import random
import uuid
from decimal import Decimal

import fastavro
import pyarrow as pa
import pyarrow.orc
import pytest

import oracle
from declared.files import FileOptions, write_rows
from declared.types import Column, MapOf, Struct, walk
from drawn_columns import Values, columns, rows_of
from formats_bounds import assert_bounds_hold
from opened import open_file, read_all, schema_of
from twostage.errors import TwoStageError
from twostage.metrics import Metrics

FORMATS = pytest.mark.parametrize("file_format", ["orc", "avro"])


def same(one: pa.Array, other: pa.Array) -> bool:
    """Compare arrays; NaN equals itself."""
    return one.type == other.type and repr(one.to_pylist()) == repr(other.to_pylist())


@FORMATS
@pytest.mark.parametrize("seed", range(8))
def test_every_type_comes_back(file_format, seed, tmp_path):
    fields = columns()
    values = Values(seed, nulls=(0.0, 0.1, 0.6, 1.0)[seed % 4])
    rows = [values.row(fields) for _ in range(300)]
    path = tmp_path / f"file.{file_format}"
    codec = ("zstd", "snappy", "gzip", "none")[seed % 4]
    options = FileOptions(
        format=file_format, mixed=True, row_group_size=(100, 1000)[seed % 2], compression=codec
    )
    write_rows(path, fields, rows, options)
    schema = schema_of(fields)
    groups = read_all(path, schema)
    assert len(groups) > 1 or file_format == "avro" or seed % 2
    expected = [oracle.project(row, schema.fields) for row in rows]
    assert rows_of(groups) == expected
    with open_file(path, schema) as file:
        known = 0
        for group, arrays in zip(file.row_groups(), groups, strict=True):
            known += assert_bounds_hold(file, group, fields, arrays)
            # Each leaf alone, and each column alone, give the same.
            for place, field in enumerate(schema.fields):
                assert same(file.read(group, [field], "fetch")[0], arrays[place])
            for column, names in walk(fields):
                if (
                    isinstance(column.type, str)
                    and len(names) > 1
                    and not {"element", "key", "value"} & set(names)
                ):
                    top = next(i for i, one in enumerate(fields) if one.name == names[0])
                    array = arrays[top]
                    for name in names[1:]:
                        array = pa.compute.struct_field(array, name)
                    assert same(file.read_leaf(group, column.id), array)
        assert known > 5 or file_format == "avro" or seed % 4 == 3


@FORMATS
def test_ranges_share_the_rows_out(file_format, tmp_path):
    fields = [Column(1, "id", "long"), Column(2, "t", "string")]
    rows = [{1: i, 2: f"text {i}" * 5} for i in range(5000)]
    path = tmp_path / f"file.{file_format}"
    write_rows(path, fields, rows, FileOptions(format=file_format, mixed=True, row_group_size=500))
    size, schema = path.stat().st_size, schema_of(fields)
    for pieces in (2, 3, 7, 50):
        cuts = [size * piece // pieces for piece in range(pieces + 1)]
        found = []
        for start, end in zip(cuts, cuts[1:], strict=False):
            with open_file(path, schema, start=start, length=end - start) as file:
                for group in file.row_groups():
                    ids = file.read(group, schema.fields[:1], "fetch")[0].to_pylist()
                    assert ids == list(range(group.first_row, group.first_row + group.num_rows))
                    found += ids
        assert found == list(range(5000))


@FORMATS
def test_only_wanted_columns_are_read(file_format, tmp_path):
    fields = [Column(1, "id", "long"), Column(2, "t", "string")]
    path = tmp_path / f"file.{file_format}"
    rows = [{1: i, 2: random.Random(i).randbytes(500).hex()} for i in range(1000)]
    write_rows(path, fields, rows, FileOptions(format=file_format, mixed=True))
    metrics = Metrics()
    schema = schema_of(fields)
    with open_file(path, schema, metrics=metrics) as file:
        for group in file.row_groups():
            assert file.read(group, schema.fields[:1], "filter")[0].to_pylist() == [
                *range(group.first_row, group.first_row + group.num_rows)
            ]
    if file_format == "orc":
        assert 0 < metrics.counters["bytes.filter"] < path.stat().st_size / 20


def test_columns_with_one_name_in_a_file(tmp_path):
    """Names do not matter: ids do, even where names are alike or hold dots."""
    target = pa.struct([pa.field("b", pa.int64(), metadata={"iceberg.id": "3"})])
    table = pa.table(
        [pa.array([{"b": 1}, {"b": 2}], target), pa.array([3, 4]), pa.array([5, 6])],
        schema=pa.schema(
            [
                pa.field("a", target, metadata={"iceberg.id": "2"}),
                pa.field("a.b", pa.int64(), metadata={"iceberg.id": "4"}),
                pa.field("a.b", pa.int64(), metadata={"iceberg.id": "5"}),
            ]
        ),
    )
    path = tmp_path / "file.orc"
    pyarrow.orc.write_table(table, str(path))
    schema = schema_of(
        [Column(5, "q", "long"), Column(2, "a", Struct((Column(3, "x", "long"),))), Column(4, "p", "long")]
    )
    (arrays,) = read_all(path, schema)
    assert [array.to_pylist() for array in arrays] == [[5, 6], [{"x": 1}, {"x": 2}], [3, 4]]


def test_timestamps_of_all_years_in_orc(tmp_path):
    moments = [-62135596800000000, -1, 0, 253402300799999999, -2208988800000001, 9223372036854775, None]
    table = pa.table(
        [pa.array(moments, pa.timestamp("us")), pa.array(moments, pa.timestamp("us", "UTC"))],
        schema=pa.schema(
            [
                pa.field("l", pa.timestamp("us"), metadata={"iceberg.id": "1"}),
                pa.field("z", pa.timestamp("us", "UTC"), metadata={"iceberg.id": "2"}),
            ]
        ),
    )
    path = tmp_path / "file.orc"
    pyarrow.orc.write_table(table, str(path))
    fields = [Column(1, "l", "timestamp"), Column(2, "z", "timestamptz")]
    for arrays in read_all(path, schema_of(fields)):
        assert [array.cast(pa.int64()).to_pylist() for array in arrays] == [moments, moments]


def test_statistics_that_may_not_be_trusted(tmp_path):
    """NaN hides values in merged statistics, and the C++ writer compares text up to a zero character."""
    table = pa.table(
        [pa.array([math.nan, 1.0, 100.0]), pa.array(["a\0b", "a\0z", "a\0a"]), pa.array([None, 1, 2])],
        schema=pa.schema(
            [
                pa.field("d", pa.float64(), metadata={"iceberg.id": "1"}),
                pa.field("t", pa.string(), metadata={"iceberg.id": "2"}),
                pa.field("n", pa.int64(), metadata={"iceberg.id": "3"}),
            ]
        ),
    )
    path = tmp_path / "file.orc"
    pyarrow.orc.write_table(table, str(path))
    schema = schema_of([Column(1, "d", "double"), Column(2, "t", "string"), Column(3, "n", "long")])
    with open_file(path, schema) as file:
        (group,) = file.row_groups()
        assert file.bounds(group, 1).lower is None
        text = file.bounds(group, 2)
        assert text.lower <= "a\0a"
        assert text.upper >= "a\0z"
        number = file.bounds(group, 3)
        assert (number.lower, number.upper, number.null_count) == (1, 2, 1)


def avro(path, schema, records, **options):
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "r", "fields": schema}, records, **options)


def test_avro_that_other_writers_write(tmp_path):
    """Named types used twice, text uuids, decimals as bytes, millis, enums, maps, NULL last or alone."""
    path = tmp_path / "file.avro"
    four = {"type": "fixed", "name": "p", "namespace": "n", "size": 4}
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 3}
    fields = [
        {"name": "a", "type": four, "field-id": 1},
        {"name": "b", "type": ["n.p", "null"], "field-id": 3},
        {"name": "u", "type": {"type": "string", "logicalType": "uuid"}, "field-id": 4},
        {"name": "d", "type": ["null", decimal], "field-id": 5},
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}, "field-id": 6},
        {"name": "e", "type": {"type": "enum", "name": "e", "symbols": ["X", "Y"]}, "field-id": 7},
        {"name": "m", "type": {"type": "map", "values": "long", "key-id": 9, "value-id": 10}, "field-id": 8},
        {"name": "z", "type": "null", "field-id": 11},
        {"name": "v", "type": ["int", "string"], "field-id": 12},
    ]
    numbers = [
        Decimal("-0.001"),
        Decimal("99999999999999999999999999999999999.999"),
        None,
        Decimal(0),
        Decimal("-1234.5"),
    ]
    text = str(uuid.UUID(int=5))
    records = [
        {"a": bytes([i] * 4), "b": bytes(4) if i % 2 else None, "u": text, "d": n, "t": -1 - i, "e": "XY"[i % 2],
         "m": {"k": i}, "z": None, "v": i}
        for i, n in enumerate(numbers)
    ]  # fmt: skip
    avro(path, fields, records)
    schema = schema_of(
        [
            Column(1, "a", "fixed[4]"),
            Column(3, "b", "binary"),
            Column(4, "u", "uuid"),
            Column(5, "d", "decimal(38,3)"),
            Column(6, "t", "timestamptz"),
            Column(7, "e", "string"),
            Column(8, "m", MapOf(Column(9, "key", "string", required=True), Column(10, "value", "long"))),
            Column(11, "z", "string"),
        ]
    )
    (arrays,) = read_all(path, schema)
    assert arrays[0].to_pylist() == [bytes([i] * 4) for i in range(5)]
    assert arrays[1].to_pylist() == [None, bytes(4), None, bytes(4), None]
    assert arrays[2].to_pylist() == [text] * 5
    assert arrays[3].to_pylist() == numbers
    assert arrays[4].cast(pa.int64()).to_pylist() == [-1000 * (i + 1) for i in range(5)]
    assert arrays[5].to_pylist() == list("XYXYX")
    assert arrays[6].to_pylist() == [[("k", i)] for i in range(5)]
    assert arrays[7].null_count == 5
    with pytest.raises(TwoStageError, match="UNSUPPORTED_AVRO_TYPE") as raised:
        read_all(path, schema_of([Column(12, "v", "int")]))
    assert "'v'" in str(raised.value)


def test_a_codec_that_is_not_known(tmp_path):
    path = tmp_path / "file.avro"
    avro(path, [{"name": "a", "type": "int", "field-id": 1}], [{"a": 1}])
    path.write_bytes(path.read_bytes().replace(b"\x08null", b"\x08lzzz"))
    with pytest.raises(TwoStageError) as raised:
        read_all(path, schema_of([Column(1, "a", "int")]))
    assert raised.value.code == "UNSUPPORTED_COMPRESSION"
    assert raised.value.path == str(path)


@FORMATS
def test_a_budget_that_is_too_small_is_named(file_format, tmp_path):
    path = tmp_path / f"file.{file_format}"
    fields = [Column(1, "t", "string")]
    write_rows(
        path,
        fields,
        [{1: "x" * 1000}] * 5000,
        FileOptions(format=file_format, mixed=True, compression="gzip"),
    )
    with pytest.raises(TwoStageError, match="task-memory"):
        read_all(path, schema_of(fields), task_memory=20_000)
    groups = read_all(path, schema_of(fields))
    assert sum(len(arrays[0]) for arrays in groups) == 5000
