"""The thread that talks to stores: none before the first request, and a forked process knows that it lost it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from late_store import Fault, serve_late
from twostage import errors
from twostage.storage.store_loop import event_loop, lost_its_runtime

FORKED = """
import os, sys, threading
import twostage.storage.files
from twostage.storage.store_loop import event_loop, lost_its_runtime
print(threading.active_count(), "obstore" in sys.modules, "asyncio" in sys.modules)
def child():
    pid = os.fork()
    if pid == 0:
        print(lost_its_runtime(), event_loop().is_running() or event_loop().call_soon_threadsafe(lambda: None) is not None)
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(pid, 0)
sys.stdout.flush()
child()
event_loop()
sys.stdout.flush()
child()
"""


FORKED_WHILE_READING = """
import os, signal, sys, time
from twostage.deletes.cache.memory import CACHE
from twostage.storage import file_systems, immutable_files, request_window, stores
from twostage.storage.files import exists, list_folder, read_all
from twostage.storage.task_reads import TaskReads
from twostage.task import Storage
properties = dict(pair.split("=", 1) for pair in sys.argv[1:])
storage = Storage(root="s3://lake/t", properties=properties)
print(read_all(storage, "s3://lake/t/fast"), exists(storage, "s3://lake/t/./fast"), flush=True)
reads = TaskReads()
asked = [reads.ask_whole(reads.file(storage, f"s3://lake/t/slow{n}")) for n in range(request_window.FIRST_SIZE + 1)]
while min(window.in_flight for window in request_window._windows.values()) < request_window.FIRST_SIZE:
    time.sleep(0.01)
held = [CACHE.lock, immutable_files._lock, file_systems._lock, stores._lock]
for lock in held:
    lock.acquire()
pid = os.fork()
if pid == 0:
    signal.alarm(30)  # it is killed if it waits for its parent
    print(len(stores._clients), len(file_systems._file_systems), len(request_window._windows))
    print(read_all(storage, "s3://lake/t/fast"), len(list_folder(storage, "s3://lake/t")))
    CACHE.put("a", 1, 1, limit=10)
    immutable_files.forget()
    sys.stdout.flush()
    os._exit(0)
print(os.waitpid(pid, 0)[1], flush=True)
os._exit(0)
"""


def test_a_forked_process_waits_for_nothing_of_its_parent(tmp_path):
    """Neither for places in a store's window, nor for locks, nor on the parent's connections."""
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "fast").write_bytes(b"bytes")
    with serve_late(tmp_path) as store:
        store.faults = [Fault("hang", path="slow", times=10**6, seconds=20)]
        for number in range(20):
            (tmp_path / "t" / f"slow{number}").write_bytes(b"x")
        given = {key.removeprefix("catalog."): value for key, value in store.options.items()}
        environment = {**os.environ, "PYTHONPATH": str(Path(errors.__file__).parents[1])}
        done = subprocess.run(
            [sys.executable, "-c", FORKED_WHILE_READING, *(f"{key}={value}" for key, value in given.items())],
            capture_output=True,
            text=True,
            env=environment,
            timeout=60,
            check=False,
        )
    assert done.stdout.splitlines() == ["b'bytes' True", "0 0 0", "b'bytes' 21", "0"], done.stderr


def test_there_is_one_for_the_process():
    assert event_loop() is event_loop()
    assert not lost_its_runtime()


def test_nothing_runs_before_the_first_request_and_a_fork_is_noticed():
    environment = {**os.environ, "PYTHONPATH": str(Path(errors.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, check=True, env=environment
    )
    threads, child_before, child_after = done.stdout.splitlines()
    assert threads.split() == ["1", "False", "False"]
    assert child_before.split()[0] == "False"
    assert child_after.split() == ["True", "True"]
