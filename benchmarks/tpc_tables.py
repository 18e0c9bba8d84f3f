"""TPC-DS and TPC-H: rows and queries that DuckDB's extensions make, as tables that Iceberg's own connector writes.

Takes a folder and a scale; leaves a warehouse with the tables in a namespace of the benchmark's name and the queries as Spark's
SQL. Fact tables are partitioned by ranges of their date, and one row in a hundred is deleted by position. What is there already
is used again.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import sqlglot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

DUCKDB = Path(sys.prefix, "duckdb-tpc")
"""DuckDB with its TPC extensions, in a folder of its own (see the Makefile)."""
DAYS_PER_PARTITION = 200
"""The five years of sales are in ten partitions."""
_TPCDS_FACTS = {
    "catalog_returns": ("cr_returned_date_sk", "cr_item_sk, cr_order_number"),
    "catalog_sales": ("cs_sold_date_sk", "cs_item_sk, cs_order_number"),
    "inventory": ("inv_date_sk", "inv_date_sk, inv_item_sk, inv_warehouse_sk"),
    "store_returns": ("sr_returned_date_sk", "sr_item_sk, sr_ticket_number"),
    "store_sales": ("ss_sold_date_sk", "ss_item_sk, ss_ticket_number"),
    "web_returns": ("wr_returned_date_sk", "wr_item_sk, wr_order_number"),
    "web_sales": ("ws_sold_date_sk", "ws_item_sk, ws_order_number"),
}


@dataclass(frozen=True)
class Benchmark:
    """One of the TPC's benchmarks.

    Attributes:
        name: As DuckDB's extension has it, and the namespace of the tables.
        title: As people write it.
        generator: DuckDB's function that makes the rows.
        num_queries: How many there are, numbered from 1.
        facts: The fact tables: what each is partitioned by, and the columns that tell its rows apart.
        layout: How the fact tables are laid out, for the page.
        parameters: What else the tables depend on: with others they are made anew.
    """

    name: str
    title: str
    generator: str
    num_queries: int
    facts: Mapping[str, tuple[str, str]]
    layout: str
    parameters: Mapping[str, int] = field(default_factory=dict)


TPCDS = Benchmark(
    "tpcds",
    "TPC-DS",
    "dsdgen",
    99,
    {name: (f"truncate({DAYS_PER_PARTITION}, {date})", keys) for name, (date, keys) in _TPCDS_FACTS.items()},
    f"the seven fact tables partitioned by ranges of {DAYS_PER_PARTITION} days of their date key\n(`truncate`)",
    {"days": DAYS_PER_PARTITION},
)
TPCH = Benchmark(
    "tpch",
    "TPC-H",
    "dbgen",
    22,
    {
        "lineitem": ("years(l_shipdate)", "l_orderkey, l_linenumber"),
        "orders": ("years(o_orderdate)", "o_orderkey"),
    },
    "`lineitem` and `orders` partitioned by the years of their dates",
)
BENCHMARKS = {one.name: one for one in (TPCDS, TPCH)}
_PROPERTIES = (
    "TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read', "
    "'write.delete.granularity' = 'file')"
)
_MAKE = """
import importlib, json, sys
from pathlib import Path
import duckdb
name, generator, scale, folder = *sys.argv[1:4], Path(sys.argv[4])
connection = duckdb.connect(str(folder / "rows.duckdb"), config={"threads": 2})
connection.execute("SET enable_progress_bar = false")
package = Path(importlib.import_module(f"duckdb_extension_{name}").__file__).parent
(extension,) = package.rglob("*.duckdb_extension")
connection.execute(f"LOAD '{extension}'")
connection.execute(f"CALL {generator}(sf={scale})")
for (table,) in connection.execute("SELECT table_name FROM information_schema.tables").fetchall():
    connection.execute(f"COPY {table} TO '{folder / table}.parquet' (FORMAT parquet)")
queries = connection.execute(f"FROM {name}_queries()").fetchall()
Path(folder, "queries.json").write_text(json.dumps(dict(queries)))
"""


def driver_memory(scale: float) -> str:
    """Return Spark's heap, as `spark.driver.memory` has it: of the run and of what the page says."""
    return "4g" if scale <= 1 else "12g"


def is_made(benchmark: Benchmark, warehouse: Path, scale: float) -> bool:
    """Return whether the tables are there."""
    done = warehouse / "done.json"
    return done.exists() and json.loads(done.read_text()) == {"scale": scale, **benchmark.parameters}


def make_tables(benchmark: Benchmark, spark: SparkSession, warehouse: Path, scale: float) -> None:
    """Make the tables with a session of `iceberg_session` over the warehouse, which is emptied first."""
    shutil.rmtree(warehouse, ignore_errors=True)
    raw = warehouse / "raw"
    raw.mkdir(parents=True)
    subprocess.run(
        [sys.executable, "-c", _MAKE, benchmark.name, benchmark.generator, str(scale), str(raw)],
        env={**os.environ, "PYTHONPATH": str(DUCKDB)},
        check=True,
    )
    for file in sorted(raw.glob("*.parquet")):
        name = f"ice.{benchmark.name}.{file.stem}"
        spark.read.parquet(str(file)).createOrReplaceTempView("raw")
        ranges, keys = benchmark.facts.get(file.stem, (None, None))
        parts = "" if ranges is None else f"PARTITIONED BY ({ranges})"
        spark.sql(f"CREATE TABLE {name} USING iceberg {parts} {_PROPERTIES} AS SELECT * FROM raw")
        if keys is not None:
            spark.sql(f"DELETE FROM {name} WHERE pmod(xxhash64({keys}), 100) = 0")
    (raw / "queries.json").rename(warehouse / "queries.json")
    shutil.rmtree(raw)
    (warehouse / "done.json").write_text(json.dumps({"scale": scale, **benchmark.parameters}))


def tables(benchmark: Benchmark, warehouse: Path) -> list[str]:
    """Return the names of the tables."""
    return sorted(path.name for path in (warehouse / benchmark.name).iterdir() if path.is_dir())


def read_queries(warehouse: Path) -> dict[int, str]:
    """Return the queries by number, as Spark writes them."""
    queries = json.loads((warehouse / "queries.json").read_text())
    return {int(number): sqlglot.transpile(text, "duckdb", "spark")[0] for number, text in queries.items()}
