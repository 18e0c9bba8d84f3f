"""What reaches Python from a query, and what Spark still does itself."""

from __future__ import annotations

import pytest

import twostage
from lakehouse import ODD, canonical, executed_plan
from twostage.handover import eligibility

EXACT = [
    "id = 7",
    "id <> 7",
    "id < 20 AND price > -18.5",
    "id <= 20 OR device = 'd3'",
    "id >= 290 OR (device = 'd1' AND flag)",
    "price > 50",
    "price <=> NULL",
    "NOT (price > 10)",
    "NOT (device = 'd3' OR id < 250)",
    "id IN (1, 2, 3, 299, 1000)",
    "id NOT IN (1, 2, 3)",
    "device IN ('d1', 'd2')",
    "device IS NULL",
    "device IS NOT NULL AND id < 50",
    "device LIKE 'd1%'",
    "device LIKE '%3'",
    "device LIKE '%d%' AND id > 280",
    "person.age = 7",
    "person.name = 'n2' AND person.age > 40",
    "person IS NULL",
    "amount = 1.23",
    "amount > 2.5",
    "day = DATE'2024-01-05'",
    "day BETWEEN DATE'2024-01-05' AND DATE'2024-01-07'",
    "ts > TIMESTAMP'2023-12-31 20:00:00'",
    "local = TIMESTAMP_NTZ'2024-01-01 05:00:00'",
    "payload = X'10'",
    "flag",
    "NOT flag",
    "flag = false",
    "`odd.name ``x y` = 5",
    "`odd.name ``x y` > id",
    "id IN (" + ", ".join(str(number * 3) for number in range(1000)) + ")",
]
HANDED_BACK = [
    "upper(device) = 'D3'",
    "id % 7 = 3",
    "id < 50 AND length(device) = 2 AND id % 2 = 0",
    "device = 'd1' OR upper(device) = 'D3'",
    "cast(id AS string) = '7'",
    "device COLLATE UNICODE_CI = 'D3'",
    "id + rand() < 7",
]


@pytest.mark.parametrize("predicate", EXACT, ids=lambda text: text[:40])
def test_predicate_is_taken_over(spark, predicate):
    query = "SELECT id FROM {} WHERE " + predicate
    frame = spark.sql(query.format("events"))
    plan = executed_plan(frame)
    assert "Filter" not in plan.replace("RuntimeFilters", ""), plan
    got = frame.collect()
    assert canonical(got) == canonical(spark.sql(query.format("plain")).collect())
    assert twostage.last_scan(spark).columns == ("id",)


@pytest.mark.parametrize("predicate", HANDED_BACK, ids=lambda text: text[:40])
def test_predicate_is_handed_back(spark, predicate):
    query = "SELECT id FROM {} WHERE " + predicate
    frame = spark.sql(query.format("events"))
    assert "Filter" in executed_plan(frame).replace("RuntimeFilters", "")
    assert canonical(frame.collect()) == canonical(spark.sql(query.format("plain")).collect())


def test_what_is_handed_back_still_prunes(spark):
    frame = spark.sql("SELECT count(*) FROM events WHERE (id > 250 AND upper(device) = 'D3') OR id = 299")
    assert frame.collect()[0][0] > 0
    report = twostage.last_scan(spark)
    assert report.predicate == "TRUE"
    assert "id" in report.hint
    assert report.count("files.pruned.bounds") + report.count("files.pruned.partition") == 2


def test_explain_shows_the_scan(spark, warehouse):
    plan = executed_plan(spark.sql("SELECT price, id FROM events WHERE id = 7 OR device = 'd1'"))
    assert warehouse.events in plan
    assert f"snapshot {warehouse.snapshots[-1]}" in plan
    assert "predicates [id = 7 OR device = 'd1']" in plan
    assert "columns [id, price]" in plan


def test_explain_shows_literals_as_the_query_has_them(spark):
    """Not as days and microseconds; moments with a zone in UTC."""
    where = (
        "ts >= TIMESTAMP'2023-12-31 20:00:00' AND local < TIMESTAMP_NTZ'2024-01-02 00:00:00.25' AND "
        "day IN (DATE'2024-01-01', DATE'2024-01-02') AND amount > 0.10 AND payload <> X'00'"
    )
    frame = spark.sql(f"SELECT id FROM events WHERE {where}")
    shown = (
        "ts >= TIMESTAMP '2024-01-01 01:00:00Z'",
        "local < TIMESTAMP_NTZ '2024-01-02 00:00:00.250000'",
        "day IN (DATE '2024-01-01', DATE '2024-01-02')",
        "> 0.10",
        "X'00'",
    )
    plan = executed_plan(frame)
    frame.collect()
    for text in shown:
        assert text in plan
        assert text in twostage.last_scan(spark).predicate


def test_only_wanted_columns_return(spark):
    spark.sql("SELECT price FROM events WHERE device = 'd1' AND flag").collect()
    assert twostage.last_scan(spark).columns == ("price",)


def test_struct_is_pruned(spark):
    frame = spark.sql("SELECT person.age FROM events WHERE id < 10")
    assert canonical(frame.collect()) == canonical(
        spark.sql("SELECT person.age FROM plain WHERE id < 10").collect()
    )
    scan = [node for node in executed_plan(frame).splitlines() if "BatchScan" in node][0]
    assert "columns [person]" in scan
    described = frame._jdf.queryExecution().optimizedPlan().collectLeaves().head().output().head().dataType()
    assert "name" not in described.catalogString()


def test_all_columns_come_back(spark):
    assert canonical(spark.table("events").collect()) == canonical(spark.table("plain").collect())


def test_odd_names(spark):
    quoted = "`" + ODD.replace("`", "``") + "`"
    query = f"SELECT {quoted}, id FROM {{}} WHERE {quoted} IN (3, 4) OR {quoted} IS NULL"
    frame = spark.sql(query.format("events"))
    assert canonical(frame.collect()) == canonical(spark.sql(query.format("plain")).collect())
    assert set(twostage.last_scan(spark).columns) == {"id", ODD}


def test_count_reads_no_column(spark):
    assert spark.sql("SELECT count(*) FROM events WHERE id <> 7").collect()[0][0] == 299
    assert twostage.last_scan(spark).columns == ()
    assert spark.sql("SELECT count(*) FROM events WHERE device = 'd1'").collect() == (
        spark.sql("SELECT count(*) FROM plain WHERE device = 'd1'").collect()
    )


def test_limit_reaches_the_scan(spark):
    frame = spark.sql("SELECT id FROM events WHERE id >= 100 LIMIT 3")
    assert "limit 3" in executed_plan(frame)
    found = frame.collect()
    assert len({row.id for row in found}) == 3
    assert all(row.id >= 100 for row in found)
    assert twostage.last_scan(spark).limit == 3


def test_limit_stays_with_spark_above_a_filter_of_its_own(spark):
    frame = spark.sql("SELECT id FROM events WHERE upper(device) = 'D3' LIMIT 5")
    assert "limit 5" not in executed_plan(frame)
    assert len(frame.collect()) == 5


def test_order_by_limit(spark):
    query = "SELECT id FROM {} WHERE device = 'd2' ORDER BY id DESC LIMIT 4"
    assert spark.sql(query.format("events")).collect() == spark.sql(query.format("plain")).collect()


@pytest.fixture
def large_scans(monkeypatch):
    """Small sides of joins are Spark's: let none count as small, nor as one of which keys could save little."""
    monkeypatch.setattr(eligibility, "MIN_BYTES_TO_PROBE", 0)
    monkeypatch.setattr(eligibility, "MAX_JOIN_COLUMN_BYTES", 0)


def test_statistics_make_a_broadcast_join(spark, large_scans):
    spark.conf.set("spark.sql.cbo.enabled", "true")  # Spark 4.3 asks for the number of rows only then
    try:
        frame = spark.sql("SELECT a.id FROM events a JOIN plain b ON a.id = b.id WHERE a.device = 'd3'")
        leaves = frame._jdf.queryExecution().optimizedPlan().collectLeaves()
        scan = next(
            leaf
            for leaf in (leaves.apply(place) for place in range(2))
            if "ScanRelation" in leaf.getClass().getName()
        )
        assert 0 < int(str(scan.stats().sizeInBytes())) < 1_000_000
        assert 0 < int(str(scan.stats().rowCount().get())) <= 300
        assert "BroadcastHashJoin" in executed_plan(frame)
    finally:
        spark.conf.unset("spark.sql.cbo.enabled")


def test_plans_once_per_query(spark, bridge):
    for query in (
        "SELECT id FROM events WHERE id < 40",
        "SELECT device, count(*) FROM events WHERE id < 250 GROUP BY device ORDER BY 2",
        "SELECT id FROM events LIMIT 3",
    ):
        before = bridge.calls.get("plan", 0), bridge.calls.get("read", 0)
        frame = spark.sql(query)
        frame.explain("formatted")
        frame.collect()
        assert (bridge.calls["plan"] - before[0], bridge.calls["read"] - before[1]) == (1, 1), query


def test_exchange_of_equal_scans_is_reused(spark, bridge):
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        frame = spark.sql(
            "WITH g AS (SELECT device, count(*) n FROM events WHERE id < 200 GROUP BY device) "
            "SELECT a.device, a.n, b.n FROM g a JOIN g b ON a.device = b.device"
        )
        expected = spark.sql(
            "WITH g AS (SELECT device, count(*) n FROM plain WHERE id < 200 GROUP BY device) "
            "SELECT a.device, a.n, b.n FROM g a JOIN g b ON a.device = b.device"
        )
        assert canonical(frame.collect()) == canonical(expected.collect())
        assert "ReusedExchange" in executed_plan(frame)
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


@pytest.mark.parametrize("keys", [5, 5000])
def test_join_keys_prune(spark, large_scans, keys):
    """Few keys travel as they are, many as their range; either way two of the three files are not read."""
    spark.range(keys).selectExpr("250 + id % 40 AS k", "id % 3 AS v", "id").createOrReplaceTempView("small")
    wanted = "SELECT /*+ BROADCAST(s) */ e.id, s.v FROM {} e JOIN small s ON e.id = s.k WHERE s.v < 2 AND s.id >= 0"
    frame = spark.sql(wanted.format("events"))
    assert canonical(frame.collect()) == canonical(spark.sql(wanted.format("plain")).collect())
    plan = executed_plan(frame)
    assert "dynamicpruning" in plan, plan
    report = twostage.last_scan(spark)
    assert report.count("files.considered") == 3
    assert report.count("files.pruned.bounds") + report.count("files.pruned.partition") == 2


def test_many_join_keys_travel_as_a_set(spark, bridge, large_scans, monkeypatch):
    sent = []
    original = bridge.apply
    monkeypatch.setattr(bridge, "apply", lambda text: sent.append(text) or original(text))
    spark.range(5000).selectExpr("id * 2 AS k", "id AS v").createOrReplaceTempView("many")
    query = "SELECT /*+ BROADCAST(s) */ count(*) FROM {} e JOIN many s ON e.id = s.k WHERE s.v < 4900"
    assert spark.sql(query.format("events")).collect() == spark.sql(query.format("plain")).collect()
    plans = [text for text in sent if '"call":"read"' in text and '"in_keys"' in text]
    assert plans
    assert max(len(text) for text in sent) < 10_000  # a list of 4,900 keys is longer than 25,000


def test_empty_table_and_impossible_predicate_run_no_task(spark, warehouse):
    empty = spark.read.format("twostage").load(warehouse.empty)
    assert empty.collect() == []
    assert empty.count() == 0
    assert empty._jdf.queryExecution().executedPlan().execute().getNumPartitions() == 0
    assert spark.sql("SELECT id FROM events WHERE id < 0").collect() == []
    assert twostage.last_scan(spark).tasks_planned == 0


def test_cached_table(spark):
    frame = spark.sql("SELECT id, device FROM events WHERE id < 50").cache()
    try:
        assert frame.count() == 50
        assert "InMemoryTableScan" in executed_plan(spark.sql("SELECT id, device FROM events WHERE id < 50"))
    finally:
        frame.unpersist()


def test_lists_and_maps(spark, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyiceberg.catalog.sql import SqlCatalog

    point = pa.struct([("x", pa.int32()), ("tags", pa.list_(pa.string()))])
    schema = pa.schema(
        [("id", pa.int64()), ("points", pa.list_(point)), ("by_name", pa.map_(pa.string(), point))]
    )
    values = [
        {"id": 1, "points": [{"x": 1, "tags": ["a", None]}, None], "by_name": [("k", {"x": 2, "tags": []})]},
        {"id": 2, "points": [], "by_name": []},
        {"id": 3, "points": None, "by_name": None},
    ]
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", schema=schema)
    # PyIceberg's own writer stores NULL lists and maps as empty ones.
    pq.write_table(pa.Table.from_pylist(values, schema=schema), tmp_path / "added.parquet")
    table.add_files([f"file://{tmp_path}/added.parquet"])
    catalog.engine.dispose()
    frame = spark.read.format("twostage").load(f"{tmp_path}/db/t").where("id <> 2")
    found = {row.id: row.asDict(recursive=True) for row in frame.collect()}
    assert found == {
        1: {"id": 1, "points": [{"x": 1, "tags": ["a", None]}, None], "by_name": {"k": {"x": 2, "tags": []}}},
        3: {"id": 3, "points": None, "by_name": None},
    }
    assert frame.selectExpr("points.x AS x").where("x IS NOT NULL").collect()[0].x == [1, None]
    assert frame.selectExpr("by_name['k'].x AS x").where("x = 2").count() == 1


def test_nulls_in_a_list_of_values(spark):
    for predicate in ("id IN (1, NULL)", "NOT (id IN (1, NULL))", "id NOT IN (1, 2) AND id < 9"):
        query = f"SELECT id FROM {{}} WHERE {predicate}"
        assert canonical(spark.sql(query.format("events")).collect()) == canonical(
            spark.sql(query.format("plain")).collect()
        )
