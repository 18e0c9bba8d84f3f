"""What logs call tables: no secret is told, and two tables are never one."""

from __future__ import annotations

import datetime
import itertools

import pytest

from twostage.advisor.advise import advise
from twostage.advisor.column_metadata import ColumnMetadata, TableColumns
from twostage.advisor.index_uses import index_uses
from twostage.advisor.logged_predicate import LoggedPredicate
from twostage.advisor.logged_scan import LoggedScan, parse_scan
from twostage.advisor.query_log import QueryLog, QueryLogFile
from twostage.advisor.table_name import logged_name
from twostage.advisor.thresholds import Thresholds
from twostage.errors import mask

AZURE = "@account.dfs.core.windows.net/lake/t"
TABLES = [
    *(f"abfss://{container}{AZURE}" for container in ("dev", "prod")),
    "abfss://dev@other.dfs.core.windows.net/lake/t",
    *(f"/lake/token={value}/{table}" for value, table in itertools.product("ab", ("t", "u"))),
    *("s3://lake/password=1/t?sig=x", "s3://lake/password=2/t", "s3://lake/t", "lake.db.t", "lake.db.u"),
]


def scan(table, column="a"):
    leaf = LoggedPredicate(
        op="=", columns=(column,), count=1, text=f"{column} = ?", rows_in=10_000, rows_out=1
    )
    return LoggedScan(
        time=datetime.datetime.now(datetime.UTC), scan="s", table=table, predicate=leaf, columns=("x",),
        counters={"rows.considered": 10_000, "rows.fetched": 1},
    )  # fmt: skip


def test_tables_have_names_of_their_own_that_stay():
    names = [logged_name(table) for table in TABLES]
    assert len(set(names)) == len(TABLES)
    for name in names:
        assert logged_name(name) == name
        assert mask(name) == name  # as it is shown
        assert parse_scan(scan(name).json()).table == name


@pytest.mark.parametrize(
    ("table", "same"),
    [
        ("s3://key:hunter2@lake/t", "s3://other:secret@lake/t"),
        ("s3://lake/t?sig=hunter2", "s3://lake/t?sig=renewed"),
        ("abfss://dev:hunter2@account.dfs.core.windows.net/t", "abfss://***@account.dfs.core.windows.net/t"),
        ("s3://lake/secret=hunter2/t", "s3://lake/secret=hunter2/t"),
    ],
)
def test_no_secret_is_told(table, same):
    assert "hunter2" not in logged_name(table)
    assert logged_name(table) == logged_name(same)


def test_containers_of_an_account_get_advice_of_their_own(tmp_path):
    """As does a table whose name is masked: `--table` and metadata have it as the user wrote it."""
    dev, prod, path = TABLES[0], TABLES[1], "s3://key:hunter2@lake/token=a/t"
    file = QueryLogFile(str(tmp_path), {})
    file.append(
        [scan(logged_name(table), column) for table, column in ((dev, "a"), (prod, "b"), (path, "a"))]
    )
    found = advise(str(tmp_path)).recommendations
    indexes = {(one.table, one.columns) for one in found if one.action == "index"}
    assert indexes == {(dev, ("a",)), (prod, ("b",)), (logged_name(path), ("a",))}
    known = TableColumns(
        table=path, snapshot=None, rows=10_000, files=1, bytes=10**6,
        columns={"a": ColumnMetadata(type="long", rows=10_000, distinct=10.0, distinct_per_file=10.0, bytes=10**5)},
    )  # fmt: skip
    chosen = Thresholds(tables=frozenset({path}))
    advice = advise(str(tmp_path), metadata={path: known}, thresholds=chosen)
    assert [(one.table, one.scans) for one in advice.tallies] == [(logged_name(path), 1)]
    assert advice.tallies[0].knows_bytes
    gone = advise(str(tmp_path), thresholds=chosen, unopened={path: "table gone"}).recommendations
    assert [one.reason for one in gone] == ["table gone, 1 scans"]
    indexed = Thresholds(indexed={dev: frozenset({"a"})})
    assert ("index", dev) not in [
        (one.action, one.table) for one in advise(str(tmp_path), thresholds=indexed).recommendations
    ]
    assert index_uses([QueryLog(str(tmp_path))], path).filtered == {"a": 1}
