"""The list of named cases is whole: every test it names is there, in every version and format it can have.

Takes pytest's own list of collected tests, in a process of its own, so that a selection of tests changes nothing.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from case_list import CASES, EQUALITY, FILTERS, MIXED, POSITION, VECTOR, runs

ROOT = Path(__file__).parents[2]


def collected(*folders: str) -> list[str]:
    """Return the ids of the tests in these folders of the project."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *folders]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout[-2000:] + found.stderr[-2000:]
    return [line for line in found.stdout.splitlines() if "::" in line]


@pytest.fixture(scope="module")
def names() -> list[str]:
    return [line.removeprefix("tests/cases/").replace(".py::", "::") for line in collected("tests/cases")]


def test_every_named_test_is_there(names: list[str]) -> None:
    missing = {
        (line, name)
        for line, case in CASES.items()
        for name in (*case.declared, *case.pyiceberg)
        if not runs(name, names)
    }
    assert not missing
    assert len(CASES) >= 70


def test_every_case_of_iceberg_spark_is_there() -> None:
    ids = collected("interop")
    cases = {found.removesuffix("]").partition("[")[2] for found in ids if "::test_whole_table[" in found}
    functions = {found.partition("::")[2].partition("[")[0] for found in ids}
    named = {name for case in CASES.values() for name in case.spark}
    assert {name for name in named if not name.startswith("interop:")} <= cases
    assert {name.removeprefix("interop:") for name in named if name.startswith("interop:")} <= functions


def test_every_line_runs_in_every_version_and_format(names: list[str]) -> None:
    """Version 1 has no deletes, vectors are of version 3; each version with more than one format."""
    wanted = {
        **dict.fromkeys((*POSITION, *EQUALITY, *MIXED), {("v2", f) for f in ("parquet", "orc", "avro")}),
        **dict.fromkeys(VECTOR, {("v3", f) for f in ("parquet", "orc", "avro")}),
        **dict.fromkeys(FILTERS, {("v1", "parquet"), ("v2", "parquet"), ("v2", "orc"), ("v3", "avro")}),
    }
    for line in (*POSITION, *EQUALITY, *MIXED):
        wanted[line] |= {("v3", f) for f in ("parquet", "orc", "avro")}
    lacking = {}
    for line, case in CASES.items():
        met = {
            tuple(match.groups())
            for name in case.declared
            for run in runs(name, names)
            for match in re.finditer(r"(v[123])-(parquet|orc|avro)", run)
        }
        if not wanted[line] <= met:
            lacking[line] = wanted[line] - met
    assert not lacking
