"""The daemon that Spark's Python workers are forked from, in processes of its own: what it has imported, and when it gives way."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="elsewhere PySpark's daemon runs"
)

PREPARED = """
    import gc, os, sys
    from twostage.spark import worker_daemon
    before = dict(os.environ)
    sys.argv = ["daemon", "pyspark.worker"]
    assert worker_daemon.imported()
    assert {"pyspark.worker", "twostage.reading.pipeline", "twostage.data_files.orc_file", "pyarrow"} <= set(sys.modules)
    assert len(os.listdir("/proc/self/task")) == 1
    assert dict(os.environ) == before
    assert gc.get_freeze_count() > 10_000
"""
RANDOM = """
    import os, sys
    from twostage.spark import worker_daemon
    sys.argv = ["daemon", "pyspark.worker"]
    assert worker_daemon.imported()
    import numpy.random
    found = []
    for _ in range(2):
        end, start = os.pipe()
        if os.fork() == 0:
            os.write(start, repr(numpy.random.random()).encode())
            os._exit(0)
        found.append(os.read(end, 100))
    assert found[0] != found[1], found
"""
THREADED = """
    import threading
    threading.Thread(target=threading.Event().wait, daemon=True).start()
"""


def environment(**others):
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1", **others}


@pytest.mark.parametrize("code", [PREPARED, RANDOM], ids=["imported", "random"])
def test_what_workers_inherit(code):
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True, text=True, check=False, env=environment(),
    )  # fmt: skip
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("module", "others", "expected"),
    [
        ("pyspark.worker", {}, "twostage.spark.worker_daemon"),
        ("pyspark.worker", {"TWOSTAGE_WORKER_TUNING": "0"}, "pyspark.daemon"),
        ("a_module_that_starts_a_thread", {}, "pyspark.daemon"),
        ("a_module_that_does_not_exist", {}, "pyspark.daemon"),
        ("a_module_that_fails", {}, "pyspark.daemon"),
    ],
    ids=["ours", "off", "thread", "missing", "failing"],
)
def test_which_daemon_runs(tmp_path, module, others, expected):
    """A thread in a process that forks, or an import that fails, leaves Spark with PySpark's own daemon."""
    (tmp_path / "a_module_that_starts_a_thread.py").write_text(textwrap.dedent(THREADED))
    (tmp_path / "a_module_that_fails.py").write_text("raise ValueError('on purpose')")
    process = subprocess.Popen(
        [sys.executable, "-m", "twostage.spark.worker_daemon", module],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path,
        env=environment(**{"PYTHON_UNIX_DOMAIN_ENABLED": "false", **others}),
    )  # fmt: skip
    try:
        port = int.from_bytes(process.stdout.read(4), "big")
        command = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
        assert port > 0
        assert command[2:4] == [expected.encode(), module.encode()]
        process.stdin.close()  # how Spark ends it
        ends = time.monotonic() + 240
        while process.poll() is None and time.monotonic() < ends:
            time.sleep(0.05)
        assert process.returncode is not None, "it outlives Spark"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("mode", ["auto", "0"])
def test_numba_comes_when_no_worker_was_wanted_for_a_while(tmp_path, mode):
    """A worker that is forked before has none of it, and the daemon forks as before afterwards."""
    process = subprocess.Popen(
        [sys.executable, "-m", "twostage.spark.worker_daemon", "pyspark.worker"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=tmp_path,
        env=environment(PYTHON_UNIX_DOMAIN_ENABLED="false", TWOSTAGE_JIT=mode),
    )  # fmt: skip

    def has_numba():
        return "llvmlite" in Path(f"/proc/{process.pid}/maps").read_text()

    def fork():
        with socket.create_connection(("127.0.0.1", port), timeout=60) as asked:
            return int.from_bytes(asked.recv(4), "big")

    try:
        port = int.from_bytes(process.stdout.read(4), "big")
        time.sleep(3)
        assert not has_numba(), "no worker was wanted yet"
        asked = time.monotonic()
        assert fork() > 0
        assert not has_numba() or time.monotonic() - asked > 2, "at once"
        ends = time.monotonic() + (240 if mode == "auto" else 4)
        while not has_numba() and time.monotonic() < ends:
            time.sleep(0.1)
        assert has_numba() == (mode == "auto")
        time.sleep(1)
        assert len(list(Path(f"/proc/{process.pid}/task").iterdir())) == 1
        assert fork() > 0
    finally:
        process.stdin.close()
        process.kill()
        process.wait()
        process.stdout.close()
