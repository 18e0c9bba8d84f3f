"""Checks that twostage can be used in what the user passed as a session, before anything is changed in it.

Takes any object; gives nothing, or an error that says what is missing and what works instead. The rule: none of PySpark's own
errors about a wrong, stopped or remote session reaches the user.
"""

from __future__ import annotations

import sys
from typing import Any

from twostage.errors import OptionError, TwoStageError, UnsupportedFeatureError
from twostage.spark.spark_internals import is_stopped

OLDEST_SPARK = (4, 1)
_BY_HAND = "spark.read.format('twostage').option('columns', 'a, b').option('filter', 'a > 5').load('…')"


def check_session(spark: Any) -> None:
    """Let a live session of this process's own JVM pass.

    Raises:
        OptionError: PySpark is not installed (NO_SPARK); the object is no session (NOT_A_SESSION), one of a Spark
            Connect client, which has no JVM to install a planner in (CONNECT_SESSION), or stopped (STOPPED_SESSION).
        UnsupportedFeatureError: PySpark is older than 4.1 (SPARK_VERSION).
    """
    version = _installed_version()
    if _is_remote(spark):
        raise OptionError(
            "CONNECT_SESSION",
            "twostage.enable needs the driver's JVM, and a Spark Connect session has none",
            stage="options",
            hint=f"Queries work without it; use the options columns and filter: {_BY_HAND}. "
            "Or call twostage.enable in the Python program that runs the Connect server, before clients connect.",
        )
    _check_version(version)
    from pyspark.sql import SparkSession  # noqa: PLC0415

    if not isinstance(spark, SparkSession):
        raise OptionError(
            "NOT_A_SESSION",
            f"twostage.enable takes a SparkSession, not a {type(spark).__name__}",
            stage="options",
            hint="The pyspark shell and notebooks call it spark; a program makes it: SparkSession.builder.getOrCreate().",
        )
    if is_stopped(spark):
        raise OptionError(
            "STOPPED_SESSION",
            "This Spark session was stopped",
            stage="options",
            hint="Create a new one: SparkSession.builder.getOrCreate().",
        )


def spark_version() -> str:
    """Return the version of the PySpark that this Python has.

    Raises:
        OptionError: It has none (NO_SPARK).
        UnsupportedFeatureError: It is older than 4.1 (SPARK_VERSION).
    """
    version = _installed_version()
    _check_version(version)
    return version


def check_reports(spark: Any) -> None:
    """Let every session pass but a Connect client's: the scans' reports are not here.

    Raises:
        OptionError: A Spark Connect session.
    """
    if _is_remote(spark):
        raise OptionError(
            "CONNECT_SESSION",
            "The reports of scans stay in the Spark driver's Python, and a Spark Connect session cannot ask it",
            stage="options",
            hint="Print them in the Python program that runs the Connect server and called twostage.enable.",
        )


def no_spark() -> TwoStageError:
    """Return the error of a Python without PySpark."""
    return OptionError(
        "NO_SPARK",
        f"PySpark is not installed in this Python: {sys.executable}",
        stage="options",
        hint="Use the Python that has it, or pip install 'pyspark>=4.1,<4.4'.",
    )


def missing_module(error: ModuleNotFoundError) -> TwoStageError:
    """Return the error of a Python that has twostage without what it needs, as after ``--py-files``."""
    return OptionError(
        "MISSING_MODULE",
        f"This Python has twostage, but not the module {error.name!r} that it needs: {sys.executable}",
        stage="options",
        hint="pip install twostage's wheel into it: that brings all of them.",
    )


def _installed_version() -> str:
    try:
        import pyspark  # noqa: PLC0415
    except ImportError:
        raise no_spark() from None
    return str(pyspark.__version__)


def _check_version(version: str) -> None:
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_SPARK:
        raise UnsupportedFeatureError(
            "SPARK_VERSION",
            f"twostage needs PySpark 4.1 or newer, this is {version}",
            stage="options",
            hint="pip install 'pyspark>=4.1,<4.4'.",
        )


def _is_remote(spark: Any) -> bool:
    return any(kind.__module__.startswith("pyspark.sql.connect") for kind in type(spark).__mro__)
