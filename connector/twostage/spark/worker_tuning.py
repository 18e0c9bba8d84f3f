"""Takes away what makes a short Python task long; changes nothing that other Python code there could notice.

PySpark does two things around each task that cost more than a needle's own work: before it, 4.1 lets the
import system read ``pyspark.zip`` again, once for each package path (Python 3.11); after it, it collects garbage,
which walks everything that was ever imported, and keeps the worker from its next task meanwhile.
TWOSTAGE_WORKER_TUNING=0 leaves both as they are.
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
"""A collection that took longer walked what stays: modules, compiled kernels, caches."""
_CLOCKS = 1.0
"""Seconds by which a file system's clock may be off."""
MOST_TIMES = 4
"""That a worker sets aside what stays: the imports come first, the kernels after some tasks. What others in this process
hold at that moment, and let go later in a cycle, is not freed: so not again and again."""


def tune_worker() -> None:
    """Tune this worker process; call it before each task."""
    _collector()


def task_ended() -> None:
    """Let what is left after the collection that follows a task be walked no more; call it when a task ends."""
    collector = _collector()
    if collector is not None:
        collector.is_due = True


class _Collector:
    """Watches collections of garbage: what survives a long one, done right after a task, is to stay."""

    def __init__(self) -> None:
        self.is_due = False
        self._times_left = MOST_TIMES
        self._began = 0

    def __call__(self, phase: str, about: dict[str, int]) -> None:
        """Be told by `gc` of a collection's start and end."""
        if not self.is_due or about["generation"] < 2 or not self._times_left:
            return
        if phase == "start":
            self._began = time.thread_time_ns()
        elif self._began:
            self.is_due = False
            if time.thread_time_ns() - self._began > LONG_NANOSECONDS:
                self._times_left -= 1
                gc.freeze()  # its garbage is gone; what later turns into garbage by itself is freed all the same
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
    """Let an archive's directory be read again only if the archive is another one than before.

    One that is older than this process has been read as it is: with Iceberg's runtime among the archives, to read all of
    them once more takes a new worker 0.15 s before its second task.
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
    """Return since when this process runs, and its parent, of which it may have been forked; 0 if that is not known."""
    now, ages = time.time(), []
    try:
        for process in ("self", str(os.getppid())):
            status = Path("/proc", process, "stat").read_text(encoding="utf-8", errors="replace")
            ticks = int(status.rpartition(")")[2].split()[19])  # since the machine started
            ages.append(time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError, AttributeError):  # another system
        return 0.0
    return now - max(ages) - _CLOCKS
