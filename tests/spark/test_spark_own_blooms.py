"""Spark's own Bloom filters of join keys (`InjectRuntimeFilter`): the scan evaluates them, and the rows stay the same."""

from __future__ import annotations

import datetime

import pytest

import twostage
from joined_tables import confs
from lakehouse import executed_plan
from native_scans import load
from tables import Table

PRUNING = "org.apache.spark.sql.execution.dynamicpruning.PartitionPruning"
DAY = datetime.date(2024, 1, 1)
TIME = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
COLUMNS = {"n": "int", "l": "long", "s": "string", "day": "date", "ts": "timestamptz", "p": {"a": "long"}}
SETTINGS = {
    "autoBroadcastJoinThreshold": "-1",
    "optimizer_excludedRules": PRUNING,
    "optimizer_runtime_bloomFilter_enabled": "true",
    "optimizer_runtime_bloomFilter_applicationSideScanSizeThreshold": "0",
}


def _row(place: int) -> dict:
    if place % 40 == 0:
        return {"id": place, "v": place % 10}
    return {
        "id": place,
        "v": place % 10,
        "n": place,
        "l": place * 10**10 if place % 2 else place,
        "s": f"s{place}",
        "day": DAY + datetime.timedelta(days=place),
        "ts": TIME + datetime.timedelta(hours=place),
        "p": {"a": place},
    }


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    """Views `fact`, ours, 400 rows in four files, and `dim`, 60 rows of Parquet, whose filter Spark sees."""
    folder = tmp_path_factory.mktemp("blooms")
    fact = Table(folder / "fact", {"id": "int", "v": "int", **COLUMNS})
    for first in range(0, 400, 100):
        fact.append([_row(place) for place in range(first, first + 100)], row_group_size=25)
    frame = load(spark, fact.write(), **{"scan.native": "never"})
    frame.createOrReplaceTempView("fact")
    frame.where("id % 7 = 0").write.parquet(str(folder / "dim"))
    spark.read.parquet(str(folder / "dim")).createOrReplaceTempView("dim")


def asked(spark, query: str):
    """Return a query's rows, the report of the scan of `fact`, and the frame."""
    seen = {report.scan_id for report in twostage.scans(spark)}
    frame = spark.sql(query)
    rows = sorted(tuple(row) for row in frame.collect())
    reports = [one for one in twostage.scans(spark) if one.scan_id not in seen and "/fact" in one.table]
    return rows, reports, frame


def query(key: str, other: str | None = None) -> str:
    return f"SELECT f.id, d.v FROM fact f JOIN dim d ON f.{key} = d.{other or key} WHERE d.v < 3"


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize("key", [*(name for name in COLUMNS if name != "p"), "p.a", "n = d.l", "two"])
def test_the_scan_evaluates_them(spark, tables, key, adaptive):
    text = query(key)
    if " " in key:
        text = query("n", "l")
    if key == "two":
        text = query("n", "n AND f.s = d.s")
    with confs(spark, adaptive_enabled=adaptive, optimizer_runtime_bloomFilter_enabled="false"):
        expected, _, _ = asked(spark, text)
    with confs(spark, adaptive_enabled=adaptive, **SETTINGS):
        with confs(spark, "spark.twostage.dynamicFilter.", maxBuildShare="0"):
            found, (report,), frame = asked(spark, text)
    assert found == expected
    assert expected
    assert "might_contain" in executed_plan(frame)  # above the scan, as ever
    if key == "two":  # Spark has merged the two, and keeps them
        assert "Bloom filter" not in report.predicate
        return
    assert "IN Bloom filter of" in report.predicate, report.predicate
    assert report.count("rows.fetched") < 60 < 400
    (join,) = [join for join in report.joins if join.form == "Bloom filter"]
    assert (join.keys, join.broadcast) == (None, False)


def test_the_filter_is_made_once(spark, tables):
    """Spark's filter and ours take it from one exchange."""
    with confs(spark, adaptive_enabled="false", **SETTINGS):
        with confs(spark, "spark.twostage.dynamicFilter.", maxBuildShare="0"):
            _, (report,), frame = asked(spark, query("n"))
    assert "IN Bloom filter of" in report.predicate
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "ReusedExchange" in plan, plan


@pytest.mark.parametrize("condition", ["d.v < 0", "d.v = 0 AND d.id % 40 = 0"])
def test_of_no_key_and_of_nulls(spark, tables, condition):
    """A filter of no rows is NULL, and none passes. (With adaptive execution the query may end before its scan is planned.)"""
    text = f"SELECT f.id FROM fact f LEFT SEMI JOIN dim d ON f.n = d.n AND {condition}"
    with confs(spark, adaptive_enabled="false", **SETTINGS):
        with confs(spark, "spark.twostage.dynamicFilter.", maxBuildShare="0"):
            found, reports, _ = asked(spark, text)
    assert found == []
    assert sum(report.count("rows.fetched") for report in reports) == 0


def test_keys_of_the_join_need_no_bloom_filter(spark, tables):
    with confs(spark, **SETTINGS):
        with confs(spark, "spark.twostage.dynamicFilter.", maxBuildShare="1000"):
            _, reports, _ = asked(spark, query("n"))
    predicates = [report.predicate for report in reports]
    assert "n IN (" in " ".join(predicates)
    assert "Bloom" not in " ".join(predicates), predicates


@pytest.mark.parametrize("off", [{"maxBloomKeys": "0"}, {"enabled": "false"}])
def test_off(spark, tables, off):
    with confs(spark, **SETTINGS), confs(spark, "spark.twostage.dynamicFilter.", maxBuildShare="0", **off):
        found, (report,), _ = asked(spark, query("n"))
    assert len(found) == len({row[0] for row in found}) > 3
    assert "Bloom" not in report.predicate
