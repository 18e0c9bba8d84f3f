"""Metadata columns and metadata tables through Spark; metadata tables are compared with PyIceberg's."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException

import twostage
from lakehouse import executed_plan
from tables import FileOptions, Table

NAMES = ["_file", "_pos", "_spec_id", "_partition", "_deleted", "_row_id", "_last_updated_sequence_number"]


@pytest.fixture(scope="module")
def marked(spark, tmp_path_factory):
    """Table inspect.db.marked, version 3: 20 rows in two partitions, of which 3 are deleted."""
    root = tmp_path_factory.mktemp("marked")
    folder = root / "db" / "marked"
    table = Table(folder, {"id": "long", "p": "int"}, version=3, partition=["p"])
    options = FileOptions(row_group_size=5)
    files = [table.append([{"id": n, "p": p} for n in range(p * 10, p * 10 + 10)], options) for p in (0, 1)]
    table.tag("whole")
    table.delete_vectors({files[0]: [0, 7], files[1]: [9]})
    table.write()
    twostage.enable(spark, catalogs={"inspect": {"type": "hadoop", "warehouse": str(root)}})
    return SimpleNamespace(path=str(folder), files=[file.path for file in files], deleted=[0, 7, 19])


def values(frame):
    return sorted(tuple(row) for row in frame.collect())


def test_select_star_does_not_show_them(spark, marked):
    assert spark.table("inspect.db.marked").columns == ["id", "p"]
    frame = spark.read.format("twostage").load(marked.path)
    assert frame.select("*").columns == ["id", "p"]
    assert frame.count() == 17
    shown = {row[0] for row in spark.sql("DESCRIBE EXTENDED inspect.db.marked").collect()}
    assert set(NAMES) <= shown


@pytest.mark.parametrize("by", ["catalog", "path"])
def test_values(spark, marked, by):
    frame = (
        spark.table("inspect.db.marked")
        if by == "catalog"
        else spark.read.format("twostage").load(marked.path)
    )
    wanted = [n for n in range(20) if n not in marked.deleted]
    place = frame.select("_file", "_pos", "id", "_row_id", "_last_updated_sequence_number", "_spec_id")
    assert values(place) == sorted((marked.files[n // 10], n % 10, n, n, 1 + n // 10, 0) for n in wanted)
    assert values(frame.select("_partition.*", "id")) == [(n // 10, n) for n in wanted]
    assert values(frame.select("id", "_deleted")) == [(n, n in marked.deleted) for n in range(20)]
    assert values(frame.where("_deleted").select("id")) == [(n,) for n in marked.deleted]
    assert frame.where("NOT _deleted").count() == 17
    assert frame.where("_deleted OR id > 17").count() == 4
    assert values(frame.selectExpr("_file", "*").limit(0)) == []
    assert frame.selectExpr("_file", "*").columns == ["_file", "id", "p"]


def test_predicates_prune(spark, marked):
    frame = spark.sql(
        f"SELECT id FROM inspect.db.marked WHERE _file = '{marked.files[1]}' AND _pos IN (2, 3) AND id > 0"
    )
    assert values(frame) == [(12,), (13,)]
    assert "_pos IN (2, 3)" in executed_plan(frame)
    report = twostage.last_scan(spark)
    assert report.count("files.pruned.bounds") == 1
    assert report.count("row_groups.read") == 1
    where = "inspect.db.marked WHERE _partition.p_identity_1000 = 1"
    assert spark.sql(f"SELECT count(*) FROM {where}").collect()[0][0] == 9
    assert twostage.last_scan(spark).count("files.answered") == 1
    assert len(spark.sql(f"SELECT id FROM {where}").collect()) == 9
    assert twostage.last_scan(spark).count("files.read") == 1


def test_joins_and_subqueries(spark, marked):
    joined = spark.sql(
        "SELECT t.id FROM inspect.db.marked.files f JOIN inspect.db.marked t ON f.file_path = t._file "
        "WHERE f.partition.p_identity_1000 = 1 AND t._pos < 2"
    )
    assert values(joined) == [(10,), (11,)]
    assert spark.sql("SELECT (SELECT max(_pos) FROM inspect.db.marked)").collect()[0][0] == 9
    assert values(
        spark.sql(
            "SELECT a._pos, b._pos FROM inspect.db.marked a JOIN inspect.db.marked b ON a.id = b.id + 10 WHERE a.id = 13"
        )
    ) == [(3, 3)]


def test_options_without_the_planner_name_them_too(spark, marked):
    frame = (
        spark.read.format("twostage")
        .option("columns", "_pos, id")
        .option("filter", "_pos = 3 OR _deleted")
        .load(marked.path)
    )
    assert frame.columns == ["_pos", "id"]
    assert values(frame) == [(0, 0), (3, 3), (3, 13), (7, 7), (9, 19)]


def test_temporary_views_show_what_they_select(spark, marked):
    """Spark hides metadata columns behind a view, Iceberg's too: a view must select them."""
    frame = spark.read.format("twostage").load(marked.path)
    frame.createOrReplaceTempView("marked_view")
    with pytest.raises(AnalysisException, match="_pos"):
        spark.sql("SELECT _pos FROM marked_view")
    frame.select("*", "_pos").createOrReplaceTempView("marked_view")
    assert spark.sql("SELECT count(*) FROM marked_view WHERE _pos = 1").collect()[0][0] == 2


@pytest.fixture(scope="module")
def inspected(spark, tmp_path_factory):
    """A PyIceberg table in a SQLite catalog: partitioned, appended to, partly deleted, tagged."""
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.transforms import IdentityTransform

    root = tmp_path_factory.mktemp("inspected")
    properties = {"uri": f"sqlite:///{root}/catalog.db", "warehouse": f"file://{root}"}
    catalog = SqlCatalog("pyice", **properties)
    catalog.create_namespace("db")
    schema = pa.schema([("id", pa.int64()), ("p", pa.string()), ("x", pa.float64())])
    table = catalog.create_table("db.events", schema=schema)
    with table.update_spec() as update:
        update.add_field("p", IdentityTransform())
    for first in (0, 10):
        rows = [{"id": n, "p": "ab"[n % 2], "x": None if n % 3 else n / 2} for n in range(first, first + 10)]
        table.append(pa.Table.from_pylist(rows, schema=schema))
    table.manage_snapshots().create_tag(table.metadata.current_snapshot_id, "before").commit()
    table.delete("p = 'a' AND id < 5")
    table = catalog.load_table("db.events")
    yield SimpleNamespace(table=table, location=table.location())
    catalog.engine.dispose()


def plain(value):
    """Values to compare: rows and maps as dicts, the keys in order."""
    if hasattr(value, "asDict"):
        value = value.asDict(recursive=False)
    if isinstance(value, dict):
        return {key: plain(value[key]) for key in sorted(value)}
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, list | tuple):
        if all(type(item) is tuple for item in value):  # an Arrow map
            return plain(dict(value))
        return [plain(item) for item in value]
    return value


TABLES = "snapshots files data_files delete_files entries manifests partitions refs history".split()


@pytest.mark.parametrize("name", TABLES)
def test_metadata_tables_agree_with_pyiceberg(spark, inspected, name):
    theirs = getattr(inspected.table.inspect, name)()
    ours = spark.read.format("twostage").load(f"{inspected.location}#{name}")
    # Its instants are without a zone.
    other = {"committed_at", "made_current_at", "last_updated_at"}
    shared = [column for column in ours.columns if column in theirs.schema.names and column not in other]
    assert len(shared) >= len(ours.columns) - 6
    found = [plain(row) for row in ours.select(*shared).collect()]
    wanted = [plain({column: row[column] for column in shared}) for row in theirs.to_pylist()]
    for row in (*found, *wanted):
        if name == "entries":  # PyIceberg has the entry's own maps and formats there
            row["data_file"] = {k: row["data_file"][k] for k in ("file_path", "record_count", "partition")}
        for summary in row.get("partition_summaries", ()):
            del summary["contains_nan"]  # PyIceberg says NULL where the manifest list says false
    assert found or name == "delete_files"
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))


def test_metadata_tables_by_every_name(spark, marked):
    for frame in (
        spark.table("inspect.db.marked.snapshots"),
        spark.sql("SELECT * FROM inspect.db.marked.snapshots"),
        spark.read.format("twostage").load("inspect.db.marked.snapshots"),
        spark.read.format("twostage").load(f"{marked.path}#snapshots"),
        spark.read.format("twostage").option("metadata-table", "snapshots").load(marked.path),
    ):
        assert frame.count() == 3
        assert frame.columns[:2] == ["committed_at", "snapshot_id"]
        assert frame.where("parent_id IS NULL").count() == 1
    assert spark.catalog.tableExists("inspect.db.marked.files")
    assert not spark.catalog.tableExists("inspect.db.nope.files")


def test_metadata_tables_travel_in_time(spark, marked):
    files = "SELECT count(*) FROM inspect.db.marked.files"
    assert spark.sql(files).collect()[0][0] == 4
    assert spark.sql(f"{files} VERSION AS OF 'whole'").collect()[0][0] == 2
    assert spark.read.format("twostage").option("tag", "whole").load(f"{marked.path}#files").count() == 2
    with pytest.raises(IllegalArgumentException, match="NO_TIME_TRAVEL"):
        spark.sql("SELECT * FROM inspect.db.marked.snapshots VERSION AS OF 'whole'")


def test_nested_columns_of_metadata_tables(spark, marked):
    frame = spark.sql(
        "SELECT readable_metrics.id.upper_bound, partition.p_identity_1000, value_counts[1] "
        "FROM inspect.db.marked.files WHERE content = 0 AND readable_metrics.id.lower_bound >= 10"
    )
    assert values(frame) == [(19, 1, 10)]
    entries = spark.sql(
        "SELECT data_file.record_count, status FROM inspect.db.marked.entries WHERE data_file.content = 1"
    )
    assert values(entries) == [(1, 1), (2, 1)]
    with pytest.raises(AnalysisException, match="_file"):
        spark.sql("SELECT _file FROM inspect.db.marked.files")
