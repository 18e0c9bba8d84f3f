"""What is no session, or no live one, is refused by name; and a local session's workers run where its program does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import lakehouse
import twostage
from tables import Table
from twostage.errors import OptionError
from twostage.spark.worker_errors import error_of_worker

STOPPED = """
from pyspark.sql import SparkSession
import twostage
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.stop()
try:
    twostage.enable(spark)
except twostage.errors.OptionError as error:
    print("FOUND", error)
"""
LOCAL = """
import json, sys
from pyspark.sql import SparkSession
import twostage
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
twostage.enable(spark)
frame = spark.read.format("twostage").load({path!r}).where("id >= 298")
workers = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect()
print("FOUND", json.dumps([sorted(row.id for row in frame.collect()), workers]))
"""
WITHOUT = """
import json, sys
from pyspark.sql import SparkSession
import twostage
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
twostage.enable(spark)
sys.modules["fastavro"] = None  # what Python itself does for a module that is not to be found
try:
    spark.read.format("twostage").load({path!r}).collect()
except Exception as error:
    print("FOUND", str(error).splitlines()[0])
"""


def found(printed):
    return next(line for line in printed.splitlines() if "FOUND " in line).partition("FOUND ")[2]


def elsewhere(tmp_path):
    """Return an environment whose first ``python3`` knows nothing of twostage, and that names no Python for Spark."""
    (tmp_path / "python3").write_text('#!/bin/sh\necho "this is another Python" >&2\nexit 1\n')
    (tmp_path / "python3").chmod(0o755)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYSPARK_")}
    paths = os.pathsep.join(lakehouse.SOURCES)
    return kept | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": paths}


def run(arguments, environment, tmp_path):
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done


@pytest.mark.parametrize("what", ["None", "the context", "a frame", "a path"])
def test_what_is_no_session(spark, what):
    given = {"None": None, "the context": spark.sparkContext, "a frame": spark.range(1), "a path": "local"}[
        what
    ]
    with pytest.raises(OptionError) as caught:
        twostage.enable(given)
    assert caught.value.code == "NOT_A_SESSION"
    assert type(given).__name__ in str(caught.value)
    assert "SparkSession.builder.getOrCreate()" in str(caught.value)


def test_a_stopped_session(tmp_path):
    printed = lakehouse.run_python(STOPPED, cwd=tmp_path)
    assert found(printed).startswith("[TWOSTAGE.STOPPED_SESSION] This Spark session was stopped")


def test_a_module_that_is_missing_is_named(warehouse, tmp_path):
    printed = lakehouse.run_python(WITHOUT.format(path=warehouse.events), cwd=tmp_path)
    assert "[TWOSTAGE.MISSING_MODULE]" in found(printed)
    assert "'fastavro'" in found(printed)
    assert "report" not in found(printed)


def test_workers_run_in_the_program_s_own_python(warehouse, tmp_path):
    done = run(["-c", LOCAL.format(path=warehouse.events)], elsewhere(tmp_path), tmp_path)
    rows, workers = json.loads(found(done.stdout))
    assert rows == [298, 299]
    assert workers == [sys.executable]
    assert "another Python" not in done.stderr


def test_a_spark_job_compiles_without_pyspark_python(tmp_path):
    table = Table(tmp_path / "t", {"id": "long", "k": "long"})
    for start in (0, 30):
        table.append([{"id": start + i, "k": i % 10} for i in range(30)])
    table.delete_equal(["k"], [{"k": 3}])
    table.write()
    arguments = ["-m", "twostage", "compile-deletes", str(table.folder), "--spark", "--compiled-dir", str(tmp_path / "c")]  # fmt: skip
    done = run(arguments, elsewhere(tmp_path), tmp_path)
    assert "2 compiled" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(list(Path(tmp_path, "c").iterdir())) == 2


def test_a_spark_job_s_error_is_ours_not_sparks(tmp_path):
    """A data file that is not there fails a task; so does a worker without twostage: the last lines say it."""
    table = Table(tmp_path / "t", {"id": "long", "k": "long"})
    files = [table.append([{"id": start + i, "k": i % 10} for i in range(30)]) for start in (0, 30)]
    table.delete_equal(["k"], [{"k": 3}])
    table.write()
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    environment = elsewhere(tmp_path)
    arguments = ["-m", "twostage", "compile-deletes", str(table.folder), "--spark", "--compiled-dir", str(tmp_path / "c")]  # fmt: skip

    def last_words(**more):
        done = subprocess.run(
            [sys.executable, *arguments],
            env=environment | more, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
        assert done.returncode == 1
        (line,) = [line for line in done.stderr.splitlines() if line.startswith("[TWOSTAGE.")]
        return line

    without = {"PYSPARK_PYTHON": str(bare / "bin" / "python"), "PYTHONPATH": ""}
    if not _needs_the_path():
        line = last_words(**without)
        assert line.startswith("[TWOSTAGE.NOT_ON_WORKERS] The workers' Python has no twostage")
        assert "PYSPARK_PYTHON" in line
    Path(files[0].path.removeprefix("file://")).unlink()
    assert last_words().startswith("[TWOSTAGE.MISSING_FILE]")


def _needs_the_path():
    """Tell whether this Python finds twostage by PYTHONPATH alone; then its workers cannot be without it."""
    code = "import twostage"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return (
        subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, check=False
        ).returncode
        != 0
    )


def test_an_error_of_somebody_else_stays_as_it_is():
    assert error_of_worker(ValueError("no such thing"), "python3") is None
