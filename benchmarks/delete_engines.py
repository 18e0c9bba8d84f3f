"""The other engines of the delete benchmark: Iceberg's connector in the same session, DuckDB in separate processes.

DuckDB reads the table with its `iceberg` extension, and with a hand-written anti join of data and delete
files, which is right here because all deletes are newer than all rows. PyPI has the extension for one version
of DuckDB, so both are in a separate folder, `duckdb-iceberg` in the environment; if it is missing, DuckDB is
left out.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

NEEDLE = "customer = 4711"
EXTENSION = "DuckDB iceberg"
BY_HAND = "DuckDB by hand"
FOLDER = Path(sys.prefix, "duckdb-iceberg")
KEYS = {"long": "id", "string": "name", "two": "id, name"}
"""The key columns of each kind of deletes."""


def timed(work: Callable[[], str]) -> tuple[float, str]:
    """Return the seconds that something takes, and what it returns."""
    started = time.perf_counter()
    found = work()
    return time.perf_counter() - started, found


def capped(spark: SparkSession, work: Callable[[], str], seconds: float) -> tuple[float, str] | None:
    """Run something in Spark; None if it was stopped after `seconds`."""
    is_late = threading.Event()

    def stop() -> None:
        is_late.set()
        spark.sparkContext.cancelAllJobs()

    timer = threading.Timer(seconds, stop)
    timer.start()
    try:
        return timed(work)
    except Exception:
        if not is_late.is_set():
            raise
        return None
    finally:
        timer.cancel()


def run_duckdb(engine: str, location: str, branch: str, kind: str, query: str, cap: float) -> list[Any]:
    """Run a query twice on DuckDB in a new process; return the seconds and answer of each, as many as `cap` allows."""
    command = [sys.executable, __file__, engine, location, branch, kind, query]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    timer = threading.Timer(cap + 2, process.kill)  # starting and ending take about two seconds
    timer.start()
    try:
        found, _ = process.communicate()
    finally:
        timer.cancel()
    if process.returncode > 0:
        raise AssertionError(f"{engine}, {branch}, {query}: DuckDB failed")
    return [json.loads(line) for line in found.splitlines()]


def serve(engine: str, location: str, branch: str, kind: str, query: str) -> None:
    """Answer a query twice; print the seconds and the answer of each."""
    sys.path.insert(0, str(FOLDER))
    import duckdb  # noqa: PLC0415 - the one in the folder
    import pyarrow  # noqa: F401, PLC0415 - not in the first figure

    connection = duckdb.connect(config={"threads": 2, "memory_limit": "6GB"})
    connection.execute("SET TimeZone = 'UTC'")
    for path in sorted(FOLDER.rglob("*.duckdb_extension")):  # avro before iceberg, which needs it
        connection.execute(f"LOAD '{path}'")
    source = _by_extension(location, branch) if engine == EXTENSION else _by_hand(location, branch, kind)
    where = f" WHERE {NEEDLE}" if query == "needle" else ""
    for _ in range(2):
        seconds, found = timed(lambda: _read(connection, f"SELECT * FROM {source}{where}"))
        print(json.dumps([seconds, found]), flush=True)


def _read(connection: Any, sql: str) -> str:
    """Materialize all rows as Arrow and drop them, batch by batch; return what the answer is checked by."""
    count = total = mixed = 0
    for batch in connection.execute(sql).to_arrow_reader(122_880):
        ids = batch["id"].to_numpy()
        count, total = count + len(ids), total + int(ids.sum())
        mixed ^= int(np.bitwise_xor.reduce(ids)) if len(ids) else 0
    return answer(count, total, mixed)


def answer(count: int, total: int, mixed: int) -> str:
    """Return the text that answers are compared by: the number of rows, and the sum and XOR of their ids."""
    return f"{count} rows, ids {total}, {mixed}"


def answer_of(ids: list[int]) -> str:
    """Return the same for a few rows."""
    return answer(len(ids), sum(ids), reduce(lambda one, other: one ^ other, ids, 0))


def _by_extension(location: str, branch: str) -> str:
    newest = max(
        Path(location, "metadata").glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0])
    )
    snapshot = json.loads(newest.read_text())["refs"][branch]["snapshot-id"]
    return f"iceberg_scan('{newest}', snapshot_from_id = {snapshot}::UBIGINT)"


def _by_hand(location: str, branch: str, kind: str) -> str:
    data = f"read_parquet('{location}/data/*.parquet')"
    if branch == "main":
        return data
    deletes = f"read_parquet('{location}/data/{branch}/*.parquet')"
    return f"(SELECT d.* FROM {data} AS d ANTI JOIN {deletes} AS k USING ({KEYS[kind]}))"


if __name__ == "__main__":
    serve(*sys.argv[1:])
