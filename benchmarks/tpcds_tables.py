"""TPC-DS: rows and queries that DuckDB's extension makes, as tables that Iceberg's own connector writes.

Takes a folder and a scale; leaves a warehouse with the 24 tables in its namespace `tpcds` and the 99 queries as Spark's
SQL. Fact tables are partitioned by ranges of their date key (`truncate`), and one row in a hundred is deleted by
position. What is there already is used again.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import sqlglot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMESPACE = "tpcds"
DUCKDB = Path(sys.prefix, "duckdb-tpc")
"""DuckDB with its TPC extensions, in a folder of its own (see the Makefile)."""
DAYS_PER_PARTITION = 200
"""The five years of sales are in ten partitions."""
FACTS = {
    "catalog_returns": ("cr_returned_date_sk", "cr_item_sk, cr_order_number"),
    "catalog_sales": ("cs_sold_date_sk", "cs_item_sk, cs_order_number"),
    "inventory": ("inv_date_sk", "inv_date_sk, inv_item_sk, inv_warehouse_sk"),
    "store_returns": ("sr_returned_date_sk", "sr_item_sk, sr_ticket_number"),
    "store_sales": ("ss_sold_date_sk", "ss_item_sk, ss_ticket_number"),
    "web_returns": ("wr_returned_date_sk", "wr_item_sk, wr_order_number"),
    "web_sales": ("ws_sold_date_sk", "ws_item_sk, ws_order_number"),
}
"""The fact tables: the date key that partitions each, and the columns that tell its rows apart."""
_PROPERTIES = (
    "TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read', "
    "'write.delete.granularity' = 'file')"
)
_MAKE = """
import importlib, json, sys
from pathlib import Path
import duckdb
scale, folder = sys.argv[1], Path(sys.argv[2])
connection = duckdb.connect(str(folder / "rows.duckdb"), config={"threads": 2})
connection.execute("SET enable_progress_bar = false")
package = Path(importlib.import_module("duckdb_extension_tpcds").__file__).parent
(extension,) = package.rglob("*.duckdb_extension")
connection.execute(f"LOAD '{extension}'")
connection.execute(f"CALL dsdgen(sf={scale})")
for (name,) in connection.execute("SELECT table_name FROM information_schema.tables").fetchall():
    connection.execute(f"COPY {name} TO '{folder / name}.parquet' (FORMAT parquet)")
queries = connection.execute("FROM tpcds_queries()").fetchall()
Path(folder, "queries.json").write_text(json.dumps(dict(queries)))
"""


def is_made(warehouse: Path, scale: float) -> bool:
    """Return whether the tables are there."""
    done = warehouse / "done.json"
    return done.exists() and json.loads(done.read_text()) == {"scale": scale, "days": DAYS_PER_PARTITION}


def make_tables(spark: SparkSession, warehouse: Path, scale: float) -> None:
    """Make the tables with a session of `iceberg_session` over the warehouse, which is emptied first."""
    shutil.rmtree(warehouse, ignore_errors=True)
    raw = warehouse / "raw"
    raw.mkdir(parents=True)
    subprocess.run(
        [sys.executable, "-c", _MAKE, str(scale), str(raw)],
        env={**os.environ, "PYTHONPATH": str(DUCKDB)},
        check=True,
    )
    for file in sorted(raw.glob("*.parquet")):
        name = f"ice.{NAMESPACE}.{file.stem}"
        spark.read.parquet(str(file)).createOrReplaceTempView("raw")
        date, keys = FACTS.get(file.stem, (None, None))
        parts = "" if date is None else f"PARTITIONED BY (truncate({DAYS_PER_PARTITION}, {date}))"
        spark.sql(f"CREATE TABLE {name} USING iceberg {parts} {_PROPERTIES} AS SELECT * FROM raw")
        if keys is not None:
            spark.sql(f"DELETE FROM {name} WHERE pmod(xxhash64({keys}), 100) = 0")
    (raw / "queries.json").rename(warehouse / "queries.json")
    shutil.rmtree(raw)
    (warehouse / "done.json").write_text(json.dumps({"scale": scale, "days": DAYS_PER_PARTITION}))


def tables(warehouse: Path) -> list[str]:
    """Return the names of the tables."""
    return sorted(path.name for path in (warehouse / NAMESPACE).iterdir() if path.is_dir())


def read_queries(warehouse: Path) -> dict[int, str]:
    """Return the queries by number, as Spark writes them."""
    queries = json.loads((warehouse / "queries.json").read_text())
    return {int(number): sqlglot.transpile(text, "duckdb", "spark")[0] for number, text in queries.items()}
