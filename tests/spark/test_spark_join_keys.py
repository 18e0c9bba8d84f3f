"""Scans below joins: who reads them, what keys of a join filter, and the same rows as of plain Parquet."""

from __future__ import annotations

import pytest

import twostage
from joined_tables import (
    BROADCAST,
    NO_KEYS,
    SCALAR,
    SORTED,
    TWICE,
    bytes_of,
    clear_reports,
    confs,
    count_as_large,
    make_tables,
    ours,
    plain,
    readers,
    same,
    view,
)
from lakehouse import canonical, executed_plan
from native_scans import load


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    return make_tables(spark, tmp_path_factory.mktemp("joined"))


@pytest.fixture
def large(monkeypatch, tables):
    """Let the scan of `fact` count as a large one, of which keys of a join could save much."""
    count_as_large(monkeypatch, bytes_of(tables["fact"]))


# ---- who reads


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_small_sides_of_joins_are_spark_s(spark, tables, bridge, adaptive):
    view(spark, tables)
    with confs(spark, adaptive_enabled=adaptive):
        clear_reports(bridge)
        frame = same(spark, BROADCAST)
        assert readers(frame) == (2, 0)
        reports = twostage.scans(spark)
        assert [report.is_handed_over for report in reports] == [True, True]
        assert any("its files are small, and a join waits for it" in str(report) for report in reports)
    # Without a join, a filter over a small table stays as it was.
    assert readers(spark.sql("SELECT id FROM dim WHERE v < 3")) == (0, 1)


def test_a_semi_join_waits_too(spark, tables):
    view(spark, tables)
    assert readers(same(spark, "SELECT id FROM {fact} WHERE v < 5 AND n IN (SELECT n FROM {dim})"))[0] >= 1
    query = (
        "SELECT id FROM {fact} f WHERE f.v < 5 AND EXISTS (SELECT 1 FROM {dim} d WHERE d.n = f.n AND d.v < 4)"
    )
    assert readers(same(spark, query))[0] >= 1


@pytest.mark.parametrize(
    "condition",
    ["n IN (SELECT n FROM {dim} WHERE v < 3)", "EXISTS (SELECT 1 FROM {dim} d WHERE d.n = f.n AND d.v < 3)"],
)
def test_keys_of_a_subquery_filter_rows(spark, tables, large, condition):
    """Spark optimizes a subquery by itself, before it becomes a join: its side is Spark's, and its filter is seen."""
    view(spark, tables)
    frame = same(spark, f"SELECT id, s FROM {{fact}} f WHERE {condition}")
    assert readers(frame) == (1, 1)
    report = next(scan for scan in twostage.scans(spark)[::-1] if not scan.is_handed_over)
    assert "n IN (" in report.predicate


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_a_scan_that_gets_keys_stays(spark, tables, large, bridge, adaptive):
    view(spark, tables)
    with confs(spark, adaptive_enabled=adaptive):
        clear_reports(bridge)
        frame = same(spark, BROADCAST)
        assert "dynamicpruning#" in frame._jdf.queryExecution().optimizedPlan().toString()
        assert "ReusedExchange" in executed_plan(frame) or adaptive == "true"
    filtered = [report for report in twostage.scans(spark) if "n IN (" in report.predicate]
    assert len(filtered) == 1, "\n".join(map(str, twostage.scans(spark)))
    assert "/fact/" in filtered[0].table
    assert "join keys filter it" in str(filtered[0])
    assert "may prune" not in str(filtered[0])
    assert len(twostage.scans(spark)) == 2


def test_off_keys_only_prune(spark, tables, large, bridge):
    view(spark, tables, **{"dynamic-filter": "off"})
    clear_reports(bridge)
    same(spark, BROADCAST)
    reports = twostage.scans(spark)
    assert not any("n IN (" in report.predicate for report in reports)
    assert any("n IN (" in report.hint for report in reports)


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize("query", [BROADCAST, SORTED])
def test_a_scan_that_gets_no_keys_is_handed_over(spark, tables, large, bridge, adaptive, query):
    view(spark, tables)
    with confs(spark, adaptive_enabled=adaptive, optimizer_dynamicPartitionPruning_enabled="false"):
        clear_reports(bridge)
        before = dict(bridge.calls)
        frame = same(spark, query)
        assert readers(frame)[0] >= 1
        assert "TwoStageFiles" in executed_plan(frame)
        assert bridge.calls["hand_over"] - before.get("hand_over", 0) == 3  # two scans, one of them twice
        reports = twostage.scans(spark)
        assert len(reports) == 2, "\n".join(map(str, reports))
        (late,) = [report for report in reports if NO_KEYS in str(report)]
        assert late.is_handed_over
        assert "Not handed" not in str(late)
        # The plan is there already: neither of these decides, plans or reads again.
        calls = dict(bridge.calls)
        frame.explain("extended")
        assert len(twostage.scans(spark)) == 2
        assert canonical(frame.collect()) == canonical(spark.sql(plain(query)).collect())
        assert bridge.calls["hand_over"] == calls["hand_over"]
        assert bridge.calls.get("plan", 0) == calls.get("plan", 0)


def test_a_late_scan_is_planned_once(spark, tables, large, monkeypatch):
    from twostage.planning import plan as planning

    view(spark, tables)
    made = []
    original = planning.plan_scan
    monkeypatch.setattr(planning, "plan_scan", lambda *a, **k: made.append(k["scan_id"]) or original(*a, **k))
    with confs(spark, optimizer_dynamicPartitionPruning_enabled="false"):
        frame = spark.sql(ours(SORTED))
        assert readers(frame)[0] >= 1
    assert len(made) == 2, made


def test_predicates_of_a_late_scan_are_spark_s(spark, tables, large):
    """What our scan had taken over is in a filter again: conditions of the user, and those that Spark inferred."""
    view(spark, tables)
    with confs(spark, optimizer_dynamicPartitionPruning_enabled="false"):
        for condition in (
            "f.v >= 0",
            "f.v >= 0 AND f.v >= 0 AND f.n < 30",
            "(f.v < 9 OR f.s = 'a0') AND f.n IS NOT NULL",
            "f.v + 1 > 0 AND f.v > -1 AND rand() >= 0",
            "f.id IN (0, 1, 2, 1001, 2002, 3003) OR f.v < 9",
        ):
            query = f"{BROADCAST} AND {condition}"
            expected = canonical(spark.sql(plain(query)).collect())
            assert canonical(spark.sql(ours(query)).collect()) == expected, condition


def test_a_late_scan_under_a_limit_stays(spark, tables, large):
    view(spark, tables)
    with confs(spark, optimizer_dynamicPartitionPruning_enabled="false"):
        query = f"SELECT count(*) FROM ({BROADCAST} LIMIT 5)"
        assert spark.sql(ours(query)).collect() == spark.sql(plain(query)).collect()
        query = (
            "SELECT f.id, d.v FROM (SELECT id, n FROM {fact} ORDER BY id DESC LIMIT 7) f "
            "JOIN {dim} d ON f.n = d.n WHERE d.v < 7"
        )
        same(spark, query)
        query = "SELECT count(*) FROM (SELECT n FROM {fact} LIMIT 9) f LEFT JOIN (SELECT n FROM {dim} WHERE v > 99) d ON f.n = d.n"
        same(spark, query)


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize("pruning", ["true", "false"])
def test_self_joins_unions_subqueries_and_caches(spark, tables, large, adaptive, pruning):
    view(spark, tables)
    with confs(spark, adaptive_enabled=adaptive, optimizer_dynamicPartitionPruning_enabled=pruning):
        for query in (
            "SELECT a.id, b.id FROM {fact} a JOIN {fact} b ON a.n = b.n WHERE b.v < 2",
            TWICE,
            f"{BROADCAST} UNION ALL {SORTED} UNION ALL SELECT id, s, v FROM {{other}}",
            "SELECT id FROM {fact} WHERE n IN (SELECT f.n FROM {other} f JOIN {dim} d ON f.l = d.l WHERE d.v < 4)",
            SCALAR,
            "SELECT f.id, (SELECT max(d.v) FROM {dim} d WHERE d.n = f.n AND d.v < 5) FROM {fact} f",
            "SELECT id FROM {fact} f WHERE NOT EXISTS (SELECT 1 FROM {dim} d WHERE d.n = f.n AND d.v < 5)",
            "SELECT id FROM {fact} WHERE n NOT IN (SELECT n FROM {dim} WHERE v < 5 AND n IS NOT NULL)",
            "SELECT f.id FROM {fact} f JOIN {none} d ON f.n = d.n WHERE d.v < 100",
        ):
            same(spark, query)
        cached = spark.sql(ours(BROADCAST)).cache()
        try:
            expected = canonical(spark.sql(plain(BROADCAST)).collect())
            assert canonical(cached.collect()) == canonical(cached.collect()) == expected
            cached.createOrReplaceTempView("cached")
            joined = "SELECT f.id, c.s FROM {} f JOIN cached c ON f.id = c.id WHERE c.v < 2"
            assert canonical(spark.sql(joined.format("fact")).collect()) == canonical(
                spark.sql(joined.format("plain_fact")).collect()
            )
        finally:
            cached.unpersist()


def test_metadata_columns_stay(spark, tables, large):
    view(spark, tables)
    with confs(spark, optimizer_dynamicPartitionPruning_enabled="false"):
        fact = load(spark, tables["fact"]).select("id", "n", "_pos", "_file")
        frame = fact.join(spark.table("dim").where("v < 3").selectExpr("n"), on="n")
        found = [(row.id, row._pos) for row in frame.collect()]
        assert found
        assert all(number % 1000 == position for number, position in found)
        assert "the table has no column _" in executed_plan(frame)


# ---- keys filter rows


@pytest.mark.parametrize("key", ["n", "l", "s", "real", "wide", "amount", "day", "ts", "raw", "flag"])
def test_keys_of_each_type(spark, tables, large, bridge, key):
    """NULL, NaN, both zeros, infinities: those keys that the join finds equal, and no others."""
    view(spark, tables)
    clear_reports(bridge)
    # Spark offers keys only of a side with a filter that it takes for selective.
    query = f"SELECT /*+ BROADCAST(d) */ f.id, d.id FROM {{fact}} f JOIN {{tiny}} d ON f.{key} = d.{key} WHERE d.v >= 0 AND d.id < 500"
    same(spark, query)
    reports = [report for report in twostage.scans(spark) if "fact" in str(report).partition("\n")[0]]
    said = [
        report for report in reports if f"{key} IN (" in report.predicate or f"{key} =" in report.predicate
    ]
    assert len(reports) == 1
    assert said or key in ("real", "wide", "raw", "flag"), str(reports[0])


def test_many_keys_filter_by_their_range(spark, tables, large, bridge):
    view(spark, tables)
    spark.range(5000).selectExpr("1000 + id % 3000 AS k", "id AS v").createOrReplaceTempView("many")
    clear_reports(bridge)
    query = "SELECT /*+ BROADCAST(m) */ f.id, m.v FROM {} f JOIN many m ON f.id = m.k WHERE m.v < 4900"
    found = canonical(spark.sql(query.format("fact")).collect())
    assert found == canonical(spark.sql(query.format("plain_fact")).collect())
    (report,) = twostage.scans(spark)
    assert "id >= 1000 AND id <= 3999" in report.predicate


def test_two_dimensions_filter_one_scan(spark, tables, large, bridge):
    view(spark, tables)
    clear_reports(bridge)
    query = (
        "SELECT /*+ BROADCAST(d), BROADCAST(o) */ f.id FROM {fact} f JOIN {dim} d ON f.n = d.n JOIN {tiny} o ON f.s = o.s "
        "WHERE d.v < 8 AND o.v >= 0 AND o.id >= 0"
    )
    same(spark, query)
