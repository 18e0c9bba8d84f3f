"""The table that the delete benchmark reads: one set of data files, a branch for each set of delete files.

Takes a Spark session with Iceberg's runtime; writes branches of one table. Data files are written by
Iceberg's connector, delete files by Iceberg's Java library, which also commits them. Passing keys from Python
to the JVM one by one would be too slow: KeyFiles.java, which Spark's own compiler (Janino) compiles in its
JVM, takes all of a file's keys at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

NAME = "ice.db.orders"
PRIME = 2_147_483_647
"""Multiplier, modulo twice the rows: gives every number once, scattered; half of them are ids of rows."""
COMMITS = 10
"""Snapshots that add the delete files of a branch, so that their sequence numbers differ."""


@dataclass(frozen=True)
class Case:
    """Delete files of one kind: how many, and with how many keys each."""

    kind: str
    files: int
    keys: int

    @property
    def branch(self) -> str:
        """The branch with these delete files."""
        return f"{self.kind}_{self.files}" if self.files else "main"

    def __str__(self) -> str:
        return f"{self.files} x {self.keys:,} {self.kind} keys" if self.files else "no deletes"


def make_table(spark: SparkSession, rows: int) -> None:
    """Write the data: ids ascend, everything else is scattered."""
    spark.range(rows, numPartitions=4).selectExpr(
        "id",
        "concat('order-', lpad(cast(id AS string), 10, '0')) AS name",
        f"pmod(xxhash64(id, 1), {max(1, rows // 4)}) AS customer",
        "cast(pmod(xxhash64(id, 2), 1000003) AS double) / 100 AS amount",
        "timestamp_micros(1700000000000000 + id * 1000) AS placed",
        "elt(cast(pmod(xxhash64(id, 4), 5) AS int) + 1, 'DE', 'FR', 'US', 'IN', 'BR') AS country",
    ).createOrReplaceTempView("rows")
    spark.sql(
        f"CREATE TABLE {NAME} USING iceberg TBLPROPERTIES ('format-version' = '2') AS SELECT * FROM rows"
    )


def add_deletes(spark: SparkSession, case: Case, rows: int, writer: Any) -> None:
    """Commit the delete files of a case to its branch, each with the next keys; `writer` is from `key_files`."""
    jvm: Any = spark._jvm  # noqa: SLF001 - PySpark has no other way to Java
    iceberg = jvm.org.apache.iceberg
    table = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, NAME)  # noqa: SLF001
    spark.sql(f"ALTER TABLE {NAME} CREATE BRANCH {case.branch}")
    table.refresh()
    folder = Path(str(table.location()).removeprefix("file:"), "data", case.branch)
    folder.mkdir(parents=True)
    names = {"long": ["id"], "string": ["name"], "two": ["id", "name"]}[case.kind]
    field_ids = spark.sparkContext._gateway.new_array(jvm.int, len(names))  # type: ignore[union-attr]  # noqa: SLF001
    for place, name in enumerate(names):
        field_ids[place] = int(table.schema().findField(name).fieldId())
    for commit in range(min(COMMITS, case.files)):
        delta = table.newRowDelta().toBranch(case.branch)
        for number in range(commit, case.files, COMMITS):
            keys = scattered(number * case.keys, case.keys, rows).astype("<i8").tobytes()
            delta.addDeletes(writer.write(table, str(folder / f"{number:05d}.parquet"), field_ids, keys))
        delta.commit()
    spark.catalog.refreshTable(NAME)


def key_files(spark: SparkSession) -> Any:
    """Return an instance of KeyFiles, compiled now: it sees the session's classes, including Iceberg's jar.

    Once per session: py4j knows classes by name, and mistakes a recompiled class for the first one.
    """
    jvm: Any = spark._jvm  # noqa: SLF001 - PySpark has no other way to Java
    source = Path(__file__).with_name("KeyFiles.java")
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(source.read_text(encoding="utf-8"))
    return compiler.getClassLoader().loadClass("twostage_benchmark.KeyFiles").newInstance()


def scattered(first: int, count: int, rows: int) -> NDArray[np.int64]:
    """Return `count` keys from number `first` on."""
    return (np.arange(first, first + count, dtype=np.int64) * PRIME + 11) % (2 * rows)
