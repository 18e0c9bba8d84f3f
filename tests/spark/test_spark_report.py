"""The scan report through Spark: its numbers come from the executors and survive retries."""

from __future__ import annotations

import json

import pytest

import twostage
from lakehouse import run_python
from twostage.metrics import Metrics
from twostage.spark.source import MAX_SCANS, ReportsParam
from twostage.spark.task_reports import TaskReport


def test_report_of_a_query(spark, warehouse):
    found = spark.sql("SELECT id FROM events WHERE id >= 250 AND device = 'd3'").collect()
    report = twostage.last_scan(spark)
    assert report.table == warehouse.events
    assert report.snapshot_id == warehouse.snapshots[-1]
    assert report.tasks_finished == report.tasks_planned > 0
    assert report.count("rows.fetched") == len(found)
    assert report.count("files.considered") == 3
    assert report.count("files.read") == 1
    assert report.count("rows.considered") == 300
    assert report.count("rows.pruned") == 200
    assert report.count("rows.filtered") == 100 - len(found)
    assert report.count("time.planning") > 0
    assert {
        f"spark.{phase}.ms" for phase in ("analysis", "optimization", "planning")
    } <= report.metrics.counters.keys()
    assert "events" in str(report)
    assert "<pre" in report._repr_html_()
    assert json.loads(report.json())["scan_id"] == report.scan_id


def test_how_long_a_cached_query_was_planned(spark):
    """Queries that read the cache were planned for themselves, not for the scan."""
    frame = spark.sql("SELECT id, price FROM events WHERE id >= 200").cache()
    phases = [f"spark.{phase}.ms" for phase in ("analysis", "optimization", "planning")]
    try:
        frame.collect()
        report = twostage.last_scan(spark)
        told = [report.count(phase) for phase in phases]
        names = " + ".join(f"sum(CASE WHEN id = {number} THEN price END)" for number in range(200))
        frame.selectExpr(names).collect()
        again = twostage.last_scan(spark)
        assert again.scan_id == report.scan_id
        assert [again.count(phase) for phase in phases] == told
    finally:
        frame.unpersist()


def test_scans_are_in_order_and_only_those_that_ran(spark):
    before = len(twostage.scans(spark))
    spark.sql("SELECT id FROM events WHERE id = 1").explain()
    assert len(twostage.scans(spark)) == before
    spark.sql("SELECT id FROM events WHERE id = 2").collect()
    spark.sql("SELECT id FROM events WHERE id = 3").collect()
    predicates = [report.predicate for report in twostage.scans(spark)][-2:]
    assert predicates == ["id = 2", "id = 3"]


def test_two_scans_of_one_query(spark):
    spark.sql("SELECT id FROM events WHERE id = 4 UNION ALL SELECT id FROM events WHERE id = 204").collect()
    last = {report.predicate for report in twostage.scans(spark)[-2:]}
    assert last == {"id = 4", "id = 204"}
    assert len({report.scan_id for report in twostage.scans(spark)}) == len(twostage.scans(spark))


def test_a_task_that_runs_twice_counts_once():
    param, total = ReportsParam(), {}
    metrics = Metrics(), Metrics(), Metrics()
    for one, fetched in zip(metrics, (7, 10, 1), strict=True):
        one.add("rows.fetched", fetched)
    first, again, other = (
        TaskReport(attempt=number, state="finished", metrics=one)
        for number, one in enumerate(metrics, start=1)
    )
    for update in ({"s": {0: again}}, {"s": {1: other}}, {"s": {0: first}}):
        total = param.addInPlace(total, update)
    assert sum(one.metrics.counters["rows.fetched"] for one in total["s"].values()) == 11


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("end", ["stopped", "failed", "running"])
def test_the_attempt_that_finished_counts(order, end):
    """Of a task and its speculative copy Spark takes the rows of the first that is through, whichever began later."""
    param, total = ReportsParam(), {}
    finished, copy = Metrics(), Metrics()
    finished.add("rows.fetched", 10)
    copy.add("rows.fetched", 1)
    reports = (
        TaskReport(attempt=1, state="finished", metrics=finished),
        TaskReport(attempt=2, state=end, metrics=copy),
    )
    for place in order:
        total = param.addInPlace(total, {"s": {0: reports[place]}})
    assert total["s"][0].metrics.counters["rows.fetched"] == 10


def test_old_scans_are_forgotten():
    param, total = ReportsParam(), {}
    for number in range(MAX_SCANS + 20):
        total = param.addInPlace(total, {f"s{number}": {0: TaskReport(attempt=number, state="finished")}})
    assert len(total) == MAX_SCANS
    assert f"s{MAX_SCANS + 19}" in total


RETRY = """
import os, signal, sys
from pyspark.sql import SparkSession
import twostage, twostage.reading.pipeline
builder = SparkSession.builder.master("local[2,4]")
for key, value in {confs!r}.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
twostage.enable(spark)
from twostage.spark import source

class Dying(source.TwoStageReader):
    def read(self, partition):
        yield from super().read(partition)
        # Dies after its metrics were counted and before Spark has all rows of the first attempt.
        marker = {marker!r} + str(partition.group.index)
        if not os.path.exists(marker):
            open(marker, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)

    def __reduce__(self):
        return Dying, (self._schema, (), self._reports)

from twostage.spark import bridge
bridge.TwoStageReader = Dying
frame = spark.read.format("twostage").option("split-size", "1k").load({path!r})
print("ids", sorted(row.id for row in frame.where("id % 2 = 0 OR id = 3").collect()) == [n for n in range(300) if n % 2 == 0 or n == 3])
report = twostage.last_scan(spark)
print("tasks", report.tasks_planned, report.tasks_finished, report.count("rows.considered"))
"""


def test_killed_workers_change_nothing(warehouse, tmp_path):
    from lakehouse import SPARK_CONFS

    out = run_python(
        RETRY.format(confs=SPARK_CONFS, marker=str(tmp_path / "died-"), path=warehouse.events), cwd=tmp_path
    )
    assert "ids True" in out
    tasks = [line.split() for line in out.splitlines() if line.startswith("tasks")][0]
    planned, finished, considered = map(int, tasks[1:])
    assert planned == finished >= 2
    assert considered == 300
    assert len(list(tmp_path.glob("died-*"))) == planned
