"""The reliability scoreboard: runs the tests behind each row and writes docs/scoreboard.md.

    make scoreboard                  every row, at the sizes of a pull request
    make scoreboard ROWS="R4 R9"     these rows; the others keep their last result
    make scoreboard FULL=1           nightly sizes

Takes nothing but the tests: they call `figures.record` with what they counted, and a row's gates judge it. A gate whose
figure is not there is shown as not measured; a row passes if its tests pass and all of its gates do.
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
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "scoreboard"
PAGE = ROOT / "docs" / "scoreboard.md"
FULL = os.environ.get("TWOSTAGE_FULL") == "1"
LIBRARIES = ("pyspark", "pyarrow", "pyiceberg", "numba", "numpy")
PASSED, FAILED, PARTLY, UNMEASURED = "passed", "**failed**", "partly measured", "not measured"

RECORDS = "all records"
"""Among a row's figures, the recorded lines themselves."""

Figures = dict[str, Any]


@dataclass(frozen=True)
class Gate:
    """A condition on a row's figures. `holds` raises KeyError where a figure is not there."""

    text: str
    holds: Callable[[Figures], bool]


@dataclass(frozen=True)
class Row:
    """A row: the tests that record its figures, and what these must be."""

    id: str
    title: str
    tests: tuple[str, ...]
    gates: tuple[Gate, ...]
    environment: tuple[tuple[str, str], ...] = ()


def least(name: str, small: int, full: int | None = None) -> Gate:
    """Return the gate that a figure is at least so much, at a pull request's size and nightly."""
    wanted = full if FULL and full is not None else small
    return Gate(f"{name} ≥ {wanted:,}", lambda figures: figures[name] >= wanted)


def most(name: str, small: float, full: float | None = None) -> Gate:
    """Return the gate that a figure is at most so much."""
    wanted = full if FULL and full is not None else small
    return Gate(f"{name} ≤ {wanted:,}", lambda figures: figures[name] <= wanted)


def none(*names: str) -> Gate:
    """Return the gate that these figures are 0."""
    return Gate(f"0 {', '.join(names)}", lambda figures: not any(figures[name] for name in names))


def nightly(gate: Gate) -> tuple[Gate, ...]:
    """Return a gate that only the nightly sizes have."""
    return (gate,) if FULL else ()


def each(text: str, figure: str, holds: Callable[[Figures], bool], lines: int) -> Gate:
    """Return the gate that every recorded line with this figure holds, and that there are enough of them."""

    def check(figures: Figures) -> bool:
        found = [line for line in figures[RECORDS] if figure in line]
        if not found:
            raise KeyError(figure)
        return len(found) >= lines and all(map(holds, found))

    return Gate(text, check)


CELLS, RUNS = 14, 10 if FULL else 1
"""Of the fault matrix: how many named cells, and how often each is run. A test records a run that ended as it should."""


def runs_by_cell(lines: Iterable[Figures]) -> Counter[str]:
    """Return how many runs of each cell of the fault matrix were recorded."""
    return Counter(line["cell"] for line in lines if "cell" in line)


def every_cell(figures: Figures) -> bool:
    """Tell whether there are enough cells, each with enough runs."""
    runs = runs_by_cell(figures[RECORDS])
    return len(runs) >= CELLS and min(runs.values()) >= RUNS


def nothing_skipped(figures: Figures) -> bool:
    """Tell whether all tests ran; those that did not measure nothing."""
    if figures["tests_skipped"]:
        raise KeyError("tests_skipped")
    return True


WHEEL = "test_the_wheel_holds_every_source_and_nothing_else"
DIFFERENTIAL = ("tests/differential/test_differential.py", "-k", "oracles")
COMPILED = (("TWOSTAGE_JIT", "always"),)
ROWS = (
    Row(
        "R1",
        "Differential: random (table, query) pairs against brute force and DuckDB, and through Spark by both readers",
        ("tests/spark/test_spark_differential.py", *DIFFERENTIAL),
        (
            least("pairs", 1_000, 10_000),
            none("mismatches"),
            least("spark_pairs", 60, 1_000),
            none("spark_mismatches"),
        ),
        (*COMPILED, ("TWOSTAGE_PAIRS", "10000" if FULL else "1000")),
    ),
    Row(
        "R1b",
        "… and they exercise what they should",
        DIFFERENTIAL,
        (
            Gate("non-empty ≥ 60 %", lambda figures: figures["non_empty"] >= 0.6),
            Gate("a row group skipped in ≥ 30 %", lambda figures: figures["row_group_skipped"] >= 0.3),
            *nightly(least("rarest_cell_hits", 20)),
        ),
        (*COMPILED, ("TWOSTAGE_PAIRS", "10000" if FULL else "1000")),
    ),
    Row(
        "R2",
        "The same rows in every configuration",
        ("tests/differential/test_differential.py", "-k", "configuration"),
        (least("pairs", 200, 2_000), least("configurations", 8, 16), none("differences")),
        COMPILED,
    ),
    Row(
        "R3",
        "Named delete and filter cases",
        ("tests/cases",),
        (
            least("cases", 70),
            Gate("all pass", lambda figures: figures["passed"] == figures["cases"]),
            Gate("every cell that ran passed", lambda figures: figures["cells_passed"] == figures["cells"]),
            *nightly(
                Gate("every possible cell ran", lambda figures: figures["cells"] == figures["cells_possible"])
            ),
        ),
    ),
    Row(
        "R4",
        "Kernels equal their definition, and so do their NumPy twins",
        ("tests/native", "tests/deletes/test_probe.py"),
        (least("examples", 200, 5_000), least("kernels", 10)),
    ),
    Row(
        "R5",
        "Bad inputs end in typed errors that name file and stage",
        ("tests/bad_bytes", "tests/fuzz"),
        (
            least("corpus_files", 146),
            least("made_cases", 60),
            least("mutations", 200, 4_000),
            none("crashes", "hangs", "over_memory", "untyped"),
        ),
    ),
    Row(
        "R6",
        "Silent corruption of checksummed files",
        ("tests/fuzz", "tests/spark/test_spark_native_flips.py"),
        (
            least("flips", 300, 5_000),
            none("silent"),
            least("native_flips", 100, 1_000),  # through Spark's own reader, where it scans for us
            none("native_silent"),
        ),
    ),
    Row(
        "R7",
        "Faults survived with exact rows",
        ("tests/faults",),
        (Gate(f"cells ≥ {CELLS}, each run ≥ {RUNS} times", every_cell),),
    ),
    Row(
        "R8",
        "Equality deletes: memory for 10 M keys, MiB above the process's own",
        ("tests/deletes/test_delete_memory.py", "-k", "keys"),
        (
            most("10m_longs_mib", 250),
            *nightly(most("50m_longs_mib", 1_200)),
            *nightly(most("10m_long_text_mib", 900)),
            Gate(
                "above the budget a typed error within 1 s of loading",
                lambda figures: (
                    figures["over_budget"] == "DELETE_KEYS_TOO_LARGE" and figures["over_budget_seconds"] <= 1
                ),
            ),
        ),
    ),
    Row(
        "R9",
        "Positions: memory for 100 M in one file, in runs and one in eight at random, MiB",
        ("tests/deletes/test_delete_memory.py", "-k", "positions"),
        (
            most("runs_mib", 64),
            most("random_mib", 200),
            *nightly(most("file_runs_mib", 64)),
            *nightly(most("file_random_mib", 200)),
        ),
    ),
    Row(
        "R10",
        "Read amplification: bytes read / bytes needed; golden I/O traces",
        ("tests/io",),
        (
            each(
                "≤ 1.3 at 0.01 %, 1.5 at 1 %, 1.1 at 50 %",
                "amplification",
                lambda line: (
                    line["amplification"] <= {0.0001: 1.3, 0.01: 1.5, 0.5: 1.1}.get(line["share"], 1.0)
                ),
                3,
            ),
        ),
    ),
    Row(
        "R11",
        "No leak: growth over many reads, MiB; descriptors and threads return",
        ("tests/leaks", "tests/spark/test_spark_workers.py"),
        (
            least("reads_v2", 200, 2_000),
            least("reads_v3", 200, 2_000),
            most("rss_growth_mib_v2", 5, 10),
            most("rss_growth_mib_v3", 5, 10),
            most("spark_rss_growth_mib", 5, 10),
        ),
    ),
    Row(
        "R12",
        "Reads while the table changes: one committed snapshot, or MISSING_FILE",
        ("tests/changes", "tests/spark/test_spark_changes.py"),
        (
            Gate(
                f"loops of both kinds ≥ {500 if FULL else 20}",
                lambda figures: figures["loops"] + figures["catalog_loops"] >= (500 if FULL else 20),
            ),
            none("mixed"),
        ),
    ),
    Row(
        "R13",
        "Security checks, each line of the list with its tests",
        ("tests/security", "tests/spark/test_spark_secrets.py"),
        (
            least("lines", 10),
            Gate("every line tested", lambda figures: figures["tested"] == figures["lines"]),
        ),
    ),
    Row(
        "R14",
        "Import of pyspark_twostage over bare pyspark",
        ("tests/packaging/test_import_time.py",),
        (most("seconds", 0.1), none("heavy_modules")),
    ),
    Row(
        "R15",
        "Wheel and editable install are discovered by Spark; the wheel holds exactly the sources",
        ("tests/spark/test_spark_install.py", f"tests/packaging/test_house_rules.py::{WHEEL}"),
        (least("tests_passed", 2), Gate("no test skipped", nothing_skipped)),
    ),
    Row("R16", "Coverage of branches", (), ()),
    Row(
        "Memory",
        "Rows of 10 MB, a row group of 1 GiB, 10,000 columns: held at most with task-memory 128 MiB, MiB",
        ("tests/memory",),
        (
            most("wide_filtered_all_mib", 352),
            most("row_group_none_dense_mib", 608),
            most("row_group_none_streamed_mib", 352),
            most("columns_all_mib", 352, 2_000),
        ),
    ),
)


def run(row: Row) -> dict[str, Any]:
    """Run a row's tests; return figures, what was counted of the tests, seconds and versions."""
    with tempfile.TemporaryDirectory() as folder:
        figures, report = Path(folder, "figures"), Path(folder, "report.xml")
        environment = {**os.environ, **dict(row.environment), "TWOSTAGE_FIGURES": str(figures)}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml", str(report)]
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
    """Return whether a row passed, and each gate with what became of it."""
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
    """Return what the figures were measured with."""
    libraries = [f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES]
    return ", ".join([f"Python {platform.python_version()}", *libraries, f"{os.cpu_count()} cores"])


def stored(row: Row) -> dict[str, Any] | None:
    """Return the last result of a row; None if it never ran."""
    path = RESULTS / f"{row.id}.json"
    return json.loads(path.read_text()) if path.exists() else None


def command_of(row: Row) -> str:
    """Return what runs this row alone."""
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
    results: dict[tuple[object, ...], dict[str, Any]] = {}  # rows of the same tests run once
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
