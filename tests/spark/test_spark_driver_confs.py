"""A source without the planner finds the catalogs that Spark's driver was started with."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

from twostage.spark.driver_confs import driver_confs

CLIENT = """
import sys
from pyspark.sql import SparkSession
remote, warehouse, catalog = sys.argv[1:]
builder = SparkSession.builder
builder = builder.master("local[1]") if remote == "classic" else builder.remote("local[1]")
builder = builder.config("spark.ui.enabled", "false").config("spark.driver.memory", "1g")
if catalog:
    builder = builder.config("spark.sql.catalog.lake", "twostage").config("spark.sql.catalog.lake.type", "hadoop")
    builder = builder.config("spark.sql.catalog.lake.warehouse", warehouse)
spark = builder.getOrCreate()
def load(path, **options):
    return spark.read.format("twostage").options(**options).load(path)
print("ROWS", load("lake.db.events", filter="id >= 295").count(), load("lake.db.events.files").count() > 0)
given = {"catalog.type": "hadoop", "catalog.warehouse": warehouse}
print("GIVEN", load("other.db.events", **given).count())
spark.conf.set("spark.sql.catalog.late.type", "hadoop")
try:
    load("late.db.events").count()
except Exception as error:
    print("LATE", str(error).replace(chr(10), " "))
"""


def has(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def run(tmp_path, *arguments, **more):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYSPARK_GATEWAY")}
    kept.pop("SPARK_REMOTE", None)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CLIENT, *arguments],
        env=kept | more,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.parametrize(("kind", "told"), [("classic", "file"), ("connect", "session")])
def test_load_by_name(warehouse, tmp_path, kind, told):
    needed = ("grpc", "grpc_status", "google.rpc", "pandas", "zstandard")
    if kind == "connect" and not all(has(module) for module in needed):
        pytest.skip("pyspark[connect] is not installed here")
    (tmp_path / "spark-defaults.conf").write_text(
        "# what an administrator wrote\n\nspark.sql.catalog.lake  twostage\nspark.sql.catalog.lake.type=hadoop\n"
        f"spark.sql.catalog.lake.warehouse\t{warehouse.root}\n"
        if told == "file"
        else ""
    )
    out = run(
        tmp_path, kind, str(warehouse.root), "" if told == "file" else "lake", SPARK_CONF_DIR=str(tmp_path)
    )
    assert "ROWS 5 True" in out
    assert "GIVEN 300" in out
    late = out.partition("LATE ")[2]
    assert "[TWOSTAGE.UNKNOWN_CATALOG]" in late
    assert "Configured: lake." in late
    assert "started with" in late
    assert "option('catalog.type'" in late


def process(folder, number, command, parent):
    (folder / str(number)).mkdir(parents=True)
    (folder / str(number) / "cmdline").write_bytes(b"\0".join(one.encode() for one in command) + b"\0")
    (folder / str(number) / "status").write_text(f"Name:\tx\nPPid:\t{parent}\n")


def test_confs_of_a_command_line(tmp_path, monkeypatch):
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    (tmp_path / "own.conf").write_text(
        "spark.sql.catalog.lake.type rest\nspark.sql.catalog.lake.uri=http\\://file/\n! spark.sql.catalog.no.type x\n"
        "spark.hadoop.fs.s3a.endpoint : http://store\nspark.executor.memory 1g\nspark.sql.catalog.\n"
    )
    command = ["/usr/lib/jvm/bin/java", "-Dspark.sql.catalog.d.type=hive", "-Xmx1g", "-cp", "/x"]
    command += ["org.apache.spark.deploy.SparkSubmit", "--properties-file", str(tmp_path / "own.conf")]
    command += ["--conf", "spark.sql.catalog.lake.uri=http://given/?a=b", "--conf", "spark.master=local"]
    command += ["--conf=spark.sql.defaultCatalog=lake", "--conf"]
    process(tmp_path, 10, command, 1)
    process(tmp_path, 11, ["python3", "-m", "pyspark.daemon"], 10)
    process(tmp_path, 12, ["python3", "-m", "pyspark.daemon"], 11)
    process(tmp_path, 20, ["bash"], 1)
    expected = {
        "spark.sql.catalog.d.type": "hive",
        "spark.sql.catalog.lake.type": "rest",
        "spark.sql.catalog.lake.uri": "http://given/?a=b",
        "spark.hadoop.fs.s3a.endpoint": "http://store",
        "spark.sql.defaultCatalog": "lake",
    }
    assert driver_confs(12, tmp_path) == driver_confs(10, tmp_path) == expected
    assert (
        driver_confs(20, tmp_path) == driver_confs(99, tmp_path) == driver_confs(1, tmp_path / "none") == {}
    )
