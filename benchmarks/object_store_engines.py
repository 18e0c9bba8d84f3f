"""The engines of the object-store benchmark, each in a separate process, and their queries.

Takes an engine's name and a late store's port; returns for each query its seconds, the CPU seconds of the
process with its descendants, what the store saw, and a digest of the answer. DuckDB, DataFusion and Polars
read the data files directly, without Spark, and ignore deletes.

    python object_store_engines.py ENGINE PORT FOLDER CATALOG THREADS
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from late_s3 import ask_store
from object_store_table import BUCKET, INDEXES, TABLE, data_files, start_spark
from process_tree import ProcessTree

if TYPE_CHECKING:
    from collections.abc import Callable

HTTPFS = Path(sys.prefix, "duckdb-httpfs")
TWOSTAGE, ICEBERG, DUCKDB, DATAFUSION, POLARS = "twostage", "Iceberg", "DuckDB", "DataFusion", "Polars"
ENGINES = (TWOSTAGE, ICEBERG, DUCKDB, DATAFUSION, POLARS)
NEEDLE = "SELECT * FROM {t} WHERE number = "


def queries(rows: int) -> dict[str, str]:
    """Return the queries other than the needle by name; `{t}` is the table, of `rows` rows."""
    return {
        "count": "SELECT count(*) AS n FROM {t} WHERE device < 300",
        "scan of 3 columns": "SELECT sum(cast(device AS bigint)) AS d, max(price) AS p, max(score) AS s FROM {t} WHERE flag IS NOT NULL",
        "range": f"SELECT id, name, price FROM {{t}} WHERE id BETWEEN {rows // 3} AND {rows // 3 + rows // 100}",
        "TopN": "SELECT id, name, score FROM {t} ORDER BY score DESC, id LIMIT 10",
    }


def ask_of(
    engine: str, port: int, folder: Path, catalog: Path, threads: int
) -> Callable[[str, str], list[tuple[Any, ...]]]:
    """Start an engine; return a function that answers SQL with sorted rows.

    It takes SQL and the name of a branch, or of a kind of index to use, or "" for the table itself.
    """
    endpoint = f"127.0.0.1:{port}"
    if engine in (TWOSTAGE, ICEBERG):
        spark = start_spark(port, catalog, threads, iceberg=engine == ICEBERG)

        def by_spark(sql: str, branch: str) -> list[tuple[Any, ...]]:
            if engine == TWOSTAGE:
                reader = spark.read.format("twostage")
                if branch in INDEXES:
                    reader = reader.option("index.location", INDEXES[branch])
                elif branch:
                    reader = reader.option("branch", branch)
                reader.load(TABLE).createOrReplaceTempView("t")
                table = "t"
            else:
                table = f"{TABLE} VERSION AS OF '{branch}'" if branch else TABLE
            return sorted(map(tuple, spark.sql(sql.replace("{t}", table)).collect()))

        return by_spark
    urls = data_files(folder)
    if engine == DUCKDB:
        sys.path.insert(0, str(HTTPFS))
        import duckdb  # noqa: PLC0415

        connection = duckdb.connect()
        (extension,) = HTTPFS.rglob("httpfs.duckdb_extension")
        connection.execute(f"LOAD '{extension}'")
        for setting in (
            f"s3_endpoint='{endpoint}'",
            "s3_use_ssl=false",
            "s3_url_style='path'",
            "s3_region='us-east-1'",
            "s3_access_key_id='admin'",
            "s3_secret_access_key='password'",
            f"threads={threads}",
            "TimeZone='UTC'",
        ):
            connection.execute(f"SET {setting}")
        connection.execute(f"CREATE VIEW t AS SELECT * FROM read_parquet({urls!r})")

        def by_duckdb(sql: str, _: str) -> list[tuple[Any, ...]]:
            found = connection.execute(sql.replace("{t}", "t")).fetch_arrow_table()
            return sorted(tuple(row.values()) for row in found.to_pylist())

        return by_duckdb
    if engine == DATAFUSION:
        from datafusion import SessionConfig, SessionContext  # noqa: PLC0415
        from datafusion.object_store import AmazonS3  # noqa: PLC0415

        context = SessionContext(SessionConfig().with_target_partitions(threads))
        store = AmazonS3(
            bucket_name=BUCKET,
            region="us-east-1",
            access_key_id="admin",
            secret_access_key="password",
            endpoint=f"http://{endpoint}",
            allow_http=True,
        )
        context.register_object_store("s3://", store, BUCKET)
        context.sql("SET datafusion.execution.parquet.pushdown_filters = true").collect()
        plain = folder / BUCKET / "plain"  # the data files alone
        if not plain.exists():
            plain.mkdir()
            for url in urls:
                os.link(folder / url.removeprefix("s3://"), plain / url.rpartition("/")[2])

        def by_datafusion(sql: str, _: str) -> list[tuple[Any, ...]]:
            if not context.table_exist("t"):
                context.register_parquet("t", f"s3://{BUCKET}/plain/")
            found = context.sql(sql.replace("{t}", "t")).to_arrow_table()
            return sorted(tuple(row.values()) for row in found.to_pylist())

        return by_datafusion
    import polars  # noqa: PLC0415

    options = {
        "aws_endpoint_url": f"http://{endpoint}",
        "aws_access_key_id": "admin",
        "aws_secret_access_key": "password",
        "aws_region": "us-east-1",
        "aws_allow_http": "true",
        "aws_virtual_hosted_style_request": "false",
    }

    def by_polars(sql: str, _: str) -> list[tuple[Any, ...]]:
        frame = polars.scan_parquet(urls, storage_options=options)
        return sorted(polars.SQLContext(t=frame).execute(sql.replace("{t}", "t")).collect().rows())

    return by_polars


def serve(engine: str, port: int, folder: Path, catalog: Path, threads: int) -> None:
    """Answer queries from stdin, lines of JSON, with figures on stdout; the first line means that the engine runs."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever else is printed
    ask = ask_of(engine, port, folder, catalog, threads)
    out.write("{}\n")
    tree = ProcessTree(os.getpid())
    for line in sys.stdin:
        question = json.loads(line)
        ask_store(port, "reset")
        tree.used()
        started = time.perf_counter()
        try:
            rows = ask(question["sql"], question["branch"])
        except Exception as error:  # noqa: BLE001 - reported, and the others are still measured
            out.write(json.dumps({"error": f"{type(error).__name__}: {str(error)[:300]}"}) + "\n")
            continue
        seconds, used, store = time.perf_counter() - started, tree.used(), ask_store(port, "stats")
        answer = {"rows": len(rows), "ids": sorted(str(row[0]) for row in rows)[:50]}
        out.write(json.dumps({"seconds": seconds, "cpu": used.cpu, "answer": answer, **store}) + "\n")


class Engine:
    """An engine's process. Use it as a context manager."""

    def __init__(self, name: str, port: int, folder: Path, catalog: Path, threads: int) -> None:
        command = [sys.executable, __file__, name, str(port), str(folder), str(catalog), str(threads)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise RuntimeError(f"{name} does not start")

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def ask(self, sql: str, branch: str = "") -> dict[str, Any]:
        """Return one run's figures."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"sql": sql, "branch": branch}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        return dict(json.loads(line)) if line else {"error": "the engine ended"}


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        serve(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]), int(sys.argv[5]))
