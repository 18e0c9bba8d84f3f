"""The engines, each with the same three methods: `names` of the wide table, `run` a query, `answer` it.

`run` is timed: it materializes all rows, as Arrow in memory or inside Spark, and drops them. `answer` returns
the text that engines are compared by. All use two threads, and one process for the core alone.
"""

from __future__ import annotations

import os
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import answers
from queries import (
    CONDITIONS,
    CORE,
    CORE_NO_INDEX,
    DATAFUSION,
    DUCKDB,
    ICEBERG,
    IDS,
    IN_SPARK,
    LISTED,
    NO_INDEX,
    OPTIONS,
    POLARS,
    SPARK,
    TABLES,
    Query,
    wanted_users,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

THREADS = 2
os.environ.setdefault("POLARS_MAX_THREADS", str(THREADS))


class Stopped(Exception):  # noqa: N818 - nothing went wrong
    """A query took longer than allowed."""


class Engine(Protocol):
    """What the benchmark requires of an engine."""

    def names(self) -> list[str]:
        """Return the wide table's columns."""

    def run(self, query: Query, sql: str, cap: float) -> None:
        """Run a query and drop the answer."""

    def answer(self, query: Query, sql: str, cap: float) -> str:
        """Return what the answer is compared by."""


def data_files(warehouse: str, table: str) -> list[str]:
    """Return the data files of a table written by Iceberg's connector; delete files are beside them."""
    found = Path(warehouse, "db", table, "data").rglob("*.parquet")
    return sorted(str(path) for path in found if not path.name.endswith("-deletes.parquet"))


class InSpark:
    """One way of reading through Spark; all share one session."""

    def __init__(self, warehouse: str, name: str) -> None:
        from iceberg_session import start  # noqa: PLC0415 - the others need no Spark

        self._spark = start(warehouse)
        self._name = name
        self._views: dict[tuple[str, str], str] = {}
        self._warehouse = warehouse

    def _frame(self, table: str, branch: str) -> DataFrame:
        location = f"{self._warehouse}/db/{table}"
        if self._name == SPARK:
            return self._spark.read.parquet(*data_files(self._warehouse, table))
        if self._name == ICEBERG:
            version = f" VERSION AS OF '{branch}'" if branch else ""
            return self._spark.sql(f"SELECT * FROM ice.db.{table}{version}")
        options = OPTIONS[self._name] | ({"branch": branch} if branch else {})
        if self._name == CONDITIONS:
            options["filter.cache-dir"] = f"{self._warehouse}/filter-cache"
        return self._spark.read.format("twostage").options(**options).load(location)

    def _statement(self, query: Query, sql: str) -> str:
        if self._name == LISTED:
            sql = query.listed
        if f"{{{IDS}}}" in sql:
            ids = [(user,) for user in wanted_users(10)]
            self._spark.createDataFrame(ids, "user_id long").createOrReplaceTempView(IDS)
            sql = sql.replace(f"{{{IDS}}}", IDS)
        for table in TABLES:
            if f"{{{table}}}" not in sql:
                continue
            key = (table, query.branch)
            if key not in self._views:
                self._views[key] = f"{table}_{query.branch}_{IN_SPARK.index(self._name)}"
                self._frame(table, query.branch).createOrReplaceTempView(self._views[key])
            sql = sql.replace(f"{{{table}}}", self._views[key])
        return sql

    def names(self) -> list[str]:
        return list(self._frame("wide", "").columns)

    def run(self, query: Query, sql: str, cap: float) -> None:
        def work() -> None:
            frame = self._spark.sql(self._statement(query, sql))
            if query.returns_rows:
                frame.write.format("noop").mode("overwrite").save()
            else:
                frame.collect()

        self._capped(work, cap)

    def answer(self, query: Query, sql: str, cap: float) -> str:
        statement = self._statement(query, sql)
        if not query.is_large:
            return self._capped(lambda: _digest(query, self._spark.sql(statement).toArrow()), cap)
        summed = answers.sums_in_spark(self._spark.sql(statement).dtypes, statement)
        return self._capped(
            lambda: answers.digest(self._spark.sql(summed).toArrow(), exact=False), cap
        ).replace("1 rows", "sums")

    def _capped(self, work: Any, cap: float) -> Any:
        """Run something in Spark, for at most `cap` seconds."""
        is_late = threading.Event()

        def stop() -> None:
            is_late.set()
            self._spark.sparkContext.cancelAllJobs()

        timer = threading.Timer(cap, stop)
        timer.start()
        try:
            return work()
        except Exception as error:
            if is_late.is_set():
                raise Stopped from error
            raise
        finally:
            timer.cancel()


class OutsideSpark:
    """An engine that returns Arrow tables; by default it reads the data files, and ignores deletes."""

    def __init__(self, warehouse: str) -> None:
        self.files = {table: found for table in TABLES if (found := data_files(warehouse, table))}

    def names(self) -> list[str]:
        import pyarrow.parquet as pq  # noqa: PLC0415

        return list(pq.read_schema(self.files["wide"][0]).names)

    def table(self, query: Query, sql: str) -> pa.Table:
        """Return the rows."""
        raise NotImplementedError

    def run(self, query: Query, sql: str, cap: float) -> None:
        self.table(query, sql)

    def answer(self, query: Query, sql: str, cap: float) -> str:
        found = self.table(query, sql)
        return answers.sums(found).replace("1 rows", "sums") if query.is_large else _digest(query, found)


def _digest(query: Query, table: pa.Table) -> str:
    return answers.digest(table, exact=query.returns_rows)


def _plain(sql: str) -> str:
    return sql.replace("{", "").replace("}", "")


class DuckDB(OutsideSpark):
    """DuckDB over the data files."""

    def __init__(self, warehouse: str) -> None:
        super().__init__(warehouse)
        import duckdb  # noqa: PLC0415

        self._connection = duckdb.connect(config={"threads": THREADS})
        self._connection.execute("SET TimeZone = 'UTC'")
        for table, files in self.files.items():
            self._connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet({files!r})")

    def table(self, query: Query, sql: str) -> pa.Table:
        return self._connection.sql(_plain(sql)).to_arrow_table()


class Polars(OutsideSpark):
    """Polars over the data files."""

    def __init__(self, warehouse: str) -> None:
        super().__init__(warehouse)
        import polars  # noqa: PLC0415

        self._context = polars.SQLContext(
            {table: polars.scan_parquet(files) for table, files in self.files.items()}
        )

    def table(self, query: Query, sql: str) -> pa.Table:
        return self._context.execute(_plain(sql), eager=True).to_arrow()


class DataFusion(OutsideSpark):
    """DataFusion over the data files, with its late materialization, which is off by default."""

    def __init__(self, warehouse: str) -> None:
        super().__init__(warehouse)
        import datafusion  # noqa: PLC0415

        config = datafusion.SessionConfig().with_target_partitions(THREADS)
        config = config.set("datafusion.execution.parquet.pushdown_filters", "true")
        self._context = datafusion.SessionContext(config)
        self._links = (
            tempfile.TemporaryDirectory()
        )  # it takes only folders, and delete files are beside data files
        for table, files in self.files.items():
            folder = Path(self._links.name, table)
            folder.mkdir()
            for file in files:
                (folder / Path(file).name).symlink_to(file)
            self._context.register_parquet(table, folder)

    def table(self, query: Query, sql: str) -> pa.Table:
        return self._context.sql(_plain(sql)).to_arrow_table()


class Core(OutsideSpark):
    """twostage without Spark: plan, and read one group of data files per thread."""

    own: ClassVar[dict[str, str]] = {}
    """Its options."""

    def __init__(self, warehouse: str) -> None:
        super().__init__(warehouse)
        self._folder = f"{warehouse}/db"

    def table(self, query: Query, sql: str) -> pa.Table:
        import pyarrow as pa  # noqa: PLC0415

        from twostage.catalog.load_table import load_table  # noqa: PLC0415
        from twostage.columns import arrow_schema  # noqa: PLC0415
        from twostage.metrics import Metrics  # noqa: PLC0415
        from twostage.options import parse_options  # noqa: PLC0415
        from twostage.planning.plan import plan_scan  # noqa: PLC0415
        from twostage.predicates.predicate import TRUE  # noqa: PLC0415
        from twostage.predicates.sql_filter import parse_filter  # noqa: PLC0415
        from twostage.reading.pipeline import read_group  # noqa: PLC0415

        given = {"path": f"{self._folder}/{query.table}", **self.own}
        options = parse_options(given | ({"branch": query.branch} if query.branch else {}))
        table = load_table(options)
        fields = table.schema.fields
        projection = fields if query.columns == "*" else fields[: int(query.columns)]
        plan = plan_scan(
            table,
            options,
            projection=projection,
            predicate=parse_filter(query.where, table.schema) if query.where else TRUE,
            hint=TRUE,
            limit=None,
            parallelism=THREADS,
            scan_id="core",
        )
        with ThreadPoolExecutor(THREADS) as threads:
            read = threads.map(lambda group: list(read_group(group, Metrics())), plan.groups)
            batches = [batch for group in read for batch in group]
        return pa.Table.from_batches(batches, arrow_schema(projection))


class CoreWithoutIndex(Core):
    """The same, with neither indexes nor what Parquet files hold for leaving rows out."""

    own = OPTIONS[NO_INDEX]


OUTSIDE: dict[str, type[OutsideSpark]] = {
    DUCKDB: DuckDB,
    POLARS: Polars,
    DATAFUSION: DataFusion,
    CORE: Core,
    CORE_NO_INDEX: CoreWithoutIndex,
}


def start_engine(warehouse: str, name: str) -> Engine:
    """Return the engine with this name, ready to answer."""
    return InSpark(warehouse, name) if name in IN_SPARK else OUTSIDE[name](warehouse)
