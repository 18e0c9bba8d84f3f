"""Builders of indexes as processes of their own: two at once, and some that are killed. Rows stay right, and no index lies."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from check import Columns
from core_scan import open_table, scan
from indexed_tables import everything_pays, place_of
from tables import Table
from twostage.deletes.cache.memory import CACHE
from twostage.indexes.place import list_indexes
from twostage.metrics import Metrics
from twostage.predicates.predicate import Compare

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = 3_000
KEYS = 2_000


@pytest.fixture(autouse=True)
def _asked() -> Iterator[None]:
    CACHE.clear()
    with everything_pays():
        yield
    CACHE.clear()


def append(table: Table, data_files: int) -> None:
    for _ in range(data_files):
        first = ROWS * len(table.content().data)
        drawn = random.Random(first)
        rows = [{"id": first + n, "key": drawn.randrange(KEYS)} for n in range(ROWS)]
        table.append(rows, metrics="none")  # so that no bounds tell
    table.write()


def command(verb: str, table: Table, *more: str) -> subprocess.Popen[bytes]:
    """Begin a command in a process of its own, whose temporary files are beside the table."""
    scratch = Path(table.folder).parent / "scratch"
    scratch.mkdir(exist_ok=True)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "TMPDIR": str(scratch),
    }
    arguments = [sys.executable, "-m", "twostage", "index", verb, str(table.folder), *more]
    return subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def finished(*processes: subprocess.Popen[bytes]) -> None:
    for process in processes:
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0, output.decode()


def check_rows(table: Table, *, whole: bool) -> None:
    """Compare a look-up's rows with the keys as they were drawn; `whole`: every data file is indexed."""
    CACHE.clear()
    opened = open_table(table.folder)
    num_files = len(table.content().data)
    for key in (7, 77, KEYS + 1):
        found = scan(opened, predicate=Compare("=", Columns(opened.table.schema)("key"), key))
        drawn = [(random.Random(ROWS * number), ROWS * number) for number in range(num_files)]
        expected = [first + n for pick, first in drawn for n in range(ROWS) if pick.randrange(KEYS) == key]
        assert sorted(number for (_, number), *_ in found.rows) == expected
        counters = found.metrics.counters
        assert counters["indexes.ignored"] == counters["indexes.failed"] == 0, found.metrics.choices
        if whole:
            assert counters["indexes.used"] == counters["files.read"]
            assert counters["files.pruned.index"] + counters["files.read"] == num_files


def test_two_processes_build_publish_and_merge_at_once(tmp_path):
    """Each time both find the same data files without index, and as many runs as are merged to one."""
    table = Table(tmp_path / "t", {"id": "long", "key": "long"})
    append(table, 3)
    finished(command("create", table, "--columns", "key", "--kind", "postings,files"))
    for data_files in (2, 3, 3):
        append(table, data_files)
        finished(command("refresh", table), command("refresh", table))
        check_rows(table, whole=True)
    finished(command("verify", table, "--all"), command("clean", table), command("clean", table))
    check_rows(table, whole=True)
    place = place_of(open_table(table.folder))
    assert 1 <= len(list_indexes(place, Metrics()).runs) < 4
    assert {path.suffix for path in Path(place.folder).rglob("*") if path.is_file()} == {".json", ".puffin"}


def test_builders_that_are_killed_leave_nothing_that_lies(tmp_path):
    """SIGKILL, when the first index file has appeared, and some moments later."""
    table = Table(tmp_path / "t", {"id": "long", "key": "long"})
    append(table, 40)
    folder = Path(place_of(open_table(table.folder)).folder)
    made = killed = 0
    for wait in (0.0, 0.005, 0.01) * 3:
        verb = ("refresh",) if made else ("create", "--columns", "key", "--kind", "values,sorted,files")
        process = command(verb[0], table, *verb[1:])
        deadline = time.monotonic() + 100
        while process.poll() is None and len(list(folder.rglob("*.puffin"))) <= made:
            assert time.monotonic() < deadline
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        output, _ = process.communicate()
        made = len(list(folder.rglob("*.puffin")))
        if process.returncode == 0:  # on a machine that stood still, it was done before
            append(table, 40)
            continue
        assert process.returncode == -signal.SIGKILL, output.decode()
        assert made >= 1
        check_rows(table, whole=False)
        killed += 1
        if killed == 3:
            break
    assert killed == 3
    finished(command("refresh", table))
    check_rows(table, whole=True)
    finished(command("verify", table, "--all"))
