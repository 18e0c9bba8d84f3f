"""The list of named cases is whole: every test it names is there, in every version and format it can have.

Takes pytest's own list of collected tests, in a process of its own, so that a selection of tests changes nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from case_list import CASES, runs
from cells import DECLARED, EXCLUDED, ICEBERG_SPARK, Cell, every, possible, run_by

from figures import FULL

ROOT = Path(__file__).parents[2]


@cache
def collected(folder: str, full: str = "1" if FULL else "0") -> tuple[str, ...]:
    """Return the ids of the tests in this folder of the project."""
    environment = {**os.environ, "TWOSTAGE_FULL": full}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", folder]
    found = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout[-2000:] + found.stderr[-2000:]
    return tuple(line for line in found.stdout.splitlines() if "::" in line)


def case_names(full: str = "1" if FULL else "0") -> list[str]:
    """Return the ids of the tests of this folder, as the list of cases names them."""
    found = collected("tests/cases", full=full)
    return [line.removeprefix("tests/cases/").replace(".py::", "::") for line in found]


@pytest.fixture(scope="module")
def names() -> list[str]:
    return case_names()


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


@pytest.fixture(scope="module")
def cells(names: list[str]) -> frozenset[Cell]:
    """The cells of both writers of this folder that run with TWOSTAGE_FULL=1."""
    return frozenset(run_by(names if FULL else case_names("1")))


def test_every_possible_cell_runs(cells: frozenset[Cell]) -> None:
    """With TWOSTAGE_FULL=1; and what is said to be impossible does not."""
    wanted = {cell for cell in possible() if cell.writer != ICEBERG_SPARK}
    assert not sorted(wanted - cells)
    assert not sorted(cells - wanted)
    assert len(wanted) > 900


def test_every_possible_cell_of_iceberg_spark_runs(names: list[str]) -> None:
    """The same tests, their tables written by Iceberg's own library: ``TWOSTAGE_WRITER``, see `conftest.py`."""
    wanted = {cell for cell in possible() if cell.writer == ICEBERG_SPARK}
    assert not sorted(wanted - set(run_by(names if FULL else case_names("1"), ICEBERG_SPARK)))
    assert len(wanted) > 800


def test_the_selection_has_every_case_in_every_version_and_format(names: list[str]) -> None:
    """What runs without TWOSTAGE_FULL=1; formats of data files and of delete files."""
    met: dict[str, set[object]] = {}
    wanted: dict[str, set[object]] = {}
    for cells, into in ((run_by(names), met), (possible(), wanted)):
        for cell in cells:
            if cell.writer == DECLARED:
                into.setdefault(cell.case, set()).update(
                    {cell.version, ("data", cell.data), ("deletes", cell.deletes)}
                )
    assert wanted.keys() == CASES.keys()
    lacking = {case: missing for case, all_of in wanted.items() if (missing := all_of - met[case])}
    assert not lacking


def test_every_exclusion_excludes_something_and_names_its_proof(names: list[str]) -> None:
    there = {name.partition("[")[0] for name in names}
    of_interop = {found.partition("::")[2].partition("[")[0] for found in collected("interop")}
    for rule in EXCLUDED:
        assert any(rule.covers(cell) for cell in every()), rule.reason
        proof, _, of_spark = rule.shown_by.partition("interop:")
        assert of_spark in of_interop if of_spark else f"test_exclusions::{proof}" in there, rule.shown_by
