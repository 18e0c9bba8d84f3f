"""Times queries with the condition cache off, filling it, and answered from it; in one process, one run.

Every figure is the median of this process in milliseconds, elapsed and of CPU, for scans that return two
columns of the matching rows. Each comparison first checks that the rows are the same. Run it with ``make
bench-conditions``; with ``BENCH="--turns=31"`` it compares off and filling memory in turns, which a busy
machine disturbs least.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("TWOSTAGE_JIT", "always")

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from twostage.metrics import Metrics
from twostage.options import parse_options
from twostage.predicates.sql_filter import parse_filter
from twostage.reading.conditions.kept import KEPT
from twostage.reading.pipeline import read_group
from twostage.schema import parse_schema
from twostage.task import ScanContext, ScanTask, Storage, TaskGroup

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 3_000_000
ROW_GROUP_ROWS = 500_000
REPEATS = 5
COLUMNS = {
    "id": "long",
    "user_id": "long",
    "country": "string",
    "score": "double",
    "payload": "string",
    "amount": "long",
}
FILTERS = (
    "user_id = 77",
    "user_id IN (77, 78, 79, 80, 81)",
    "payload LIKE '%c0ffee%'",
    "country = 'DE'",
    "score < 0.01",
    "score < 0.5",
    "score < 0.5 AND user_id < 100000",
    "country = 'DE' AND score < 0.01 AND payload LIKE '%7'",
    "user_id = 77 OR score < 0.00001 OR payload LIKE 'c0ffee%'",
)


def write_file(path: Path, rows: int) -> None:
    """Write a file of six columns, their values scattered."""
    random = np.random.default_rng(7)
    texts = random.integers(0, 2**62, rows)
    arrays = [
        pa.array(np.arange(rows)),
        pa.array(random.integers(0, 200_000, rows)),
        pa.array(np.array(["DE", "FR", "US", "JP", "BR", "IN", "CN", "ZA"])[random.integers(0, 8, rows)]),
        pa.array(random.random(rows)),
        pa.array([f"{text:016x}" for text in texts]),
        pa.array(random.integers(0, 10**12, rows)),
    ]
    fields = [
        pa.field(name, array.type, metadata={"PARQUET:field_id": str(number)})
        for number, (name, array) in enumerate(zip(COLUMNS, arrays, strict=True))
    ]
    data = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    pq.write_table(data, path, compression="zstd", row_group_size=ROW_GROUP_ROWS, write_page_index=True)


def scan(path: Path, text: str, rows: int, **options: str) -> int:
    """Return how many rows a scan returns."""
    declared = [
        {"id": number, "name": name, "type": kind, "required": False}
        for number, (name, kind) in enumerate(COLUMNS.items())
    ]
    schema = parse_schema({"schema-id": 0, "type": "struct", "fields": declared})
    size = path.stat().st_size
    context = ScanContext(
        scan_id="scan",
        table="table",
        snapshot_id=1,
        schema=schema,
        projection=(schema.fields[0], schema.fields[5]),
        predicate=parse_filter(text, schema),
        storage=Storage(root=str(path.parent)),
        settings=parse_options({name.replace("_", "."): value for name, value in options.items()}).settings,
    )
    task = ScanTask(
        path=str(path),
        written_path=str(path),
        format="parquet",
        file_size=size,
        record_count=rows,
        start=0,
        length=size,
        sequence_number=1,
        spec_id=0,
    )
    group = TaskGroup(index=0, context=context, tasks=(task,))
    return sum(batch.num_rows for batch in read_group(group, Metrics()))


def timed(run: Callable[[], int], before: Callable[[], None] = lambda: None) -> tuple[float, float]:
    """Return the median milliseconds of a run, elapsed and of CPU; `before` is not counted."""
    elapsed, spent = [], []
    for _ in range(REPEATS):
        before()
        started, used = time.perf_counter(), time.process_time()
        run()
        elapsed.append(time.perf_counter() - started)
        spent.append(time.process_time() - used)
    return statistics.median(elapsed) * 1e3, statistics.median(spent) * 1e3


def fill_in_turns(path: Path, text: str, rows: int, turns: int) -> tuple[float, float, float]:
    """Return a scan's median CPU milliseconds, off and filling memory, and the median of their difference."""
    spent: dict[str, list[float]] = {"off": [], "memory": []}
    for turn in range(turns):
        for way in ("off", "memory") if turn % 2 else ("memory", "off"):
            KEPT.clear()
            used = time.process_time()
            scan(path, text, rows, filter_cache=way)
            spent[way].append(1e3 * (time.process_time() - used))
    more = [filling - off for off, filling in zip(spent["off"], spent["memory"], strict=True)]
    return statistics.median(spent["off"]), statistics.median(spent["memory"]), statistics.median(more)


def show_turns(rows: int, turns: int) -> None:
    """Print what filling the memory costs."""
    shown = Table(title=f"{rows:,} rows, {turns} turns: ms of CPU", title_justify="left")
    for name in ("filter", "off", "filling memory", "more", "more, %"):
        shown.add_column(name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "data.parquet")
        write_file(path, rows)
        for text in FILTERS:
            scan(path, text, rows)
            off, filling, more = fill_in_turns(path, text, rows, turns)
            shown.add_row(text, f"{off:.1f}", f"{filling:.1f}", f"{more:+.2f}", f"{100 * more / off:+.1f}")
    Console(width=200).print(shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--turns", type=int, default=0, help="compare off and filling memory alone, in turns")
    given = parser.parse_args()
    rows = given.rows
    pa.set_cpu_count(1)
    if given.turns:
        show_turns(rows, given.turns)
        return
    names = ("off", "filling memory", "memory", "filling host", "host")
    shown = Table(title=f"{rows:,} rows: ms elapsed / ms of CPU", title_justify="left")
    for number, name in enumerate(("filter", "rows", *names, "off / memory", "off / host")):
        shown.add_column(name, justify="left" if number == 0 else "right")
    with tempfile.TemporaryDirectory() as folder:
        path, cache = Path(folder, "data.parquet"), Path(folder, "cache")
        write_file(path, rows)
        for text in FILTERS:
            host = {"filter_cache": "host", "filter_cache-dir": str(cache)}

            def empty(cache: Path = cache) -> None:
                KEPT.clear()
                for file in cache.glob("*.twostage"):
                    file.unlink()

            count = scan(path, text, rows)
            for options in ({"filter_cache": "memory"}, {"filter_cache": "memory"}, host, host):
                assert scan(path, text, rows, **options) == count
            found = [
                timed(lambda t=text: scan(path, t, rows, filter_cache="off")),
                timed(lambda t=text: scan(path, t, rows, filter_cache="memory"), empty),
                timed(lambda t=text: scan(path, t, rows, filter_cache="memory")),
                timed(lambda t=text, o=host: scan(path, t, rows, **o), empty),
                timed(lambda t=text, o=host: scan(path, t, rows, **o), KEPT.clear),
            ]
            ratios = [
                f"{found[0][0] / one[0]:.1f} / {found[0][1] / one[1]:.1f}" for one in (found[2], found[4])
            ]
            shown.add_row(text, f"{count:,}", *(f"{wall:.1f} / {cpu:.1f}" for wall, cpu in found), *ratios)
    Console(width=200).print(shown)


if __name__ == "__main__":
    main()
