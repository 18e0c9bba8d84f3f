"""The tables of the benchmark of indexes, written by Iceberg's own connector, and their indexes, by twostage.

Takes a folder and a size; writes a warehouse with `wide`, rows of many columns in few files, `small_files`,
whose scattered keys are in about three files each, and `wanted`, some of these keys. The first two have
Parquet Bloom filters. Existing tables are reused.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_tables import ROWS_PER_FILE, wide_columns
from iceberg_session import start
from queries import KEYS_OF_A_FILE, SIZES, SMALL_FILES, TAGS, WANTED_KEYS

import twostage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = 40
BLOOM = "'write.parquet.bloom-filter-enabled.column.{}' = 'true'"
BLOOM_COLUMNS = ("m1", "device", "user_id", "key")
TAG = f"concat('tag-', lpad(cast(pmod(xxhash64(id, {{}}), {TAGS}) AS string), 6, '0'))"
INDEXES = (
    ("wide", "m1", "postings,files"),
    ("wide", "user_id", "postings,values"),
    ("wide", "device", "postings,sorted"),
    ("wide", "m0", "sorted"),
    ("wide", "country", "values"),
    ("wide", "half", "values"),
    ("wide", "tags", "elements"),
    ("small_files", "key", "files"),
)
"""Tables, columns, kinds."""


def make_tables(warehouse: Path, size: str) -> None:
    """Make the tables and their indexes, unless they exist."""
    done = warehouse / "done.json"
    asked = {"size": size, "indexes": [list(one) for one in INDEXES]}
    if done.exists() and json.loads(done.read_text())["asked"] == asked:
        return
    shutil.rmtree(warehouse, ignore_errors=True)
    warehouse.mkdir(parents=True)
    spark = start(str(warehouse))
    rows = SIZES[size].rows
    files, keys = SMALL_FILES[size], KEYS_OF_A_FILE[size]
    scattered = f"pmod(xxhash64(id, 1), {files * keys // 3})"
    small = ["id", f"{scattered} AS key", *wide_columns(files * keys, 10)[2:]]
    wide = [*wide_columns(rows, COLUMNS), f"array({TAG.format(7)}, {TAG.format(8)}) AS tags"]
    tables = {
        "wide": _make(spark, "wide", rows, max(4, rows // ROWS_PER_FILE), wide, 2**20),
        "small_files": _make(spark, "small_files", files * keys, files, small, max(2**13, 2 * keys)),
    }
    wanted = f"cast(id % {WANTED_KEYS.step} = {WANTED_KEYS.start} AS int) AS is_wanted"
    _make(spark, "wanted", WANTED_KEYS.stop, 1, ["id AS key", wanted], 2**13)
    indexes = []
    for table, column, kinds in INDEXES:
        owned = twostage.index(spark, f"{warehouse}/db/{table}")
        started = time.perf_counter()
        owned.create([column], kinds)
        seconds = time.perf_counter() - started
        (status,) = [one for one in owned.list() if column in one.columns]
        if status.indexed != status.data_files:
            raise AssertionError(f"{table}.{column}: {status.indexed} of {status.data_files} files")
        indexes.append(
            {
                "table": table,
                "columns": f"{column} ({kinds.replace(',', ', ')})",
                "bytes": status.nbytes,
                "seconds": round(seconds, 2),
            }
        )
        tables[table] |= {"files": status.data_files, "bytes": status.table_bytes}
    spark.stop()
    done.write_text(json.dumps({"asked": asked, "tables": tables, "indexes": indexes}))


def _make(
    spark: SparkSession, name: str, rows: int, files: int, columns: list[str], bloom_bytes: int
) -> dict[str, Any]:
    """Write a table; return its size."""
    blooms = ", ".join(
        BLOOM.format(column) for column in BLOOM_COLUMNS if any(_is(one, column) for one in columns)
    )
    spark.range(rows, numPartitions=files).selectExpr(*columns).createOrReplaceTempView("rows")
    spark.sql(
        f"CREATE TABLE ice.db.{name} USING iceberg TBLPROPERTIES ('format-version' = '2', {blooms}, "
        f"'write.parquet.bloom-filter-max-bytes' = '{bloom_bytes}') AS SELECT * FROM rows"
    )
    return {"rows": rows, "columns": len(columns)}


def _is(expression: str, column: str) -> bool:
    return expression.endswith(f" AS {column}")


if __name__ == "__main__":
    make_tables(Path(sys.argv[1]), sys.argv[2])
