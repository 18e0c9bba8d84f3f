"""Scans in a plan of an event log, taken from its nodes and the values of their metrics."""

from __future__ import annotations

import datetime

import pytest

from twostage.advisor.event_plan import accumulators_of, scans_of
from twostage.advisor.logged_scan import QueryFacts

FACTS = QueryFacts(
    time=datetime.datetime(2026, 11, 25, tzinfo=datetime.UTC), milliseconds=5, application="app", query=3
)
ICEBERG = "BatchScan t[id#1L] IcebergScan(table=t, branch=null, filters=id = 5, runtimeFilters=, groupedBy=)"
SPARK = {
    "Location": "TwoStageFiles(1 paths)[s3a://lake/db/t]",
    "ReadSchema": "struct<id_1_ff:bigint,s_2_ff:struct<x:int,y_9_z:int>>",
    "DataFilters": "[(id_1_ff#7L = 5)]",
}


def node(name, text, *children, first=None, **metadata):
    """Return a node with the metric "number of output rows", numbered `first`."""
    metrics = [] if first is None else [{"name": "number of output rows", "accumulatorId": first}]
    return {
        "nodeName": name, "simpleString": text, "children": list(children), "metrics": metrics, "metadata": metadata,
    }  # fmt: skip


def test_a_scan_with_the_filter_above_it():
    scan = node("BatchScan t", ICEBERG, first=1)
    above = node("Filter", "Filter", node("ColumnarToRow", "ColumnarToRow", scan, first=2), first=3)
    plan = node("AdaptiveSparkPlan", "", node("WholeStageCodegen (1)", "", above))
    (found,) = scans_of(plan, {1: 1_000, 2: 1_000, 3: 10}, FACTS)
    assert (found.table, found.scan, found.query, found.scans) == ("t", "app-3-4", 3, 1)
    assert (found.filter.rows_in, found.filter.rows_out, found.columns) == (1_000, 10, ("id",))
    assert (found.is_measured, found.query_milliseconds) == (False, 5)
    joined = node("Filter", "Filter", node("SortMergeJoin", "", scan), first=3)
    assert scans_of(joined, {1: 1_000, 3: 10}, FACTS)[0].filter.rows_in is None


def test_a_scan_by_spark_s_reader_of_a_bucket():
    (found,) = scans_of(
        node("Scan parquet ", "FileScan parquet [id_1_ff#7L]", first=1, **SPARK), {1: 9}, FACTS
    )
    assert (found.table, found.reader, found.rows_read) == ("s3://lake/db/t", "spark", 9)
    assert (found.columns, found.text) == (("id", "s"), "id = 5")


def test_a_reused_exchange_shows_one_scan():
    scan = node("BatchScan t", ICEBERG, first=1)
    reused = node("ReusedExchange", "", node("Exchange", "", scan))
    assert len(scans_of(node("Union", "", node("Exchange", "", scan), reused), {1: 9}, FACTS)) == 1


def test_a_cache_that_is_full_is_no_scan():
    cache = node("InMemoryTableScan", "", node("BatchScan t", ICEBERG, first=1), first=5)
    assert len(scans_of(cache, {1: 9, 5: 9}, FACTS)) == 1
    assert scans_of(cache, {5: 9}, FACTS) == []
    named = {**cache, "nodeName": "Scan In-memory table t"}
    both = node("Union", "", named, node("BatchScan t", ICEBERG, first=7))
    assert [scan.scans for scan in scans_of(both, {5: 9, 7: 9}, FACTS)] == [1]


def test_ids_of_metrics():
    plan = node(
        "Union", "", node("InMemoryTableScan", "", node("BatchScan t", ICEBERG, first=1), first=5), first=6
    )
    assert accumulators_of(plan) == {1, 5, 6}
    assert accumulators_of(plan, with_caches=False) == {5, 6}


@pytest.mark.parametrize("bad", [{"accumulatorId": -1}, {"accumulatorId": "1"}, {"accumulatorId": 2**70}, {}])
def test_what_is_no_plan(bad):
    with pytest.raises((ValueError, KeyError)):
        scans_of({**node("BatchScan t", ICEBERG), "metrics": [{"name": "x", **bad}]}, {}, FACTS)
