"""The query log through Spark: a line for each scan of each query that ended, and never at a query's cost."""

from __future__ import annotations

import json
import re

import pytest

import twostage
from core_scan import open_table
from indexed_tables import built
from lakehouse import run_python
from native_scans import is_native, load, simple
from tables import Table
from twostage.errors import NotFoundError, OptionError
from twostage.spark.query_log import FILE_SIZE, LITERALS, QUERY_LOG


@pytest.fixture
def log(spark, bridge, tmp_path):
    """Run a query in a session that logs into a folder; returns what that logged."""

    def logged(run, **confs):
        folder = tmp_path / "queries"
        for key, value in {QUERY_LOG: str(folder), **confs}.items():
            spark.conf.set(key, value)
        try:
            run()
        finally:
            # Its listeners are told of the end after the query has its rows.
            twostage.scans(spark)
            for key in (QUERY_LOG, *confs):
                spark.conf.unset(key)
        assert bridge.query_log.flush(30)
        found = list(twostage.query_log(str(folder))) if folder.exists() else []
        for path in folder.glob("*") if folder.exists() else ():
            path.rename(tmp_path / path.name)
        return found

    return logged


def test_what_a_query_did(spark, warehouse, log):
    rows = []
    query = "SELECT id FROM events WHERE id >= 250 AND (device = 'd3' OR price > 2.0)"
    (scan,) = log(lambda: rows.extend(spark.sql(query).collect()))
    report = twostage.last_scan(spark)
    assert (scan.scan, scan.table, scan.snapshot) == (
        report.scan_id,
        warehouse.events,
        warehouse.snapshots[-1],
    )
    assert scan.columns == ("id",)
    assert (scan.reader, scan.failed, scan.scans) == ("twostage", False, 1)
    assert scan.count("rows.fetched") == len(rows)
    assert scan.count("files.pruned.bounds") == 2
    assert scan.count("time.cpu") > 0
    assert 0 < scan.query_milliseconds < 600_000
    assert scan.user
    assert scan.application == spark.sparkContext.applicationId
    assert "collect" in scan.description
    by_op = {one.op: one for one in scan.predicate.conjuncts if one.op in ("or", ">=")}
    assert {leaf.text for leaf in by_op["or"].leaves()} == {"device = 'd3'", "price > 2.0"}
    assert by_op["or"].rows_out == len(rows)
    assert all(leaf.rows_in for leaf in by_op["or"].leaves())
    assert sum(one.nbytes for one in scan.predicate.conjuncts) == scan.count("bytes.filter") > 0
    assert 0 < sum(leaf.nbytes for leaf in by_op["or"].leaves()) == by_op["or"].nbytes
    assert scan.entries_in_filter == sum(
        leaf.rows_in for one in scan.predicate.conjuncts for leaf in one.leaves()
    )
    assert scan.entries_after_filter == len(rows)


def test_each_scan_of_a_query_has_a_line(spark, log):
    both = "SELECT id FROM events WHERE id = 4 UNION ALL SELECT id FROM events WHERE id = 204"
    scans = log(lambda: spark.sql(both).collect())
    assert {scan.text for scan in scans} == {"id = 4", "id = 204"}
    assert {scan.scans for scan in scans} == {2}
    assert len({scan.query for scan in scans}) == 1


def test_a_scan_by_sparks_own_reader(spark, log, tmp_path):
    frame = load(spark, simple(tmp_path / "t")).where("id % 2 = 1")
    rows = []
    (scan,) = log(lambda: rows.extend(frame.collect()))
    assert is_native(frame)
    assert (scan.reader, len(rows)) == ("spark", 100)
    assert scan.count("spark.rows") == scan.rows_read == 200
    assert scan.entries_after_filter == 200 * len(scan.columns)
    assert scan.filter is None or scan.filter.rows_in is None


def test_a_dataframe_that_is_collected_twice_is_logged_twice_and_a_cached_one_once(spark, log):
    frame = spark.sql("SELECT id FROM events WHERE id = 7")
    assert len(log(lambda: (frame.collect(), frame.collect()))) == 2
    cached = spark.sql("SELECT id, ts FROM events WHERE id = 8").cache()
    try:
        assert len(log(lambda: (cached.collect(), cached.collect()))) == 1
    finally:
        cached.unpersist()


def test_a_query_that_fails_is_logged_as_such(spark, log):
    def fail():
        with pytest.raises(Exception, match="no such"):
            spark.sql("SELECT raise_error(concat('no such ', id)) FROM events WHERE id = 9").collect()

    (scan,) = log(fail)
    assert scan.failed


def test_aggregates_that_indexes_answer(spark, log, tmp_path):
    """Nothing is read, and a line says which columns' indexes were used; of answers from manifests alone there is none."""
    table = Table(tmp_path / "t", {"id": "long", "kind": "int", "country": "string"})
    for first in (0, 200):
        table.append(
            [{"id": first + n, "kind": n % 4, "country": "de" if n % 3 else "fr"} for n in range(200)]
        )
    path = table.write()
    built(open_table(path), ["kind", "country"], "values")
    frame = spark.read.format("twostage").load(str(path))
    rows = []
    grouped = frame.where("kind IN (1, 2)").groupBy("country").count()
    (scan,) = log(lambda: rows.extend(grouped.collect()))
    found = [n % 3 for n in range(200) if n % 4 in (1, 2)]
    assert {row.country: row["count"] for row in rows} == {
        "de": 2 * sum(map(bool, found)),
        "fr": 2 * found.count(0),
    }
    assert (scan.reader, scan.columns, scan.rows_read, scan.scans) == ("index", ("country",), 0, 1)
    assert scan.answered_columns == ("country", "kind")
    assert scan.count("files.answered.index") == 2
    assert scan.query_milliseconds is not None
    both = (
        frame.where("kind = 3")
        .selectExpr("min(kind)", "count(country)")
        .crossJoin(frame.selectExpr("max(id)"))
    )
    (scan,) = log(both.collect)
    assert scan.columns == ("kind", "country")
    with pytest.raises(NotFoundError, match="no query log"):
        log(lambda: frame.selectExpr("max(id)").collect())


def test_without_literals(spark, log):
    query = "SELECT id FROM events WHERE device = 'd3' AND id > 250"
    (scan,) = log(lambda: spark.sql(query).collect(), **{LITERALS: "false"})
    assert not re.search("""['"]d3['"]""", scan.json())  # in quotes: an identifier may hold the two digits
    assert "250" not in scan.text
    assert {leaf.values for leaf in scan.predicate.leaves()} == {None}
    assert all(leaf.rows_in for leaf in scan.predicate.leaves())
    first_rows = "SELECT * FROM events ORDER BY id DESC LIMIT 3"
    (first,) = log(lambda: spark.sql(first_rows).collect(), **{LITERALS: "false"})
    assert (first.top, first.order_column) == ("id DESC NULLS LAST LIMIT ?", "id")


def test_as_a_dataframe(spark, tmp_path, log):
    log(lambda: [spark.sql(f"SELECT id FROM events WHERE id = {number}").collect() for number in (1, 2)])
    (file,) = tmp_path.glob("*.jsonl")
    good = file.read_text()
    later = {**json.loads(good.splitlines()[0]), "v": 99}
    foreign = [
        '{"other": "json"}',
        '{"scan": "x", "table": "t"}',
        "[]",
        "7",
        json.dumps(later),
        json.dumps({**later, "v": "x"}),
    ]
    file.write_text("\n".join([good, "{broken", *foreign]))
    (tmp_path / "notes.json").write_text(good)
    assert twostage.query_log(str(tmp_path)).dataframe(spark).count() == 2
    found = twostage.query_log(str(file)).dataframe(spark)
    assert "v" not in found.columns
    rows = found.orderBy("time").collect()
    assert [row.text for row in rows] == ["id = 1", "id = 2"]
    assert [row.counters["rows.fetched"] for row in rows] == [1, 1]
    assert json.loads(rows[0].predicate)["columns"] == ["id"]
    assert rows[0].time is not None


def test_nothing_is_logged_unless_asked(spark, bridge, warehouse, tmp_path, log):
    calls = bridge.calls.get("ended", 0)
    spark.sql("SELECT id FROM events WHERE id = 11").collect()
    twostage.scans(spark)
    assert bridge.calls.get("ended", 0) == calls
    assert log(lambda: spark.range(3).count()) == []
    assert log(lambda: spark.sql("SELECT id FROM events WHERE id = 12").explain()) == []


def test_a_log_that_cannot_be_written_costs_no_query(spark, bridge, tmp_path, recwarn):
    (tmp_path / "file").write_text("")
    for place, size in ((f"{tmp_path}/file/below", "64m"), ("relative", "64m"), (str(tmp_path), "huge")):
        spark.conf.set(QUERY_LOG, place)
        spark.conf.set(FILE_SIZE, size)
        try:
            assert len(spark.sql("SELECT id FROM events WHERE id = 13").collect()) == 1
            twostage.scans(spark)
        finally:
            spark.conf.unset(QUERY_LOG)
            spark.conf.unset(FILE_SIZE)
    assert bridge.query_log.flush(30)
    assert any("query log was not written" in str(one.message) for one in recwarn)


def test_a_place_that_is_none_is_refused(spark):
    with pytest.raises(OptionError, match="folder or bucket"):
        twostage.enable(spark, query_log="queries")


PROGRAM = """
import sys
from pyspark.sql import SparkSession
import twostage
builder = SparkSession.builder.master("local[1]")
for key, value in {confs!r}.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
twostage.enable(spark, query_log={log!r})
spark.read.format("twostage").load({table!r}).where("id = 5").collect()
if {stop}:
    spark.stop()
"""


@pytest.mark.parametrize("stop", [True, False])
def test_the_last_query_of_a_program_is_logged(warehouse, tmp_path, stop):
    from lakehouse import SPARK_CONFS

    run_python(PROGRAM.format(confs=SPARK_CONFS, log=str(tmp_path), table=warehouse.events, stop=stop))
    (scan,) = twostage.query_log(str(tmp_path))
    assert scan.text == "id = 5"
