"""Scans that are not handed to Spark's own Parquet reader: the report says why, and the rows are ours."""

from __future__ import annotations

import os

import pyarrow.parquet as pq
import pytest

import twostage
from native_scans import is_native, items, load, reason, same_rows, simple
from tables import Table
from twostage.handover import eligibility


def _deletes(folder):
    table = Table(folder, {"id": "long", "name": "string"})
    first = table.append([{"id": i, "name": "n"} for i in range(10)])
    table.append([{"id": i, "name": "n"} for i in range(10, 20)])
    table.delete_positions({first: [4]})
    table.delete_equal(["id"], [{"id": 3}, {"id": 13}])
    return table.write()


def _typed(kind, value):
    def build(folder):
        table = Table(folder, {"id": "long", "x": kind}, version=3)
        table.append([{"id": 1, "x": value}])
        return table.write()

    return build


def _default(folder):
    table = Table(folder, {"id": "long"}, version=3)
    table.append([{"id": 1}])
    table.add_column("x", "int", default=7)
    return table.write()


def _constant(folder):
    table = Table(folder, {"id": "long", "x": "int"}, partition=["x"])
    table.append([{"id": 1, "x": 5}], absent=("x",))
    return table.write()


def _double_partition(folder):
    table = Table(folder, {"id": "long", "x": "double"}, partition=["x"])
    table.append([{"id": 1, "x": 0.0}])
    return table.write()


def _plain(**options):
    return lambda folder: simple(folder, **options)


def _rewritten(**options):
    """A table whose one file pyarrow wrote once more, in a form that Spark's reader reads otherwise or not at all."""

    def build(folder):
        table = Table(folder, {"id": "long", "x": "float", "at": "timestamptz"})
        with table.transaction():
            file = table.append([{"id": 1, "x": 5.0, "at": 1_000_000}])
            rewrite = dict(options)
            metadata = rewrite.pop("metadata", {})
            rows = pq.read_table(file.path)
            pq.write_table(rows.replace_schema_metadata(metadata), file.path, **rewrite)
            file.entry["file_size_in_bytes"] = os.path.getsize(file.path)
        return table.write()

    return build


def _named_with_a_colon(folder):
    """Spark's reader fails on it: Hadoop takes the name of its checksum file for a URI."""
    table = Table(folder, {"id": "long"})
    with table.transaction():
        file = table.append([{"id": 1}])
        path = os.path.join(os.path.dirname(file.path), "part-2024-01-01T00:00:00.parquet")
        os.rename(file.path, path)
        file.entry["file_path"] = path
    return table.write()


STAYS = {
    "colon": (_named_with_a_colon, {}, "*", "a colon in its name"),
    "option": (_plain(), {"scan.native": "never"}, "*", "scan.native is never"),
    "filter_option": (_plain(), {"filter": "id < 5"}, "*", "the option filter"),
    "split_size": (_plain(), {"split-size": "1k"}, "*", "split-size"),
    "count": (_plain(), {"aggregate-push-down-enabled": "false"}, "count(1)", "no column is returned"),
    "selective": (_plain(), {}, "where id < 5", "its files are small"),
    "equality": (_deletes, {}, "*", "2 of 2 files have equality deletes"),
    "orc": (_plain(format="orc"), {}, "*", "format orc"),
    "avro": (_plain(format="avro"), {}, "*", "format avro"),
    "no_ids": (_plain(field_ids=False), {}, "*", "without field ids"),
    "struct": (_typed({"y": "int"}, {"y": 1}), {}, "*", "column x has the type struct"),
    "list": (_typed(["int"], [1]), {}, "*", "column x has the type list"),
    "uuid": (_typed("uuid", "0" * 8 + "-0000-0000-0000-" + "0" * 12), {}, "*", "column x has the type uuid"),
    "fixed": (_typed("fixed[2]", b"ab"), {}, "*", "column x has the type fixed[2]"),
    "default": (_default, {}, "*", "column x takes its default in a file"),
    "constant": (_constant, {}, "*", "column x takes its value from the partition"),
    "double_partition": (_double_partition, {}, "*", "not proven to have its partition's value"),
    "metadata_column": (_plain(), {}, "_pos, id", "the table has no column _pos"),
    "metadata_table": (_plain(), {"metadata-table": "files"}, "file_path", "metadata table"),
    "file_name": (_plain(), {}, "id, input_file_name()", "name of the file"),
    "encoding": (_rewritten(use_dictionary=False, column_encoding={"x": "BYTE_STREAM_SPLIT"}), {}, "x", "encodings"),
    "codec": (_rewritten(compression="brotli"), {}, "x", "compressed by BROTLI"),
    "int96": (_rewritten(use_deprecated_int96_timestamps=True), {}, "at", "column at is INT96"),
    "millis": (_rewritten(coerce_timestamps="ms"), {}, "at", "column at is INT64 (timestamp)"),
    "legacy_calendar": (_rewritten(metadata={"org.apache.spark.legacyDateTime": ""}), {}, "at", "Julian"),
    "old_spark": (_rewritten(metadata={"org.apache.spark.version": "2.4.8"}), {}, "at", "Julian"),
}  # fmt: skip


@pytest.mark.parametrize("case", STAYS)
def test_stays(spark, tmp_path, case):
    build, options, select, expected = STAYS[case]
    frame = load(spark, build(tmp_path / "t"), **options)
    frame = frame.where(select[6:]) if select.startswith("where ") else frame.selectExpr(*items(select))
    assert expected in reason(spark, frame)


def test_other_columns_of_such_files_are_handed_over(spark, tmp_path):
    for number, build in enumerate(
        [
            _default,
            _constant,
            _typed({"y": "int"}, {"y": 1}),
            _rewritten(use_deprecated_int96_timestamps=True),
        ]
    ):
        assert same_rows(spark, build(tmp_path / f"t{number}"), "id") == [(1,)]


def test_limit_stays(spark, tmp_path):
    frame = load(spark, simple(tmp_path / "t"))
    assert "a limit ends it early" in reason(spark, frame.limit(3))
    assert "a limit ends it early" in reason(spark, frame.select("name").limit(3))
    assert is_native(frame.orderBy("id").limit(3))  # all rows are read to sort them


def test_joins(spark, tmp_path, monkeypatch):
    path = simple(tmp_path / "t")
    load(spark, path).createOrReplaceTempView("one")
    load(spark, path).createOrReplaceTempView("two")
    spark.range(500).createOrReplaceTempView("numbers")
    frame = spark.sql("SELECT a.id, b.name FROM one a JOIN two b ON a.id = b.id")
    assert is_native(frame)
    assert len(frame.collect()) == 200
    frame = spark.sql("SELECT one.id FROM one JOIN numbers n ON one.id = n.id WHERE n.id % 7 = 3")
    assert len(frame.collect()) == sum(n % 7 == 3 for n in range(200))
    frame = spark.sql("SELECT one.name FROM one JOIN numbers n ON one.id = n.id AND n.id % 7 = 3")
    assert is_native(frame)  # a join waits for it: Spark's reader takes less time than a Python task to start
    query = "SELECT name FROM one WHERE id IN (SELECT id FROM numbers WHERE id % 7 = 3)"
    assert is_native(spark.sql(query))
    # Of files that are worth it, but few bytes of columns, Spark reads all sooner than keys could save any.
    monkeypatch.setattr(eligibility, "MIN_BYTES_TO_PROBE", 0)
    frame = spark.sql(query)
    assert is_native(frame)
    assert len(frame.collect()) == sum(n % 7 == 3 for n in range(200))
    monkeypatch.setattr(eligibility, "MAX_JOIN_COLUMN_BYTES", 0)
    assert "join keys filter it" in reason(spark, spark.sql(query))


def test_missing_file_stays(spark, tmp_path):
    table = Table(tmp_path / "t", {"id": "long"})
    file = table.append([{"id": 1}])
    path = table.write()
    os.remove(file.path)
    with pytest.raises(Exception, match=r"\[TWOSTAGE.MISSING_FILE\]"):
        load(spark, path).collect()


@pytest.mark.parametrize("condition", ["id < 150", "id < 150 AND id != 7", "id % 10 < 9 AND id >= 0"])
def test_a_filter_that_keeps_most_rows_is_spark_s(spark, tmp_path, monkeypatch, condition):
    monkeypatch.setattr(eligibility, "MIN_BYTES_TO_PROBE", 0)
    path = _plain()(tmp_path / "t")
    frame = load(spark, path).where(condition)
    rows = sorted(frame.collect())
    report = twostage.last_scan(spark)
    assert report.is_handed_over, str(report)
    assert rows == sorted(load(spark, path, **{"scan.native": "never"}).where(condition).collect())
    assert "the filter drops rows" in reason(spark, load(spark, path).where("id < 5"))
