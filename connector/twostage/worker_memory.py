"""Default memory budget of a task, if the option ``task-memory`` is not set.

A limit on the worker process decides, if there is one: Spark sets it if ``spark.executor.pyspark.memory`` is set.
Otherwise the budget is a share of the memory of the container or machine, which all tasks and the JVM share.
"""

from __future__ import annotations

import functools
import os
import resource
from pathlib import Path

MIN_TASK_BYTES, MAX_TASK_BYTES = 64 * 2**20, 2 * 2**30
_PROCESS_DIVISOR = 2
"""A task gets half of what a limited process may still allocate: decoding and batches in flight need the rest."""
_MACHINE_DIVISOR = 8
"""A task gets an eighth of a core's share of the memory: most of an executor is the heap of its JVM."""
_CGROUP_LIMITS = ("memory.max", "memory/memory.limit_in_bytes")
"""Files of cgroups version 2 and 1 in /sys/fs/cgroup."""


@functools.cache
def default_task_memory() -> int:
    """Return the budget of a task of this process in bytes; cached."""
    page = os.sysconf("SC_PAGE_SIZE")
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        in_use = (_first_number(Path("/proc/self/statm")) or 0) * page
        return share_of(process=max(1, limit - in_use))
    limits = [_first_number(Path("/sys/fs/cgroup", name)) for name in _CGROUP_LIMITS]
    machine = min(os.sysconf("SC_PHYS_PAGES") * page, *(limit for limit in limits if limit), 2**63)
    return share_of(machine=machine, cores=os.cpu_count() or 1)


def share_of(*, process: int = 0, machine: int = 0, cores: int = 1) -> int:
    """Return a task's budget in bytes.

    Args:
        process: Bytes that the process may still allocate; 0: it has no limit.
        machine: Bytes of memory of the container or machine.
        cores: Cores that share the memory.

    >>> share_of(process=2**30) == 2**29, share_of(machine=64 * 2**30, cores=16) == 2**29
    (True, True)
    """
    budget = process // _PROCESS_DIVISOR if process else machine // cores // _MACHINE_DIVISOR
    return min(max(budget, MIN_TASK_BYTES), MAX_TASK_BYTES)


def _first_number(path: Path) -> int | None:
    """Return the number at the start of a file; None if there is no file, or it is ``max``."""
    try:
        words = path.read_text().split()
    except OSError:
        return None
    return int(words[0]) if words and words[0].isdigit() else None
