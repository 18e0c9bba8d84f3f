"""How long the advisor takes over a query log of a million scans, and how much memory.

    make bench-advisor                    1,000,000 scans
    benchmarks/advisor_scale.py --scans 20000

The scans are those of a table of 40 columns: 200 templates of AND, OR, nested, range and list filters, with
frequencies by Zipf's law and other literals each time. Reading is timed in a separate process, whose peak
memory is reported.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import random
import resource
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from twostage.advisor.advise import advise
from twostage.advisor.logged_predicate import LoggedPredicate
from twostage.advisor.logged_scan import LoggedScan
from twostage.advisor.query_log import QueryLogFile

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMNS = 40
TEMPLATES = 200
ROWS = 50_000_000
BATCH = 2_000


def leaf(draw: random.Random, column: int, rows_in: int) -> LoggedPredicate:
    """Return a measured leaf on a column; columns with low numbers are more selective."""
    share = min(1.0, 10.0 ** (column / 8 - 5))
    name, value = f"c{column}", draw.randrange(10**9)
    op = ("=", "in", ">=")[column % 3]
    values = (value,) if op != "in" else tuple(value + place for place in range(5))
    shown = ", ".join(map(str, values))
    return LoggedPredicate(
        op=op,
        columns=(name,),
        values=values,
        count=len(values),
        type="long",
        text=f"{name} IN ({shown})" if op == "in" else f"{name} {op} {shown}",
        rows_in=rows_in,
        rows_out=round(rows_in * share),
        nanoseconds=rows_in,
    )


def filter_of(draw: random.Random, template: int) -> LoggedPredicate:
    """Return a filter of a template, with its own literals."""
    shape = random.Random(template)
    columns = shape.sample(range(COLUMNS), 4)
    if template % 4 == 0:
        return leaf(draw, columns[0], ROWS)
    if template % 4 == 1:
        parts = tuple(leaf(draw, column, ROWS) for column in columns[:3])
        return LoggedPredicate(
            op="and", children=parts, text=" AND ".join(part.text for part in parts), rows_in=ROWS, rows_out=9
        )
    either = tuple(leaf(draw, column, ROWS) for column in columns[:2])
    choice = LoggedPredicate(
        op="or", children=either, text=" OR ".join(part.text for part in either), rows_in=ROWS, rows_out=99
    )
    if template % 4 == 2:
        return choice
    parts = (leaf(draw, columns[2], ROWS), choice)
    text = f"{parts[0].text} AND ({choice.text})"
    return LoggedPredicate(op="and", children=parts, text=text, rows_in=ROWS, rows_out=9)


def scans(count: int, seed: int) -> Iterator[LoggedScan]:
    """Yield scans."""
    draw = random.Random(seed)
    weights = [1 / (place + 1) for place in range(TEMPLATES)]
    moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    for number, template in enumerate(draw.choices(range(TEMPLATES), weights, k=count)):
        yield LoggedScan(
            time=moment + datetime.timedelta(seconds=number),
            scan=f"{number:032x}",
            table="lake.db.events",
            snapshot=4_711,
            columns=("c0", "c7", "payload"),
            predicate=filter_of(draw, template),
            counters={
                "bytes.read": draw.randrange(10**6, 10**9),
                "bytes.filter": 10**6,
                "files.considered": 400,
                "rows.considered": ROWS,
                "rows.fetched": draw.randrange(1, 10_000),
                "time.tasks": 10**9,
            },
            query_milliseconds=draw.randrange(100, 10_000),
            application="app-1",
            user="someone",
            query=number,
            description="collect at job.py:1",
        )


def write(folder: Path, count: int, seed: int) -> int:
    """Write a log; return its bytes."""
    file, batch = QueryLogFile(str(folder), {}), []
    for scan in scans(count, seed):
        batch.append(scan)
        if len(batch) == BATCH:
            file.append(batch)
            batch = []
    file.append(batch)
    return sum(path.stat().st_size for path in folder.iterdir())


def read(folder: str, found: Any) -> None:
    """Run the advisor; put seconds, CPU seconds, MiB and its result into `found`."""
    started, used = time.perf_counter(), time.process_time()
    advice = advise(folder)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    found.put(
        {
            "seconds": round(time.perf_counter() - started, 1),
            "cpu": round(time.process_time() - used + children.ru_utime + children.ru_stime, 1),
            "mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
            "scans": sum(tally.scans for tally in advice.tallies),
            "recommended": [[one.action, *one.columns] for one in advice.recommendations],
        }
    )


def main() -> None:
    """Write a log, read it, print figures as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scans", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=16)
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    found = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        size = write(Path(folder), arguments.scans, arguments.seed)
        reader = context.Process(target=read, args=(folder, found))
        reader.start()
        figures = found.get()
        reader.join()
    console = Console(highlight=False, soft_wrap=True)
    console.print(json.dumps({"log_mib": size >> 20, **figures}), markup=False)


if __name__ == "__main__":
    main()
