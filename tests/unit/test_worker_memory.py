"""The default of `task-memory`: a share of what the worker process may take."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

from twostage.options import ReadSettings
from twostage.worker_memory import MAX_TASK_BYTES, MIN_TASK_BYTES, default_task_memory, share_of

GIB = 2**30


@pytest.mark.parametrize(
    ("given", "budget"),
    [
        ({"process": GIB}, GIB // 2),
        ({"process": 1}, MIN_TASK_BYTES),
        ({"process": 64 * GIB}, MAX_TASK_BYTES),
        ({"machine": 64 * GIB, "cores": 16}, GIB // 2),
        ({"machine": 2 * GIB, "cores": 32}, MIN_TASK_BYTES),
        ({"machine": 2048 * GIB, "cores": 8}, MAX_TASK_BYTES),
    ],
)
def test_shares(given, budget):
    assert share_of(**given) == budget


def test_the_option_wins():
    assert ReadSettings(task_memory=1000).memory_budget == 1000
    assert ReadSettings().memory_budget == default_task_memory()


def test_the_limit_that_spark_sets_on_a_worker_counts():
    """Spark limits the address space of a worker where ``spark.executor.pyspark.memory`` is set."""
    program = (
        "from twostage.worker_memory import default_task_memory;"
        "import resource, os;"
        "used = int(open('/proc/self/statm').read().split()[0]) * os.sysconf('SC_PAGE_SIZE');"
        f"resource.setrlimit(resource.RLIMIT_AS, (used + {GIB // 2},) * 2);"
        "print(default_task_memory())"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    found = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    # Half of what is left; a megabyte or so may be taken between the two looks.
    assert GIB // 4 - 2**24 < int(found.stdout) <= GIB // 4


def test_a_container_smaller_than_the_machine_counts(tmp_path, monkeypatch):
    from twostage import worker_memory

    limits = iter([str(4 * GIB), "max"])
    monkeypatch.setattr(worker_memory.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    monkeypatch.setattr(
        worker_memory, "_first_number", lambda _: int(text) if (text := next(limits)).isdigit() else None
    )
    assert default_task_memory.__wrapped__() == 4 * GIB // 2 // 8
