"""Nothing that one scan pushed reaches another scan of the same load()."""

from __future__ import annotations

import pytest

from lakehouse import canonical


@pytest.fixture
def events(spark, warehouse):
    return spark.read.format("twostage").load(warehouse.events)


def test_count_after_filter(events):
    assert events.where("id > 290").count() == 9
    assert events.count() == 300
    assert events.where("id < 5").select("device").count() == 5
    assert len(events.collect()[0]) == len(events.columns)


def test_self_join(spark, events):
    left, right = events.where("id < 10").alias("l"), events.where("id > 4").alias("r")
    joined = left.join(right, "id").select("l.id", "r.device")
    expected = spark.sql("SELECT id, device FROM plain WHERE id < 10 AND id > 4").collect()
    assert canonical(joined.collect()) == canonical(expected)


def test_union(events):
    both = events.where("id < 3").select("id").union(events.where("id >= 297").select("id"))
    assert sorted(row.id for row in both.collect()) == [0, 1, 2, 297, 298, 299]
    both = events.select("id").union(events.where("id < 2").select("id"))
    assert both.count() == 302


def test_two_temporary_views(spark, events):
    events.where("id < 10").createOrReplaceTempView("few")
    events.createOrReplaceTempView("all_of_them")
    count = "SELECT (SELECT count(*) FROM few), (SELECT count(*) FROM all_of_them), (SELECT max(id) FROM few)"
    assert tuple(spark.sql(count).collect()[0]) == (10, 300, 9)
    assert spark.table("few").where("id > 5").count() == 4
    assert spark.table("all_of_them").count() == 300


def test_limit_does_not_stay(events):
    assert len(events.limit(2).collect()) == 2
    assert events.count() == 300
    assert len(events.limit(7).collect()) == 7


def test_snapshot_is_pinned_at_load(spark, tmp_path):
    """A commit between two queries of one DataFrame changes neither; a new load() sees it."""
    import pyarrow as pa
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("db")
    values = pa.table({"a": pa.array([1, 2, 3], pa.int64())})
    table = catalog.create_table("db.t", schema=values.schema)
    table.append(values)
    frame = spark.read.format("twostage").load(f"{tmp_path}/db/t")
    assert frame.count() == 3
    table.append(values)
    catalog.engine.dispose()
    assert frame.count() == 3
    assert frame.where("a = 1").count() == 1
    assert spark.read.format("twostage").load(f"{tmp_path}/db/t").count() == 6


def test_pin_survives_eviction(spark, warehouse, bridge):
    frame = spark.read.format("twostage").load(warehouse.events)
    bridge.pins._tables.clear()
    assert frame.where("id < 5").count() == 5
