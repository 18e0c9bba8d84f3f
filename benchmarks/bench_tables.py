"""The tables that the benchmark reads, written by Iceberg's own connector.

Takes a folder and a size; writes a warehouse: `wide`, `users` to join it with, and TPC-H's `lineitem`,
`orders` and `part`. Each has a branch with positional deletes, one row in a hundred. Existing tables are
reused.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from queries import DELETED, SIZES, Size, users_of, wanted_users

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS_PER_FILE = 750_000
PROPERTIES = (
    "TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read', "
    "'write.delete.granularity' = 'file')"
)
KEYS = {"wide": "id", "lineitem": "l_orderkey, l_linenumber", "orders": "o_orderkey", "part": "p_partkey"}


def make_tables(warehouse: Path, size: Size) -> None:
    """Make the tables, unless they exist."""
    done = warehouse / "done.json"
    wanted = json.dumps(
        {"rows": size.rows, "columns": size.columns, "scale": size.scale, "users": users_of(size)}
    )
    if done.exists() and done.read_text() == wanted:
        return
    shutil.rmtree(warehouse, ignore_errors=True)
    warehouse.mkdir(parents=True)
    from iceberg_session import start  # noqa: PLC0415 - only if something is to be made

    spark = start(str(warehouse))
    spark.sparkContext.setLogLevel("ERROR")
    make_wide(spark, size)
    spark.range(users_of(size), numPartitions=1).selectExpr(*user_columns()).createOrReplaceTempView("rows")
    spark.sql(f"CREATE TABLE ice.db.users USING iceberg {PROPERTIES} AS SELECT * FROM rows")
    make_tpch(spark, warehouse, size.scale)
    for table in ("lineitem", "orders", "part"):
        delete_some(spark, table)
    spark.stop()
    done.write_text(wanted)


def make_wide(spark: SparkSession, size: Size) -> None:
    """Write the wide table, and its branch with deletes."""
    spark.range(size.rows, numPartitions=max(2, size.rows // ROWS_PER_FILE)).selectExpr(
        *wide_columns(size.rows, size.columns)
    ).createOrReplaceTempView("rows")
    spark.sql(f"CREATE TABLE ice.db.wide USING iceberg {PROPERTIES} AS SELECT * FROM rows")
    delete_some(spark, "wide")


def delete_some(spark: SparkSession, table: str) -> None:
    """Delete one row in a hundred on a branch of a table."""
    spark.sql(f"ALTER TABLE ice.db.{table} CREATE BRANCH {DELETED}")
    spark.sql(f"DELETE FROM ice.db.{table}.branch_{DELETED} WHERE pmod(xxhash64({KEYS[table]}), 100) = 0")


def wide_columns(rows: int, columns: int) -> list[str]:
    """Return the expressions of the wide table: ids ascend, everything else is scattered."""
    parts = [
        "id",
        f"pmod(xxhash64(id, 1), {max(1, rows // 12)}) AS user_id",  # as `users_of` counts them
        f"concat('device-', lpad(cast(pmod(xxhash64(id, 2), {max(1, rows // 3)}) AS string), 6, '0')) AS device",
        "cast(pmod(xxhash64(id, 3), 10) AS int) AS half",
        "timestamp_micros(1700000000000000 + id * 1000) AS ts",
        "elt(cast(pmod(xxhash64(id, 4), 5) AS int) + 1, 'DE', 'FR', 'US', 'IN', 'BR') AS country",
    ]
    for number in range(columns - len(parts)):
        scattered = f"xxhash64(id, {number + 10})"
        parts.append(
            (
                f"cast(pmod({scattered}, 1000000007) AS double) / 1000 AS m{number}",
                f"pmod({scattered}, 1000000007) AS m{number}",
                f"cast(pmod({scattered}, 1000) AS int) AS m{number}",
                f"concat('v', cast(pmod({scattered}, 5000) AS string)) AS m{number}",
            )[number % 4]
        )
    return parts


def user_columns() -> list[str]:
    """Return the expressions of the table of users: `is_of_<keys>` is 1 for `<keys>` of them, `wanted_users`."""
    wanted = (
        f"cast(id < {found.stop} AND id % {found.step} = {found.start} AS int) AS is_of_{keys}"
        for keys in (10, 1_000)
        for found in [wanted_users(keys)]
    )
    return ["id AS user_id", "concat('user-', id) AS name", *wanted]


def make_tpch(spark: SparkSession, warehouse: Path, scale: float) -> None:
    """Write three of TPC-H's tables."""
    raw = warehouse / "raw"
    generator = Path(sys.executable).parent / "tpchgen-cli"
    tables = ("lineitem", "orders", "part")
    options = ["-s", str(scale), "--tables", ",".join(tables), "--output-dir", str(raw)]
    subprocess.run([generator, "parquet", *options], check=True, stdout=subprocess.DEVNULL)
    for table in tables:
        spark.read.parquet(f"{raw}/{table}.parquet").createOrReplaceTempView("raw")
        spark.sql(f"CREATE TABLE ice.db.{table} USING iceberg {PROPERTIES} AS SELECT * FROM raw")
    shutil.rmtree(raw)


if __name__ == "__main__":
    make_tables(Path(sys.argv[1]), SIZES[sys.argv[2]])
    print(asdict(SIZES[sys.argv[2]]))
