"""The table of the object-store benchmark, and the Spark sessions that read it.

Takes a late store's port and a folder; makes a table of many small files that Iceberg's connector writes
through that store (format version 2, later 3), with a branch for each kind of delete file.

    python object_store_table.py PORT CATALOG FILES ROWS BRANCHES
    python object_store_table.py PORT CATALOG
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iceberg_session import RUNTIME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES = f"{RUNTIME},org.apache.iceberg:iceberg-aws-bundle:{RUNTIME.rpartition(':')[2]},org.xerial:sqlite-jdbc:3.50.3.0"
BUCKET, TABLE = "lake", "lake.db.events"
BRANCHES = ("positions", "vectors", "keys")
INDEXES = {"postings": f"s3://{BUCKET}/indexes/rows", "files": f"s3://{BUCKET}/indexes/files"}
"""Locations of the needle column's indexes, by kind; scans look there only if told to."""
COLUMNS = """
  id, cast(pmod(xxhash64(id), 1000000007) AS long) AS number, concat('u', hex(xxhash64(id, 7))) AS name,
  timestamp_micros(1700000000000000 + id * 250000) AS placed, concat('kind-', id % 37) AS kind,
  cast(xxhash64(id, 1) & 1023 AS int) AS bucket, cast(pmod(xxhash64(id, 2), 100000) AS int) AS device,
  xxhash64(id, 3) AS session, cast(pmod(xxhash64(id, 4), 1000000) AS double) / 100 AS price,
  cast(pmod(xxhash64(id, 5), 1000003) AS double) AS score, cast(pmod(xxhash64(id, 6), 90) AS float) AS latitude,
  cast(pmod(xxhash64(id, 8), 180) AS float) AS longitude, id % 3 = 0 AS flag,
  date_add(DATE'2024-01-01', cast(id / 20000 AS int)) AS day, cast(pmod(xxhash64(id, 9), 1000000) AS decimal(12, 2)) AS amount,
  concat('country-', pmod(xxhash64(id, 10), 190)) AS country,
  if(id % 5 = 0, null, concat('ref-', pmod(xxhash64(id, 11), 5000))) AS referrer,
  cast(pmod(xxhash64(id, 12), 16) AS int) AS version, concat('/path/', pmod(xxhash64(id, 13), 400), '/page') AS url,
  base64(unhex(sha2(cast(id AS string), 512))) AS payload
"""


def start_spark(port: int, catalog: Path, threads: int, *, iceberg: bool) -> SparkSession:
    """Start Spark with the catalog `lake`, of Iceberg's connector or of twostage, both over one SQLite file."""
    os.environ.update(AWS_REGION="us-east-1", AWS_ACCESS_KEY_ID="admin", AWS_SECRET_ACCESS_KEY="password")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession  # noqa: PLC0415

    confs = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "3g",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
    }
    own = {
        "warehouse": f"s3://{BUCKET}/wh",
        "s3.endpoint": f"http://127.0.0.1:{port}",
        "s3.path-style-access": "true",
        "s3.access-key-id": "admin",
        "s3.secret-access-key": "password",
        "s3.region": "us-east-1",
        "client.region": "us-east-1",
    }
    if iceberg:
        confs["spark.jars.packages"] = PACKAGES
        confs["spark.sql.extensions"] = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        confs["spark.sql.catalog.lake"] = "org.apache.iceberg.spark.SparkCatalog"
        own |= {
            "s3.multipart.part-size-bytes": str(2**29),  # the late store takes only whole objects
            "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri": f"jdbc:sqlite:file:{catalog}",
            "jdbc.schema-version": "V1",
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        }
    else:
        confs["spark.sql.catalog.lake"] = "twostage"
        own |= {"type": "sql", "uri": f"sqlite:///{catalog}"}
    builder = SparkSession.builder.master(f"local[{threads}]")
    for key, value in (
        confs | {f"spark.sql.catalog.lake.{key}": value for key, value in own.items()}
    ).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    if not iceberg:
        import twostage  # noqa: PLC0415

        twostage.enable(session)
    return session


def make_table(port: int, catalog: Path, files: int, rows: int, *, has_branches: bool = True) -> None:
    """Write the table and, if wanted, its branches, in a separate session."""
    spark = start_spark(port, catalog, 2, iceberg=True)
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
    spark.range(0, files * rows, 1, files).createOrReplaceTempView("rows")
    spark.sql(
        f"CREATE TABLE {TABLE} USING iceberg TBLPROPERTIES ('format-version'='2', 'write.distribution-mode'='none', "
        "'write.delete.mode'='merge-on-read', 'write.delete.granularity'='file') "
        f"AS SELECT {COLUMNS} FROM rows"
    )
    if has_branches:
        make_branches(spark, files, rows)
    spark.stop()


def make_branches(spark: SparkSession, files: int, rows: int) -> None:
    """Commit deletes of each kind to a branch."""
    make_keys(spark, files * rows)
    deleted = f"id % {rows} IN (11, 12, 1500)"
    for branch, version in (("positions", 2), ("vectors", 3)):
        spark.sql(f"ALTER TABLE {TABLE} SET TBLPROPERTIES ('format-version'='{version}')")
        spark.sql(f"ALTER TABLE {TABLE} CREATE BRANCH {branch}")
        spark.sql(f"DELETE FROM {TABLE}.branch_{branch} WHERE {deleted}")


def make_indexes(port: int, catalog: Path) -> None:
    """Index the needle's column, in a separate session."""
    import twostage  # noqa: PLC0415

    spark = start_spark(port, catalog, 2, iceberg=False)
    for kind, location in INDEXES.items():
        folder = catalog.parent / location.removeprefix("s3://")  # the store takes no multipart uploads
        twostage.index(spark, TABLE, {"index.location": str(folder)}).create(["number"], kind)
    spark.stop()


def make_keys(spark: SparkSession, rows: int, files: int = 20, keys: int = 500) -> None:
    """Commit equality-delete files with numbers of rows as keys to the branch `keys`."""
    import numpy as np  # noqa: PLC0415
    from delete_tables import key_files  # noqa: PLC0415

    jvm: Any = spark._jvm  # noqa: SLF001 - PySpark has no other way to Java
    table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, TABLE)  # noqa: SLF001
    spark.sql(f"ALTER TABLE {TABLE} CREATE BRANCH keys")
    table.refresh()
    ids = spark.sparkContext._gateway.new_array(jvm.int, 1)  # type: ignore[union-attr]  # noqa: SLF001
    ids[0] = int(table.schema().findField("number").fieldId())
    step = max(1, rows // (files * keys))
    chosen = spark.sql(f"SELECT number FROM {TABLE} WHERE id % {step} = 3").toArrow()["number"].to_numpy()
    writer, delta = key_files(spark), table.newRowDelta().toBranch("keys")
    for place, part in enumerate(np.array_split(chosen[: files * keys], files)):
        path = f"{table.location()}/data/key-deletes-{place:03}.parquet"
        delta.addDeletes(writer.write(table, path, ids, part.astype("<i8").tobytes()))
    delta.commit()
    spark.catalog.refreshTable(TABLE)


def data_files(folder: Path) -> list[str]:
    """Return the URLs of the data files; delete files are beside them."""
    found = sorted((folder / BUCKET / "wh").rglob("data/*.parquet"))
    return [f"s3://{path.relative_to(folder)}" for path in found if "deletes" not in path.name]


def number_of(folder: Path) -> int:
    """Return the number of a row that no branch deletes, from a file in the middle."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    urls = data_files(folder)
    table = pq.read_table(folder / urls[len(urls) // 2].removeprefix("s3://"), columns=["number"])
    return int(table["number"][7].as_py())


def size_of(folder: Path) -> int:
    """Return the bytes of the data files."""
    return sum((folder / url.removeprefix("s3://")).stat().st_size for url in data_files(folder))


if __name__ == "__main__":
    if len(sys.argv) > 3:
        make_table(
            int(sys.argv[1]),
            Path(sys.argv[2]),
            int(sys.argv[3]),
            int(sys.argv[4]),
            has_branches=sys.argv[5] == "branches",
        )
    else:
        make_indexes(int(sys.argv[1]), Path(sys.argv[2]))
