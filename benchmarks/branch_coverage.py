"""Which branches of each package the tests without Spark take: `make coverage`, and row R16 of the scoreboard.

    make coverage                          all of those tests, then the table; exit code 1 below a gate
    make coverage TESTS=tests/unit/reading some of them; the gates are for all

Takes arguments for pytest; runs it under coverage.py, in one process for each worker and with the processes
that tests start, and prints for each package the branches taken. Those not taken are written to
build/coverage/missing.txt, module by module. Kernels that numba compiled are not traced; their NumPy twins
are.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from scoreboard_rows import COVERED_PACKAGES, MIN_BRANCH_PERCENT, ROWS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "coverage"
DATA, REPORT, MISSING = FOLDER / "data", FOLDER / "report.json", FOLDER / "missing.txt"


@dataclass
class PackageCoverage:
    """The branches and statements of a package that tests took."""

    branches: int = 0
    branches_taken: int = 0
    statements: int = 0
    statements_taken: int = 0
    missing: list[str] = field(default_factory=list)

    def add(self, name: str, measured: Mapping[str, Any]) -> None:
        """Add a module as coverage.py reports it."""
        found = measured["summary"]
        self.branches += found["num_branches"]
        self.branches_taken += found["covered_branches"]
        self.statements += found["num_statements"]
        self.statements_taken += found["covered_lines"]
        jumps = ", ".join(
            f"{source}->{'exit' if to < 0 else to}" for source, to in measured["missing_branches"]
        )
        if jumps:
            self.missing.append(f"{name}: {jumps}")

    @property
    def percent(self) -> float:
        """Percentage of branches taken."""
        return round(100 * self.branches_taken / max(1, self.branches), 1)


def run_tests(arguments: Sequence[str]) -> int:
    """Run pytest under coverage.py; return its exit code."""
    for old in FOLDER.glob("data*"):
        old.unlink()
    FOLDER.mkdir(parents=True, exist_ok=True)
    measured = [sys.executable, "-m", "coverage", "run", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return subprocess.run([*measured, *arguments], cwd=ROOT, check=False).returncode


def by_package() -> dict[str, PackageCoverage]:
    """Return what was taken of each package: a folder of connector/twostage, its modules, the kernels' package."""
    coverage = [sys.executable, "-m", "coverage"]
    subprocess.run([*coverage, "combine", "-q"], cwd=ROOT, check=True)
    subprocess.run([*coverage, "json", "-q", "-o", str(REPORT)], cwd=ROOT, check=True)
    packages: dict[str, PackageCoverage] = defaultdict(PackageCoverage)
    for name, measured in sorted(json.loads(REPORT.read_text())["files"].items()):
        _, package, *inner = Path(name).parts
        packages[f"{package}.{inner[0]}" if len(inner) > 1 else package].add(name, measured)
    return dict(packages)


def main(arguments: Sequence[str]) -> int:
    """Measure, print and record; return 1 if a gate fails, pytest's exit code if tests do."""
    (row,) = (row for row in ROWS if row.id == "R16")
    exit_code = run_tests(arguments or row.tests)
    is_gated = not arguments or set(row.tests) <= set(arguments)
    packages = by_package()
    MISSING.write_text("\n".join(line for found in packages.values() for line in found.missing) + "\n")
    table = Table("package", "branches", "taken, %", "statements, %", title="Branches that the tests take")
    figures: dict[str, float] = {}
    for name, found in packages.items():
        lines = 100 * found.statements_taken / max(1, found.statements)
        gate = name.removeprefix("twostage.")
        if gate in COVERED_PACKAGES:
            figures[gate] = found.percent
        shown = f"{found.percent:.1f}{f' (≥ {MIN_BRANCH_PERCENT})' if gate in COVERED_PACKAGES else ''}"
        table.add_row(name, f"{found.branches_taken} / {found.branches}", shown, f"{lines:.1f}")
    figures["all"] = _all(packages.values()).percent
    Console().print(table)
    print(f"Not taken: {MISSING.relative_to(ROOT)}")
    if target := os.environ.get("TWOSTAGE_FIGURES"):
        with Path(target).open("a") as lines_of_figures:
            lines_of_figures.write(json.dumps({"row": "R16", **figures}) + "\n")
    below = [name for name in COVERED_PACKAGES if figures.get(name, 0.0) < MIN_BRANCH_PERCENT]
    if is_gated and below:
        print(f"Below {MIN_BRANCH_PERCENT} % of the branches: {', '.join(below)}")
    return exit_code or int(is_gated and bool(below))


def _all(packages: Any) -> PackageCoverage:
    whole = PackageCoverage()
    for found in packages:
        whole.branches += found.branches
        whole.branches_taken += found.branches_taken
    return whole


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
