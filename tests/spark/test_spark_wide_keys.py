"""Keys of joins in a wider type than the column's: of a broadcast, and of scalar subqueries. The rows stay the same."""

from __future__ import annotations

from decimal import Decimal

import pytest

import twostage
from joined_tables import confs
from lakehouse import executed_plan
from native_scans import load
from tables import Table

PREFIX = "spark.twostage.dynamicFilter."
DEAR = {"maxBuildShare": "0"}
"""No second reading of a side is cheap enough."""


@pytest.fixture(scope="module")
def views(spark, tmp_path_factory):
    """Views `fact`, three files of 60 rows, and `dim`, whose columns are wider and have values that those of `fact` cannot."""
    folder = tmp_path_factory.mktemp("wide")
    columns = {"id": "int", "n": "int", "l": "long", "amount": "decimal(5,2)"}
    fact = Table(folder / "fact", columns)
    for first in (0, 60, 120):
        rows = [
            {"id": i, "n": i if i % 11 else None, "l": i, "amount": Decimal(i * 5).scaleb(-2)}
            for i in range(first, first + 60)
        ]
        fact.append(rows, row_group_size=20)
    wide = {"v": "int", "n": "long", "l": "decimal(22,0)", "amount": "decimal(20,4)"}
    dim = Table(folder / "dim", wide)
    made = [
        {"v": i % 4, "n": i, "l": Decimal(i), "amount": Decimal(i * 500 + i % 2).scaleb(-4)}
        for i in range(0, 400, 9)
    ]
    made += [
        {"v": 0, "n": n, "l": Decimal(n * 100), "amount": Decimal(10**12 + n % 7)}
        for n in (2**31, -(2**40), 2**63 - 1)
    ]
    dim.append([*made, {"v": 0}])
    load(spark, fact.write(), **{"scan.native": "never"}).createOrReplaceTempView("fact")
    load(spark, dim.write(), **{"scan.native": "never"}).createOrReplaceTempView("dim")


def asked(spark, query: str, **limits: str):
    """Return rows, which are the same without keys, and the report of the scan of `fact`."""
    with (
        confs(spark, PREFIX, enabled="false"),
        confs(spark, optimizer_dynamicPartitionPruning_enabled="false"),
    ):
        expected = sorted(tuple(row) for row in spark.sql(query).collect())
    seen = {report.scan_id for report in twostage.scans(spark)}
    with confs(spark, PREFIX, **limits):
        frame = spark.sql(query)
        assert sorted(tuple(row) for row in frame.collect()) == expected, query
    reports = [one for one in twostage.scans(spark) if one.scan_id not in seen and "/fact" in one.table]
    return expected, reports[-1] if reports else None, frame


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize("form", ["list", "many"])
@pytest.mark.parametrize(
    "condition", ["f.n = d.n", "f.l = d.l", "f.amount = d.amount", "f.n = d.l", "f.n = d.amount"]
)
def test_of_a_broadcast(spark, views, condition, form, adaptive):
    query = f"SELECT /*+ BROADCAST(d) */ f.id, d.v FROM fact f JOIN dim d ON {condition} WHERE d.v < 2"
    limits = {**DEAR, **({} if form == "list" else {"maxKeys": "0"})}
    with confs(spark, adaptive_enabled=adaptive):
        rows, report, frame = asked(spark, query, **limits)
    assert rows
    column = condition.partition(" ")[0].removeprefix("f.")
    assert (
        f"{column} IN {'(' if form == 'list' else 'set of'}" in report.predicate
        or f"{column} = " in report.predicate
    ), (
        report.predicate,
        executed_plan(frame),
    )
    (join,) = report.joins
    assert join.broadcast
    assert report.count("rows.fetched") < 30


def test_keys_that_the_column_cannot_have(spark, views):
    query = "SELECT /*+ BROADCAST(d) */ f.id FROM fact f JOIN dim d ON f.n = d.n WHERE d.n > 3000000000"
    rows, report, _ = asked(spark, query, **DEAR)
    assert rows == []
    assert report is None or "FALSE" in report.predicate


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize("column", ["n", "l", "amount"])
@pytest.mark.parametrize("is_left", [True, False])
def test_scalar_subqueries(spark, views, column, adaptive, is_left):
    value = f"(SELECT max({column}) FROM dim WHERE v = 2 AND v < 3)"
    condition = f"{value} = {column}" if is_left else f"{column} = {value}"
    with confs(spark, adaptive_enabled=adaptive):
        rows, report, frame = asked(spark, f"SELECT id FROM fact WHERE {condition}", maxBuildShare="1000")
    assert len(rows) <= 1
    assert f"{column}" in report.predicate
    assert " = " in report.predicate or "FALSE" in report.predicate, (report.predicate, executed_plan(frame))
    (join,) = report.joins
    assert column in join.column
    assert join.keys == 1
    assert not join.broadcast
    assert join.sources
