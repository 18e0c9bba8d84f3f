"""Whether the advisor's predictions hold for TPC-DS: its 99 queries are logged, advised on, indexed and replayed.

    make bench-advisor-tpcds                     scale 1; the tables of make bench PAGES=tpcds, made if they are not there
    make bench-advisor-tpcds BENCH="--native never"      no scan is handed to Spark's own reader: all are twostage's, measured

The log is written by twostage's scans of the queries. For each table the advisor recommends indexes, once by
its own rules and once every index that is predicted to save anything; these are built in a separate folder,
and the log's scans are replayed without and with them, as by ``advise check --spark-scans``, to compare
predictions with measurements. Scans by Spark's reader are listed separately: they are replayed with
twostage's, as with ``scan.native=never``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import iceberg_session
import tpc_tables
from advisor_workload import index_all
from rich.console import Console
from rich.progress import track
from tpc_tables import TPCDS

from tpc import SIZES
from twostage.advisor.advise import advise
from twostage.advisor.collect import collect
from twostage.advisor.query_log import QueryLog
from twostage.advisor.replay import check_log
from twostage.options import parse_options

if TYPE_CHECKING:
    from twostage.advisor.replay import Replayed

MAX_REPLAYED = 20
"""Scans replayed per table at most, the heaviest."""
MAX_REPLAYED_BY_SPARK = 100
"""The same for scans by Spark's reader, most of which are short."""
console = Console(width=150)


def log_queries(warehouse: Path, scale: float, logs: Path, native: str = "auto") -> None:
    """Run every query once, with the query log on."""
    spark = iceberg_session.start(str(warehouse), **{"spark.driver.memory": "4g", "spark.log.level": "OFF"})
    if not tpc_tables.is_made(TPCDS, warehouse, scale):
        tpc_tables.make_tables(TPCDS, spark, warehouse, scale)
    session = spark.newSession()
    session.conf.set("spark.twostage.query-log", str(logs))
    for table in tpc_tables.tables(TPCDS, warehouse):
        reader = session.read.format("twostage").option("scan.native", native)
        frame = reader.load(f"{warehouse}/{TPCDS.name}/{table}")
        frame.createOrReplaceTempView(table)
    queries = tpc_tables.read_queries(warehouse)
    for number in track(sorted(queries), "asking", console=console):
        session.sql(queries[number]).toArrow()
    spark.stop()


def check_table(path: Path, logs: Path, folder: Path) -> dict[str, Any]:
    """Advise on a table, build what saves anything, and replay; return the figures."""
    options = parse_options({"path": str(path), "index.location": str(folder)})
    metadata = {str(path): collect(options, {})}
    choices = [
        {
            one.columns[0]: one.kinds
            for one in advise(str(logs), metadata=metadata, min_gain=gain, max_columns=most).recommendations
            if one.action == "index" and one.table == str(path)
        }
        for gain, most in ((0.02, None), (0.0, 20))
    ]
    recommended, built = choices
    refused = index_all(options, built) if built else {}
    # Each kind separately: among all scans, the heaviest might all be of one kind.
    ours = check_log([QueryLog(str(logs))], options, {}, name=str(path), queries=MAX_REPLAYED)
    both = check_log(
        [QueryLog(str(logs))], options, {}, name=str(path), queries=MAX_REPLAYED_BY_SPARK, spark_scans=True
    )
    by_spark = [scan for scan in both.replayed if scan.reader == "spark"]
    return {
        "table": path.name,
        "recommended": sorted(recommended),
        "built": sorted(set(built) - set(refused)),
        "refused": dict(both.refused),
        "replayed": [*ours.replayed, *by_spark],
    }


def show(tables: list[dict[str, Any]]) -> dict[str, Any]:
    """Print the figures of each table and of all; return the latter."""
    refused: Counter[str] = Counter()
    for one in tables:
        refused.update(one["refused"])
        errors = [scan.error for scan in one["replayed"] if scan.error is not None]
        median = f"median error {statistics.median(errors):.1%}" if errors else ""
        console.print(
            f"{one['table']}: recommended {', '.join(one['recommended']) or 'nothing'}; built "
            f"{', '.join(one['built']) or 'nothing'}; {len(one['replayed'])} scans replayed {median}"
        )
    every: list[Replayed] = [scan for one in tables for scan in one["replayed"]]
    figures: dict[str, Any] = {
        reader: _figures([scan for scan in every if scan.reader == reader])
        for reader in ("twostage", "spark")
    }
    figures["not_replayed"] = dict(refused.most_common())
    console.print(json.dumps(figures, indent=1))
    return figures


def _figures(replayed: list[Replayed]) -> dict[str, Any]:
    """Print the scans that indexes help, or were predicted to help, and return the figures of all."""
    predicted = [scan for scan in replayed if scan.predicted is not None and scan.error is not None]
    touched = [scan for scan in predicted if scan.saved or round(scan.predicted or 0.0)]
    figures = {
        "replayed": len(replayed),
        "median_error": statistics.median(scan.error or 0.0 for scan in predicted) if predicted else None,
        "helped": len(touched),
        "median_error_helped": statistics.median(scan.error or 0.0 for scan in touched) if touched else None,
        "bytes_without": sum(scan.bytes_without for scan in replayed),
        "saved": sum(scan.saved for scan in replayed),
        "predicted": sum(scan.predicted or 0.0 for scan in replayed),
    }
    for scan in sorted(touched, key=lambda scan: -scan.saved):
        console.print(
            f"  {scan.reader}: saved {scan.saved:,}, predicted {scan.predicted:,.0f}, of {scan.bytes_without:,} bytes: {scan.text[:90]}",
            highlight=False,
            markup=False,
        )
    return figures


def main() -> None:
    """Run it; the query log and the indexes go to a temporary folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--warehouse", type=Path, required=True, help="where the tables are kept")
    parser.add_argument(
        "--log", type=Path, help="a query log of the queries that is there: they are not asked"
    )
    parser.add_argument(
        "--native", choices=("auto", "never"), default="auto", help="scan.native of the queries"
    )
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    warehouse = given.warehouse.absolute()
    with tempfile.TemporaryDirectory(prefix="twostage-advisor-tpcds-") as folder:
        logs = given.log or Path(folder, "log")
        if not given.log:
            log_queries(warehouse, SIZES[given.size][0], logs, given.native)
        tables = [
            check_table(warehouse / TPCDS.name / name, logs, Path(folder, "indexes", name))
            for name in tpc_tables.tables(TPCDS, warehouse)
        ]
        figures = show(tables)
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
