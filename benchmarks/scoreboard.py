"""The reliability scoreboard: runs the tests behind each row and writes docs/scoreboard.md.

    make scoreboard                  every row, at the sizes of a pull request
    make scoreboard ROWS="R4 R9"     these rows; the others keep their last result
    make scoreboard FULL=1           nightly sizes

Takes only the tests: they call `figures.record` with their figures, and a row's gates check these. A gate
without its figure is shown as not measured; a row passes if its tests and all of its gates pass.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from scoreboard_rows import FULL, RECORDS, ROWS, Figures, Row, runs_by_cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "scoreboard"
PAGE = ROOT / "docs" / "scoreboard.md"
LIBRARIES = ("pyspark", "pyarrow", "pyiceberg", "numba", "numpy")
PASSED, FAILED, PARTLY, UNMEASURED = "passed", "**failed**", "partly measured", "not measured"


def run(row: Row) -> dict[str, Any]:
    """Run a row's tests; return figures, counts of the tests, seconds and versions."""
    with tempfile.TemporaryDirectory() as folder:
        figures, report = Path(folder, "figures"), Path(folder, "report.xml")
        environment = {**os.environ, **dict(row.environment), "TWOSTAGE_FIGURES": str(figures)}
        command = [sys.executable, *row.program, "-q", "-p", "no:cacheprovider", "--junitxml", str(report)]
        limit = ["--timeout", "7200"] if FULL else ["--timeout", "1800"]
        started = time.perf_counter()
        done = subprocess.run([*command, *limit, *row.tests], cwd=ROOT, env=environment, check=False)
        seconds = time.perf_counter() - started
        lines = [json.loads(line) for line in figures.read_text().splitlines()] if figures.exists() else []
        counted = ElementTree.parse(report).getroot().find("testsuite") if report.exists() else None
    found = {} if counted is None else {name: int(counted.get(name, 0)) for name in ("tests", "skipped")}
    bad = 0 if counted is None else int(counted.get("failures", 0)) + int(counted.get("errors", 0))
    return {
        "lines": lines,
        "exit": done.returncode,
        "tests_failed": bad,
        "tests_skipped": found.get("skipped", 0),
        "tests_passed": found.get("tests", 0) - found.get("skipped", 0) - bad,
        "seconds": round(seconds),
        "when": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        "full": FULL,
    }


def figures_of(row: Row, result: Mapping[str, Any]) -> Figures:
    """Return a row's figures by name: the last of each name, all lines, and the number of tests."""
    lines = [
        {name: value for name, value in line.items() if name != "row"}
        for line in result["lines"]
        if line["row"].lower() == row.id.lower()
    ]
    figures: Figures = {}
    for line in lines:
        figures.update(line)
    counts = {name: result[name] for name in ("tests_passed", "tests_skipped")}
    return {**figures, **counts, RECORDS: lines}


def judge(row: Row, result: Mapping[str, Any] | None) -> tuple[str, list[str]]:
    """Return whether a row passed, and each gate with its result."""
    if result is None or not row.gates:
        return UNMEASURED, [gate.text for gate in row.gates]
    figures, outcomes = figures_of(row, result), []
    for gate in row.gates:
        try:
            outcomes.append(PASSED if gate.holds(figures) else FAILED)
        except KeyError:
            outcomes.append(UNMEASURED)
    shown = [
        gate.text if outcome == PASSED else f"{gate.text}: {outcome}"
        for gate, outcome in zip(row.gates, outcomes, strict=True)
    ]
    if result["exit"] != 0 or FAILED in outcomes:
        return FAILED, shown
    if set(outcomes) == {UNMEASURED} or not result["tests_passed"]:
        return UNMEASURED, shown
    return (PARTLY if UNMEASURED in outcomes else PASSED), shown


def shown_figures(row: Row, result: Mapping[str, Any] | None) -> str:
    """Return a row's figures as text."""
    if result is None:
        return ""
    figures = figures_of(row, result)
    lines = figures.pop(RECORDS)
    if lines and all("amplification" in line for line in lines):
        parts = [f"{line['layout']} at {line['share']:.2%}: {line['amplification']}" for line in lines]
    else:
        runs = runs_by_cell(lines)
        figures.pop("cell", None)
        parts = [f"{len(runs)} cells: {', '.join(f'{name} ({n} runs)' for name, n in sorted(runs.items()))}"]
        parts = parts if runs else []
        parts += [
            f"{name} {_text(value)}" for name, value in figures.items() if not name.startswith("tests_")
        ]
    tests = f"{result['tests_passed']} tests passed"
    tests += f", {result['tests_failed']} failed" if result["tests_failed"] else ""
    tests += f", {result['tests_skipped']} skipped" if result["tests_skipped"] else ""
    return "; ".join([*parts, tests])


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def versions() -> str:
    """Return the versions that the figures were measured with."""
    libraries = [f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES]
    return ", ".join([f"Python {platform.python_version()}", *libraries, f"{os.cpu_count()} cores"])


def stored(row: Row) -> dict[str, Any] | None:
    """Return the last result of a row; None if it never ran."""
    path = RESULTS / f"{row.id}.json"
    return json.loads(path.read_text()) if path.exists() else None


def command_of(row: Row) -> str:
    """Return the command that runs only this row."""
    return f"make scoreboard ROWS={row.id}"


def page(rows: Iterable[Row]) -> str:
    """Return docs/scoreboard.md."""
    lines = [
        "# Reliability scoreboard",
        "",
        "Written by `make scoreboard` (nightly sizes: `FULL=1`). A figure is what the row's tests counted; a gate without",
        "its figure is shown as not measured, never as passed. The tests of a row also assert what its title says.",
        "",
        f"Written {datetime.now(UTC):%Y-%m-%d %H:%M} UTC with {versions()}.",
        "",
        "| id | what | figures | gate | passed | run | command |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        result = stored(row)
        passed, gates = judge(row, result)
        size = "" if result is None else (", nightly" if result["full"] else "")
        when = "" if result is None else f"{result['when']}, {result['seconds']} s{size}"
        found = shown_figures(row, result).replace("|", "\\|")
        lines.append(
            f"| {row.id} | {row.title} | {found} | {'; '.join(gates)} | {passed} | {when} | `{command_of(row)}` |"
        )
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Run rows; return 1 if one failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ids", nargs="*", metavar="ROW", help="such as R4; all if none is named")
    parser.add_argument("--write-only", action="store_true", help="write the page from the last results")
    given = parser.parse_args(arguments)
    known = {row.id.lower(): row for row in ROWS}
    if unknown := [name for name in given.ids if name.lower() not in known]:
        parser.error(f"no such row: {', '.join(unknown)}; rows are {', '.join(row.id for row in ROWS)}")
    chosen = [known[name.lower()] for name in given.ids] or list(ROWS)
    RESULTS.mkdir(parents=True, exist_ok=True)
    results: dict[tuple[object, ...], dict[str, Any]] = {}  # rows with the same tests run once
    for row in () if given.write_only else chosen:
        if row.tests:
            key = (row.tests, row.environment)
            results[key] = results.get(key) or run(row)
            (RESULTS / f"{row.id}.json").write_text(json.dumps(results[key]))
    console = Console()
    table = Table("id", "what", "figures", "passed", title="Reliability scoreboard")
    outcomes = {row.id: judge(row, stored(row)) for row in chosen}
    for row in chosen:
        table.add_row(row.id, row.title, shown_figures(row, stored(row)), outcomes[row.id][0].strip("*"))
    console.print(table)
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(ROWS))
    console.print(f"Written: {PAGE.relative_to(ROOT)}")
    return int(any(passed == FAILED for passed, _ in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
