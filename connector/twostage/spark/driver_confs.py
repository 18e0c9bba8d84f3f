"""The configuration that Spark's driver was started with, as its planning worker can find it out.

Takes the command line of the JVM above this process and Spark's properties file; gives the confs of catalogs and stores.
Only for a source without the planner (Spark Connect to a server that did not call ``enable``, or a session without it): Spark
sends the planning worker the options of the read and nothing else. The rule: what cannot be read is left out, and confs that
a session set later are not seen.
"""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_WANTED = ("spark.sql.catalog.", "spark.hadoop.fs.s3a.")
_DEFAULT_CATALOG = "spark.sql.defaultCatalog"
_LINE = re.compile(r"\s*([^\s=:#!]+)(?:\s*[=:]\s*|\s+)(.*?)\s*")
_MAX_ANCESTORS = 5
"""A worker, the daemon that forked it, perhaps a shell; then the JVM."""


def driver_confs(process: int | None = None, processes: Path = Path("/proc")) -> dict[str, str]:
    """Return the confs of catalogs and stores that the JVM above a process was started with.

    Args:
        process: Its id; this one's if left out.
        processes: Where Linux shows processes; elsewhere only the properties file is read.
    """
    arguments = _driver_arguments(os.getpid() if process is None else process, processes)
    found = _properties(_properties_file(arguments)) | dict(_given(arguments))
    return {key: value for key, value in found.items() if key.startswith(_WANTED) or key == _DEFAULT_CATALOG}


def _driver_arguments(process: int, processes: Path) -> list[str]:
    """Return the command line of the nearest JVM among a process and those above it."""
    for _ in range(_MAX_ANCESTORS):
        try:
            arguments = (processes / str(process) / "cmdline").read_bytes().decode("utf-8", "replace")
            status = (processes / str(process) / "status").read_text()
        except OSError:
            return []
        command = arguments.rstrip("\0").split("\0")
        if command[0].rpartition("/")[2] == "java":
            return command[1:]
        above = re.search(r"^PPid:\s*(\d+)", status, re.MULTILINE)
        process = int(above[1]) if above else 0
        if process <= 1:
            return []
    return []


def _given(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the confs of a command line: ``-Dkey=value`` of the JVM, ``--conf key=value`` and ``-c`` of spark-submit."""
    for argument, value in itertools.pairwise((*arguments, "")):
        text = ""
        if argument.startswith("-Dspark."):
            text = argument[2:]
        elif argument in ("--conf", "-c"):
            text = value
        elif argument.startswith("--conf="):
            text = argument.partition("=")[2]
        key, equals, given = text.partition("=")
        if equals:
            yield key.strip(), given.strip()


def _properties_file(arguments: Sequence[str]) -> Path | None:
    for argument, value in itertools.pairwise(arguments):
        if argument == "--properties-file":
            return Path(value)
    folder, home = os.environ.get("SPARK_CONF_DIR"), os.environ.get("SPARK_HOME")
    if folder:
        return Path(folder, "spark-defaults.conf")
    return Path(home, "conf", "spark-defaults.conf") if home else None


def _properties(file: Path | None) -> dict[str, str]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines() if file is not None else []
    except (OSError, UnicodeDecodeError):
        return {}
    found = (_LINE.fullmatch(line) for line in lines if not line.lstrip().startswith(("#", "!")))
    return {match[1]: re.sub(r"\\(.)", r"\1", match[2]) for match in found if match}
