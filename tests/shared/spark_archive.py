"""An archive of the classes that a Spark session loads (CDS), which the JVM maps instead of loading them
again.

``python tests/shared/spark_archive.py FILE`` makes it, once for each environment (`make` does so before the Spark tests). The
start of a session with its first scan of a table takes 8.5 s of CPU with it and 15 s without; the tests start some
sixty. A JVM with another version or class path ignores it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ARCHIVE = Path(sys.prefix, "spark.jsa")
TEST_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m -XX:NewRatio=1 -XX:MetaspaceSize=256m"
"""JVMs that live for seconds or minutes spend 40 % of their CPU on code that the second compiler makes too late.

Without the second compiler 48 MiB are reserved for code, of which queries of TPC-DS fill 46: what was compiled was
swept away and compiled again. Half of the heap is for what is new, as a test keeps little."""
ONE_JVM = {
    "spark.driver.memory": "2g",
    "spark.buffer.pageSize": "1m",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.sql.ui.retainedExecutions": "20",
}
"""Confs of the JVM that runs hundreds of tests.

Spark derives the size of its memory pages from the heap, and each join, aggregate and sort of a few rows takes one: with
pages of that size a JVM of 2 GiB had done 133 full collections in 25 minutes, 136 s, and with pages of 1 MiB at most 7."""


def jvm_options() -> str:
    """Return the options of the tests' JVMs, with the archive if it was made."""
    if not ARCHIVE.exists():
        return TEST_JVM
    return f"{TEST_JVM} -XX:SharedArchiveFile={ARCHIVE} -Xlog:cds=off -Xlog:cds+dynamic=off"


def make(target: Path) -> None:
    """Run queries in a session whose JVM writes the archive on exit; without one, tests only take longer."""
    with tempfile.TemporaryDirectory() as folder:
        partial = Path(folder, "spark.jsa")
        command = [str(Path(sys.executable).with_name("spark-submit")), "--driver-java-options"]
        command += [f"-XX:ArchiveClassesAtExit={partial}", __file__]
        environment = {**os.environ, "JDK_JAVA_OPTIONS": TEST_JVM, "SPARK_LOCAL_IP": "127.0.0.1"}
        done = subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, check=False, timeout=600
        )
        if done.returncode or not partial.exists():
            print(f"no archive of Spark's classes:\n{done.stderr[-1000:]}", file=sys.stderr)
            return
        waiting = target.with_suffix(".part")
        waiting.write_bytes(partial.read_bytes())
        waiting.replace(target)


def load_classes() -> None:
    """Run a few queries of every kind, of Parquet files and of an Iceberg table."""
    from pyspark.sql import SparkSession

    import twostage
    from tables import Table

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    twostage.enable(spark)
    rows = [(number, f"s{number % 3}", number / 2) for number in range(100)]
    spark.createDataFrame(rows, "id long, s string, d double").write.parquet("rows")
    spark.read.parquet("rows").createOrReplaceTempView("t")
    table = Table(Path("table").absolute(), {"id": "long", "s": "string", "d": "double"})
    table.append([{"id": number, "s": name, "d": half} for number, name, half in rows])
    location = str(table.write())
    ours = spark.read.format("twostage").load(location)
    ours.createOrReplaceTempView("u")
    for query in (
        "SELECT s, count(*), max(d) FROM t WHERE id > 5 GROUP BY s ORDER BY s",
        "SELECT a.id FROM t a JOIN t b ON a.id = b.id WHERE b.s = 's1' ORDER BY a.id DESC LIMIT 3",
        "SELECT /*+ MERGE(b) */ count(DISTINCT a.s) FROM t a LEFT JOIN t b ON a.id = b.id",
        "SELECT id, d FROM u WHERE s = 's1' AND id < 50 ORDER BY d DESC LIMIT 3",
        "SELECT a.d FROM u a JOIN t b ON a.id = b.id WHERE b.s = 's1'",
        "SELECT s, count(*) FROM u GROUP BY s",
        "SELECT count(*) FROM u",
    ):
        spark.sql(query).collect()
    ours.where("id = 5").show()
    ours.explain()
    twostage.last_scan(spark)
    spark.sparkContext.parallelize(range(4), 2).map(lambda number: number + 1).collect()
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        make(Path(sys.argv[1]))
    else:
        load_classes()
