"""One process at a time lets Spark's resolver fetch Iceberg's JARs.

Where they are not on the machine yet, processes that share the tests would download the same files to the same
places at once. Who comes second finds them there.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start(builder: SparkSession.Builder) -> SparkSession:
    """Start a session whose `spark.jars.packages` no other process of this user resolves meanwhile."""
    with Path(tempfile.gettempdir(), f"twostage-resolver-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return builder.getOrCreate()
