"""TPC-DS and TPC-H at a small scale: rows and queries that DuckDB makes, as Parquet files and as Iceberg tables.

Takes `tpcds` or `tpch` and a folder; gives a Parquet file a table, a SQLite catalog in which PyIceberg wrote the same rows
(the large tables in three appends, each a range of a date, partitioned by another key), and the queries as Spark's SQL.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import sqlglot

DUCKDB = Path(sys.prefix, "duckdb-tpc")
"""DuckDB 1.5.5 with its extensions, for which no newer one is on PyPI: in a folder of its own (see the Makefile)."""
SCALE = 0.01
QUERIES = {"tpcds": 99, "tpch": 22}
_PARTS = {  # the column that partitions a table, and the one by which its appends are ranges
    "catalog_sales": ("cs_ship_mode_sk", "cs_sold_date_sk"),
    "inventory": ("inv_warehouse_sk", "inv_date_sk"),
    "lineitem": ("l_linenumber", "l_shipdate"),
    "orders": ("o_orderpriority", "o_orderdate"),
    "store_returns": ("sr_reason_sk", "sr_returned_date_sk"),
    "store_sales": ("ss_promo_sk", "ss_sold_date_sk"),
    "web_sales": ("ws_promo_sk", "ws_sold_date_sk"),
}
_APPENDS = 3
_MAKE = """
import importlib, json, sys
from pathlib import Path
import duckdb
kind, scale, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
connection = duckdb.connect()
connection.execute("SET enable_progress_bar = false")
package = Path(importlib.import_module(f"duckdb_extension_{kind}").__file__).parent
(extension,) = package.rglob("*.duckdb_extension")
connection.execute(f"LOAD '{extension}'")
connection.execute(f"CALL {'dsdgen' if kind == 'tpcds' else 'dbgen'}(sf={scale})")
for (name,) in connection.execute("SELECT table_name FROM information_schema.tables").fetchall():
    connection.execute(f"COPY {name} TO '{folder / name}.parquet' (FORMAT parquet)")
queries = connection.execute(f"FROM {kind}_queries()").fetchall()
Path(folder, "queries.json").write_text(json.dumps(dict(queries)))
"""


def make(kind: str, folder: Path) -> list[Path]:
    """Write all tables' rows and the queries into a folder, and return the tables' files."""
    subprocess.run(
        [sys.executable, "-c", _MAKE, kind, str(SCALE), str(folder)],
        env={**os.environ, "PYTHONPATH": str(DUCKDB)},
        check=True,
        timeout=280,
    )
    return sorted(folder.glob("*.parquet"))


def write_tables(kind: str, files: list[Path], root: Path) -> dict[str, str]:
    """Write the files' rows as Iceberg tables of a catalog named `kind` and return its properties."""
    from pyiceberg.catalog.sql import SqlCatalog

    uri, warehouse = f"sqlite:///{root}/catalog.db", f"file://{root}"
    catalog = SqlCatalog(kind, uri=uri, warehouse=warehouse)
    catalog.create_namespace("db")
    for file in files:
        rows = pq.read_table(file)
        table = catalog.create_table(("db", file.stem), schema=rows.schema)
        if file.stem not in _PARTS:
            table.append(rows)
            continue
        partition, order = _PARTS[file.stem]
        with table.update_spec() as update:
            update.add_identity(partition)
        rows = rows.sort_by(order)
        step = -(-len(rows) // _APPENDS)
        for first in range(0, len(rows), step):
            table.append(rows.slice(first, step))
    catalog.engine.dispose()
    return {"type": "jdbc", "uri": uri, "warehouse": warehouse}


def read_queries(folder: Path) -> dict[int, str]:
    """Return the queries by number, as Spark writes them."""
    queries = json.loads(Path(folder, "queries.json").read_text())
    return {int(number): sqlglot.transpile(text, "duckdb", "spark")[0] for number, text in queries.items()}
