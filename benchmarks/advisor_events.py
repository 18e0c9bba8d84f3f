"""How long the advisor takes over a Spark event log, and how much memory.

    benchmarks/advisor_events.py --queries 20000

The log repeats the queries of the tests' log of Iceberg-Spark, each time with other literals and ids, and
adds what that log leaves out: a line for each of eight tasks, and the tasks' accumulators besides those of
plans.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import resource
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from twostage.advisor.advise import advise
from twostage.advisor.event_log import EventLogs

if TYPE_CHECKING:
    from collections.abc import Iterator

REAL = Path(__file__).parents[1] / "tests/unit/advisor/iceberg_spark_1.12.0_events.jsonl"
STRIDE = 1_000
"""Distance of accumulator ids from one query to the next."""
TASKS = 8
TASK = json.dumps(
    {
        "Event": "SparkListenerTaskEnd",
        "Task Info": {"Accumulables": [{"ID": n, "Update": n, "Internal": True} for n in range(40)]},
        "Task Metrics": {"Executor Run Time": 1, "Input Metrics": {"Bytes Read": 1}},
    },
    separators=(",", ":"),
)
_ID = re.compile(r'("accumulatorId":|"ID":)(\d+)')
_UPDATES = re.compile(r"\[(\d+),(\d+)\]")
_EXECUTION = re.compile(r'"executionId":\d+')
_LITERAL = re.compile(r"'d\d+'|(?<=[<>=] )\d+")


def queries() -> list[list[str]]:
    """Return the lines of each query that reads, from its start to its end."""
    found: list[list[str]] = []
    for line in REAL.read_text().splitlines():
        if "SQLExecutionStart" in line:
            found.append([])
        if found:
            found[-1].append(line)
    return [lines for lines in found if any("IcebergScan" in line for line in lines)]


def events(count: int) -> Iterator[str]:
    """Yield the lines of a log."""
    yield from REAL.read_text().splitlines()[:2]
    templates = queries()
    for number in range(count):
        shift = number * STRIDE
        for line in templates[number % len(templates)]:
            shifted = _EXECUTION.sub(f'"executionId":{number}', line)
            shifted = _ID.sub(lambda found: f"{found[1]}{int(found[2]) + shift}", shifted)  # noqa: B023
            if "DriverAccumUpdates" in line:
                shifted = _UPDATES.sub(lambda found: f"[{int(found[1]) + shift},{found[2]}]", shifted)  # noqa: B023
            if "StageCompleted" in line:
                yield from [TASK] * TASKS
                others = ",".join(
                    f'{{"ID":{shift + STRIDE - place},"Name":"internal.metrics.{place}","Value":{place},"Internal":true}}'
                    for place in range(1, 31)
                )
                shifted = shifted.replace('"Accumulables":[', f'"Accumulables":[{others},').replace(",]", "]")
            yield _LITERAL.sub(lambda found: _other(found[0], number), shifted)  # noqa: B023


def _other(literal: str, number: int) -> str:
    return f"'d{number}'" if literal.startswith("'") else str(int(literal) + number)


def read(path: str, found: Any) -> None:
    """Read the log, and run the advisor; put seconds, MiB and what was read into `found`."""
    began = time.process_time()
    scans = sum(1 for _ in EventLogs(path))
    seconds = time.process_time() - began
    advice = advise(EventLogs(path))
    found.put(
        {
            "scans": scans,
            "scans_per_second": round(scans / seconds),
            "advise_seconds": round(time.process_time() - began - seconds, 1),
            "mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
            "problems": advice.problems,
        }
    )


def main() -> None:
    """Write a log, read it, print figures as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", type=int, default=100_000)
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    found = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "app-1")
        with path.open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in events(arguments.queries))
        reader = context.Process(target=read, args=(str(path), found))
        reader.start()
        figures = found.get()
        reader.join()
        size = path.stat().st_size
    console = Console(highlight=False, soft_wrap=True)
    console.print(json.dumps({"log_mib": size >> 20, **figures}), markup=False)


if __name__ == "__main__":
    main()
