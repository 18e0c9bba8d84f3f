"""The thread that talks to stores: none before the first request, and a forked process knows that it lost it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
