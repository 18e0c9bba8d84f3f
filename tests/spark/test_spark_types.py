"""Types that are newer than most tables, through Spark: variants, nanoseconds, times, and the unknown type."""

from __future__ import annotations

import datetime
import json
from types import SimpleNamespace

import pytest
from pyspark.sql import functions as sql

from lakehouse import executed_plan
from tables import Table
from variant_tables import MISSING, ROWS, variant_table

NANOS = [0, 1, 999, 1000, -1, -1000, -1001, None, 1_700_000_000_123_456_789]
EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - Spark's timestamps without zone


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    """A table with columns of nanoseconds, times and of the unknown type, at the top and deep inside."""
    folder = tmp_path_factory.mktemp("typed")
    deep = {"l": [{"n": "timestamp_ns", "t": "time"}]}
    table = Table(folder, {"id": "long", "n": "timestamp_ns", "t": "time", "deep": deep}, version=3)
    table.append(
        [
            {"id": i, "n": value, "t": i * 1_000_001, "deep": {"l": [{"n": value, "t": i}, None]}}
            for i, value in enumerate(NANOS)
        ]
    )
    metadata = table.write()
    raw = json.loads(metadata.read_text())
    unknown = {"id": 100, "name": "u", "type": "unknown", "required": False}
    inner = {"type": "struct", "fields": [{**unknown, "id": 101}, {**unknown, "id": 102, "name": "w"}]}
    place = {"id": 103, "name": "g", "type": "geometry(srid:4326)", "required": False}
    raw["schemas"][0]["fields"] += [
        unknown,
        {"id": 104, "name": "s", "type": inner, "required": False},
        place,
    ]
    metadata.write_text(json.dumps(raw))
    return SimpleNamespace(path=str(folder))


def test_variants_are_sparks(spark, tmp_path):
    variant_table(tmp_path, "parquet")
    frame = spark.read.format("twostage").load(str(tmp_path))
    found = {
        row.id: row.a for row in frame.select("id", sql.expr("variant_get(v, '$.a', 'int') AS a")).collect()
    }
    assert found == {i: i if i % MISSING else None for i in range(ROWS) if i != 3}
    texts = {row.id: row.t for row in frame.select("id", sql.expr("to_json(deep) AS t")).collect()}
    assert json.loads(texts[11]) == {"in": {"m": {"k": {"a": 11}, "n": None}, "l": [{"a": 11}]}}
    assert frame.where("v IS NULL").count() == len(range(0, ROWS, MISSING))
    assert [row.id for row in frame.where("variant_get(v, '$.a', 'int') = 8").collect()] == [8]


def test_nanoseconds_are_cut_to_the_microsecond_they_lie_in(spark, typed):
    reader = spark.read.format("twostage").option("timestamp-ns", "truncate")
    frame = reader.load(typed.path).select("id", "n", sql.col("deep.l.n").alias("deep"))
    micros = [None if v is None else v // 1000 for v in NANOS]
    moments = [None if v is None else EPOCH + datetime.timedelta(microseconds=v) for v in micros]
    found = {row.id: row for row in frame.collect()}
    assert [found[i].n for i in range(len(NANOS))] == moments
    assert [found[i].deep for i in range(len(NANOS))] == [[moment, None] for moment in moments]
    at_zero = frame.where("n = TIMESTAMP_NTZ '1970-01-01 00:00:00'")
    assert sorted(row.id for row in at_zero.collect()) == [0, 1, 2]
    assert "Filter (" not in executed_plan(at_zero)
    before = frame.where("n < TIMESTAMP_NTZ '1970-01-01 00:00:00'")
    assert sorted(row.id for row in before.collect()) == [4, 5, 6]
    extracted = frame.where("extract(SECOND FROM n) = 0.000001")  # Spark's own work, on the same values
    assert [row.id for row in extracted.collect()] == [3]


def test_what_cannot_be_carried_is_refused_by_name_and_only_when_wanted(spark, typed):
    frame = spark.read.format("twostage").load(typed.path)
    for column, name in (("n", "'n'"), ("deep.l.n", "deep.l.element.n"), ("g", "'g'.*geometry")):
        with pytest.raises(Exception, match=rf"(?s)TWOSTAGE\.UNSUPPORTED_TYPE.*{name}"):
            frame.select(column).collect()
    assert frame.select("id").count() == len(NANOS)
    assert frame.where("g IS NULL").select("id").count() == len(NANOS)


def test_the_unknown_type_is_null_at_every_depth(spark, typed):
    frame = spark.read.format("twostage").load(typed.path).select("id", "u", "s", "s.w").where("id < 2")
    assert sorted(tuple(row) for row in frame.collect()) == [(0, None, None, None), (1, None, None, None)]
    assert spark.read.format("twostage").load(typed.path).where("u IS NULL").select("id").count() == len(
        NANOS
    )


def test_times_are_sparks_where_it_has_them(spark, typed):
    spark.conf.set("spark.sql.timeType.enabled", "true")
    frame = (
        spark.read.format("twostage").load(typed.path).select("id", "t", "deep.l.t").toDF("id", "t", "deep")
    )
    found = {row.id: row for row in frame.collect()}
    day = datetime.datetime.min
    for i in range(len(NANOS)):
        assert found[i].t == (day + datetime.timedelta(microseconds=i * 1_000_001)).time()
        assert found[i].deep == [(day + datetime.timedelta(microseconds=i)).time(), None]
    assert [row.id for row in frame.where("t = TIME '00:00:03.000003'").collect()] == [3]
