"""Spark reads a table while another writer changes it: every query sees one snapshot, pinned by load() or by the query."""

from __future__ import annotations

import os
import random

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import LongType
from pyspark.errors import PySparkException

from figures import FULL, record
from tables import Table
from twostage.spark import bridge

LOOPS = 12 if FULL else 3


@pytest.fixture(scope="module")
def lake(warehouse):
    """The warehouse is every module's, and others list it: the namespace goes when this module is done."""
    catalog = SqlCatalog("lake", uri=warehouse.confs["uri"], warehouse=warehouse.confs["warehouse"])
    catalog.create_namespace("changing")
    yield catalog
    for name in catalog.list_tables("changing"):
        catalog.drop_table(name)
    catalog.drop_namespace("changing")
    catalog.engine.dispose()


def numbers(first, count=20):
    return pa.table({"id": pa.array(range(first, first + count), pa.int64())})


@pytest.fixture
def table(lake, request):
    name = f"changing.t{random.randrange(10**9)}"
    made = lake.create_table(name, schema=numbers(0).schema)
    for first in (0, 20, 40):
        made.append(numbers(first))
    yield made
    lake.drop_table(name)


def folder(table):
    return table.location().removeprefix("file://")


def forget(table):
    """Rewrite everything, expire the old snapshots and remove their data files."""
    old = [file.file.file_path for file in table.scan().plan_files()]
    table.overwrite(numbers(1000, 5))
    current = table.metadata.current_snapshot_id
    gone = [one.snapshot_id for one in table.metadata.snapshots if one.snapshot_id != current]
    table.maintenance.expire_snapshots().by_ids(gone).commit()
    table.refresh()
    for path in old:
        os.unlink(path.removeprefix("file://"))


def ids(frame):
    return sorted(row.id for row in frame.collect())


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
def test_tasks_of_one_query_while_the_table_changes(spark, lake):
    """The iterator starts one task after the other; the writer's turn is between them."""
    outcomes = []
    for loop in range(LOOPS):
        draw = random.Random(loop)
        made = lake.create_table(f"changing.loop{loop}", schema=numbers(0).schema)
        for first in (0, 20, 40):
            made.append(numbers(first))
        frame = spark.read.format("twostage").option("split-size", "1k").load(folder(made)).select("id")
        snapshot = made.metadata.current_snapshot_id
        removes = loop % 3 == 2
        seen = []
        try:
            for row in frame.toLocalIterator():
                seen.append(row.id)
                if len(seen) in (5, 25):
                    (forget if removes and len(seen) == 5 else draw.choice((_append, _delete, _add)))(made)
        except (PySparkException, Py4JJavaError) as error:  # the iterator's errors come as the JVM's
            assert removes, str(error)
            assert "[TWOSTAGE.MISSING_FILE]" in str(error)
            assert f"A file of snapshot {snapshot} is gone: the snapshot was expired" in str(error)
            outcomes.append("missing")
        else:
            assert sorted(seen) == list(range(60))
            assert not removes, "the files were still there"
            outcomes.append("exact")
        assert ids(spark.read.format("twostage").load(folder(made)).select("id")) == sorted(
            made.scan(selected_fields=("id",)).to_arrow()["id"].to_pylist()
        )
    record(
        "R12", spark_loops=LOOPS, spark_exact=outcomes.count("exact"), spark_missing=outcomes.count("missing")
    )
    assert set(outcomes) == {"exact", "missing"}


def _append(table):
    table.append(numbers(500))


def _delete(table):
    table.delete("id < 30")


def _add(table):
    with table.update_schema() as update:
        update.add_column(f"c{random.randrange(10**9)}", LongType())


def test_both_sides_of_a_join_and_union_are_what_load_pinned(spark, table):
    """One load() is one snapshot, however often and whenever its DataFrame is used; a second load() has its own."""
    frame = spark.read.format("twostage").load(folder(table))
    half = frame.where("id < 30").select("id")
    _append(table)
    _delete(table)
    assert ids(frame.union(frame)) == sorted([*range(60), *range(60)])
    joined = frame.alias("l").join(frame.alias("r"), "id").select("id")
    assert ids(joined) == list(range(60))
    assert ids(half.join(frame, "id").select("id")) == list(range(30))
    later = spark.read.format("twostage").load(folder(table))
    assert ids(later) == [*range(30, 60), *range(500, 520)]
    assert ids(frame.join(later, "id").select("id")) == list(range(30, 60))
    assert ids(frame) == list(range(60))


def test_a_query_that_names_a_table_twice_sees_one_snapshot(spark, table, monkeypatch):
    """In SQL the query pins: a commit after each look-up in the catalog does not come between its two sides."""
    name = f"lake.changing.{table.name()[-1]}"
    pinned = bridge.pin_table
    looked_up = []

    def pin_then_commit(options, confs=None):
        found = pinned(options, confs)
        looked_up.append(found.snapshot.snapshot_id)
        table.refresh()
        table.append(numbers(10_000 + 100 * len(looked_up), 1))
        return found

    monkeypatch.setattr(bridge, "pin_table", pin_then_commit)
    counts = spark.sql(
        f"SELECT (SELECT count(*) FROM {name}) a, (SELECT count(*) FROM {name}) b, count(*) c FROM {name} WHERE id < 10"
    ).collect()[0]
    assert tuple(counts) == (60, 60, 10), looked_up
    only = spark.sql(
        f"SELECT count(*) n FROM {name} l FULL JOIN {name} r ON l.id = r.id WHERE l.id IS NULL OR r.id IS NULL"
    )
    assert only.collect()[0].n == 0
    both = spark.sql(f"SELECT id FROM {name} UNION ALL SELECT id FROM {name}")
    found = ids(both)
    assert found[::2] == found[1::2]
    monkeypatch.undo()
    assert spark.sql(f"SELECT count(*) n FROM {name}").collect()[0].n == 60 + len(looked_up)


def test_a_temporary_view_keeps_its_snapshot(spark, table):
    path = folder(table)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW kept_view USING twostage OPTIONS (path '{path}')")
    _append(table)
    assert ids(spark.table("kept_view").select("id")) == list(range(60))
    assert spark.sql("SELECT count(*) n FROM kept_view a JOIN kept_view b USING (id)").collect()[0].n == 60
    spark.catalog.dropTempView("kept_view")


def test_views_and_cached_tables_after_a_commit(spark, table):
    """As docs/moving-from-iceberg-spark.md says of each."""
    name = f"lake.changing.{table.name()[-1]}"
    frame, loaded = spark.table(name), spark.read.format("twostage").load(name)
    frame.createOrReplaceTempView("of_table")
    loaded.createOrReplaceTempView("of_load")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW of_query AS SELECT * FROM {name}")

    def counts():
        places = ("of_table", "of_query", name, "of_load")
        found = {place: spark.sql(f"SELECT count(*) n FROM {place}").collect()[0].n for place in places}
        return found | {"table": frame.count(), "load": loaded.count()}

    try:
        assert set(counts().values()) == {60}
        _append(table)
        kept, followed = dict.fromkeys(("of_load", "table", "load"), 60), ("of_table", "of_query", name)
        assert counts() == kept | dict.fromkeys(followed, 80)
        spark.catalog.refreshTable(name)
        assert counts() == kept | dict.fromkeys(followed, 80)
        spark.sql(f"CACHE TABLE {name}")
        _delete(table)
        assert ids(spark.table(name).select("id")) == [*range(60), *range(500, 520)]
        spark.sql(f"REFRESH TABLE {name}")
        assert ids(spark.table(name).select("id")) == [*range(30, 60), *range(500, 520)]
    finally:
        spark.sql(f"UNCACHE TABLE IF EXISTS {name}")
        for view in ("of_table", "of_load", "of_query"):
            spark.catalog.dropTempView(view)


def test_a_column_dropped_and_added_again_is_another_table(spark, tmp_path):
    """No snapshot comes with it, so that only the column's id tells the two readings apart."""
    table = Table(tmp_path, {"id": "long", "b": "long"})
    table.append([{"id": 1, "b": 10}])
    table.write()
    before = spark.read.format("twostage").load(str(tmp_path))
    table.drop_column("b")
    table.add_column("b", "long")
    table.write()
    after = spark.read.format("twostage").load(str(tmp_path))
    assert [tuple(row) for row in before.collect()] == [(1, 10)]
    assert [tuple(row) for row in before.union(after).collect()] == [(1, 10), (1, None)]
    both = before.alias("x").join(after.alias("y"), "id").select("x.b", "y.b")
    assert [tuple(row) for row in both.collect()] == [(10, None)]
    before.cache()
    assert [tuple(row) for row in before.collect()] == [(1, 10)]
    assert [tuple(row) for row in spark.read.format("twostage").load(str(tmp_path)).collect()] == [(1, None)]
    before.unpersist()
