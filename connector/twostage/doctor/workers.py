"""Check the Python of Spark's workers: that of PYSPARK_PYTHON, or in a local session the current one.

Starts it once, as Spark's worker daemon does. A path that exists only on a cluster cannot be checked from here.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twostage.doctor.finding import failed, ok, warning
from twostage.doctor.requirements import installed_version, requirements
from twostage.spark.worker_tuning import SWITCH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from twostage.doctor.finding import Finding

WORKERS = "Workers' Python"
DAEMON = "Worker daemon"
_TIMEOUT_SECONDS = 60.0
_PROGRAM = """
import importlib.metadata, json, sys
found = {"python": list(sys.version_info[:3]), "versions": {}}
for name in sys.argv[1:]:
    try:
        found["versions"][name] = importlib.metadata.version(name)
    except ImportError:
        found["versions"][name] = None
sys.argv = ["daemon", "pyspark.worker"]
try:
    from twostage.spark import worker_daemon
except BaseException as error:
    found["error"] = "%s: %s" % (type(error).__name__, error)
else:
    found["forks"] = worker_daemon.imported()
print(json.dumps(found))
"""


def workers() -> Iterator[Finding]:
    """Compare the workers' Python with the current one, and check that it can be the daemon that forks workers."""
    chosen = os.environ.get("PYSPARK_PYTHON")
    command = shutil.which(chosen) if chosen else sys.executable
    if command is None and chosen is not None and not Path(chosen).is_absolute() and os.sep in chosen:
        yield warning(
            WORKERS,
            f"PYSPARK_PYTHON is {chosen}, which does not exist here",
            "On a cluster it comes with --archives; for a local session unset PYSPARK_PYTHON.",
        )
        return
    if command is None:
        yield failed(
            WORKERS,
            f"PYSPARK_PYTHON is {chosen}, which is missing or not a program",
            "Set PYSPARK_PYTHON to a Python that has twostage, or unset it for a local session.",
        )
        return
    name = f"{command}, PYSPARK_PYTHON is {'set' if chosen else 'not set: local sessions use this Python'}"
    found = _probe(command)
    if isinstance(found, str):
        yield failed(WORKERS, f"{command} does not run: {found}", "Set PYSPARK_PYTHON to a Python that runs.")
        return
    finding = _compared(command, name, found)
    yield finding
    if finding.state != "failed":
        yield _daemon(found)


def _probe(command: str) -> dict[str, Any] | str:
    """Return the versions in the workers' Python and whether it can fork workers, or why it did not answer."""
    names = ["twostage", *(one.name for one in requirements() if not one.extra)]
    # As Spark sets them: Spark's modules are on the path, and OpenBLAS starts no threads.
    surroundings = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(_spark_path()),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
    }
    try:
        done = subprocess.run(  # noqa: S603 - Spark runs it too
            [command, "-c", _PROGRAM, *names],
            env=surroundings, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=_TIMEOUT_SECONDS,
        )  # fmt: skip
        found: dict[str, Any] = json.loads(done.stdout.strip().rpartition("\n")[2])
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    except ValueError:
        return done.stderr.strip().rpartition("\n")[2] or f"it ended with code {done.returncode}"
    return found


def _spark_path() -> list[str]:
    """Return the PYTHONPATH of local workers: PySpark's archives, without other installed packages, then the user's."""
    given = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
    spark = importlib.util.find_spec("pyspark")
    folders = spark.submodule_search_locations if spark is not None else None
    archives = sorted(Path(folders[0], "python", "lib").glob("*.zip")) if folders else []
    return [*map(str, archives), *given]


def _compared(command: str, name: str, found: dict[str, Any]) -> Finding:
    python = ".".join(map(str, found["python"]))
    if found["python"][:2] != list(sys.version_info[:2]):
        return failed(
            WORKERS,
            f"{name}: Python {python}, and the driver's is {sys.version_info[0]}.{sys.version_info[1]}",
            "Let PYSPARK_PYTHON have the driver's version: Spark refuses any other.",
        )
    if "error" in found:
        return failed(
            WORKERS,
            f"{name}: twostage cannot be imported: {found['error']}",
            f"{command} -m pip install twostage's wheel, or let PYSPARK_PYTHON be {sys.executable}.",
        )
    versions: dict[str, str | None] = found["versions"]
    mine = {one: installed_version(one) for one in versions}
    if versions.get("twostage") != mine.get("twostage"):
        return failed(
            WORKERS,
            f"{name}: twostage {versions.get('twostage')}, and the driver's is {mine.get('twostage')}",
            f"{command} -m pip install 'twostage=={mine.get('twostage')}'",
        )
    others = [one for one in versions if versions[one] != mine[one]]
    if others:
        told = ", ".join(f"{one} {versions[one]} (driver: {mine[one]})" for one in others)
        wanted = " ".join(f"{one}=={mine[one]}" for one in others)
        return warning(WORKERS, f"{name}: versions differ from the driver's: {told}", f"{command} -m pip install {wanted}")  # fmt: skip
    return ok(WORKERS, f"{python}, {name}; the same versions as here")


def _daemon(found: dict[str, Any]) -> Finding:
    if os.environ.get(SWITCH) == "0":
        return ok(DAEMON, f"switched off by {SWITCH}=0: PySpark's own is used")
    if not sys.platform.startswith("linux"):
        return ok(DAEMON, "PySpark's own: ours is for Linux")
    if not found["forks"]:
        return warning(
            DAEMON,
            "PySpark's own is used: a module of twostage or PySpark cannot be imported there, or starts a thread",
            "Look for a sitecustomize or .pth file that starts threads; the first task of each worker is slower.",
        )
    return ok(DAEMON, "workers are forked with everything imported")
