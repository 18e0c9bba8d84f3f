"""Removes what PySpark adds to each task, where it takes longer than a short scan's own work.

Before a task, PySpark 4.1 lets the import system read ``pyspark.zip`` again, once for each package path (Python 3.11).
After a task, it collects garbage, which walks everything that was ever imported, and the worker takes no next task
meanwhile. The rule: other Python code in the worker notices no difference. TWOSTAGE_WORKER_TUNING=0 leaves both as they are.
"""

from __future__ import annotations

import functools
import gc
import os
import time
import zipimport
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SWITCH = "TWOSTAGE_WORKER_TUNING"
LONG_NANOSECONDS = 2_000_000
"""A collection that took longer has walked objects that stay: modules, compiled kernels, caches."""
_CLOCK_SKEW_SECONDS = 1.0
"""Seconds by which a file system's clock may be off."""
MAX_FREEZES = 4
"""Times that a worker excludes what stays from later collections (`gc.freeze`): after its imports, and after kernels were
compiled. Other code's objects of that moment are excluded, too, and never freed if they end in a cycle: hence a limit."""


def tune_worker() -> None:
    """Tune this worker process; call it before each task."""
    _collector()


def task_ended() -> None:
    """Exclude what survives the collection after this task from later ones; call it when a task ends."""
    collector = _collector()
    if collector is not None:
        collector.is_due = True


class _Collector:
    """Watches garbage collections: what survives a long one, right after a task, is taken to stay."""

    def __init__(self) -> None:
        self.is_due = False
        self._freezes_remaining = MAX_FREEZES
        self._began = 0

    def __call__(self, phase: str, about: dict[str, int]) -> None:
        """Note a collection's start or end; `gc` calls this."""
        if not self.is_due or about["generation"] < 2 or not self._freezes_remaining:
            return
        if phase == "start":
            self._began = time.thread_time_ns()
        elif self._began:
            self.is_due = False
            if time.thread_time_ns() - self._began > LONG_NANOSECONDS:
                self._freezes_remaining -= 1
                gc.freeze()  # reference counts still free what is not in a cycle
            self._began = 0


@functools.cache
def _collector() -> _Collector | None:
    if os.environ.get(SWITCH) == "0":
        return None
    _keep_unchanged_archives()
    collector = _Collector()
    gc.callbacks.append(collector)
    return collector


def _keep_unchanged_archives() -> None:
    """Let an archive's directory be read again only if the archive has changed.

    An archive older than this process was read as it is now: with Iceberg's runtime among the archives, reading all of them
    again takes a new worker 0.15 s before its second task.
    """
    invalidate: Callable[[zipimport.zipimporter], None] = zipimport.zipimporter.invalidate_caches
    seen: dict[tuple[str, str], tuple[int, int]] = {}
    began = _began()

    @functools.wraps(invalidate)
    def invalidate_changed(importer: zipimport.zipimporter) -> None:
        try:
            status = os.stat(importer.archive)  # noqa: PTH116 - runs before every task
        except OSError:
            invalidate(importer)
            return
        version = (status.st_mtime_ns, status.st_size)
        place = (importer.archive, importer.prefix)
        is_as_read = place not in seen and status.st_ctime < began
        if seen.get(place) != version and not is_as_read:
            invalidate(importer)
        seen[place] = version

    zipimport.zipimporter.invalidate_caches = invalidate_changed  # type: ignore[assignment]


def _began() -> float:
    """Return when the older of this process and its parent, which may have forked it, began; 0 if unknown."""
    now, ages = time.time(), []
    try:
        for process in ("self", str(os.getppid())):
            status = Path("/proc", process, "stat").read_text(encoding="utf-8", errors="replace")
            ticks = int(status.rpartition(")")[2].split()[19])  # since the machine started
            ages.append(time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError, AttributeError):  # another system
        return 0.0
    return now - max(ages) - _CLOCK_SKEW_SECONDS
