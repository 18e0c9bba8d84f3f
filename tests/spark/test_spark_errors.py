"""What a user gets wrong comes back as an error with a stable code, and a hint that helps."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException

import twostage


def read(spark, path, **options):
    reader = spark.read.format("twostage")
    for name, value in options.items():
        reader = reader.option(name.replace("_", "-"), value)
    return reader.load(path)


@pytest.mark.parametrize(
    ("options", "code", "hint"),
    [
        ({"brnch": "x"}, "UNKNOWN_OPTION", "Did you mean 'branch'"),
        ({"start_snapshot_id": "7"}, "UNSUPPORTED_OPTION", "reads what changed between snapshots"),
        ({"end_timestamp": "7"}, "UNSUPPORTED_OPTION", "reads what changed between snapshots"),
        ({"stream_from_timestamp": "7"}, "UNSUPPORTED_OPTION", "for streaming reads"),
        ({"branch": "audti"}, "BRANCH_NOT_FOUND", "Did you mean 'audit'"),
        ({"branch": "first"}, "BRANCH_NOT_FOUND", "It is a tag: use the option 'tag'"),
        ({"tag": "frist"}, "TAG_NOT_FOUND", "Did you mean 'first'"),
        ({"snapshot_id": "12"}, "SNAPSHOT_NOT_FOUND", ""),
        ({"snapshot_id": "x"}, "BAD_OPTION", "whole number"),
        ({"branch": "audit", "tag": "first"}, "CONFLICTING_OPTIONS", "Keep one"),
        ({"columns": "id, pirce"}, "UNKNOWN_COLUMN", "Did you mean 'price'"),
        ({"filter": "id <"}, "BAD_FILTER", "Not understood at or after line 1, column 4: '<'"),
        ({"metadata_table": "filez"}, "UNKNOWN_METADATA_TABLE", "Did you mean 'files'"),
        ({"metadata_table": "zzz"}, "UNKNOWN_METADATA_TABLE", ", snapshots."),
        ({"filter": "nope = 1"}, "UNKNOWN_COLUMN", ""),
    ],
)
def test_wrong_option(spark, warehouse, options, code, hint):
    with pytest.raises(IllegalArgumentException) as caught:
        read(spark, warehouse.events, **options)
    assert f"[TWOSTAGE.{code}]" in str(caught.value)
    assert hint in str(caught.value)


def test_no_table(spark, tmp_path):
    with pytest.raises(IllegalArgumentException, match=r"^\[TWOSTAGE.TABLE_NOT_FOUND\]"):
        read(spark, str(tmp_path / "nope"))
    with pytest.raises(IllegalArgumentException, match=r"^\[TWOSTAGE.MISSING_OPTION\]"):
        spark.read.format("twostage").load()


def test_missing_data_file(spark, tmp_path):
    import pyarrow as pa
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("db")
    values = pa.table({"a": pa.array([1, 2, 3], pa.int64())})
    catalog.create_table("db.t", schema=values.schema).append(values)
    catalog.engine.dispose()
    for file in (tmp_path / "db" / "t" / "data").glob("*.parquet"):
        file.unlink()
    with pytest.raises(PySparkException, match=r"\[TWOSTAGE.[A-Z_]*MISSING[A-Z_]*\]"):
        read(spark, f"{tmp_path}/db/t").collect()


def test_schema_of_the_user(spark, warehouse):
    right = read(spark, warehouse.events).schema
    assert spark.read.schema(right).format("twostage").load(warehouse.events).where("id < 3").count() == 3
    for wrong in ("id int", "id long, nope int", "ID long"):
        with pytest.raises(IllegalArgumentException) as caught:
            spark.read.schema(wrong).format("twostage").load(warehouse.events).count()
        assert "[TWOSTAGE.SCHEMA_MISMATCH] The schema that was given for this read" in str(caught.value)
        assert "has struct<id:bigint,device:string" in str(caught.value)
        assert "Hint: Leave the schema out" in str(caught.value)


@pytest.mark.parametrize("path", ["lake.db.events", "folder"])
def test_a_schema_of_some_columns(spark, warehouse, path):
    """As without the planner and as of Parquet files: the columns that are named, in that order."""
    path = warehouse.events if path == "folder" else path
    odd = "`odd.name ``x y`"
    some = spark.read.schema(f"{odd} int, device string, id long").format("twostage").load(path)
    assert some.columns == ["odd.name `x y", "device", "id"]
    expected = spark.sql(f"SELECT {odd}, device, id FROM plain WHERE device = 'd3'").collect()
    assert sorted(some.where("device = 'd3'").collect(), key=lambda row: row.id) == expected
    assert some.where("id < 7").count() == 7
    chosen = spark.read.schema("id long").format("twostage").option("branch", "audit").load(path)
    assert chosen.count() == 200
    with pytest.raises(IllegalArgumentException, match=r"\[TWOSTAGE.SCHEMA_MISMATCH\]"):
        spark.read.schema("id long").format("twostage").option("columns", "device").load(path).count()


def test_metadata_tables_that_are_not_there(spark, warehouse):
    """Behind a table's name, which is no namespace."""
    for name in ("changes", "position_deletes"):
        for ask in (
            lambda name=name: spark.table(f"lake.db.events.{name}"),
            lambda name=name: read(spark, f"lake.db.events.{name}"),
            lambda name=name: read(spark, f"{warehouse.events}#{name}"),
            lambda name=name: read(spark, warehouse.events, metadata_table=name),
        ):
            with pytest.raises(
                PySparkException, match=r"\[TWOSTAGE.UNSUPPORTED_METADATA_TABLE\].*not supported yet"
            ):
                ask()
    with pytest.raises(IllegalArgumentException) as caught:
        read(spark, "lake.db.events.filez")
    assert "[TWOSTAGE.TABLE_NOT_FOUND]" in str(caught.value)
    assert "db.events is a table without a metadata table of this name. Did you mean 'files'?" in str(
        caught.value
    )
    assert not spark.catalog.tableExists("lake.db.events.filez")
    assert not spark.catalog.tableExists("lake.db.absent.changes")


def test_create_table_using(spark, warehouse):
    """Spark keeps the table and drops its options: reading it says what works instead, and that does work."""
    spark.sql(f"CREATE TABLE kept USING twostage OPTIONS (path '{warehouse.events}')")
    try:
        with pytest.raises(IllegalArgumentException) as caught:
            spark.sql("SELECT * FROM kept").collect()
        assert "[TWOSTAGE.MISSING_OPTION]" in str(caught.value)
        assert "CREATE TEMPORARY VIEW" in str(caught.value)
        assert "WITH (path" in str(caught.value)
        assert (
            spark.sql(f"SELECT count(*) FROM kept WITH (path = '{warehouse.events}')").collect()[0][0] == 300
        )
    finally:
        spark.sql("DROP TABLE kept")
    with pytest.raises(IllegalArgumentException, match=r"\[TWOSTAGE.MISSING_OPTION\]"):
        spark.sql("CREATE TABLE kept USING twostage")


def test_temporary_view_using(spark, warehouse):
    spark.sql(f"CREATE TEMPORARY VIEW v USING twostage OPTIONS (path '{warehouse.events}', branch 'audit')")
    assert spark.sql("SELECT count(*) FROM v WHERE id >= 150").collect()[0][0] == 50


def test_secrets_stay_out(spark, warehouse):
    frame = (
        spark.read.format("twostage")
        .option("catalog.s3.secret-access-key", "CANARY-17")
        .load(warehouse.events)
        .where("id < 3")
    )
    assert frame.count() == 3
    shown = frame._jdf.queryExecution().toString() + str(twostage.last_scan(spark)) + repr(frame)
    shown += frame._jdf.queryExecution().executedPlan().treeString()
    assert "CANARY-17" not in shown


def test_an_error_of_analysis_has_no_frames_of_the_planner(spark):
    """The listener that measures scans looks at no plan of a query that has none."""
    spark.table("events").where("id = 1").collect()  # it looks at queries from now on
    with pytest.raises(AnalysisException) as caught:
        spark.sql("SELECT nope FROM events")
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    trace = spark._jvm.org.apache.spark.util.Utils.exceptionString(caught.value._origin)
    assert "UNRESOLVED_COLUMN" in trace
    assert "twostage_planner" not in trace
