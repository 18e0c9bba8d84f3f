"""How much memory one task may take where the option ``task-memory`` says nothing.

Takes what the worker process was granted; gives bytes. Spark's own limit for Python workers comes first, then the
container's, then the machine's; the last two are shared by the tasks of all cores and by the JVM.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

LEAST, MOST = 64 * 2**20, 2 * 2**30
_GRANTED_SHARE = 2
"""Of a worker's own limit, half: the interpreter, libraries and a batch on its way take the rest."""
_MACHINE_SHARE = 8
"""Of a core's share of container or machine, an eighth: most of an executor is its JVM's heap."""
_CGROUP_LIMITS = ("memory.max", "memory/memory.limit_in_bytes")
"""Of cgroups version 2 and 1, in /sys/fs/cgroup."""


@functools.cache
def default_task_memory() -> int:
    """Return the budget of a task of this process, bytes."""
    # PySpark sets it in its workers where spark.executor.pyspark.memory is set: that memory / executor cores.
    granted = os.environ.get("PYSPARK_EXECUTOR_MEMORY_MB", "")
    if granted.isdigit() and int(granted):
        return share_of(granted=int(granted) * 2**20)
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limits = [limit for name in _CGROUP_LIMITS if (limit := _read(Path("/sys/fs/cgroup", name)))]
    return share_of(machine=min([physical, *limits]), cores=os.cpu_count() or 1)


def share_of(*, granted: int = 0, machine: int = 0, cores: int = 1) -> int:
    """Return a task's budget: half of what its worker was granted, or an eighth of a core's share.

    >>> share_of(granted=2**30) == 2**29, share_of(machine=64 * 2**30, cores=16) == 2**29
    (True, True)
    """
    wanted = granted // _GRANTED_SHARE if granted else machine // cores // _MACHINE_SHARE
    return min(max(wanted, LEAST), MOST)


def _read(path: Path) -> int | None:
    """Return the number in a file; None if there is no file, or it says ``max``."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
