"""However twostage is installed, Spark finds the source by itself: no registration, no path to the sources."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import zipfile

import pytest

from lakehouse import ROOT, run_python

SCRIPT = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
frame = spark.read.format("twostage").option("filter", "id >= 290").option("columns", "id").load({path!r})
print("found", sorted(row.id for row in frame.collect()))
assert "twostage" not in sys.modules
"""


def found(output: str) -> str:
    return next(line for line in output.splitlines() if line.startswith("found"))


def test_a_wheel_is_discovered(warehouse, tmp_path):
    pytest.importorskip("hatchling")
    build = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)  # all that installing a pure wheel does
    output = run_python(SCRIPT.format(path=warehouse.events), env={"PYTHONPATH": str(site)}, cwd=tmp_path)
    assert found(output) == f"found {list(range(290, 300))}"


def test_an_editable_install_is_discovered(warehouse, tmp_path):
    try:
        importlib.metadata.distribution("twostage")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("twostage is not installed here; `make install` does it")
    assert os.path.isdir(ROOT / "connector")
    output = run_python(SCRIPT.format(path=warehouse.events), env={"PYTHONPATH": ""}, cwd=tmp_path)
    assert found(output) == f"found {list(range(290, 300))}"
