"""What is tuned in a worker process: in processes of their own, because it is done once and stays."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import zipfile

import pytest

CHANGED_ARCHIVE = """
    import importlib, os, sys, zipfile
    from twostage.spark.worker_tuning import tune_worker
    tune_worker()
    path = sys.argv[1]
    def write(names):
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                archive.writestr(f"{name}.py", "here = True")
    write(["first"])
    sys.path.insert(0, path)
    import first
    importlib.invalidate_caches()
    write(["first", "second"])
    importlib.invalidate_caches()
    import second
    assert second.here
"""
UNCHANGED_ARCHIVE = """
    import importlib, sys, zipfile, zipimport
    from twostage.spark.worker_tuning import tune_worker
    read = []
    original = zipimport.zipimporter.invalidate_caches
    zipimport.zipimporter.invalidate_caches = lambda importer: (read.append(importer), original(importer))
    tune_worker()
    path = sys.argv[1]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("first.py", "here = True")
    sys.path.insert(0, path)
    import first
    for _ in range(5):
        importlib.invalidate_caches()
    assert len(read) == (5 if "off" in sys.argv else 1), read
"""
OLD_ARCHIVE = """
    import importlib, os, sys, time, zipfile, zipimport
    from twostage.spark import worker_tuning
    start = time.time()
    assert worker_tuning._began() < start
    assert worker_tuning._began() > 0 or not os.path.exists("/proc/self/stat")
    read = []
    original = zipimport.zipimporter.invalidate_caches
    zipimport.zipimporter.invalidate_caches = lambda importer: (read.append(importer), original(importer))
    worker_tuning._began = lambda: start
    path = sys.argv[1]
    sys.path.insert(0, path)
    import first
    worker_tuning.tune_worker()
    importlib.invalidate_caches()
    assert not read
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("second.py", "here = True")
    importlib.invalidate_caches()
    import second
    assert len(read) == 1
"""
COLLECTED = """
    import gc, sys
    from twostage.spark import worker_tuning
    from twostage.spark.worker_tuning import task_ended, tune_worker
    worker_tuning.LONG_NANOSECONDS = -1
    tune_worker()
    gc.collect()
    assert gc.get_freeze_count() == 0, "no task ended"
    task_ended()
    gc.collect(1)
    assert gc.get_freeze_count() == 0, "young objects only"
    class Cycle:
        def __del__(self):
            gone.append(1)
    gone = []
    one = Cycle()
    one.self = one
    del one
    gc.collect()
    assert gone == [1], "garbage goes first"
    is_on = "off" not in sys.argv
    first = gc.get_freeze_count()
    assert (first > 0) == is_on
    kept = [[] for _ in range(1_000)]
    gc.collect()
    assert gc.get_freeze_count() == first, "of another task than ours"
    tune_worker()
    task_ended()
    gc.collect()
    assert (gc.get_freeze_count() >= first + 1_000) == is_on
    worker_tuning.LONG_NANOSECONDS = 10**12
    kept = [[] for _ in range(1_000)]
    last = gc.get_freeze_count()
    task_ended()
    gc.collect()
    assert gc.get_freeze_count() == last, "a short one"
    worker_tuning.LONG_NANOSECONDS = -1
    counts = []
    for _ in range(6):
        kept = [kept, *([] for _ in range(1_000))]
        task_ended()
        gc.collect()
        counts.append(gc.get_freeze_count())
    assert (counts[1] > counts[0] > last) == is_on
    assert len(set(counts[1:])) == 1, "not again and again"
    assert len([watch for watch in gc.callbacks if type(watch).__name__ == "_Collector"]) == is_on
"""


def run(code, *arguments, **environment):
    import os

    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr


def test_an_archive_that_changed_is_read_again(tmp_path):
    run(CHANGED_ARCHIVE, tmp_path / "modules.zip")


@pytest.mark.parametrize("switch", ["on", "off"])
def test_an_unchanged_archive_is_read_once(tmp_path, switch):
    environment = {"TWOSTAGE_WORKER_TUNING": "0"} if switch == "off" else {}
    run(UNCHANGED_ARCHIVE, tmp_path / "modules.zip", switch, **environment)


def test_an_archive_older_than_the_process_is_not_read_again(tmp_path):
    with zipfile.ZipFile(tmp_path / "modules.zip", "w") as archive:
        archive.writestr("first.py", "here = True")
    run(OLD_ARCHIVE, tmp_path / "modules.zip")


@pytest.mark.parametrize("switch", ["on", "off"])
def test_what_stays_after_a_task_is_walked_once(switch):
    run(COLLECTED, switch, **({"TWOSTAGE_WORKER_TUNING": "0"} if switch == "off" else {}))
