"""SQL catalogs without a JAR: what reads works, what would write is refused by name."""

from __future__ import annotations

import threading

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, UnsupportedOperationException

import twostage


def values(spark, query):
    return [tuple(row) for row in spark.sql(query).collect()]


def test_select_and_time_travel(spark, warehouse):
    first, second, third = warehouse.snapshots
    for suffix, expected in (
        ("", 300),
        (f" VERSION AS OF {first}", 100),
        (f" VERSION AS OF {second}", 200),
        (" VERSION AS OF 'audit'", 200),
        (" VERSION AS OF 'first'", 100),
        (" TIMESTAMP AS OF now()", 300),
        (f" WITH (`snapshot-id` = '{third}')", 300),
        (f" WITH (versionAsOf = '{first}')", 100),
        (" WITH (branch = 'audit')", 200),
        (" WITH (tag = 'first')", 100),
    ):
        assert values(spark, f"SELECT count(*) FROM lake.db.events{suffix}") == [(expected,)], suffix


def test_timestamp_before_the_first_snapshot(spark):
    with pytest.raises(IllegalArgumentException, match=r"\[TWOSTAGE.SNAPSHOT_NOT_FOUND\]"):
        spark.sql("SELECT * FROM lake.db.events TIMESTAMP AS OF '2020-01-01'")


def test_reader_options_on_a_catalog_table(spark, warehouse):
    assert spark.read.option("branch", "audit").table("lake.db.events").count() == 200
    assert spark.read.option("versionAsOf", warehouse.snapshots[0]).table("lake.db.events").count() == 100
    assert spark.read.option("filter", "id < 7").table("lake.db.events").count() == 7
    with pytest.raises(IllegalArgumentException, match="Did you mean 'branch'"):
        spark.read.option("brnch", "audit").table("lake.db.events").count()


def test_option_with_another_schema_is_honoured_or_refused(spark):
    """From Spark 4.3 on the catalog hears of the option in time; before, the schema is fixed already."""
    try:
        names = spark.read.option("tag", "old").table("lake.db.evolved").where("id > 0").columns
        assert spark.read.option("tag", "old").table("lake.db.evolved").count() == 2
    except IllegalArgumentException as error:
        assert "[TWOSTAGE.SCHEMA_MISMATCH]" in str(error)
        assert spark.version < "4.3"
    else:
        assert names == ["id"]


def test_listing(spark):
    assert values(spark, "SHOW NAMESPACES IN lake") == [("db",)]
    assert {row[1] for row in values(spark, "SHOW TABLES IN lake.db")} == {"empty", "events", "evolved"}
    assert values(spark, "DESCRIBE lake.db.evolved") == [("id", "bigint", None), ("name", "string", None)]
    extended = dict(row[:2] for row in values(spark, "DESCRIBE EXTENDED lake.db.events"))
    assert extended["Provider"] == "twostage"
    assert {"id", "device"} <= {row[0] for row in values(spark, "SHOW COLUMNS IN lake.db.events")}
    assert values(spark, "DESCRIBE NAMESPACE lake.db")


def test_catalog_api(spark):
    assert spark.table("lake.db.events").count() == 300
    assert {table.name for table in spark.catalog.listTables("lake.db")} == {"empty", "events", "evolved"}
    assert spark.catalog.tableExists("lake.db.events")
    assert not spark.catalog.tableExists("lake.db.nope")
    assert [column.name for column in spark.catalog.listColumns("lake.db.evolved")] == ["id", "name"]
    spark.catalog.setCurrentCatalog("lake")
    try:
        assert [database.name for database in spark.catalog.listDatabases()] == ["db"]
        spark.catalog.setCurrentDatabase("db")
        assert spark.table("events").count() == 300
    finally:
        spark.catalog.setCurrentCatalog("spark_catalog")


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE lake.db.events",
        "CREATE TABLE lake.db.other (a INT)",
        "CREATE TABLE lake.db.other AS SELECT 1 AS a",
        "INSERT INTO lake.db.evolved VALUES (1, 'a')",
        "INSERT OVERWRITE lake.db.evolved VALUES (1, 'a')",
        "DELETE FROM lake.db.evolved WHERE id = 1",
        "TRUNCATE TABLE lake.db.evolved",
        "ALTER TABLE lake.db.evolved ADD COLUMN z INT",
        "ALTER TABLE lake.db.evolved RENAME TO lake.db.renamed",
        "CREATE NAMESPACE lake.other",
        "DROP NAMESPACE lake.db",
    ],
)
def test_change_is_refused(spark, statement):
    with pytest.raises(UnsupportedOperationException, match=r"\[TWOSTAGE.READ_ONLY\]"):
        spark.sql(statement)
    assert spark.table("lake.db.evolved").count() == 3


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE lake.db.evolved SET id = 1",
        "MERGE INTO lake.db.evolved t USING (SELECT 1L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
    ],
)
def test_row_level_change_is_refused_by_spark(spark, statement):
    with pytest.raises(UnsupportedOperationException, match=r"`lake`.`db`.`evolved` does not support"):
        spark.sql(statement)


def test_writer_is_refused(spark, warehouse, tmp_path):
    frame = spark.range(3)
    for mode in ("append", "overwrite", "error", "ignore"):
        with pytest.raises(UnsupportedOperationException, match=r"\[TWOSTAGE.READ_ONLY\]"):
            frame.write.format("twostage").mode(mode).save(str(tmp_path))
    with pytest.raises(UnsupportedOperationException, match=r"\[TWOSTAGE.READ_ONLY\]"):
        frame.selectExpr("id", "'x' AS name").writeTo("lake.db.evolved").append()
    with pytest.raises(UnsupportedOperationException, match=r"does not support streamed reading"):
        spark.readStream.format("twostage").load(warehouse.events)


def test_missing_names(spark):
    for name in ("lake.db.nope", "lake.nope.events"):
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            spark.sql(f"SELECT * FROM {name}")
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        spark.sql("SHOW TABLES IN lake.nope")


def test_path_form_takes_the_catalogs_name(spark):
    assert spark.read.format("twostage").option("branch", "audit").load("lake.db.events").count() == 200


def test_catalog_configured_after_enable(spark, warehouse):
    spark.conf.set("spark.sql.catalog.files", "twostage")
    spark.conf.set("spark.sql.catalog.files.type", "hadoop")
    spark.conf.set("spark.sql.catalog.files.warehouse", f"file://{warehouse.root}")
    assert values(spark, "SELECT count(*) FROM files.db.events") == [(300,)]
    assert ("db", "events", False) in values(spark, "SHOW TABLES IN files.db")


def test_a_sql_catalog_under_another_name(spark, warehouse):
    """Its database keeps tables by the name that it had for their writer: Spark's own errors could not tell."""
    session = spark.newSession()
    twostage.enable(session, catalogs={"renamed": warehouse.confs})
    for ask in (
        lambda: session.sql("SHOW TABLES IN renamed.db"),
        lambda: session.sql("SHOW NAMESPACES IN renamed"),
        lambda: session.sql("SELECT * FROM renamed.db.events"),
        lambda: session.table("renamed.db.events.files"),
        lambda: session.read.format("twostage").load("renamed.db.events"),
    ):
        with pytest.raises(IllegalArgumentException, match=r"CATALOG_NAME_NOT_FOUND.*under: lake"):
            ask()


def test_catalog_first_used_from_another_thread(spark, warehouse):
    session = spark.newSession()
    twostage.enable(
        session, catalogs={"threaded": {"type": "hadoop", "warehouse": f"file://{warehouse.root}"}}
    )
    found = []

    def count():
        found.append(session.sql("SELECT count(*) FROM threaded.db.events WHERE id < 30").collect()[0][0])

    thread = threading.Thread(target=count)
    thread.start()
    thread.join(60)
    assert found == [30]


def test_calls_from_threads_of_the_jvm(spark, bridge, monkeypatch):
    """A broadcast side is read in a thread that Python never talked to: its calls come over the callback server."""
    threads = set()
    original = bridge.apply
    monkeypatch.setattr(bridge, "apply", lambda text: threads.add(threading.get_ident()) or original(text))
    query = "SELECT /*+ BROADCAST(b) */ count(*) FROM {0} a JOIN {0} b ON a.id = b.id WHERE b.device = 'd1'"
    found = values(spark, query.format("lake.db.events"))
    assert found == values(spark, query.format("plain"))
    assert threads - {threading.get_ident()}
