"""Ways to come by a session: enabled twice, made from another, restarted, installed from a zip, not enabled."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

import pytest

import twostage
from lakehouse import ROOT, SOURCES, SPARK_CONFS, executed_plan, run_python
from native_scans import simple

START = f"""
import os, sys
from pyspark.sql import SparkSession
def start(**more):
    builder = SparkSession.builder.master("local[2]")
    for key, value in {{**{SPARK_CONFS!r}, **more}}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark
"""


def test_enable_twice(spark, warehouse):
    twostage.enable(spark)
    twostage.enable(spark, catalogs={"lake": warehouse.confs})
    frame = spark.read.format("twostage").load(warehouse.events).where("id < 5")
    assert executed_plan(frame).count("BatchScan") == 1
    assert frame.count() == 5


def test_new_session_has_it(spark, warehouse):
    session = spark.newSession()
    frame = (
        session.read.format("twostage")
        .load(warehouse.events)
        .where("id < 5 OR device = 'd1'")
        .select("price")
    )
    assert "predicates [id < 5 OR device = 'd1']" in executed_plan(frame)
    assert session.sql("SELECT count(*) FROM lake.db.events").collect()[0][0] == 300


def test_name_in_another_case(spark, warehouse, bridge):
    """Java finds the class by its exact name only; the registered source answers for every other spelling."""
    before = bridge.calls.get("create", 0)
    frame = spark.read.format("TwoStage").load(warehouse.events).where("id < 5 OR device = 'd1'").select("id")
    assert bridge.calls["create"] == before + 1
    assert "predicates [id < 5 OR device = 'd1']" in executed_plan(frame)
    assert frame.count() == sum(row["id"] < 5 or row["device"] == "d1" for row in warehouse.rows)


def test_scan_planned_in_a_session_of_its_own_threads(spark):
    """Broadcast and subquery threads of the JVM plan scans, too."""
    query = (
        "SELECT count(*) FROM {0} WHERE id > (SELECT avg(id) FROM {0} WHERE device = 'd1') "
        "AND device IN (SELECT device FROM {0} WHERE id < 4)"
    )
    assert spark.sql(query.format("events")).collect() == spark.sql(query.format("plain")).collect()


RESTART = """
import twostage
for turn in range(2):
    spark = start()
    twostage.enable(spark, catalogs={"lake": %(confs)r})
    frame = spark.read.format("twostage").load(%(path)r).where("id < 5 OR device = 'd1'").select("id")
    print("count", turn, frame.count(), "Filter" in frame._jdf.queryExecution().executedPlan().toString().replace("RuntimeFilters", ""))
    print("sql", turn, spark.sql("SELECT count(*) FROM lake.db.events WHERE id %% 2 >= 0 OR id = 5").collect()[0][0])
    print("report", turn, twostage.last_scan(spark).tasks_finished > 0)
    spark.stop()
"""


def test_stopped_and_restarted_session(warehouse, tmp_path):
    out = run_python(START + RESTART % {"confs": warehouse.confs, "path": warehouse.events}, cwd=tmp_path)
    wanted = sum(row["id"] < 5 or row["device"] == "d1" for row in warehouse.rows)
    for turn in range(2):
        assert f"count {turn} {wanted} False" in out
        assert f"sql {turn} 300" in out
        assert f"report {turn} True" in out


FOLLOWS = """
os.dup2(1, 2)
import twostage
for turn in range(3):
    spark = start()
    if turn == 0:
        twostage.enable(spark)
    spark.sparkContext.setLogLevel("ERROR")
    frame = spark.read.format("twostage").load(%(path)r).where("id < 5 OR device = 'd1'").select("id")
    print("count", turn, frame.count(), "predicates [id < 5 OR device = 'd1']" in frame._jdf.queryExecution().executedPlan().toString())
    report = twostage.last_scan(spark)
    print("report", turn, report.tasks.is_known, report.tasks_finished > 0, report.count("spark.optimization.ms") > 0)
    print("all", turn, len(twostage.scans(spark)), {one.tasks.finished == one.tasks_planned for one in twostage.scans(spark)})
    spark.stop()
"""


def test_a_session_after_a_stopped_one(warehouse, tmp_path):
    """Spark gives it the planner; its tasks must not report to the stopped context, which is an error in the log."""
    out = run_python(START + FOLLOWS % {"path": warehouse.events}, cwd=tmp_path)
    assert "Failed to update accumulator" not in out
    wanted = sum(row["id"] < 5 or row["device"] == "d1" for row in warehouse.rows)
    for turn in range(3):
        assert f"count {turn} {wanted} True" in out
        assert f"report {turn} True True True" in out
        assert f"all {turn} {turn + 1} {{True}}" in out


STOCK_ERRORS = """
spark = start()
for options in ({"brnch": "x"}, {"filter": "upper(device) = 'D1'"}, {"columns": "nope"}):
    try:
        reader = spark.read.format("twostage")
        for key, value in options.items():
            reader = reader.option(key, value)
        reader.load(%(path)r).count()
    except Exception as error:
        print("error", [word for word in str(error).split() if word.startswith("[TWOSTAGE.")][:1])
try:
    spark.range(1).write.format("twostage").mode("append").save("/nope")
except Exception as error:
    print("write", "[TWOSTAGE.READ_ONLY]" in str(error))
"""
BEFORE = """
frame = spark.read.format("twostage").load(%(path)r)
print("stock", frame.where("id < 5").count(), frame.count())
print("plan", "PushedFilters" in frame._jdf.queryExecution().executedPlan().toString() or "twostage" in str(frame._jdf.queryExecution().executedPlan()))
by_hand = spark.read.format("twostage").option("columns", "id, price").option("filter", "id < 5 OR device = 'd1'").load(%(path)r)
print("columns", by_hand.columns, by_hand.count(), sorted(r.id for r in by_hand.where("id < 3").collect()))
frame.createOrReplaceTempView("early")
import twostage
from pyspark.sql.datasource import DataSourceReader
from twostage.spark.source import TwoStageReader
print("no pushFilters", TwoStageReader.pushFilters is DataSourceReader.pushFilters)
twostage.enable(spark)
late = spark.sql("SELECT id FROM early WHERE id < 5 OR device = 'd1'")
print("swapped", "predicates [id < 5 OR device = 'd1']" in late._jdf.queryExecution().executedPlan().toString(), late.count())
"""


@pytest.fixture(scope="module")
def not_enabled(warehouse, tmp_path_factory):
    """What a session said that had our source by its name alone, and `enable` at last."""
    scripts = (STOCK_ERRORS + BEFORE) % {"path": warehouse.events}
    return run_python(START + scripts, cwd=tmp_path_factory.mktemp("not_enabled"))


def test_errors_without_enable(not_enabled):
    for code in ("UNKNOWN_OPTION", "UNSUPPORTED_FILTER", "UNKNOWN_COLUMN"):
        assert f"error ['[TWOSTAGE.{code}]']" in not_enabled
    assert "write True" in not_enabled
    assert "no pushFilters True" in not_enabled


def test_without_enable_and_enabled_after_load(warehouse, not_enabled):
    """The stock source is right by itself; a relation loaded before `enable` is planned by us after it."""
    wanted = sum(row["id"] < 5 or row["device"] == "d1" for row in warehouse.rows)
    assert "stock 5 300" in not_enabled
    assert f"columns ['id', 'price'] {wanted} [0, 1, 2]" in not_enabled
    assert f"swapped True {wanted}" in not_enabled


FROM_ZIP = """
spark = start(**{"spark.submit.pyFiles": %(zip)r})
import twostage
print("from zip", twostage.__file__.startswith(%(zip)r))
twostage.enable(spark)
frame = spark.read.format("twostage").load(%(path)r).where("id < 5 OR device = 'd1'").select("id")
print("count", frame.count())
print("new session", spark.newSession().read.format("twostage").load(%(path)r).where("id < 9").count())
"""


def test_py_files(warehouse, tmp_path):
    """A zip of --py-files is not searched for sources: `enable` registers ours, Java files included."""
    packed = tmp_path / "twostage.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for source in SOURCES:
            for file in sorted((ROOT / source).rglob("*")):
                if file.suffix in (".py", ".java"):
                    archive.write(file, file.relative_to(source))
    code = "import sys\nsys.path.insert(0, %(zip)r)\n" + START + FROM_ZIP
    out = run_python(
        code % {"zip": str(packed), "path": warehouse.events}, cwd=tmp_path, env={"PYTHONPATH": ""}
    )
    wanted = sum(row["id"] < 5 or row["device"] == "d1" for row in warehouse.rows)
    assert "from zip True" in out
    assert f"count {wanted}" in out
    assert "new session 9" in out


CLUSTER = """
spark = start(**{"spark.master": "local-cluster[2,1,512]", "spark.executor.memory": "512m", **%(confs)r})
import twostage
twostage.enable(spark)
frame = spark.read.format("twostage").option("split-size", "1k").load(%(path)r)
print("count", frame.where("id < 5 OR device = 'd1'").select("id").count())
report = twostage.last_scan(spark)
print("report", report.tasks_finished == report.tasks_planned > 1, report.count("rows.considered"))
parent = spark.sparkContext.parallelize([1], 1).map(lambda _: open(f"/proc/{os.getppid()}/cmdline").read()).first()
print("daemon", parent.split(chr(0))[2])
spark.stop()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.parametrize("daemon", ["pyspark.daemon", "twostage.spark.worker_daemon"])
def test_executors_of_their_own(warehouse, tmp_path, daemon):
    """Executors are other JVMs here, without the planner's classes: nothing of ours may travel to them."""
    code = START.replace('.master("local[2]")', "") + CLUSTER
    confs = {"spark.python.daemon.module": daemon} if daemon.startswith("twostage") else {}
    out = run_python(code % {"path": warehouse.events, "confs": confs}, cwd=tmp_path)
    assert f"daemon {daemon}\n" in out
    wanted = sum(row["id"] < 5 or row["device"] == "d1" for row in warehouse.rows)
    assert f"count {wanted}" in out
    assert "report True 300" in out


def test_import_is_light(tmp_path):
    out = run_python(
        "import sys, pyspark_twostage\n"
        "print('loaded', sorted({'numba', 'pyiceberg', 'pyarrow.dataset', 'sqlglot', 'fastavro'} & set(sys.modules)))\n"
        "print(pyspark_twostage.DefaultSource.name())",
        cwd=tmp_path,
    )
    assert "loaded []" in out
    assert out.endswith("twostage\n")


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX modes")
def test_compiled_classes_are_owner_only(spark):
    loader = spark.sparkContext._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    place = loader.loadClass("twostage").getProtectionDomain().getCodeSource().getLocation().getPath()
    assert os.stat(place).st_mode & 0o077 == 0


def test_domain_sockets_only_where_their_paths_fit(spark, monkeypatch):
    """Was an error of every Python worker: "AF_UNIX path too long", with a long java.io.tmpdir."""
    from twostage.spark import session as sessions

    conf = spark.sparkContext._jsc.sc().conf()
    key = sessions._DOMAIN_SOCKET
    before = conf.get(key, "")
    try:
        for longest, switch, expected in ((0, "1", ""), (1_000, "0", ""), (1_000, "1", "true")):
            conf.remove(key)
            monkeypatch.setattr(sessions, "_MAX_SOCKET_FOLDER_BYTES", longest)
            monkeypatch.setenv("TWOSTAGE_WORKER_TUNING", switch)
            sessions._use_domain_sockets(spark.sparkContext)
            assert conf.get(key, "") == expected
    finally:
        conf.remove(key)
        if before:
            conf.set(key, before)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="PySpark's own daemon runs elsewhere")
def test_workers_are_forked_from_our_daemon(spark, warehouse, monkeypatch, tmp_path):
    from twostage.spark import session as sessions

    context = spark.sparkContext
    conf, key = context._jsc.sc().conf(), sessions._DAEMON
    spark.read.format("twostage").option("scan.native", "never").load(warehouse.events).collect()
    parent = (
        context.parallelize([1], 1).map(lambda _: Path(f"/proc/{os.getppid()}/cmdline").read_bytes()).first()
    )
    assert sessions._OUR_DAEMON.encode() in parent.split(b"\0")
    without = tmp_path / "python"
    without.write_text("#!/bin/sh\nexit 1\n")
    without.chmod(0o700)
    cases = [
        (context.pythonExec, "1", None, sessions._OUR_DAEMON),
        (context.pythonExec, "0", None, ""),
        (context.pythonExec, "1", "pyspark.daemon", "pyspark.daemon"),
        (str(without), "1", None, ""),
        (str(tmp_path / "missing"), "1", None, ""),
    ]
    try:
        for python, switch, already, expected in cases:
            conf.remove(key)
            if already:
                conf.set(key, already)
            monkeypatch.setattr(context, "pythonExec", python)
            monkeypatch.setenv("TWOSTAGE_WORKER_TUNING", switch)
            with sessions._own_daemon(context):
                pass
            assert conf.get(key, "") == expected, (python, switch, already)
    finally:
        conf.set(key, sessions._OUR_DAEMON)


REMOVED = """
import shutil, tempfile
from pathlib import Path
import twostage
tempfile.tempdir = str(Path.cwd())
for turn in range(2):
    spark = start()
    twostage.enable(spark)
    for folder in Path.cwd().glob("twostage-planner-*"):
        shutil.rmtree(folder)
        print("removed", turn)
    frame = spark.read.format("twostage").load(%(path)r)
    print("rows", turn, len(frame.collect()), frame.where("id < 5 OR name = 'n1'").count())
    print("answered", turn, frame.count(), frame.groupBy().max("id").collect()[0][0])
    print("first", turn, [row.id for row in frame.orderBy("id").limit(3).collect()])
    reports = [twostage.scans(spark)]
    spark.stop()
    reports.append(twostage.scans(spark))
    for found in reports:
        handed = [one.count("spark.rows") for one in found if one.is_handed_over]
        print("reports", turn, len(found), handed)
"""


def test_classes_removed_while_the_driver_lives_and_reports_of_a_stopped_session(tmp_path):
    """Cleaners of temporary folders remove what is old; reports, too, ask a class for figures."""
    table = simple(tmp_path / "table")
    out = run_python(START + REMOVED % {"path": str(table)}, cwd=tmp_path)
    assert out.count("removed") == 1
    for turn in range(2):
        assert f"rows {turn} 200 34\nanswered {turn} 200 199\nfirst {turn} [0, 1, 2]\n" in out
        told = [line for line in out.splitlines() if line.startswith(f"reports {turn} ")]
        assert len(told) == 2
        assert told[0] == told[1]
        assert "200" in told[0], told
