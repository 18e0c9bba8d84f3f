"""How long ``advise collect --spark`` takes over a table of 100,000 data files, and how much memory.

    make bench-advisor-collect                    100,000 files of 10 columns
    benchmarks/advisor_collect.py --files 5000

The data files exist as links to a few copies of one, since only a sample is opened; each has its own manifest
entry, with its own bounds. The command runs in a separate process, with Spark on two cores; its result goes
to a file. It runs again with that result, and once more after a tenth as many files were added. Memory is
that of the Python driver alone.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import metadata
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from rich.console import Console

from twostage.__main__ import main as command
from twostage.spark import session

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES_A_MANIFEST = 8_000
LINKS = 10_000
"""Per copy: file systems limit them."""


def write_data_file(path: Path, columns: int) -> int:
    """Write the data file; return its bytes."""
    draw = np.random.default_rng(5)
    names = [f"c{number}" for number in range(1, columns + 1)]
    fields = [
        pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(number)})
        for number, name in enumerate(names, start=1)
    ]
    arrays = [
        pa.array(draw.integers(0, 10 ** (1 + number % 6), metadata.ROWS)) for number in range(len(names))
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table(arrays, schema=pa.schema(fields)), path)
    return path.stat().st_size


def make_table(folder: Path, files: int, columns: int) -> Path:
    """Write a table's metadata, and link its data files; return where the metadata is."""
    copy = folder / "data" / "first.parquet"
    size = copy.stat().st_size if copy.exists() else write_data_file(copy, columns)
    for number in range(files):
        name = folder / "data" / metadata.data_file_name(number)
        if not name.exists() and number % LINKS == 0:
            shutil.copyfile(copy, name)
        elif not name.exists():
            name.hardlink_to(copy)
        if number % LINKS == 0:
            copy = name
    return metadata.make_table(folder, files, columns, FILES_A_MANIFEST, file_size=size)


def collect(path: str, out: str, sampled: int, results: Any) -> None:
    """Run the command, and put figures into `results`."""
    os.environ["PYSPARK_SUBMIT_ARGS"] = "--master local[2] pyspark-shell"
    real, told = session.run_job, []

    def with_progress(work: Any, items: Any, progress: Any, description: str) -> Iterator[Any]:
        def note(done: int) -> None:
            told.append(done)
            progress(done)

        yield from real(work, items, note, description)

    started, used = time.perf_counter(), time.process_time()
    with mock.patch.object(session, "run_job", with_progress):
        code = command(["advise", "collect", path, "--spark", "--out", out, "--files", str(sampled)])
    results.put(
        {
            "code": code,
            "seconds": round(time.perf_counter() - started, 1),
            "cpu": round(time.process_time() - used, 1),
            "mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
            "progress": sorted(set(told)),
        }
    )


def main() -> None:
    """Make the table, collect three times, print figures as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--sampled", type=int, default=32, help="data files that are opened (32)")
    given = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    console = Console(highlight=False, soft_wrap=True)
    with tempfile.TemporaryDirectory(prefix="twostage-collect-") as place:
        folder, out = Path(place, "t"), Path(place, "kept.json")
        for what, files in (("first", given.files), ("again", given.files), ("more", given.files * 11 // 10)):
            if what != "again":
                path = make_table(folder, files, given.columns)
            results = context.Queue()
            process = context.Process(target=collect, args=(str(path), str(out), given.sampled, results))
            process.start()
            figures = results.get()
            process.join()
            found = json.loads(out.read_text())
            facts = {name: found[name] for name in ("files", "rows")}
            console.print(
                json.dumps({"run": what, **facts, "kept_kib": out.stat().st_size >> 10, **figures}),
                markup=False,
            )


if __name__ == "__main__":
    main()
