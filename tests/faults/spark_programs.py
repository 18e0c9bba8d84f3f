"""What the Spark programs of this folder are started with: settings, an environment whose processes are marked, sizes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from marked import MARK

from figures import FULL

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ROWS = 4000
TASKS = 4
"""One for each file of the table that has so many rows."""
RUNS = 10 if FULL else 1
"""Of each case, with the fault in another task each time."""
CONFS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    # A killed worker's daemon and an executor's heartbeat are noticed sooner.
    "spark.python.worker.reuse": "true",
}


def environment_of(tmp_path):
    """Return the environment of a program, whose processes it marks, and the folder of its temporary files."""
    temporary = tmp_path / "temporary"
    temporary.mkdir(exist_ok=True)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYSPARK_GATEWAY")}
    paths = [str(ROOT / "connector"), str(ROOT / "native"), str(HERE)]
    environment |= {
        "PYTHONPATH": os.pathsep.join(paths),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TMPDIR": str(temporary),
        "SPARK_LOCAL_DIRS": str(temporary),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "TWOSTAGE_TEST_FAULTS": str(tmp_path / "faults"),
        MARK: str(tmp_path),
    }
    return environment, temporary
