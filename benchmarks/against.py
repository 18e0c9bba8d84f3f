"""Two versions of the code, side by side in one run on the same files: whether a change made anything slower.

    make bench-against COMMIT=v0.1.0
    make bench-against COMMIT=0502c54 BENCH="--rows 300000 --repeats 5"

Takes a commit of this repository; its package and this one each run in a process with a Spark session, and
take turns, query by query: needles, scans, positional and equality deletes, on a local disk. Prints for each
query the medians of wall and CPU seconds, and the ratio of this code to the commit's. Fails if their answers
differ.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench_tables import make_wide
from delete_tables import Case, add_deletes, key_files, make_table
from engine_process import EngineProcess
from queries import DELETED, NEEDLES, SCANS, SIZES, TWOSTAGE, Query
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from engine_process import Measured

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("connector", "native")
EQUALITY = (Case("long", 1, 100_000), Case("long", 20, 100_000))
CAP = 600.0
console = Console(width=150)


def queries() -> list[Query]:
    """Return the queries: needles and scans, then some of them under positional and equality deletes."""
    found = [*NEEDLES, *SCANS]
    some = (NEEDLES[0], NEEDLES[5], SCANS[0], SCANS[3])
    found += [replace(one, branch=DELETED, title=f"{one.title}; positional deletes") for one in some]
    for case in EQUALITY:
        for title, where in (("SELECT *", ""), ("needle", "customer = 4711")):
            found.append(
                Query(f"{title}; {case}", "*", where, branch=case.branch, table="orders", is_large=not where)
            )
    return found


def make_tables(warehouse: Path, rows: int) -> None:
    """Make the tables, unless they are there."""
    done = warehouse / "against.json"
    if done.exists() and json.loads(done.read_text()) == rows:
        return
    shutil.rmtree(warehouse, ignore_errors=True)
    warehouse.mkdir(parents=True)
    from iceberg_session import start  # noqa: PLC0415 - only if something is to be made

    spark = start(str(warehouse))
    make_wide(spark, replace(SIZES["full"], rows=rows))
    make_table(spark, rows)
    writer = key_files(spark)
    for case in EQUALITY:
        add_deletes(spark, case, rows, writer)
    spark.stop()
    done.write_text(json.dumps(rows))


def extract(commit: str, folder: str) -> str:
    """Write the packages of a commit to a folder; return the PYTHONPATH to import them."""
    archive = subprocess.run(
        ["git", "archive", commit, *PACKAGES], cwd=ROOT, check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return os.pathsep.join(str(Path(folder, name)) for name in PACKAGES)


def measure(query: Query, versions: dict[str, EngineProcess], repeats: int) -> dict[str, list[Measured]]:
    """Run a query on each version in turn, after comparing answers; return its measurements by version."""
    answers = {name: process.ask("answer", TWOSTAGE, query, CAP) for name, process in versions.items()}
    if len(set(answers.values())) > 1:
        raise AssertionError(f"{query.title}: the versions differ: {answers}")
    runs: dict[str, list[Measured]] = {name: [] for name in versions}
    for turn in range(-2, repeats):  # two turns warm caches and compilers
        for name in list(versions)[:: 1 if turn % 2 else -1]:
            measured = versions[name].measure(TWOSTAGE, query, CAP)
            if measured is not None and turn >= 0:
                runs[name].append(measured)
    return runs


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", help="what to compare with")
    parser.add_argument("--rows", type=int, default=SIZES["full"].rows)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--only", default="", metavar="TEXT", help="the queries whose title has it")
    parser.add_argument("--warehouse", type=Path, default=ROOT / "benchmarks" / "data" / "against")
    asked = parser.parse_args()
    # In a separate process, as Spark stays in the one that used it.
    subprocess.run(
        [sys.executable, "-c", f"import against; against.make_tables(against.Path({str(asked.warehouse)!r}), {asked.rows})"],
        cwd=Path(__file__).parent,
        check=True,
    )  # fmt: skip
    table = Table("query", "wall s, commit", "wall s, here", "ratio", "CPU s, commit", "CPU s, here", "ratio")
    with tempfile.TemporaryDirectory() as folder:
        paths = {
            "commit": extract(asked.commit, folder),
            "here": os.pathsep.join(str(ROOT / name) for name in PACKAGES),
        }
        versions = {name: EngineProcess(str(asked.warehouse), path) for name, path in paths.items()}
        try:
            for query in (one for one in queries() if asked.only in one.title):
                runs = measure(query, versions, asked.repeats)
                cells = []
                for figure in ("seconds", "cpu"):
                    before, now = (median(getattr(run, figure) for run in runs[name]) for name in versions)
                    cells += [f"{before:.3f}", f"{now:.3f}", f"{now / before:.2f}" if before else ""]
                table.add_row(query.title, *cells)
                console.print(query.title, *cells)
        finally:
            for process in versions.values():
                process.__exit__()
    console.print(table)


if __name__ == "__main__":
    main()
