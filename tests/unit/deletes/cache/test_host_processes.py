"""The host's cache of key tables among processes: built once, by whoever lives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kept_sets import ROOT, ask, files_of, read_back, right, stored
from twostage.deletes.cache import host
from twostage.deletes.cache.directory import private_directory
from twostage.deletes.cache.host import HostCache
from twostage.metrics import Metrics

pytestmark = pytest.mark.usefixtures("small_sets_are_kept")


CHILD = """
import os, sys
sys.path[:0] = [{shared!r}]
from pathlib import Path
import kept_sets as cases
from twostage.deletes.anti_join import host_key_sets
from twostage.deletes.cache import host
host_key_sets.MIN_KEYS_TO_SHARE = 1
folder, role = Path(sys.argv[1]), sys.argv[2]
deletes = [cases.read_back(path, n) for n, path in enumerate(sorted(folder.glob("d*.parquet")))]
if role == "dies":
    real = os.write
    def half(file, data):
        if len(data) > 100:
            real(file, bytes(data[: len(data) // 2]))
            print("writing", flush=True)
            sys.stdin.readline()
            os.kill(os.getpid(), 9)
        return real(file, data)
    host.os.write = half
found, counted = cases.ask(folder, deletes)
print(sum(found), counted.counters["delete_cache.built"], counted.counters["delete_cache.hits"], len(found), flush=True)
"""


def test_eight_processes_build_at_once_and_one_dies_writing(tmp_path):
    deletes = files_of(tmp_path, 6)
    answer = right(tmp_path, [read_back(Path(one.path), n) for n, one in enumerate(deletes)])
    program = CHILD.format(shared=str(ROOT / "tests" / "shared"))
    paths = os.pathsep.join(str(ROOT / name) for name in ("connector", "native", "tests/shared"))
    environment = {**os.environ, "PYTHONPATH": paths, "TWOSTAGE_JIT": "0"}

    def start(role):
        command = [sys.executable, "-c", program, str(tmp_path), role]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        return subprocess.Popen(command, text=True, env=environment, **pipes)

    first = start("dies")
    assert first.stdout.readline() == "writing\n"  # it holds the lock
    others = [start("lives") for _ in range(7)]
    try:
        time.sleep(2)  # most of them wait by now; whoever does not is no less right
        first.communicate("die\n", timeout=120)
        assert first.returncode == -signal.SIGKILL
        said = [child.communicate(timeout=120)[0].split() for child in others]
    finally:
        for child in (first, *others):
            if child.poll() is None:
                child.kill()
                child.wait()
    assert [child.returncode for child in others] == [0] * 7
    assert {line[0] for line in said} == {str(sum(answer))}
    assert sum(int(line[1]) for line in said) == 1
    assert all(int(line[1]) + int(line[2]) == 1 for line in said)
    assert len(stored(tmp_path)) == 1
    assert not list((tmp_path / "cache").glob(".*.part"))
    assert ask(tmp_path, [read_back(Path(one.path), n) for n, one in enumerate(deletes)])[0] == answer


def test_a_process_killed_while_writing_leaves_nothing_that_is_used(tmp_path):
    """Alone, so that it is the one that writes."""
    files_of(tmp_path, 4)
    program = CHILD.format(shared=str(ROOT / "tests" / "shared"))
    paths = os.pathsep.join(str(ROOT / name) for name in ("connector", "native", "tests/shared"))
    environment = {**os.environ, "PYTHONPATH": paths, "TWOSTAGE_JIT": "0"}
    done = subprocess.run(  # noqa: PLW1510 - it dies
        [sys.executable, "-c", program, str(tmp_path), "dies"],
        capture_output=True,
        text=True,
        input="die\n",
        env=environment,
    )
    assert done.returncode == -signal.SIGKILL
    assert done.stdout == "writing\n"
    assert stored(tmp_path) == []
    assert len(list((tmp_path / "cache").glob(".*.part"))) == 1
    deletes = [read_back(path, n) for n, path in enumerate(sorted(tmp_path.glob("d*.parquet")))]
    found, counted = ask(tmp_path, deletes)
    assert found == right(tmp_path, deletes)
    assert counted.counters["delete_cache.written"] == 1
    assert not list((tmp_path / "cache").glob(".*.part"))


def test_who_waits_too_long_builds_for_itself(tmp_path, monkeypatch):
    deletes = files_of(tmp_path, 3)
    private_directory(tmp_path / "cache")
    cache = HostCache(tmp_path / "cache", 2**30, Metrics())
    monkeypatch.setattr(host, "_LOCK_FILES", 1)
    monkeypatch.setattr(HostCache.exclusive.__wrapped__, "__defaults__", (0.1, None))
    with cache.exclusive("keys-x") as lock:
        assert lock.is_held
        found, counted = ask(tmp_path, deletes)
    assert found == right(tmp_path, deletes)
    assert counted.counters["delete_files.opened"] == 3
    assert any("took too long" in choice for choice in counted.choices)
    assert stored(tmp_path) == []


def test_nobody_waits_for_one_that_could_not_write(tmp_path, monkeypatch):
    cache = HostCache(tmp_path, 2**30, Metrics())
    with cache.exclusive("keys-x") as lock:
        lock.has_failed = True
    with cache.exclusive("keys-x") as holder:
        assert holder.is_held
        with cache.exclusive("keys-x", 60.0) as waiting:
            assert not waiting.is_held
            assert not waiting.has_waited
    with cache.exclusive("keys-x") as lock:
        assert lock.is_held  # the last one did not fail
