"""Puts the tables of a case into its setting; counts the lines of the case list that passed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from case_list import CASES, runs
from cells import EXCLUDED, ICEBERG_SPARK, every, possible, run_by

from figures import record
from tables import Table

if TYPE_CHECKING:
    from settings import Setting


@pytest.fixture
def setting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Setting:
    """Make the setting's version and formats the defaults of `Table`; see `settings.each_of`."""
    chosen: Setting = request.param
    monkeypatch.setattr(Table, "default_version", chosen.version)
    monkeypatch.setattr(Table, "data_format", chosen.data)
    monkeypatch.setattr(Table, "delete_format", chosen.deletes or "parquet")
    return chosen


_passed: dict[str, bool] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember each test of this folder, and whether it passed in all of its phases."""
    _, in_folder, name = report.nodeid.partition("cases/")
    if in_folder:
        name = name.replace(".py::", "::")
        _passed[name] = _passed.get(name, True) and report.outcome == "passed"


def pytest_sessionfinish() -> None:
    """Record the lines of the list that passed, if all of them ran."""
    found = {
        line: [_passed[run] for name in (*case.declared, *case.pyiceberg) for run in runs(name, _passed)]
        for line, case in CASES.items()
    }
    if all(found.values()):
        cells = run_by(_passed)
        record(
            "R3",
            cases=len(found),
            passed=sum(all(outcomes) for outcomes in found.values()),
            runs=sum(map(len, found.values())),
            cells=len(cells),
            cells_passed=sum(all(_passed[run] for run in of_cell) for of_cell in cells.values()),
            cells_possible=sum(cell.writer != ICEBERG_SPARK for cell in possible()),
            cells_excluded=sum(cell.writer != ICEBERG_SPARK for cell in every() - possible()),
            exclusions=len(EXCLUDED),
        )
