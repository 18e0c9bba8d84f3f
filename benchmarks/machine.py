"""What a benchmark ran on: the machine, the data and the versions of everything."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from iceberg_session import RUNTIME

LIBRARIES = ("pyspark", "pyarrow", "numpy", "numba", "duckdb", "polars", "datafusion", "tpchgen-cli")


def describe(warehouse: Path) -> dict[str, Any]:
    """Return what readers of figures measured here need to know."""
    versions = {name: importlib.metadata.version(name) for name in LIBRARIES}
    versions["iceberg"] = RUNTIME.rpartition(":")[2]
    sizes = {
        table.name: sum(
            path.stat().st_size
            for path in (table / "data").rglob("*.parquet")
            if not path.name.endswith("-deletes.parquet")
        )
        for table in sorted((warehouse / "db").glob("*"))
    }
    java = subprocess.run(
        ["java", "-version"], capture_output=True, text=True, check=False
    ).stderr.splitlines()
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "java": java[0] if java else "",
        "versions": versions,
        "bytes": sizes,
        "commit": _commit(),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent,
    )
    return done.stdout.strip()
