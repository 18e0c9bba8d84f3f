"""What the benchmark runs: tables, engines and queries, page by page.

A page is measured and shown together. Every query has one text that all engines understand; table names are
in braces, because each engine has its own names for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import xxhash

if TYPE_CHECKING:
    from collections.abc import Iterable

TWOSTAGE = "twostage"
UNVERIFIED = "no page checksums"
PYTHON = "Python path alone"
ONE_STAGE = "one stage"
NO_INDEX = "no index"
PAGE_INDEX = "page index"
BLOOM = "Bloom filters"
CONDITIONS = "condition cache"
LISTED = "keys as IN list"
ICEBERG = "Iceberg-Spark"
SPARK = "Spark Parquet"
CORE = "core alone"
CORE_NO_INDEX = "core alone, no index"
DUCKDB = "DuckDB"
POLARS = "Polars"
DATAFUSION = "DataFusion"

OPTIONS: dict[str, dict[str, str]] = {
    TWOSTAGE: {},
    UNVERIFIED: {"verify-checksums": "false"},
    PYTHON: {"scan.native": "never"},
    ONE_STAGE: {"two-stage": "false", "scan.native": "never"},
    NO_INDEX: {"index": "off", "prune.pages": "false", "prune.bloom": "false"},
    PAGE_INDEX: {"index": "off", "prune.bloom": "false"},
    BLOOM: {"index": "off"},
    CONDITIONS: {"index": "off", "filter.cache": "host"},
    LISTED: {},
}
"""The options of each way in which twostage reads through Spark."""
IN_SPARK = (*OPTIONS, ICEBERG, SPARK)
WITHOUT_SPARK = (CORE, CORE_NO_INDEX, POLARS, DATAFUSION, DUCKDB)

VALUES = 1_000_000_007
"""Number of possible values of the wide table's scattered numbers."""
DELETED = "deleted"
"""The branch of each table that has positional deletes: one row in a hundred, scattered."""


@dataclass(frozen=True)
class Size:
    """How much data there is, and how often it is read."""

    rows: int
    columns: int
    scale: float
    """Scale of TPC-H's tables; 1 is 6,001,215 line items."""
    repeats: int
    """At most: a slow query is repeated until `patience` ends."""
    sessions: int
    """Spark sessions started for each engine of the page about first queries."""
    patience: float
    """Seconds of repeats after which a query is not repeated again on an engine."""
    cap: float
    """Seconds after which a query is stopped."""


SIZES = {
    "small": Size(rows=120_000, columns=120, scale=0.05, repeats=1, sessions=1, patience=10, cap=60),
    "full": Size(rows=3_000_000, columns=120, scale=1, repeats=15, sessions=2, patience=12, cap=60),
    "huge": Size(rows=12_000_000, columns=120, scale=4, repeats=15, sessions=2, patience=30, cap=300),
}


@dataclass(frozen=True)
class Query:
    """One query: either columns and a filter of the wide table, or a whole statement."""

    title: str
    columns: str = ""
    """`*`, `count`, or how many of the first columns."""
    where: str = ""
    statement: str = ""
    is_large: bool = False
    """Whether there are so many rows that their sums are compared instead."""
    branch: str = ""
    table: str = "wide"
    listed: str = ""
    """The statement for the engine `LISTED` instead, with the same rows."""

    def sql(self, names: list[str]) -> str:
        """Return the statement, given the wide table's columns."""
        if self.statement:
            return self.statement
        wanted = {"*": "*", "count": "count(*) AS n"}.get(self.columns) or ", ".join(
            names[: int(self.columns)]
        )
        return f"SELECT {wanted} FROM {{{self.table}}}" + (f" WHERE {self.where}" if self.where else "")

    @property
    def returns_rows(self) -> bool:
        """Whether stored rows are returned; otherwise sums and counts."""
        return bool(self.listed) or (not self.statement and self.columns != "count")


@dataclass(frozen=True)
class Page:
    """Queries that are measured on the same engines and shown in one section."""

    name: str
    title: str
    text: str
    engines: tuple[str, ...]
    queries: tuple[Query, ...]
    cold: tuple[str, ...] = ()
    """Titles of queries that also run once with none of the data in memory."""
    only_if_named: bool = False
    """Whether it is measured only if named."""


def _listed(count: int, seed: int) -> str:
    """Return values of the wide table's columns with a billion possible values, most of which no row has."""
    return ", ".join(map(str, np.random.default_rng(seed).integers(0, VALUES, count).tolist()))


# m1, m5 and m9 are longs of 1,000,000,007 possible values: a thousand of them match about three rows in three million.
SEARCH = " OR ".join(f"m{number} IN ({_listed(1_000, number)})" for number in (1, 5, 9))
NEEDLE_IN = "user_id IN (11, 222, 3333)"
NEEDLES = (
    Query("SELECT *, equality", "*", "user_id = 222"),
    Query("SELECT *, IN", "*", NEEDLE_IN),
    Query("SELECT *, string equality", "*", "device = 'device-000077'"),
    Query("SELECT *, LIKE", "*", "device LIKE '%-00007%'"),
    Query("SELECT *, OR over two columns", "*", "user_id = 11 OR device = 'device-000077'"),
    Query("16 columns, IN", "16", NEEDLE_IN),
    Query("16 columns, string equality", "16", "device = 'device-000077'"),
    Query("SELECT *, clustered", "*", "id BETWEEN 50000 AND 50219"),
)
IN_SESSIONS = tuple(
    next(one for one in NEEDLES if one.title == title)
    for title in ("16 columns, IN", "SELECT *, IN", "SELECT *, LIKE")
)
"""What new sessions run, ten times in a row: narrow, wide, and with a filter that kernels evaluate."""

Q1 = """SELECT l_returnflag, l_linestatus, sum(l_quantity) AS a, sum(l_extendedprice) AS b,
sum(l_extendedprice * (1 - l_discount)) AS c, sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS d,
avg(CAST(l_discount AS double)) AS e, count(*) AS n
FROM {lineitem} WHERE l_shipdate <= DATE '1998-09-02' GROUP BY l_returnflag, l_linestatus"""
Q6 = """SELECT sum(l_extendedprice * l_discount) AS revenue FROM {lineitem}
WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
AND l_discount >= 0.05 AND l_discount <= 0.07 AND l_quantity < 24"""
Q12 = """SELECT l_shipmode,
sum(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH' THEN 1 ELSE 0 END) AS high,
sum(CASE WHEN o_orderpriority <> '1-URGENT' AND o_orderpriority <> '2-HIGH' THEN 1 ELSE 0 END) AS low
FROM {orders} JOIN {lineitem} ON o_orderkey = l_orderkey
WHERE l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1995-01-01' GROUP BY l_shipmode"""
Q14 = """SELECT sum(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END) AS promo,
sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM {lineitem} JOIN {part} ON l_partkey = p_partkey
WHERE l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01'"""
TPCH = (
    Query("Q1", statement=Q1),
    Query("Q6", statement=Q6),
    Query("Q12", statement=Q12),
    Query("Q14", statement=Q14),
)
TABLES = ("wide", "users", "lineitem", "orders", "part", "small_files", "wanted")


def _on_branch(queries: tuple[Query, ...]) -> tuple[Query, ...]:
    return tuple(
        Query(one.title, one.columns, one.where, one.statement, one.is_large, DELETED) for one in queries
    )


SCANS = (
    Query("16 columns, 50 % of the rows", "16", "half < 5", is_large=True),
    Query("16 columns, 90 % of the rows", "16", "half < 9", is_large=True),
    Query("16 columns, 100 % by a filter", "16", "half <> 10", is_large=True),
    Query("16 columns, no filter", "16", is_large=True),
    Query("SELECT *, no filter", "*", is_large=True),
    Query("count(*)", "count"),
    Query("min, max", statement="SELECT min(ts) AS a, max(ts) AS b, max(half) AS c FROM {wide}"),
    Query("count(*) of a needle", "count", NEEDLE_IN),
)


GATE = (
    *(
        Query(f"a number, {share:g} % of the rows", "16", f"m1 < {int(VALUES * share / 100)}", is_large=True)
        for share in (0.01, 0.1, 1, 3, 10, 30, 60, 90, 99)
    ),
    Query("a code, 10 % of the rows", "16", "half = 3", is_large=True),
    Query("a number, 100 %", "16", "m1 >= 0 OR m1 < 0", is_large=True),
    Query("a number and a text, 100 %", "16", "m1 < 1000000007 AND device <> 'x'", is_large=True),
    Query("LIKE over a text, 100 %", "16", "device LIKE '%-%'", is_large=True),
    Query("SELECT *, a number, 3 % of the rows", "*", f"m1 < {int(VALUES * 0.03)}", is_large=True),
)

SMALL_FILES = {"small": 100, "full": 2_000, "huge": 10_000}
"""By size: data files with scattered keys, each of which is in about three."""
KEYS_OF_A_FILE = {"small": 250, "full": 5_000, "huge": 2_000}
WANTED_KEYS = range(77, 10_000, 1_000)
"""The keys that a join looks up."""
TAGS = 50_000
"""Distinct elements of the wide table's list, which has two per row."""


def scattered(row: int, seed: int) -> int:
    """Return Spark's ``pmod(xxhash64(id, seed), VALUES)`` of a row's id."""
    digest = xxhash.xxh64_intdigest(row.to_bytes(8, "little"), 42)
    digest = xxhash.xxh64_intdigest(seed.to_bytes(4, "little"), digest)
    return (digest - (digest >> 63 << 64)) % VALUES


_SEED = 11
"""The seed of the wide table's m1: 10 more than its number."""
_ROWS = np.random.default_rng(5).integers(0, SIZES["full"].rows, 1_000).tolist()
_HELD = sorted({scattered(row, _SEED) for row in _ROWS})
_POINT = f"m1 = {scattered(1_234, _SEED)}"
INDEX_USE = (
    Query("a number", "16", _POINT),
    Query("a text", "16", "device = 'device-000077'"),
    Query("IN of 1,000", "16", f"m1 IN ({', '.join(map(str, _HELD))})"),
    Query("a range", "16", "m0 BETWEEN 500000 AND 500010"),
    Query("a prefix", "16", "device LIKE 'device-00007%'"),
    Query("OR of three columns", "16", f"{_POINT} OR user_id = 222 OR device = 'device-000077'"),
    Query("array_contains", "16", "array_contains(tags, 'tag-000077')"),
    Query("count of a needle", "count", NEEDLE_IN),
    Query("count, grouped", statement="SELECT country, count(*) AS n FROM {wide} GROUP BY country"),
    Query("count(DISTINCT)", statement="SELECT count(DISTINCT country) AS n FROM {wide} WHERE half = 3"),
    Query("the last 10 by a number", statement="SELECT id, m0 FROM {wide} ORDER BY m0 DESC LIMIT 10"),
    Query("many files: a key", "*", "key = 4077", table="small_files"),
    Query(
        "many files: IN of 10",
        "*",
        "key IN (4000, 4100, 4200, 4300, 4400, 4500, 4600, 4700, 4800, 4900)",
        table="small_files",
    ),
    Query(
        "many files: IN of 1,000",
        "*",
        f"key IN ({', '.join(map(str, range(3, 3_333_000, 3_333)))})",
        table="small_files",
    ),
    Query(
        "many files: a join by 10 keys",
        statement="SELECT /*+ BROADCAST(u) */ s.id, s.key FROM {small_files} s JOIN {wanted} u ON s.key = u.key "
        "WHERE u.is_wanted = 1",
    ),
)


def users_of(size: Size) -> int:
    """Return how many values the wide table's `user_id` has, from 0 on, with twelve rows each."""
    return max(1, size.rows // 12)


MIN_USERS = 10_000
"""The number at the smallest size."""


def _join(title: str, hint: str, keys: int) -> Query:
    """Return a join of all columns with users, of whom a filter leaves `keys`."""
    wanted = f"FROM {{wide}} w JOIN {{users}} u ON w.user_id = u.user_id WHERE u.is_of_{keys} = 1"
    return Query(
        title,
        statement=f"SELECT /*+ {hint}(u) */ w.* {wanted}",
        listed=f"SELECT * FROM {{wide}} WHERE user_id IN ({', '.join(map(str, wanted_users(keys)))})",
    )


def wanted_users(keys: int) -> range:
    """Return `keys` users, who exist at any size."""
    return range(7, MIN_USERS, MIN_USERS // keys)


def _list(values: Iterable[int]) -> str:
    return ", ".join(map(str, values))


IDS = "ids"
"""In braces in a statement: rows of `createDataFrame`, the `user_id` of 10 users."""
_TENS = range(7, 1_000, 10)
"""The wanted 1,000 users, as far as `m2` has their numbers: it is below 1,000."""
JOINS = (
    *(
        _join(f"{keys:,} keys, {word}", hint, keys)
        for keys in (10, 1_000)
        for word, hint in (("broadcast", "BROADCAST"), ("shuffled", "MERGE"))
    ),
    Query(
        "1,000 keys, IN (SELECT …)",
        statement="SELECT * FROM {wide} WHERE user_id IN (SELECT user_id FROM {users} WHERE is_of_1000 = 1)",
        listed=f"SELECT * FROM {{wide}} WHERE user_id IN ({_list(wanted_users(1_000))})",
    ),
    Query(
        "one key, = (SELECT min(…))",
        statement="SELECT * FROM {wide} WHERE user_id = (SELECT min(user_id) FROM {users} WHERE is_of_10 = 1)",
        listed=f"SELECT * FROM {{wide}} WHERE user_id = {wanted_users(10)[0]}",
    ),
    Query(
        "10 keys, createDataFrame",
        statement=f"SELECT w.* FROM {{wide}} w JOIN {{{IDS}}} i ON w.user_id = i.user_id",
        listed=f"SELECT * FROM {{wide}} WHERE user_id IN ({_list(wanted_users(10))})",
    ),
    Query(
        "two dimensions, 1,000 keys and 100",
        statement="SELECT w.* FROM {wide} w JOIN {users} u ON w.user_id = u.user_id JOIN {users} v ON w.m2 = v.user_id "
        "WHERE u.is_of_1000 = 1 AND v.is_of_1000 = 1",
        listed=f"SELECT * FROM {{wide}} WHERE user_id IN ({_list(wanted_users(1_000))}) AND m2 IN ({_list(_TENS)})",
    ),
    Query(
        "half of the users, 125,000 keys",
        statement="SELECT /*+ BROADCAST(u) */ w.* FROM {wide} w JOIN {users} u ON w.user_id = u.user_id "
        "WHERE right(u.name, 1) IN ('0', '2', '4', '6', '8')",
        listed="SELECT * FROM {wide} WHERE user_id % 2 = 0",
        is_large=True,
    ),
)

PAGES = {
    page.name: page
    for page in (
        Page(
            "needles",
            "Needles",
            "A few rows of the wide table. `clustered` is a range of a column in whose order the rows lie; all other "
            "filters are on scattered values.",
            (TWOSTAGE, UNVERIFIED, ICEBERG, SPARK, CORE, POLARS, DATAFUSION, DUCKDB),
            NEEDLES,
            cold=("SELECT *, IN", "16 columns, IN", "SELECT *, clustered"),
        ),
        Page(
            "large-needles",
            "Needles in four times the rows",
            "The same, asked of the two connectors alone: `make bench SIZE=huge PAGES=large-needles`.",
            (TWOSTAGE, ICEBERG),
            NEEDLES,
            only_if_named=True,
        ),
        Page(
            "orc",
            "The search of the ORC document",
            "Three filter columns, each in a list of 1,000 values, joined by OR. The document that brought two stages to "
            "ORC saved 45 % of the I/O and 47 % of the CPU with 16 columns, 70 % and 87 % with all, against the same "
            "reader in one stage.",
            (TWOSTAGE, ONE_STAGE, ICEBERG, SPARK),
            (Query("16 columns", "16", SEARCH), Query("SELECT *", "*", SEARCH)),
        ),
        Page(
            "scans",
            "Scans of half of the rows and of all",
            "Where there is nothing to be late for, twostage hands the scan to Spark's own Parquet reader. "
            "`Python path alone` is twostage with `scan.native=never`.",
            (TWOSTAGE, UNVERIFIED, PYTHON, ICEBERG, SPARK, POLARS, DATAFUSION, DUCKDB),
            SCANS,
        ),
        Page(
            "gate",
            "What the second stage costs where it can't pay",
            "The Python path with two stages, which it leaves where they do not pay, and in one stage: both with "
            "`scan.native=never`, filters over scattered values, from few rows to all. The promise is at most 5 % more.",
            (PYTHON, ONE_STAGE),
            GATE,
        ),
        Page(
            "tpch",
            "TPC-H",
            "Queries 1, 6, 12 and 14 on tables that Iceberg's connector wrote, not partitioned, not sorted.",
            (TWOSTAGE, PYTHON, ICEBERG, SPARK, POLARS, DATAFUSION, DUCKDB),
            TPCH,
        ),
        Page(
            "position-deletes",
            "The same with positional deletes",
            "One row in a hundred deleted, scattered, by Iceberg's own `DELETE` (merge on read).",
            (TWOSTAGE, PYTHON, ICEBERG),
            _on_branch((NEEDLES[1], NEEDLES[5], NEEDLES[7], SCANS[0], SCANS[3], SCANS[5], *TPCH)),
        ),
        Page(
            "joins",
            "Join keys",
            "All columns of the wide table, joined by `user_id` to a table of users, of which a filter leaves 10, 1,000 or half. Keys of "
            "the filtered side arrive while the query runs. `keys as IN list` is twostage without a join, with the same keys "
            "written into the query (of half of the users, `user_id % 2 = 0`).",
            (TWOSTAGE, LISTED, ICEBERG),
            JOINS,
        ),
        Page(
            "indexes",
            "Indexes",
            "Few rows by scattered values, asked of the same files: with [indexes](indexes.md), without any (neither pages nor "
            "row groups are left out by what Parquet files hold), with pages left out by Parquet's page index, with Parquet's Bloom "
            "filters in addition, and asked again with the [condition cache](condition-cache.md) of the host. The files have "
            "Bloom filters of the numbers and texts that are looked up, but not of m0; every engine may use these. The many files, "
            "2,000 and with `SIZE=huge` 10,000, hold each key in three or so.",
            (TWOSTAGE, NO_INDEX, PAGE_INDEX, BLOOM, CONDITIONS, ICEBERG, CORE, CORE_NO_INDEX, DUCKDB),
            INDEX_USE,
        ),
    )
}
