"""Processes that compile deletes and are killed half-way: no entry that is there lies, and the next run makes the others alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import oracle
from core_scan import Opened, scan
from late_store import BUCKET, Fault, serve_late
from remote_scans import forget_files
from tables import Table
from twostage.catalog.load_table import load_table
from twostage.maintenance.compile_deletes import compile_files, plan_compiling
from twostage.options import parse_options

pytestmark = pytest.mark.usefixtures("small_sets_are_compiled")

FILES, ROWS = 12, 50
KILLED = """
import os, signal, sys
from pathlib import Path
from twostage.__main__ import main
from twostage.deletes.compiled import store

store.MIN_KEYS_TO_KEEP = 1
moment, last = sys.argv[1], int(sys.argv[2])
called, file_name = moment.split(" of ")
real, seen = getattr(os, called), set()

def named(given):
    return os.readlink(f"/proc/self/fd/{given}") if isinstance(given, int) else str(given)

def call(*given, **more):
    name = named(given[0])
    if file_name in name:
        seen.add(name)
        if len(seen) == last:
            if called == "write":
                real(given[0], bytes(given[1])[: len(given[1]) // 2])
            if called == "fsync":
                os.ftruncate(given[0], os.fstat(given[0]).st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)
    return real(*given, **more)

setattr(os, called, call)
sys.exit(main(sys.argv[3:]))
"""
"""The command, in a process that kills itself at a call of the module `os` about a file of some name: the so-manieth of these files."""


def make(folder, location=None):
    table = Table(folder / "t", {"id": "long", "k": "long"}, version=2)
    table.location = location or table.location
    for number in range(FILES):
        table.append([{"id": number * ROWS + n, "k": n % 20} for n in range(ROWS)])
    for key in (3, 4, 17):
        table.delete_equal(["k"], [{"k": key}])
    table.write()
    return table


@pytest.fixture
def options(tmp_path):
    return {
        "path": str(tmp_path / "t"),
        "deletes.cache-dir": str(tmp_path / "cache"),
        "deletes.compiled-dir": str(tmp_path / "compiled"),
    }


def arguments(options):
    more = [
        word for name, text in options.items() if name != "path" for word in ("--option", f"{name}={text}")
    ]
    return ["compile-deletes", options["path"], "--no-spark", *more]


def start(*command):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, *command], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def ended(process):
    output, _ = process.communicate(timeout=120)
    return process.returncode, output.decode()


def read(table, options):
    """Return what a scan counts that may write no entries; its rows are those of brute force."""
    forget_files()
    parsed = parse_options({**options, "deletes.compile": "false"})
    opened = Opened(load_table(parsed), parsed)
    result = scan(opened)
    fields = opened.table.schema.fields
    expected = [oracle.project(row, fields) for row in oracle.live_rows(table.content())]
    assert not oracle.difference(result.rows, expected)
    for counter in ("delete_compiled.ignored", "delete_cache.ignored", "delete_compiled.failed"):
        assert result.metrics.counters[counter] == 0, result.metrics.choices
    return result.metrics.counters


def compile_rest(options):
    """Run the command once more; return how many data files it compiled."""
    forget_files()
    counted = [metrics.counters for metrics in compile_files(plan_compiling(parse_options(options), {}))]
    assert len(counted) == FILES
    return sum(one["delete_compiled.made"] for one in counted)


@pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="the process finds the file that it writes there"
)
@pytest.mark.parametrize(
    ("moment", "number", "by_host", "by_folder"),
    [
        ("write of positions-", 1, 0, 0),  # half a file of the host's cache, and nothing else
        ("write of positions-", 6, 5, 5),
        ("replace of .positions-", 4, 3, 3),  # a whole file under another name
        ("fsync of .twostage-", 4, 4, 3),  # half a file of the folder; the host has the entry
        ("replace of .twostage-", 9, 9, 8),
    ],
)
def test_a_killed_build_leaves_whole_entries_or_none(tmp_path, options, moment, number, by_host, by_folder):
    """In the host's cache and in a folder, at each moment of a file's life."""
    table = make(tmp_path)
    returned, output = ended(start("-c", KILLED, moment, str(number), *arguments(options)))
    assert returned == -signal.SIGKILL, output
    cache, folder = Path(options["deletes.cache-dir"]), Path(options["deletes.compiled-dir"])
    assert len(list(cache.rglob("positions-*"))) == by_host
    assert len(list(folder.glob("positions-*"))) == by_folder
    left = [*cache.rglob(".positions-*.part"), *folder.glob(".twostage-*.part")]
    assert len(left) == 1
    assert read(table, options)["delete_compiled.hits"] == by_host
    only_folder = {**options, "deletes.cache": "worker"}
    assert read(table, only_folder)["delete_compiled.hits"] == by_folder
    assert compile_rest(options) == FILES - by_host
    for places in (options, only_folder):
        counted = read(table, places)
        assert (counted["delete_compiled.hits"], counted["delete_files.opened"]) == (FILES, 0)


def test_two_processes_compile_a_table_at_once(tmp_path, options):
    """Each writes what the other does, or finds it."""
    table = make(tmp_path)
    both = [start("-m", "twostage", *arguments({**options, "deletes.cache": "worker"})) for _ in range(2)]
    for process in both:
        returned, output = ended(process)
        assert returned == 0, output
    assert read(table, {**options, "deletes.cache": "worker"})["delete_compiled.hits"] == FILES
    assert {path.suffix for path in Path(options["deletes.compiled-dir"]).iterdir()} == {".twostage"}


@pytest.mark.parametrize("client", ["auto", "arrow"])
def test_a_killed_build_leaves_whole_objects_or_none(tmp_path, client):
    """Of a bucket: some entries are there, some on their way when the process dies, and of some the store takes none."""
    table = make(tmp_path, f"s3://{BUCKET}/t")
    folder = tmp_path / "compiled"
    with serve_late(tmp_path) as store:
        options = {
            **store.options,
            "path": f"s3://{BUCKET}/t",
            "deletes.cache": "worker",
            "deletes.compiled-dir": f"s3://{BUCKET}/compiled",
            "object-store-client": client,
        }
        slow = Fault("hang", path="compiled", method="PUT", after=4, times=2, seconds=0.5)
        refused = Fault("503", path="compiled", method="PUT", after=4, times=10**6)
        store.faults = [slow, refused]
        process = start("-m", "twostage", *arguments(options))
        deadline = time.monotonic() + 100
        is_half_way = lambda: slow.fired == 2 and refused.fired and len(list(folder.glob("positions-*"))) >= 4
        while process.poll() is None and not is_half_way():
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        returned, output = ended(process)
        assert returned == -signal.SIGKILL, output
        while store.in_flight:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        store.faults = []
        kept = len(list(folder.glob("positions-*")))
        assert 4 <= kept <= 6
        counted = read(table, options)
        assert counted["delete_compiled.hits"] == kept
        assert compile_rest(options) == FILES - kept
        counted = read(table, options)
        assert (counted["delete_compiled.hits"], counted["delete_files.opened"]) == (FILES, 0)
