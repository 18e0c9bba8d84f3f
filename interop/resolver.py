"""Iceberg's JARs, fetched from Maven Central once, by one process at a time.

If they are not on the machine yet, processes that share the tests would download the same files to the same
places at once; with a lock, the second finds them there. A repository that does not answer is retried: one
that was down for a minute once failed every test of a run.

`python resolver.py` fetches all of them and starts nothing else (`make interop-jars`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
from pyspark.errors import PySparkRuntimeError
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

SOURCES = Path(__file__).parent / "services"
RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
S3A = (
    "org.apache.hadoop:hadoop-aws:3.4.2",  # the version of Spark 4.1's Hadoop
    "org.apache.iceberg:iceberg-aws-bundle:1.12.0",  # most of Amazon's SDK, a tenth the size of its own bundle
    "software.amazon.awssdk:s3-transfer-manager:2.54.17",
    "software.amazon.awssdk:apache-client:2.54.17",
)
PACKAGES = {
    "spark.jars.packages": ",".join((RUNTIME, *S3A)),
    "spark.jars.excludes": ",".join(
        f"software.amazon.awssdk:{name}" for name in ("bundle", "sdk-core", "aws-core", "s3")
    ),
}
"""Confs of a session with Iceberg's runtime and Hadoop's S3A."""


def start(builder: SparkSession.Builder) -> SparkSession:
    """Start a session, with no other process of this user resolving `spark.jars.packages` meanwhile."""
    for attempt in _attempts(PySparkRuntimeError):  # JAVA_GATEWAY_EXITED, whatever ended the JVM
        with attempt, _one_at_a_time():
            return builder.getOrCreate()
    raise AssertionError("unreachable: the last attempt raises")


def rest_catalog_jars() -> list[Path]:
    """Return the JARs of Iceberg's REST catalog, fetched by the Ivy that Spark brings."""
    ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    cache = Path.home() / ".ivy2.5.2" / "cache"  # Spark's
    command = [
        "java",
        "-jar",
        ivy,
        "-ivy",
        SOURCES / "ivy.xml",
        "-confs",
        "default",
        "-types",
        "jar",
        "bundle",
    ]
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder, "class-path")
        for attempt in _attempts(AssertionError):
            with attempt, _one_at_a_time():
                done = subprocess.run(
                    [*command, "-cache", cache, "-cachepath", found],
                    capture_output=True,
                    text=True,
                    check=False,
                    env={**os.environ, "JDK_JAVA_OPTIONS": ""},
                )
                assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return [Path(name) for name in found.read_text().strip().split(os.pathsep)]


def _attempts(error: type[Exception]) -> Retrying:
    """Try five times within two and a half minutes."""
    return Retrying(
        retry=retry_if_exception_type(error),
        stop=stop_after_attempt(5),
        wait=wait_exponential(multiplier=10, max=80),
        reraise=True,
    )


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    with Path(tempfile.gettempdir(), f"twostage-resolver-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> None:
    """Fetch all JARs of these tests."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    for key, value in PACKAGES.items():
        builder = builder.config(key, value)
    start(builder).stop()
    rest_catalog_jars()


if __name__ == "__main__":
    main()
