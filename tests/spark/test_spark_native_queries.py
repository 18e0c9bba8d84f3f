"""Scans handed to Spark's own Parquet reader, by every way to ask: SQL, views, caches, writes, clusters; and the report."""

from __future__ import annotations

import functools
import json
import os

from pyspark.sql import DataFrame

import twostage
from lakehouse import SPARK_CONFS, canonical, executed_plan, run_python
from native_scans import LOCAL_CLUSTER, is_native, load, reason, same_rows, simple
from tables import Table
from twostage.handover import eligibility


def test_report_and_explain(spark, tmp_path):
    path = simple(tmp_path / "t")
    load(spark, path).count()
    before = twostage.last_scan(spark).scan_id
    frame = load(spark, path).where("id >= 100")
    frame.explain()
    assert twostage.last_scan(spark).scan_id == before
    assert "FileScan parquet" in executed_plan(frame)
    frame.collect()
    frame.collect()
    report, *older = reversed(twostage.scans(spark))
    assert older[0].scan_id == before
    assert report.is_handed_over
    assert (report.count("handed_over.files"), report.count("handed_over.rows")) == (1, 100)
    assert 0 < report.count("handed_over.bytes") < os.path.getsize(next((tmp_path / "t" / "data").iterdir()))
    assert report.count("files.pruned.bounds") == 1
    assert "read by     Spark's own Parquet reader" in str(report)
    assert "all rows of its files match" in str(report)
    assert json.loads(report.json())["is_handed_over"] is True


def test_figures_are_sparks_own(spark, tmp_path):
    path = simple(tmp_path / "t", files=3)
    sizes = sorted(file.stat().st_size for file in (path.parents[1] / "data").iterdir())
    view = load(spark, path)
    for frame, files, rows in (
        (view.where("id >= 100"), 2, 200),
        (view.groupBy("name").count(), 3, 300),
        (view.repartition(3).select("id").distinct(), 3, 300),
        (view.selectExpr("id + 1", "name"), 3, 300),
    ):
        if rows == 300 and frame.columns[0] == "(id + 1)":
            frame.cache()
        frame.collect()
        report = twostage.last_scan(spark)
        assert report.is_handed_over
        assert (report.count("spark.files"), report.count("spark.rows")) == (files, rows)
        assert report.count("spark.files.bytes") in (
            sum(sizes[:2]),
            sum(sizes[1:]),
            sum(sizes),
            sizes[0] + sizes[2],
        )
        assert f"measured    {files} files of" in str(report)
    frame.unpersist()


def test_figures_of_two_scans_in_one_query(spark, tmp_path):
    one, two = simple(tmp_path / "one"), simple(tmp_path / "two", files=3)
    load(spark, one).union(load(spark, two)).collect()
    found = {report.table: report for report in twostage.scans(spark)[-2:]}
    assert [report.count("spark.rows") for _, report in sorted(found.items())] == [200, 300]
    assert [report.count("spark.files") for _, report in sorted(found.items())] == [2, 3]


def test_figures_wait_for_nobody_and_are_bounded(spark, tmp_path):
    path = simple(tmp_path / "t")
    load(spark, path).collect()
    frame = load(spark, path).selectExpr("id", "if(id > 50, raise_error('stop'), name) AS e")
    for _ in range(2):
        try:
            frame.collect()
        except Exception as error:  # noqa: BLE001 - Spark's own
            assert "stop" in str(error)
    report = twostage.last_scan(spark)
    assert report.is_handed_over
    assert report.count("spark.failed") == 1
    assert "by Spark's reader or not read: the query failed, or was cancelled" in str(report)
    assert "up to" in next(line for line in str(report).splitlines() if line.startswith(" bytes"))
    from twostage.spark.session import _spark_metrics

    assert 0 < len(_spark_metrics(spark, "scanMetrics")) <= 100


def test_sql_catalog_views_unions_subqueries_and_caches(spark, warehouse):
    columns = "id, device, price, amount, flag, day, ts, local, payload"
    query = f"SELECT {columns} FROM {{}}"
    for table in ("lake.db.events", "events"):
        frame = spark.sql(query.format(table))
        assert is_native(frame)
        assert canonical(frame.collect()) == canonical(spark.sql(query.format("plain")).collect())
    assert (
        len(spark.sql(f"SELECT id FROM lake.db.events VERSION AS OF {warehouse.snapshots[0]}").collect())
        == 100
    )
    frame = spark.sql("SELECT id FROM lake.db.events VERSION AS OF 'audit'")
    assert is_native(frame)
    assert len(frame.collect()) == 200
    with_option = spark.sql("SELECT id FROM lake.db.events WITH (`scan.native` = 'never')")
    assert not is_native(with_option)
    assert len(with_option.collect()) == 300
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW v AS SELECT id + 1 AS next, device FROM lake.db.events")
    assert is_native(spark.sql("SELECT next FROM v"))
    for text in (
        "SELECT next, device FROM v UNION ALL SELECT id, device FROM {0}",
        "SELECT a.id, b.price FROM {0} a JOIN {0} b ON a.id = b.id + 1",
        "SELECT id, (SELECT max(price) FROM {0} WHERE NOT isnan(price)) m FROM {0}",
        "SELECT device, sum(id), count(*) FROM {0} GROUP BY device",
        "SELECT id, row_number() OVER (PARTITION BY device ORDER BY id) n FROM {0}",
        "SELECT id FROM {0} WHERE EXISTS (SELECT 1 FROM {0} b WHERE b.id = {0}.id + 290)",
        "WITH c AS (SELECT id % 10 AS k, rand(5) > 2 AS r FROM {0}) SELECT * FROM c a JOIN c b ON a.k = b.k AND a.k = 3",
    ):
        view = text.format("events")
        expected = spark.sql(
            text.format("plain").replace("FROM v", "FROM (SELECT id + 1 AS next, device FROM plain)")
        )
        assert canonical(spark.sql(view).collect()) == canonical(expected.collect()), text
    cached = spark.sql(query.format("events")).cache()
    try:
        assert cached.count() == 300
        spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "false")
        assert canonical(cached.collect()) == canonical(spark.sql(query.format("plain")).collect())
    finally:
        spark.conf.unset("spark.sql.parquet.fieldId.read.enabled")
        cached.unpersist()


def test_equal_scans_share_an_exchange(spark, tmp_path):
    load(spark, simple(tmp_path / "t")).createOrReplaceTempView("t")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        frame = spark.sql(
            "WITH g AS (SELECT name, sum(id) n FROM t GROUP BY name) SELECT a.n, b.n FROM g a JOIN g b ON a.name = b.name"
        )
        assert len(frame.collect()) == 7
        assert "ReusedExchange" in executed_plan(frame)
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


def test_write_from_a_native_scan(spark, tmp_path):
    frame = load(spark, simple(tmp_path / "t"))
    assert is_native(frame)
    frame.write.parquet(str(tmp_path / "out"))
    written = spark.read.parquet(str(tmp_path / "out"))
    assert written.columns == ["id", "name"]
    assert canonical(written.collect()) == canonical(frame.collect())


def test_many_columns(spark, tmp_path, monkeypatch):
    """More than whole-stage code generation takes: Spark reads rows, not batches, and we are faster."""
    table = Table(tmp_path / "t", {f"c{number}": "int" for number in range(130)})
    table.append([{f"c{number}": row * number for number in range(130)} for row in range(20)])
    path = table.write()
    assert "for more than 100 columns" in reason(spark, load(spark, path))
    assert len(same_rows(spark, path, "c1, c129, c7")) == 20
    monkeypatch.setattr(eligibility, "MAX_COLUMNS", 130)
    assert len(same_rows(spark, path, "*")) == 20


def test_a_scan_is_planned_once(spark, tmp_path, bridge, monkeypatch):
    from twostage.planning import plan as planning

    planned = []
    original = planning.plan_scan
    monkeypatch.setattr(planning, "plan_scan", lambda *a, **k: planned.append(1) or original(*a, **k))
    frame = load(spark, simple(tmp_path / "t"))
    for number, where in enumerate(
        ("id < 150", "id < 150 AND upper(name) = 'N3'", "name LIKE 'n3%'"), start=1
    ):
        frame.where(where).select("name").collect()
        assert len(planned) == number, where


def test_each_of_many_scans_is_planned_once(spark, tmp_path, monkeypatch):
    """Spark asks about all of a query's scans before it plans the first."""
    from twostage.planning import plan as planning

    planned = []
    original = planning.plan_scan
    monkeypatch.setattr(planning, "plan_scan", lambda *a, **k: planned.append(1) or original(*a, **k))
    frame = load(spark, simple(tmp_path / "t"))
    parts = [
        frame.where(f"id = {number} AND upper(name) = 'N{number % 7}'").select("name") for number in range(20)
    ]
    rows = functools.reduce(DataFrame.union, parts).collect()
    assert sorted(row.name for row in rows) == sorted(f"n{number % 7}" for number in range(20))
    assert len(planned) == 20
    rows = functools.reduce(DataFrame.union, [parts[3]] * 5).collect()
    assert [row.name for row in rows] == ["n3"] * 5
    assert len(planned) == 21
    reports = twostage.scans(spark)[-5:]
    assert len({report.scan_id for report in reports}) == 5
    assert [report.count("rows.fetched") for report in reports] == [1] * 5


CLUSTER = (
    LOCAL_CLUSTER
    + """
for path in {paths!r}:
    frame = spark.read.format("twostage").load(path).selectExpr("sum(id)", "count(name)")
    print("plan", "TwoStageFiles" in frame._jdf.queryExecution().executedPlan().toString())
    print("rows", tuple(frame.collect()[0]))
spark.stop()
"""
)


def test_executors_need_none_of_our_classes(tmp_path):
    clean = simple(tmp_path / "clean")
    table = Table(tmp_path / "deleted", {"id": "long", "name": "string"})
    file = table.append([{"id": number, "name": "n"} for number in range(200)], row_group_size=50)
    table.delete_positions({file: [0, 120]})
    out = run_python(CLUSTER.format(confs=SPARK_CONFS, paths=[str(clean), str(table.write())]), cwd=tmp_path)
    assert out.count("plan True") == 2
    assert f"rows ({sum(range(200))}, 200)" in out
    assert f"rows ({sum(range(200)) - 120}, 198)" in out


def test_sides_of_which_keys_have_many_rows_are_sorted(spark, tmp_path):
    """Their hash table would have long chains. One that only tells whether a key is there has none, and few rows follow few."""
    few = "(SELECT a.* FROM facts a JOIN facts c ON a.id = c.id WHERE a.id < 10)"
    made = Table(tmp_path / "t", {"id": "long", "k": "int"})
    made.append([{"id": n, "k": n // 20} for n in range(20_000)])
    load(spark, made.write()).createOrReplaceTempView("facts")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "150000")
    try:
        for query, rows, is_sorted in (
            ("SELECT a.id, b.id FROM facts a JOIN facts b ON a.k = b.k", 400_000, True),
            ("SELECT a.id, b.k FROM facts a JOIN facts b ON a.id = b.id", 20_000, False),
            ("SELECT a.id, b.id FROM facts a LEFT JOIN facts b ON a.k = b.k AND a.id < b.id", 191_000, True),
            ("SELECT a.id FROM facts a WHERE a.k IN (SELECT k FROM facts)", 20_000, False),
            (f"SELECT few.id, b.id FROM {few} few JOIN facts b ON few.k = b.k", 200, False),
        ):
            frame = spark.sql(query)
            assert frame.count() == rows
            plan = executed_plan(frame)
            assert is_native(frame)
            assert ("SortMergeJoin" in plan, "BroadcastHashJoin" in plan) == (is_sorted, not is_sorted), query
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
