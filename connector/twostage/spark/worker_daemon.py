"""The process that Spark forks Python workers from, with everything imported that a scan needs.

Takes the place of PySpark's daemon as ``spark.python.daemon.module``, and runs it after these imports. Otherwise a new worker
imports for a quarter of a second before its first task, and since Spark ends workers after an idle minute, most queries typed
into a notebook would begin with that. The rule, because of which PySpark 4.2 imports only after it has forked: no thread may run in a
process that forks. If one does, or anything fails, this process becomes PySpark's own daemon. Numba, which few scans need, is
imported once no worker was forked for some seconds.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
from pathlib import Path

from twostage.spark.worker_tuning import SWITCH

_NEEDED = (
    "twostage.reading.pipeline",
    # Other workers import these where they meet such files.
    "twostage.deletes.files.avro",
    "twostage.data_files.avro_file",
    "twostage.data_files.orc_file",
)
_THREADS = Path("/proc/self/task")
_ARROW = "JE_ARROW_MALLOC_CONF"
_NO_THREAD = "background_thread:false"
"""Jemalloc, an allocator that Arrow loads without using it by default, would start a thread."""
_IDLE_SECONDS = 2.0
"""Wait after the last fork. The import takes a quarter of a second, in which no worker can be forked."""


def main() -> None:
    """Be Spark's Python daemon until Spark ends it; its arguments are those of `pyspark.daemon`."""
    if not imported():
        os.execv(sys.executable, [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]])  # noqa: S606
    from pyspark import daemon  # noqa: PLC0415 - in 4.1 with the worker's module, and all that this imports

    from twostage.spark.stopped_tasks import begin_quietly  # noqa: PLC0415 - its package is PySpark's face

    begin_quietly(daemon)
    prepare_when_idle()
    daemon.manager()


def imported() -> bool:
    """Import what scans need, and the worker's module; return whether this process may fork workers then."""
    if os.environ.get(SWITCH) == "0" or not _THREADS.exists():
        return False
    if is_ours := _ARROW not in os.environ:
        os.environ[_ARROW] = _NO_THREAD
    try:
        for module in (*_NEEDED, sys.argv[1] if len(sys.argv) > 1 else "pyspark.worker"):
            importlib.import_module(module)
        is_alone = len(list(_THREADS.iterdir())) == 1
    except Exception:  # noqa: BLE001 - workers will meet it again, and report it
        is_alone = False
    finally:
        if is_ours:
            del os.environ[_ARROW]  # what users start from their own code is not ours to set
    if not is_alone:
        return False
    os.register_at_fork(after_in_child=_reseed_numpy)
    gc.collect()
    gc.freeze()  # no worker's collection walks what was imported
    return True


def prepare_when_idle() -> None:
    """Import Numba when some seconds have passed since the last fork; by an alarm, for no thread may run here."""

    def set_alarm() -> None:
        if not is_done:
            signal.setitimer(signal.ITIMER_REAL, _IDLE_SECONDS)

    def prepare(*_: object) -> None:
        is_done.append(True)
        from twostage_native import _jit  # noqa: PLC0415

        _jit.prepare()
        gc.collect()
        gc.freeze()

    def leave() -> None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    is_done: list[bool] = []
    signal.signal(signal.SIGALRM, prepare)
    os.register_at_fork(after_in_parent=set_alarm, after_in_child=leave)


def _reseed_numpy() -> None:
    """Let NumPy's own random numbers differ between workers, as they do where each imports it (Python's own do)."""
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()


if __name__ == "__main__":
    main()
