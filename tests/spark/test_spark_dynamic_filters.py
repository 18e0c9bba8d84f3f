"""Join keys that prune scans: few filters whatever the number of joins, for the scans that they serve, and the same rows."""

from __future__ import annotations

import pytest

import twostage
from lakehouse import canonical, executed_plan
from native_scans import load
from tables import Table


@pytest.fixture(scope="module")
def fact(tmp_path_factory):
    """Four files of 100 rows, each a range of `id`; `other` runs against it."""
    table = Table(tmp_path_factory.mktemp("fact") / "t", {"id": "long", "other": "long", "part": "int"})
    for first in range(0, 400, 100):
        table.append(
            [{"id": i, "other": 399 - i, "part": i % 3} for i in range(first, first + 100)], row_group_size=50
        )
    return table.write()


def optimized(frame) -> str:
    return frame._jdf.queryExecution().optimizedPlan().toString()


def filters(frame) -> int:
    """Count the filters by join keys in a plan, those inside of the sides that give the keys included."""
    return optimized(frame).count("dynamicpruning#")


def same_as_without(spark, query: str):
    """Return the rows, which are those of a session without such filters, and the query that gave them."""
    frame = spark.sql(query)
    found = canonical(frame.collect())
    spark.conf.set("spark.sql.optimizer.dynamicPartitionPruning.enabled", "false")
    try:
        plain = spark.sql(query)
        assert filters(plain) == 0
        assert canonical(plain.collect()) == found
    finally:
        spark.conf.unset("spark.sql.optimizer.dynamicPartitionPruning.enabled")
    return found, frame


def chain(joins: int) -> str:
    """A chain of joins, each of which could give the keys of all that it joined so far to the next side."""
    sides = "".join(f" JOIN fact t{n} ON t{n}.id = t{n - 1}.other" for n in range(1, joins + 1))
    return f"SELECT t0.id, t{joins}.other FROM fact t0{sides} WHERE t0.id % 5 < 4"


@pytest.mark.parametrize("threshold", ["10485760", "400000", "-1"])
@pytest.mark.parametrize("reused", ["true", "false"])
def test_their_number_is_linear(spark, fact, bridge, threshold, reused):
    """Of 12 joins Spark's own rule makes 4,095, each of which it plans, with all sides' scans."""
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", threshold)
    spark.conf.set("spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly", reused)
    load(spark, fact, **{"scan.native": "never"}).createOrReplaceTempView("fact")
    try:
        for joins in (2, 6, 12):
            before = bridge.calls.get("plan", 0)
            frame = spark.sql(chain(joins))
            assert filters(frame) <= joins
            assert bridge.calls["plan"] - before <= joins + 1
            assert "Scan" in executed_plan(frame)
            assert bridge.calls["plan"] - before <= joins + 1
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
        spark.conf.unset("spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly")


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_rows_of_a_chain(spark, fact, adaptive):
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        load(spark, fact, **{"scan.native": "never"}).createOrReplaceTempView("fact")
        found, _ = same_as_without(spark, chain(4))
        assert len(found) == 320
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")


def test_a_plan_has_at_most_32(spark, fact):
    load(spark, fact, **{"scan.native": "never"}).createOrReplaceTempView("fact")
    spark.range(300, 400).createOrReplaceTempView("keys")
    sides = [
        f"SELECT f.id FROM fact f JOIN (SELECT id FROM keys WHERE id % 7 < {1 + n % 6} + {n}) k ON f.id = k.id"
        for n in range(40)
    ]
    frame = spark.sql(" UNION ALL ".join(sides))
    assert filters(frame) == 32


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_the_largest_scan_is_filtered_by_a_join(spark, fact, tmp_path, adaptive):
    """The side that gives the keys is itself a join, which could be filtered, too: then its broadcast would be another."""
    dimension = Table(tmp_path / "d", {"id": "long", "region": "int"})
    for first in range(0, 400, 200):
        dimension.append([{"id": i, "region": i // 10} for i in range(first, first + 200, 10)])
    load(spark, dimension.write(), **{"scan.native": "never"}).createOrReplaceTempView("dimension")
    load(spark, fact, **{"scan.native": "never"}).createOrReplaceTempView("fact")
    spark.range(40).selectExpr("id AS region", "id % 4 AS kind").createOrReplaceTempView("regions")
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    query = (
        "SELECT /*+ BROADCAST(k) */ f.id, f.part FROM fact f JOIN (SELECT /*+ BROADCAST(r) */ d.id FROM dimension d JOIN regions r "
        "ON d.region = r.region WHERE r.kind = 1 AND r.region > 30) k ON f.id = k.id"
    )
    try:
        found, frame = same_as_without(spark, query)
        assert len(found) == 2
        assert filters(frame) == 1
        reports = twostage.scans(spark)
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
    with_keys = [report for report in reports if "id IN (" in report.predicate]
    assert with_keys, str(reports[-2])
    assert with_keys[-1].count("files.considered") == 4
    assert with_keys[-1].count("files.pruned.bounds") == 3


def test_a_small_file_waits_for_no_keys(spark, tmp_path):
    table = Table(tmp_path / "t", {"id": "long", "name": "string"})
    table.append([{"id": i, "name": f"n{i}"} for i in range(1000)])
    load(spark, table.write(), **{"scan.native": "never"}).createOrReplaceTempView("small")
    spark.range(50).createOrReplaceTempView("keys")
    query = "SELECT /*+ BROADCAST(k) */ s.name FROM small s JOIN keys k ON s.id = k.id WHERE k.id % 7 = 3"
    found, frame = same_as_without(spark, query)
    assert len(found) == 7
    assert filters(frame) == 0


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_spark_s_own_partitions_are_pruned_by_our_scans(spark, fact, tmp_path, adaptive):
    """A side of ours that gives a Parquet table its keys is filtered by no others: Spark would miss its broadcast."""
    numbers = spark.range(1000).selectExpr("id", "id % 10 AS p")
    numbers.write.partitionBy("p").parquet(str(tmp_path / "parquet"))
    spark.read.parquet(str(tmp_path / "parquet")).createOrReplaceTempView("numbers")
    load(spark, fact, **{"scan.native": "never"}).createOrReplaceTempView("fact")
    spark.range(390, 393).createOrReplaceTempView("keys")
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    query = (
        "SELECT /*+ BROADCAST(k) */ n.id FROM numbers n JOIN (SELECT /*+ BROADCAST(keys) */ f.id % 10 AS p FROM fact f "
        "JOIN keys ON f.id = keys.id WHERE keys.id % 3 = 0) k ON n.p = k.p"
    )
    try:
        found, frame = same_as_without(spark, query)
        assert len(found) == 100
        assert filters(frame) == 1
        assert "dynamicpruningexpression(cast(p" in executed_plan(frame)
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
