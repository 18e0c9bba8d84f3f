"""Scans handed to Spark's own Parquet reader: the same rows as ours, whatever the types, schemas, settings and files."""

from __future__ import annotations

import math
import os
import struct
from decimal import Decimal
from pathlib import Path

import pytest

from lakehouse import canonical
from native_scans import is_native, items, load, reason, same_rows, simple
from random_values import _EDGES
from tables import Table

DAY, MICROS = 86_400, 1_000_000
COLUMNS = {
    "id": "long!",
    "flag": "boolean",
    "small": "int",
    "big": "long",
    "single": "float",
    "wide": "double",
    "d9": "decimal(9,2)",
    "d18": "decimal(18,4)",
    "d38": "decimal(38,10)",
    "word": "string",
    "bytes": "binary",
    "day": "date",
    "local": "timestamp",
    "moment": "timestamptz",
}
EXACT = (  # what Python's datetime and float reprs would blur
    "id, flag, small, big, single, wide, d9, d18, d38, hex(word) word, hex(bytes) bytes, cast(day AS string) day, "
    "unix_date(day) days, cast(local AS string) local, unix_micros(moment) moment"
)
NINES = {"d9": 9, "d18": 18, "d38": 38}
SCALES = {"d9": 2, "d18": 4, "d38": 10}
MOMENTS = [
    -2_717_650_800 * MICROS,
    -2_717_632_800 * MICROS + 1,
    -12_219_292_800 * MICROS,
    -12_219_379_200 * MICROS,
]
"""1883, when New York's clocks were set back by minutes; the days around 15 October 1582."""


def edge_rows() -> list[dict]:
    """A row for each edge of each type, one of NULLs, and a hundred ordinary ones."""
    edges = {name: list(_EDGES.get(kind.rstrip("!"), ())) for name, kind in COLUMNS.items()}
    for name, digits in NINES.items():
        most, least = Decimal("9" * digits + f"E-{SCALES[name]}"), Decimal(f"1E-{SCALES[name]}")
        edges[name] = [most, most.copy_negate(), least, -least, Decimal(0)]
    edges["word"] += ["", " ", "x" * 1000]
    edges["day"] += [-141427, -141428, -141438, 719162]
    edges["local"] = edges["local"] + MOMENTS
    edges["moment"] = edges["moment"] + MOMENTS
    rows = []
    for number in range(max(map(len, edges.values()))):
        rows.append({name: values[number] for name, values in edges.items() if number < len(values)})
    rows.append({})
    for number in range(100):
        rows.append(
            {
                "flag": number % 3 == 0,
                "small": number,
                "big": number << 33,
                "single": number / 8,
                "wide": -number / 3,
                "d9": Decimal(number).scaleb(-2),
                "d18": Decimal(number).scaleb(-4),
                "d38": Decimal(number).scaleb(-10),
                "word": f"word {number % 7}",
                "bytes": bytes([number]),
                "day": number * 300,
                "local": number * DAY * MICROS + number,
                "moment": -number * 400 * DAY * MICROS - number,
            }
        )
    return [{**row, "id": number} for number, row in enumerate(rows)]


# ---- the same rows


@pytest.mark.parametrize(
    "layout",
    [
        {},
        {"dictionary": False, "compression": "none"},
        {"page_version": "2.0", "compression": "snappy", "page_size": 200},
        {"integer_decimals": True, "compression": "gzip", "row_group_size": 17},
        {"integer_decimals": True, "dictionary": False, "page_checksums": True, "compression": "lz4"},
    ],
    ids=["dictionaries", "plain", "pages_v2", "row_groups", "integer_decimals"],
)
def test_every_type(spark, tmp_path, layout):
    table = Table(tmp_path / "t", COLUMNS)
    rows = edge_rows()
    table.append(rows[:60], **layout)
    table.append(rows[60:], **layout)
    found = same_rows(spark, table.write(), EXACT)
    assert len(found) == len(rows)
    by_id = {row.id: row for row in found}
    for row in rows:
        got = by_id[row["id"]]
        for name in ("flag", "small", "big", "d9", "d18", "d38"):
            assert got[name] == row.get(name), name
        if "wide" in row:
            assert math.isnan(got.wide) if math.isnan(row["wide"]) else repr(got.wide) == repr(row["wide"])
        assert got.word == (row["word"].encode().hex().upper() if "word" in row else None)
        assert got.days == row.get("day")
        assert got.moment == row.get("moment")
    assert {"0001-01-01", "9999-12-31"} <= {row.day for row in found}


def test_column_order_and_single_columns(spark, tmp_path):
    table = Table(tmp_path / "t", COLUMNS)
    table.append(edge_rows())
    path = table.write()
    for select in (
        "unix_micros(moment) m, id",
        "wide",
        "d38, d9",
        "count(DISTINCT word) n",
        "max(day) m, min(single) n",
    ):
        same_rows(spark, path, select)
    frame = load(spark, path)
    assert is_native(frame)
    assert frame.schema == load(spark, path, **{"scan.native": "never"}).schema
    assert frame.select("id").schema["id"].nullable is False


SETTINGS = {
    "spark.sql.parquet.fieldId.read.enabled": "false",
    "spark.sql.parquet.fieldId.read.ignoreMissing": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
    "spark.sql.parquet.int96RebaseModeInRead": "LEGACY",
    "spark.sql.parquet.binaryAsString": "true",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "false",
    "spark.sql.parquet.mergeSchema": "true",
    "spark.sql.parquet.aggregatePushdown": "true",
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.parquet.recordLevelFilter.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.files.maxPartitionBytes": "1000",
    "spark.sql.sources.useV1SourceList": "",
    "spark.sql.optimizer.nestedSchemaPruning.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.columnVector.offheap.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_sessions_settings_change_nothing(spark, tmp_path, setting):
    table = Table(tmp_path / "t", COLUMNS)
    table.append(edge_rows(), row_group_size=20)
    path = table.write()
    expected = same_rows(spark, path, EXACT)
    before = load(spark, path).selectExpr(*items(EXACT))
    before.collect()
    spark.conf.set(setting, SETTINGS[setting])
    try:
        assert canonical(same_rows(spark, path, EXACT)) == canonical(expected)
        assert canonical(before.collect()) == canonical(expected)  # planned before, run again after
    finally:
        spark.conf.unset(setting)


def test_row_based_reader_stays(spark, tmp_path):
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", "false")
    try:
        assert "enableVectorizedReader" in reason(spark, load(spark, simple(tmp_path / "t")))
    finally:
        spark.conf.unset("spark.sql.parquet.enableVectorizedReader")


# ---- schemas that changed


def test_swapped_names_with_a_filter(spark, tmp_path):
    """By name the filter would drop every row group: the file's `a` is the table's `b`."""
    table = Table(tmp_path / "t", {"a": "long", "b": "long"})
    table.append([{"a": number, "b": 1000 + number} for number in range(50)])
    table.rename_column("a", "c")
    table.rename_column("b", "a")
    table.rename_column("c", "b")
    path = table.write()
    found = same_rows(spark, path, "a, b", "a >= 1000 AND b < 50")
    assert {(row.a, row.b) for row in found} == {(1000 + n, n) for n in range(50)}


def test_readded_name_with_a_filter(spark, tmp_path):
    table = Table(tmp_path / "t", {"id": "long", "x": "long"})
    table.append([{"id": number, "x": 7} for number in range(10)])
    table.drop_column("x")
    table.add_column("x", "long")
    path = table.write()
    assert same_rows(spark, path, "id, x") == [(number, None) for number in range(10)]
    assert len(same_rows(spark, path, "id, x", "coalesce(x, 1) = 1")) == 10
    assert load(spark, path).where("x = 7").collect() == []


def test_missing_column_is_null(spark, tmp_path):
    table = Table(tmp_path / "t", {"id": "long"})
    table.append([{"id": number} for number in range(10)])
    table.add_column("word", "string")
    table.add_column("price", "decimal(20,3)")
    table.append([{"id": 10, "word": "w", "price": Decimal("1.234")}])
    path = table.write()
    found = same_rows(spark, path, "id, word, price")
    assert max(map(tuple, found), key=lambda row: row[0]) == (10, "w", Decimal("1.234"))
    assert [row.word for row in same_rows(spark, path, "word")].count(
        None
    ) == 10  # nothing of the file is read
    assert len(same_rows(spark, path, "price", "id + 0 < 10")) == 10


WIDER = [
    ("int", "long", [-(2**31), -1, 0, 7, 2**31 - 1, None]),
    ("float", "double", [0.1, -0.0, math.nan, math.inf, 16777216.0, None]),
    ("decimal(9,2)", "decimal(18,2)", [Decimal("-9999999.99"), Decimal("0.01"), None]),
    ("decimal(9,2)", "decimal(38,2)", [Decimal("-9999999.99"), Decimal("0.01"), None]),
    ("decimal(18,4)", "decimal(30,4)", [Decimal("-99999999999999.9999"), Decimal("0.0001"), None]),
    ("decimal(20,4)", "decimal(38,4)", [Decimal("-9999999999999999.9999"), Decimal("0.0001"), None]),
]


@pytest.mark.parametrize("layout", [{}, {"dictionary": False}, {"integer_decimals": True}], ids=str)
@pytest.mark.parametrize(("old", "new", "values"), WIDER, ids=lambda text: str(text)[:20])
def test_widened_types(spark, tmp_path, old, new, values, layout):
    table = Table(tmp_path / "t", {"id": "long", "x": old})
    table.append([{"id": number, "x": value} for number, value in enumerate(values * 5)], **layout)
    table.widen_column("x", new)
    table.append([{"id": 1000, "x": values[0]}], **layout)
    path = table.write()
    found = same_rows(spark, path, "id, x")
    by_id = {row.id: row.x for row in found}
    for number, value in enumerate(values * 5):
        stored = None if value is None else value
        if old == "float" and value is not None and math.isfinite(value):
            stored = struct.unpack("<f", struct.pack("<f", value))[0]
        assert repr(by_id[number]) == repr(stored)
    same_rows(spark, path, "id", "coalesce(x, 1) + 0 > 0")


def test_partition_column(spark, tmp_path):
    table = Table(tmp_path / "t", {"id": "long", "region": "string", "n": "int"}, partition=["region", "n"])
    rows = [{"id": i, "region": f"r{i % 3}", "n": i % 2} for i in range(60)]
    table.append_all([row if row["id"] % 5 else {**row, "region": None} for row in rows])
    path = table.write()
    assert len(same_rows(spark, path, "id, region, n")) == 60
    expected = sum(1 for row in rows if row["id"] % 5 and row["region"] == "r1")
    assert len(same_rows(spark, path, "id", "region = 'r1'")) == expected


# ---- damage


def test_page_checksums_are_verified(spark, tmp_path):
    """A bit of a value flips: only the page's checksum can tell."""
    table = Table(tmp_path / "t", {"id": "long"})
    file = table.append(
        [{"id": number} for number in range(1000)], dictionary=False, compression="none", page_checksums=True
    )
    path = table.write()
    raw = bytearray(Path(file.path).read_bytes())
    place = raw.index((500).to_bytes(8, "little") + (501).to_bytes(8, "little"))
    raw[place] ^= 64
    Path(file.path).write_bytes(raw)
    frame = load(spark, path)
    assert is_native(frame)
    for setting in (None, "spark.sql.files.ignoreCorruptFiles"):
        if setting:
            spark.conf.set(setting, "true")
        try:
            with pytest.raises(Exception, match="(?i)checksum|crc|could not verify"):
                load(spark, path).collect()
        finally:
            if setting:
                spark.conf.unset(setting)
    trusting = load(spark, path, **{"verify-checksums": "false"})
    assert is_native(trusting)
    assert sorted(row.id for row in trusting.collect()) != list(range(1000))


@pytest.mark.parametrize(
    "setting", ["spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles"]
)
def test_file_removed_after_planning_is_an_error(spark, tmp_path, setting):
    table = Table(tmp_path / "t", {"id": "long"})
    file = table.append([{"id": 1}])
    table.append([{"id": 2}])
    frame = load(spark, table.write())
    spark.conf.set(setting, "true")
    try:
        assert is_native(frame)
        os.remove(file.path)
        with pytest.raises(Exception, match="(?i)does not exist|not found|NOT_EXIST"):
            frame.collect()
    finally:
        spark.conf.unset(setting)


@pytest.mark.parametrize("name", ["_x", ".x", "a b", "50%20", "{a,b}", "x*?[1]", "k=v", "ü#y"])
def test_file_names_that_spark_skips_or_expands(spark, tmp_path, name):
    table = Table(tmp_path / "_t" / ".u=1", {"id": "long"})
    with table.transaction():
        file = table.append([{"id": 1}, {"id": 2}])
        odd = os.path.join(os.path.dirname(file.path), f"{name}.parquet")
        os.rename(file.path, odd)
        file.entry["file_path"] = odd
    assert sorted(same_rows(spark, table.write(), "id")) == [(1,), (2,)]


def test_the_row_by_row_reader_after_planning_is_an_error(spark, tmp_path):
    """It takes field ids from the session's setting, not the relation's: all columns were NULL."""
    frame = load(spark, simple(tmp_path / "t"))
    assert is_native(frame)
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", "false")
    try:
        with pytest.raises(Exception, match=r"\[TWOSTAGE.SETTING_CHANGED\]"):
            frame.collect()
        assert len(load(spark, simple(tmp_path / "u")).where("name IS NOT NULL").collect()) == 200
    finally:
        spark.conf.unset("spark.sql.parquet.enableVectorizedReader")
    assert len(frame.where("name IS NOT NULL").collect()) == 200
