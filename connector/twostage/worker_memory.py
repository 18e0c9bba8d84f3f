"""How much memory one task may take where the option ``task-memory`` says nothing.

Takes what the worker process was granted; gives bytes. A limit on the process comes first: Spark sets one where
``spark.executor.pyspark.memory`` is set. Else it is the container's or the machine's memory, which the tasks of all
cores and the JVM share.
"""

from __future__ import annotations

import functools
import os
import resource
from pathlib import Path

LEAST, MOST = 64 * 2**20, 2 * 2**30
_PROCESS_SHARE = 2
"""Of what a limited process may still take, half: decoding and a batch on its way take the rest."""
_MACHINE_SHARE = 8
"""Of a core's share of container or machine, an eighth: most of an executor is its JVM's heap."""
_CGROUP_LIMITS = ("memory.max", "memory/memory.limit_in_bytes")
"""Of cgroups version 2 and 1, in /sys/fs/cgroup."""


@functools.cache
def default_task_memory() -> int:
    """Return the budget of a task of this process, bytes; the first call decides."""
    page = os.sysconf("SC_PAGE_SIZE")
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        in_use = (_first_number(Path("/proc/self/statm")) or 0) * page
        return share_of(process=max(1, limit - in_use))
    limits = [_first_number(Path("/sys/fs/cgroup", name)) for name in _CGROUP_LIMITS]
    machine = min(os.sysconf("SC_PHYS_PAGES") * page, *(limit for limit in limits if limit), 2**63)
    return share_of(machine=machine, cores=os.cpu_count() or 1)


def share_of(*, process: int = 0, machine: int = 0, cores: int = 1) -> int:
    """Return a task's budget: half of what its process may take, or an eighth of a core's share.

    >>> share_of(process=2**30) == 2**29, share_of(machine=64 * 2**30, cores=16) == 2**29
    (True, True)
    """
    wanted = process // _PROCESS_SHARE if process else machine // cores // _MACHINE_SHARE
    return min(max(wanted, LEAST), MOST)


def _first_number(path: Path) -> int | None:
    """Return the number that a file begins with; None if there is no file, or it says ``max``."""
    try:
        words = path.read_text().split()
    except OSError:
        return None
    return int(words[0]) if words and words[0].isdigit() else None
