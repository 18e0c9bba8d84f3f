"""What all tests share: the header that says how to repeat a run, and caches that are not the user's."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from spark_archive import jvm_options

HERE = Path(__file__).parent
_made: list[Path] = []

LONG = (
    "packaging/test_documents.py",
    "faults/test_spark_faults.py",
    "spark/test_spark_sessions.py",
    "differential/",
    "faults/",
    "fuzz/",
    "memory/",
    "leaks/",
    "spark/test_spark_orc.py",
    "predicates/",
    "spark/test_spark_workers.py",
    "spark/test_spark_native",
    "spark/",
)
"""Files and folders of few and long tests, the longest first."""


def pytest_configure() -> None:
    """Keep the user's cache directory out of the tests; Spark and other children inherit the environment.

    The host's cache of deletes begins empty. Compiled kernels stay for the next run: they take half a minute.
    """
    # A machine that stands still for a moment is no fault of what is tested, nor of how its values are drawn.
    settings.register_profile("twostage", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("twostage")
    os.environ.setdefault("JDK_JAVA_OPTIONS", jvm_options())
    _made.append(Path(tempfile.mkdtemp(prefix="twostage-cache-")))
    os.environ["XDG_CACHE_HOME"] = str(_made[-1])
    kernels = Path(tempfile.gettempdir(), f"twostage-tests-{os.getuid()}")
    os.environ.setdefault("NUMBA_CACHE_DIR", str(kernels))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what is long: begun last, it would keep one process busy while the others have nothing left to do."""

    def rank(item: pytest.Item) -> int:
        place = item.path.relative_to(HERE).as_posix() if item.path.is_relative_to(HERE) else ""
        return next((rank for rank, long in enumerate(LONG) if place.startswith(long)), len(LONG))

    if "PYTEST_XDIST_WORKER" in os.environ:  # one process runs them in any order
        items.sort(key=rank)


@pytest.fixture(autouse=True)
def no_manifests_are_kept() -> None:
    """Tests write other tables to the same paths, with the same names of manifests; Iceberg never uses one twice."""
    if (kept := sys.modules.get("twostage.table.manifest_cache")) is not None:
        kept.forget()


def pytest_unconfigure(config: pytest.Config) -> None:  # noqa: ARG001 - pytest's hook
    """Remove what the tests cached."""
    for folder in _made:
        shutil.rmtree(folder, ignore_errors=True)
    _made.clear()


def pytest_report_header() -> str:
    """Print the seed of the differential tests."""
    seed, pairs = os.environ.get("TWOSTAGE_SEED", "1"), os.environ.get("TWOSTAGE_PAIRS", "300")
    return f"differential: TWOSTAGE_SEED={seed} TWOSTAGE_PAIRS={pairs}"
