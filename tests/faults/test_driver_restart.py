"""A driver that is killed in the middle of a query and started again: the same rows, and nothing of ours is left.

The driver is two processes, Python and the JVM. Killed is one, the other, or both; what goes on without them has to
end by itself. A JVM that is killed leaves Spark's own temporary folders behind: those are not ours to remove.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from marked import remaining
from spark_programs import CONFS, HERE, ROWS, RUNS, TASKS, environment_of

from figures import record
from tables import Table
from twostage import planner

KILLED = ("python", "jvm", "both")
DELETED = (5, 1500, 3998)
GRACE_SECONDS = 30
OF_SPARK = ("spark-", "blockmgr-", "hsperfdata_", "liblz4-", "libzstd-jni", "snappy-")
"""How Spark, its JVM and its libraries name what they make in a folder for temporary files."""


def left_by_us(folder):
    """Return the files below a folder that neither Spark nor its JVM made."""
    names = (path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir())
    return [str(name) for name in names if not name.parts[0].startswith(OF_SPARK)]


@pytest.mark.timeout(600 * RUNS)
def test_the_driver_is_killed_and_started_again(tmp_path):
    """Each run kills something else; the deletes' cache is cold when the first is killed."""
    table = Table(tmp_path / "table", {"id": "long", "s": "string"}, version=2)
    for first in range(0, ROWS, ROWS // TASKS):
        rows = [{"id": number, "s": f"s{number}"} for number in range(first, first + ROWS // TASKS)]
        table.append(rows, row_group_size=100)
    table.delete_equal(["id"], [{"id": number} for number in DELETED])
    table.write()
    expected = [number for number in range(ROWS) if number % 3 and number not in DELETED]
    seed = time.time_ns() % 10**6
    print(f"seed {seed}")
    pick = random.Random(seed)
    for number in range(RUNS):
        folder = tmp_path / f"run-{number}"
        (folder / "faults").mkdir(parents=True)
        what = KILLED[number % len(KILLED)]
        kill_in_the_middle(folder, table.folder, what, pick.random())
        left = remaining(str(folder), GRACE_SECONDS)
        assert not left, f"after the {what} was killed there are still {left}"
        temporary = folder / "temporary"
        if what != "both":  # else nobody was left to remove anything
            assert not (files := left_by_us(temporary)), f"{what}: {files}"
        before = set(temporary.rglob("*"))
        (folder / "faults" / "order").write_text("none - 0 0")
        with driver(folder, table.folder) as process:
            printed, _ = process.communicate(timeout=250)
        assert process.returncode == 0, printed[-4000:]
        found = [json.loads(line[5:]) for line in printed.splitlines() if line.startswith("ROWS ")]
        assert found == [expected], f"seed {seed}, {what}"
        left = remaining(str(folder), GRACE_SECONDS)
        assert not left, f"after the second start there are still {left}"
        assert not (files := left_by_us(temporary)), f"{what}, started again: {files}"
        assert set(temporary.rglob("*")) <= before, "the second start leaves files"
        assert not (parts := list((folder / "cache").rglob("*.part"))), parts
        record("R7", cell="driver killed and started again")


MAKE = "import time; from twostage import planner; print(planner._folder(), flush=True); time.sleep(600)"


def test_folders_of_killed_drivers_are_removed_and_no_others(tmp_path, monkeypatch):
    """The planner's classes lie in a folder that its driver holds locked; a killed one could not remove it."""
    environment, temporary = environment_of(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    (temporary / "twostage-planner-link").symlink_to(tmp_path)
    (temporary / "twostage-other").mkdir()
    processes = [
        subprocess.Popen([sys.executable, "-c", MAKE], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        killed, alive = (Path(process.stdout.readline().strip()) for process in processes)
        assert killed.parent == temporary
        (killed / "Some.class").write_bytes(b"classes")
        processes[0].kill()
        processes[0].wait()
        own = Path(planner._folder())
    finally:
        for process in processes:
            process.kill()
            process.wait()
            process.stdout.close()
    assert not killed.exists()
    assert alive.exists()
    assert own.stat().st_mode & 0o777 == 0o700
    names = sorted(path.name for path in temporary.iterdir())
    assert names == sorted(["twostage-other", "twostage-planner-link", alive.name, own.name])


def test_a_platform_without_users_and_locks_has_a_folder_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "twostage-planner-old").mkdir()
    monkeypatch.delattr(os, "getuid")
    monkeypatch.setitem(sys.modules, "fcntl", None)
    folder = Path(planner._folder())
    assert sorted(tmp_path.iterdir()) == sorted([folder, tmp_path / "twostage-planner-old"])


@contextlib.contextmanager
def driver(folder, table):
    """Start the program in a group of its own; end what is left of it."""
    environment, temporary = environment_of(folder)
    confs = {**CONFS, "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={temporary}"}
    process = subprocess.Popen(
        [
            sys.executable,
            str(HERE / "restarted_driver.py"),
            str(table),
            str(folder / "faults"),
            json.dumps(confs),
        ],
        env=environment,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def kill_in_the_middle(folder, table, what, delay):
    """Start the query, and kill the driver when a task of it has sent a batch."""
    faults = folder / "faults"
    (faults / "order").write_text("wait killed 0 0")
    with driver(folder, table) as process:
        end = time.monotonic() + 250
        while not list(faults.glob("killed-*")):
            assert process.poll() is None, process.communicate()[0][-4000:]
            assert time.monotonic() < end, "no task began"
            time.sleep(0.05)
        time.sleep(delay)
        gateway = int(Path(faults / "gateway").read_text())
        for which, pid in (("python", process.pid), ("jvm", gateway)):
            if what in (which, "both"):
                os.kill(pid, signal.SIGKILL)
        if what == "jvm":
            process.communicate(timeout=60)
            assert process.returncode not in (0, None), "the driver did not notice"
