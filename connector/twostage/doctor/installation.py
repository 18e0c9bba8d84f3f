"""Check what must be installed: Python, twostage and its libraries, Java and PySpark."""

from __future__ import annotations

import importlib
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import twostage
from twostage.doctor.finding import failed, ok, warning
from twostage.doctor.requirements import Requirement, installed_version, requirements
from twostage.errors import UnsupportedFeatureError
from twostage.spark import usable_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from twostage.doctor.finding import Finding

MIN_JAVA_VERSION = 17
_JAVA_TIMEOUT_SECONDS = 30.0
_INSTALL_JAVA = "Install Java 17 or newer (Debian: apt-get install openjdk-17-jre-headless)"
_SPARK = Requirement("pyspark", ">=4.1,<4.4", "spark")


def python() -> Iterator[Finding]:
    """Report the Python in use; one that is too old cannot import twostage at all."""
    yield ok("Python", f"{platform.python_version()}, {sys.executable}")


def twostage_itself() -> Iterator[Finding]:
    """Check that twostage was installed with its package metadata."""
    folder = next(iter(twostage.__path__))
    if installed_version("twostage") is None:
        yield warning(
            "twostage",
            f"only the modules, in {folder}: versions of libraries cannot be compared",
            "pip install twostage's wheel, which brings what it needs.",
        )
    else:
        yield ok("twostage", f"{twostage.__version__}, {folder}")


def libraries() -> Iterator[Finding]:
    """Check each library's version against the bounds in our package metadata, and import it."""
    for requirement in requirements():
        if not requirement.extra:
            yield _library(requirement)


def _library(requirement: Requirement) -> Finding:
    name, install = requirement.name, f"{sys.executable} -m pip install '{requirement}'"
    version = installed_version(name)
    if version is None:
        return failed(name, "not installed", install)
    if requirement.is_too_old(version):
        return failed(name, f"{version}, which is older than {requirement.bounds}", install)
    try:
        importlib.import_module(name)
    except Exception as error:  # noqa: BLE001 - a broken build may raise anything
        found = f"{version}, but it cannot be imported: {type(error).__name__}: {error}"
        if name == "numba":  # every kernel has a NumPy twin
            return warning(name, found, f"{install} --force-reinstall; until then filters run slower.")
        return failed(name, found, f"{install} --force-reinstall")
    if requirement.is_too_new(version):
        return warning(name, f"{version}, newer than what twostage was tested with", install)
    return ok(name, version)


def java() -> Iterator[Finding]:
    """Check the Java that Spark starts: that of JAVA_HOME if set, else the first on the search path."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home, "bin", "java")) if home else "java"
    found = shutil.which(command)
    if found is None and home:
        yield failed("Java", f"JAVA_HOME is {home}, which has no bin/java", "Correct JAVA_HOME, or unset it.")
        return
    if found is None:
        yield failed(
            "Java", "no java on the search path, and no JAVA_HOME", f"{_INSTALL_JAVA}, or set JAVA_HOME."
        )
        return
    try:
        done = subprocess.run(  # noqa: S603 - Spark runs it too
            [found, "-version"], capture_output=True, text=True, check=False, timeout=_JAVA_TIMEOUT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        yield failed("Java", f"{found} does not run: {error}", f"{_INSTALL_JAVA}, and set JAVA_HOME to it.")
        return
    told = re.search(r'version "((\d+)[^"]*)"', done.stdout + done.stderr)
    where = f"{found}, {f'JAVA_HOME is {home}' if home else 'JAVA_HOME is not set'}"
    if told is None:
        yield failed("Java", f"{where}: it reports no version", f"{_INSTALL_JAVA}, and set JAVA_HOME to it.")
    elif int(told[2]) < MIN_JAVA_VERSION:
        yield failed("Java", f"{told[1]}, {where}", f"{_INSTALL_JAVA}, and set JAVA_HOME to it.")
    else:
        yield ok("Java", f"{told[1]}, {where}")


def pyspark() -> Iterator[Finding]:
    """Check PySpark, installed by pip or part of a Spark distribution on the path."""
    try:
        version = usable_session.spark_version()
    except UnsupportedFeatureError as error:
        yield failed("PySpark", error.message, error.hint or "")
        return
    wanted = next((one for one in requirements() if one.name == "pyspark"), _SPARK)
    if wanted.is_too_new(version):
        yield warning(
            "PySpark", f"{version}, newer than what twostage was tested with", f"pip install '{wanted}'"
        )
        return
    yield ok("PySpark", version)
