"""Columns equal but for case: every way to ask for them, whether the session tells them apart or not.

A session that does not finds no such column by name, and says so; all columns, or columns under other names, it reads.
"""

from __future__ import annotations

import pytest

import twostage
from lakehouse import executed_plan
from native_scans import load
from tables import Table

COLUMNS = {"id": "long", "ID": "long", "Name": "string", "name": "string", "s": {"x": "int", "X": "int"}}
ROWS = [(i, -i, f"A{i}", f"b{i}", (i, i + 1000)) for i in range(20)]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    table = Table(tmp_path_factory.mktemp("case") / "t", COLUMNS)
    for some in (ROWS[:10], ROWS[10:]):
        table.append(
            [
                dict(zip(COLUMNS, row[:4], strict=False)) | {"s": {"x": row[4][0], "X": row[4][1]}}
                for row in some
            ]
        )
    return table.write()


@pytest.fixture(params=["auto", "never"])
def read(spark, path, request):
    return lambda **options: load(spark, path, **{"scan.native": request.param, **options})


@pytest.fixture(params=["true", "false"])
def any_case(spark, request):
    spark.conf.set("spark.sql.caseSensitive", request.param)
    yield request.param == "true"
    spark.conf.unset("spark.sql.caseSensitive")


@pytest.fixture
def exact_case(spark):
    spark.conf.set("spark.sql.caseSensitive", "true")
    yield
    spark.conf.unset("spark.sql.caseSensitive")


def test_all_columns(read, any_case, capsys):
    assert sorted(read().collect()) == ROWS
    assert len(read().limit(3).collect()) == len(read().take(3)) == len(read().tail(3)) == 3
    assert sorted(read().distinct().collect()) == ROWS
    assert read().count() == 20
    read().show(2)
    assert "id| ID|Name|name|" in capsys.readouterr().out


def test_under_other_names(spark, read, any_case):
    """What is pushed to the scan has the table's own names, each of which the session finds twice."""
    frame = read().toDF("a", "b", "c", "d", "e")
    assert frame.where("b = -3").select("a", "d").collect() == [(3, "b3")]
    assert frame.where("c = 'A3' AND d <> 'b4'").select("b").collect() == [(-3,)]
    assert frame.selectExpr("min(b)", "max(a)", "count(c)").collect() == [(-19, 19, 20)]
    assert frame.orderBy("b").limit(2).select("a").collect() == [(19,), (18,)]
    assert sorted(frame.groupBy("d").count().collect()) == sorted((row[3], 1) for row in ROWS)
    spark.range(100).selectExpr("-id AS k", "id % 7 AS v").createOrReplaceTempView("keys")
    frame.createOrReplaceTempView("renamed")
    joined = spark.sql(
        "SELECT /*+ BROADCAST(k) */ a FROM renamed JOIN keys k ON b = k.k WHERE v = 3 AND a > 4"
    )
    assert sorted(joined.collect()) == [(10,), (17,)]


def test_options(read, any_case):
    assert sorted(read(columns="ID, name").collect()) == sorted((row[1], row[3]) for row in ROWS)
    assert read(columns="s.X", filter="ID = -5 AND name = 'b5'").collect() == [((1005,),)]
    assert read(columns="s.x", filter="s.X = 1005").collect() == [((5,),)]
    for options in ({"columns": "iD"}, {"filter": "iD = -5"}, {"columns": "NAME"}):
        with pytest.raises(Exception, match=r"UNKNOWN_COLUMN.*differ only in case: (ID, id|Name, name)\."):
            read(**options)


def test_by_name(spark, read, exact_case):
    read().createOrReplaceTempView("cases")
    assert spark.sql("SELECT ID, name FROM cases WHERE id = 5").collect() == [(-5, "b5")]
    assert spark.sql("SELECT id, Name FROM cases WHERE ID = -5 AND name LIKE 'b%'").collect() == [(5, "A5")]
    assert spark.sql("SELECT min(id), min(ID), count(name) FROM cases").collect() == [(0, -19, 20)]
    assert spark.sql("SELECT id FROM cases ORDER BY ID LIMIT 2").collect() == [(19,), (18,)]
    assert spark.sql("SELECT s.X, s.x FROM cases WHERE s.X = 1003").collect() == [(1003, 3)]
    spark.range(4).selectExpr("-id AS k", "id AS v").createOrReplaceTempView("keys")
    frame = spark.sql(
        "SELECT /*+ BROADCAST(k) */ id FROM cases JOIN keys k ON ID = k.k WHERE v > 0 AND v < 3"
    )
    assert sorted(frame.collect()) == [(1,), (2,)]


def test_join_keys_prune_by_the_right_column(spark, read, exact_case):
    read(**{"scan.native": "never"}).createOrReplaceTempView("cases")
    spark.range(10, 30).selectExpr("-id AS k", "id AS v").createOrReplaceTempView("keys")
    frame = spark.sql(
        "SELECT /*+ BROADCAST(k) */ id, name FROM cases JOIN keys k ON ID = k.k WHERE v + k.k = 0"
    )
    assert "dynamicpruning" in executed_plan(frame)
    assert sorted(frame.collect()) == [(row[0], row[3]) for row in ROWS[10:]]
    report = twostage.last_scan(spark)
    assert "ID IN (" in report.predicate
    assert report.count("files.pruned.bounds") == 1


def test_a_scan_whose_columns_spark_asks_for_is_planned_once(read, bridge):
    before = bridge.calls.get("plan", 0)
    read(**{"scan.native": "never"}).where("true").collect()
    assert bridge.calls["plan"] - before == 1
