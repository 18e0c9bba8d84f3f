"""Queries that have their rows before our tasks are through: the report is true, and nobody prints a traceback."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest

ROWS = 300_000
"""Of each of two files: more than a socket holds, so that a task is not through when Spark has its first rows."""

START = """
import json, sys, threading, time
from pyspark.sql import SparkSession
import twostage
from twostage.spark import report_listener
report_listener._LAST_REPORT_SECONDS = 10.0  # a machine that stands still for a second is not what is tested here
builder = SparkSession.builder.master({master!r}).config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.memory", "1g").config("spark.executor.memory", "512m")
for key, value in {confs!r}.items():
    builder = builder.config(key, value)
spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
twostage.enable(spark)
reader = spark.read.format("twostage").option("scan.native", "never").option("split-size", "1m")
events = reader.load({path!r})
anything = events.where("reverse(name) <> ''")  # Spark's own to evaluate: no LIMIT reaches the scan
def tell(name, report=None):
    report = report or twostage.last_scan(spark)
    # A task may have ended for the query before Spark's scheduler, or we, have heard of it.
    for _ in range(300):
        if name == "running" or not report.tasks.running:
            break
        time.sleep(0.1)
        report = next(one for one in twostage.scans(spark) if one.scan_id == report.scan_id)
    print(json.dumps({{"name": name, "text": str(report), "html": report._repr_html_(), **json.loads(report.json())}}))
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Two data files of `ROWS` rows each, their ids in no order, in row groups of a tenth of them."""
    from pyiceberg.catalog.sql import SqlCatalog

    root = tmp_path_factory.mktemp("stopped")
    catalog = SqlCatalog("lake", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}")
    catalog.create_namespace("db")
    made = None
    for first in (0, ROWS):
        ids = [first + number * 7919 % ROWS for number in range(ROWS)]
        rows = pa.table(
            {"user_id": pa.array(ids, pa.int64()), "name": [f"user {one * 31 % 999_983}" for one in ids]}
        )
        if made is None:
            made = catalog.create_table(
                "db.events",
                schema=rows.schema,
                properties={"write.parquet.row-group-limit": str(ROWS // 10)},
            )
        made.append(rows)
    catalog.engine.dispose()
    return str(root / "db" / "events")


def run(code, table, tmp_path, master="local[2]", confs=None):
    """Run a script; return what it told of its scans, by name. Its standard error must hold no traceback."""
    import json

    script = START.format(master=master, path=table, confs=confs or {}) + code + "\nspark.stop()\n"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_GATEWAY")},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "Traceback" not in done.stderr, done.stderr[-4000:]
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {one["name"]: one for one in told}


def line(report, name):
    """Return the line of a report that begins with `name`."""
    return next(one for one in report["text"].splitlines() if one.split()[:1] == [name])


def holds_together(report):
    """Every task is told of once, and the parts of the report say the same."""
    states = dict(report["tasks"])
    states.pop("unsure")
    assert sum(states.values()) == report["tasks_planned"] > 0, report["tasks"]
    assert report["tasks_finished"] == states["finished"] + states["limited"]
    assert line(report, "tasks").split("  ")[-1].strip() in report["html"].replace("&#x27;", "'")


SHELL = """
import twostage
twostage.enable(spark)
df = spark.read.format("twostage").load({path!r})
df.where("user_id < 100000").show(5)
print("REPORT"); print(twostage.last_scan(spark))
df.where("user_id < 100000 AND reverse(name) <> ''").show(5)
print("REPORT"); print(twostage.last_scan(spark))
"""


def test_pyspark_shell(table, tmp_path):
    """Was "tasks 0 of 1 reported … 100.0 % not read, 0 B" and the traceback of a BrokenPipeError."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_GATEWAY")},
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON_OPTS": "-i",
    }
    pyspark = Path(sys.executable).parent / "pyspark"
    done = subprocess.run(
        [pyspark, "--master", "local[2]", "--driver-memory", "1g", "--conf", "spark.ui.enabled=false"],
        input=SHELL.format(path=table),
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-4000:]
    assert "Traceback" not in said, said[-4000:]
    assert "Error" not in said, said[-4000:]
    assert said.count("only showing top 5 rows") == 2
    reports = done.stdout.split("REPORT")[1:]
    assert len(reports) == 2
    for report in reports:
        (tasks,) = [one for one in report.splitlines() if one.startswith("  tasks ")]
        assert "1 of " in tasks
        assert "stopped early" in tasks
        assert "LIMIT" in tasks
        assert "100.0 % not read" not in report
        assert " 0 B" not in report


LIMITS = """
events.where("user_id < 100000").show(5); tell("show")
events.where("name > 'user 5'").take(5); tell("take")
events.head(3); tell("head")
events.first(); tell("first")
assert not events.isEmpty(); tell("isEmpty")
assert len(events.select("name").limit(7).collect()) == 7; tell("limit")
events.where("user_id < 1000").tail(2); tell("tail")
events.orderBy("user_id").limit(3).collect(); tell("top")
"""


def test_limits_that_reach_the_scan(table, tmp_path):
    told = run(LIMITS, table, tmp_path)
    assert list(told) == ["show", "take", "head", "first", "isEmpty", "limit", "tail", "top"]
    for name, report in told.items():
        holds_together(report)
        if name in ("tail", "top"):
            finished, not_started = report["tasks"]["finished"], report["tasks"]["not_started"]
            assert finished + not_started == report["tasks_planned"], name
            assert not_started == 0 or name == "tail"  # which begins with the last
            continue
        assert report["tasks"]["limited"] >= 1, name
        assert report["tasks"]["finished"] == report["tasks"]["unknown"] == 0, name
        assert "stopped early by LIMIT" in line(report, "tasks")
        assert report["metrics"]["counters"]["rows.fetched"] > 0, name
        assert report["metrics"]["counters"]["files.read"] == report["tasks"]["limited"], name
        if name != "isEmpty":  # no column is read for it
            assert report["metrics"]["counters"]["bytes.read"] > 0, name


STOPS = """
anything.show(5); tell("show")
anything.take(5); tell("take")
rows = anything.toLocalIterator()
next(rows); tell("iterator")
del rows
anything.agg({"user_id": "sum"}).collect(); tell("whole")
anything.createOrReplaceTempView("anything")
spark.sql("SELECT name FROM anything UNION ALL SELECT name FROM anything LIMIT 4").collect()
first, other = sorted(twostage.scans(spark)[-2:], key=lambda one: one.tasks.not_started)
tell("union", first); tell("rest of the union", other)
spark.sql("SELECT 1 WHERE EXISTS (SELECT * FROM anything)").collect(); tell("exists")

# Spark says `failed`, or `killed` of the other task.
try:
    anything.selectExpr("name", "assert_true(user_id < 1) AS x").collect()
except Exception:
    tell("failed")

started = threading.Event()
def slow():
    spark.sparkContext.setJobGroup("slow", "to be cancelled", interruptOnCancel=True)
    try:
        started.set()
        anything.selectExpr("sha2(repeat(name, 20000), 512) AS x").agg({"x": "max"}).collect()
    except Exception:
        pass
before = len(twostage.scans(spark))
thread = threading.Thread(target=slow)
thread.start()
while len(twostage.scans(spark)) == before or not (running := twostage.last_scan(spark)).tasks.running:
    time.sleep(0.05)
tell("running", running)
spark.sparkContext.cancelJobGroup("slow")
thread.join()
while twostage.last_scan(spark).tasks.running:
    time.sleep(0.05)
tell("cancelled")
events.where("user_id = 77").collect(); tell("after")
"""


def test_tasks_that_spark_ends(table, tmp_path):
    told = run(STOPS, table, tmp_path)
    for report in told.values():
        holds_together(report)
    for name in ("show", "take", "union", "exists"):
        tasks = told[name]["tasks"]
        assert tasks["limited"] + tasks["stopped"] >= 1, (name, tasks)
        assert tasks["finished"] == tasks["unknown"] == tasks["running"] == 0, (name, tasks)
        assert "stopped early" in line(told[name], "tasks")
        assert told[name]["metrics"]["counters"]["rows.fetched"] > 0
    rest = told["rest of the union"]
    assert rest["tasks"]["not_started"] == rest["tasks_planned"]
    assert line(rest, "tasks").split() == ["tasks", "0", "of", str(rest["tasks_planned"]), "reported;"] + [
        str(rest["tasks_planned"]),
        "not",
        "started",
    ]
    assert rest["metrics"]["counters"].get("bytes.read", 0) == 0
    for name in ("iterator", "whole", "after"):
        tasks = told[name]["tasks"]
        assert tasks["finished"] + tasks["not_started"] == told[name]["tasks_planned"], (name, tasks)
    assert told["iterator"]["tasks"]["not_started"] == told["iterator"]["tasks_planned"] - 1 > 0
    assert f"{told['iterator']['tasks']['not_started']} not started" in line(told["iterator"], "tasks")
    assert told["whole"]["tasks"]["not_started"] == told["after"]["tasks"]["not_started"] == 0
    assert told["failed"]["tasks"]["failed"] >= 1, told["failed"]["tasks"]
    assert told["failed"]["tasks"]["stopped"] == 0
    assert "still running" in line(told["running"], "tasks")
    assert "not read" not in told["running"]["text"]
    assert "as far as known" in line(told["running"], "bytes")
    assert told["cancelled"]["tasks"]["killed"] >= 1, told["cancelled"]["tasks"]
    assert "killed by Spark" in line(told["cancelled"], "tasks")


STOPPED_BY_SPARK = """
anything.limit(3).collect(); tell("limit")
"""


def test_a_task_that_is_stopped_between_its_batches(table, tmp_path):
    """The filter is Spark's: no LIMIT reaches the scan, whose task is in the middle of its file."""
    report = run(STOPPED_BY_SPARK, table, tmp_path)["limit"]
    holds_together(report)
    assert report["limit"] is None
    assert report["tasks"]["stopped"] == 1, report["tasks"]
    assert report["tasks"]["unsure"] == 0
    assert "stopped early: Spark had its rows" in line(report, "tasks")
    counters = report["metrics"]["counters"]
    assert 0 < counters["rows.fetched"] < ROWS
    assert 0 < counters["bytes.read"] < counters["bytes.considered"]
    assert "not read" in line(report, "bytes")


WORKERS = """
anything.show(3); tell("show")
events.where("user_id < 100000").show(3); tell("limit")
events.where("user_id = 5").collect(); tell("after")
"""


@pytest.mark.parametrize(
    "confs",
    [
        {"spark.python.worker.reuse": "false"},
        {"spark.python.use.daemon": "false"},
        {"spark.python.daemon.module": "pyspark.daemon"},
        {"spark.twostage.report.port": "off"},
    ],
    ids=["used once", "without a daemon", "Spark's daemon", "no listener"],
)
def test_ways_to_run_workers(confs, table, tmp_path):
    told = run(WORKERS, table, tmp_path, confs=confs)
    for report in told.values():
        holds_together(report)
    assert told["after"]["tasks"]["finished"] == told["after"]["tasks_planned"]
    for name in ("show", "limit"):
        assert "100.0 % not read" not in told[name]["text"]
        if "spark.twostage.report.port" in confs:
            assert told[name]["tasks"]["unknown"] == told[name]["tasks_planned"]
            assert "unknown: stopped early, or not started" in line(told[name], "tasks")
            assert "not read" not in told[name]["text"]
        else:
            assert "stopped early" in line(told[name], "tasks")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into executors' folders")
def test_cluster(table, tmp_path):
    """Executors are other processes here, which reach the driver by its host; their own daemon says nothing, either."""
    name = 'print(json.dumps({"name": "application", "id": spark.sparkContext.applicationId}))'
    told = run(WORKERS + name, table, tmp_path, master="local-cluster[2,1,512]")
    folder = Path(pyspark.__file__).parent / "work" / told["application"]["id"]
    errors = [path.read_text() for path in folder.rglob("stderr")]
    shutil.rmtree(folder, ignore_errors=True)
    assert errors
    assert not any("Traceback" in text for text in errors)
    for name in ("show", "limit"):
        holds_together(told[name])
        assert told[name]["tasks"]["unknown"] == 0
        assert told[name]["metrics"]["counters"]["bytes.read"] > 0
    assert "stopped early by LIMIT" in line(told["limit"], "tasks")
    assert told["after"]["tasks"]["finished"] == told["after"]["tasks_planned"]
    assert told["after"]["metrics"]["predicates"]


HANDED_OVER = """
frame = spark.read.format("twostage").load({path!r}).where("reverse(name) <> ''")
frame.agg({{"user_id": "sum"}}).collect(); tell("whole")
frame.createOrReplaceTempView("frame")
spark.sql("SELECT u FROM (SELECT explode(array(user_id, user_id)) AS u FROM frame) LIMIT 3").collect(); tell("limit")
"""


def test_handed_over_under_a_limit(table, tmp_path):
    """What Spark's reader did not come to is not "removed by Spark's reader", nor were all its bytes read."""
    told = run(HANDED_OVER.format(path=table), table, tmp_path)
    whole, limit = told["whole"], told["limit"]
    assert whole["is_handed_over"]
    assert "up to" not in whole["text"]
    assert "LIMIT" not in whole["text"]
    if limit["is_handed_over"]:
        assert limit["metrics"]["counters"]["spark.limited"] == 1
        assert "not needed: a LIMIT" in line(limit, "rows")
        assert "up to" in line(limit, "bytes")
    else:
        assert "stopped early" in line(limit, "tasks")
