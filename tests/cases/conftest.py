"""Puts the tables of a case into its setting; counts the lines of the case list that passed.

With TWOSTAGE_WRITER=Iceberg-Spark, Iceberg's own library writes the tables of the listed cases: `make interop` names the
plugin that has the fixture `iceberg_table`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from case_list import CASES, runs
from cells import DECLARED, EXCLUDED, ICEBERG_SPARK, PYICEBERG, every, possible, run_by

from figures import FULL, record
from tables import Table

if TYPE_CHECKING:
    from settings import Setting

WRITER = os.environ.get("TWOSTAGE_WRITER", DECLARED)
CELL_RUNS = int(os.environ.get("TWOSTAGE_CELL_RUNS", "0" if FULL or WRITER == DECLARED else "1"))
"""Runs of each cell, spread over all of its runs; 0 for all. Through Iceberg's library a run takes ten times as long."""


@pytest.fixture
def setting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Setting:
    """Make the setting's version and formats the defaults of `Table`; see `settings.each_of`."""
    chosen: Setting = request.param
    monkeypatch.setattr(Table, "default_version", chosen.version)
    monkeypatch.setattr(Table, "data_format", chosen.data)
    monkeypatch.setattr(Table, "delete_format", chosen.deletes or "parquet")
    if WRITER == ICEBERG_SPARK:
        monkeypatch.setattr(request.module, "Table", request.getfixturevalue("iceberg_table"))
    return chosen


def _name(nodeid: str) -> str:
    """Return a test's id as the list of cases names it; empty if it lies elsewhere."""
    return nodeid.partition("cases/")[2].replace(".py::", "::")


def pytest_collection_modifyitems(items: list[Any], config: pytest.Config) -> None:
    """Leave so many runs of each cell as are asked for, and of Iceberg's writer nothing else."""
    if WRITER == DECLARED and not CELL_RUNS:
        return
    found = run_by(sorted(_name(item.nodeid) for item in items), WRITER)
    left = set()
    for cell, of_cell in found.items():
        if cell in possible() and (WRITER == DECLARED or cell.writer == WRITER):
            count = min(CELL_RUNS, len(of_cell)) or len(of_cell)
            left |= {of_cell[len(of_cell) * number // count] for number in range(count)}
    config.hook.pytest_deselected(items=[item for item in items if _name(item.nodeid) not in left])
    items[:] = [item for item in items if _name(item.nodeid) in left]


_passed: dict[str, bool] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember each test of this folder, and whether it passed in all of its phases."""
    if name := _name(report.nodeid):
        _passed[name] = _passed.get(name, True) and report.outcome == "passed"


def pytest_sessionfinish() -> None:
    """Record the lines of the list and the cells that passed, if all lines ran."""
    cells = run_by(_passed, WRITER)
    ran = {
        "cells": len(cells),
        "cells_passed": sum(all(_passed[run] for run in of_cell) for of_cell in cells.values()),
    }
    mine = (ICEBERG_SPARK,) if WRITER == ICEBERG_SPARK else (DECLARED, PYICEBERG)
    crossed = {
        "cells_possible": sum(cell.writer in mine for cell in possible()),
        "cells_excluded": sum(cell.writer in mine for cell in every() - possible()),
        "exclusions": len(EXCLUDED),
    }
    if WRITER == ICEBERG_SPARK:
        if {cell.case for cell in cells} == {cell.case for cell in possible() if cell.writer == WRITER}:
            record("R3", **{f"iceberg_spark_{name}": count for name, count in (ran | crossed).items()})
        return
    found = {
        line: [_passed[run] for name in (*case.declared, *case.pyiceberg) for run in runs(name, _passed)]
        for line, case in CASES.items()
    }
    if all(found.values()):
        record(
            "R3",
            cases=len(found),
            passed=sum(all(outcomes) for outcomes in found.values()),
            runs=sum(map(len, found.values())),
            **ran,
            **crossed,
        )
