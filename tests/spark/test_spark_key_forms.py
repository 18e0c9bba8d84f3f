"""Each form that keys of a join come in, for each type: the rows of the join as plain Python makes it, and what is left out."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal

import pytest

import twostage
from native_scans import load
from tables import Table

PREFIX = "spark.twostage.dynamicFilter."
FORMS = {
    "list": {},
    "set": {"maxKeys": "0"},
    "bloom": {"maxKeys": "0", "maxSetKeys": "0"},
    "range": {"maxKeys": "0", "maxSetKeys": "0", "maxBloomKeys": "0"},
}
DAY, UTC = datetime.date, datetime.UTC
LEAST, GREATEST = -(2**63), 2**63 - 1
VALUES = {
    "l": ("long", [LEAST, LEAST + 1, -1, 0, 1, 7, GREATEST - 1, GREATEST]),
    "i": ("int", [-(2**31), -(2**31) + 1, -1, 0, 1, 7, 2**31 - 2, 2**31 - 1]),
    "d": ("date", [DAY(1, 1, 1), DAY(1969, 12, 31), DAY(1970, 1, 1), DAY(2024, 2, 29), DAY(9999, 12, 31)]),
    "t": (
        "timestamptz",
        [
            datetime.datetime(year, 1, 1, 0, 0, 0, micros, UTC)
            for year in (1, 1969, 1970, 2024)
            for micros in (0, 1)
        ],
    ),
    "n": ("timestamp", [datetime.datetime(year, 12, 31, 23, 59, 59, 999_999) for year in (1, 1969, 2024)]),
    "c": (
        "decimal(18,4)",
        [Decimal(number).scaleb(-4) for number in (1 - 10**18, -1, 0, 1, 15000, 10**18 - 1)],
    ),
    "w": ("decimal(30,2)", [Decimal(number).scaleb(-2) for number in (-(10**29), -1, 0, 1, 2**64, 10**29)]),
    "f": ("float", [-math.inf, -1.5, -0.0, 0.0, 2.0**-140, 1.5, 3.0e38, math.inf, math.nan, 0.1]),
    "g": ("double", [-math.inf, -1e300, 0.0, -0.0, 5e-324, 1e300, math.inf, math.nan]),
    "s": ("string", ["", "a", "aa", "b", "é", "\U00010000", "x" * 70]),
}
"""Columns: the type, and the values that rows have besides NULL; every second one is a key."""


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    """Views `fact`, three files with every value and NULL, and `dim`, which has every second value, others, and NULL."""
    folder = tmp_path_factory.mktemp("forms")
    columns = {name: kind for name, (kind, _) in VALUES.items()}
    fact, dim = (
        Table(folder / "fact", {"id": "int", **columns}),
        Table(folder / "dim", {"k": "int", **columns}),
    )
    rows = [
        {
            "id": place,
            **{
                name: values[place % len(values)] if place % 9 else None
                for name, (_, values) in VALUES.items()
            },
        }
        for place in range(90)
    ]
    for first in range(0, 90, 30):
        fact.append(rows[first : first + 30], row_group_size=10)
    keys = [
        {
            "k": place,
            **{
                name: values[2 * place % len(values)] if place else None
                for name, (_, values) in VALUES.items()
            },
        }
        for place in range(9)
    ]
    dim.append(keys)
    load(spark, fact.write(), **{"scan.native": "never"}).createOrReplaceTempView("fact")
    load(spark, dim.write(), **{"scan.native": "never"}).createOrReplaceTempView("dim")
    return rows, keys


def asked(spark, query: str, limits: dict[str, str]):
    """Return a query's rows, and what its scans of `fact` were filtered by."""
    seen = {report.scan_id for report in twostage.scans(spark)}
    settings = {PREFIX + name: value for name, value in limits.items()} | {PREFIX + "maxBuildShare": "1000"}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        rows = sorted(tuple(row) for row in spark.sql(query).collect())
    finally:
        for name in settings:
            spark.conf.unset(name)
    reports = [one for one in twostage.scans(spark) if one.scan_id not in seen and "/fact" in one.table]
    return rows, [report.predicate for report in reports]


@pytest.mark.parametrize("form", sorted(FORMS))
@pytest.mark.parametrize("column", sorted(VALUES))
def test_rows_of_each_form(spark, tables, form, column):
    rows, keys = tables
    query = f"SELECT f.id, d.k FROM fact f JOIN dim d ON f.{column} = d.{column} WHERE d.k < 6"
    found, predicates = asked(spark, query, FORMS[form])
    expected = sorted(
        (row["id"], key["k"])
        for row in rows
        for key in keys
        if key["k"] < 6 and row[column] is not None and are_equal(row[column], key[column])
    )
    assert expected
    assert found == expected
    assert any(shown(form, column) in predicate for predicate in predicates), predicates


def are_equal(one, other) -> bool:
    """As a join compares them: NaN is NaN."""
    return one == other or one != one and other is not None and other != other


def shown(form: str, column: str) -> str:
    """Return how the report names keys of this form of this type: another form where there is none of this one."""
    if form == "set" and column == "s":
        form = "bloom"
    if form in ("set", "bloom") and column == "w" or form == "bloom" and column in ("c", "f", "g"):
        form = "range"
    return {
        "list": f"{column} IN (",
        "set": f"{column} IN set of",
        "bloom": f"{column} IN Bloom filter of",
        "range": f"{column} >= ",
    }[form]


@pytest.mark.parametrize("form", sorted(FORMS))
def test_sides_without_a_key(spark, tables, form):
    for condition in ("d.k < 0", "d.k = 0", "d.l = 2"):  # no row; a NULL; no row that has it
        query = f"SELECT f.id FROM fact f JOIN dim d ON f.l = d.l WHERE {condition}"
        found, predicates = asked(spark, query, FORMS[form])
        assert not found
        assert all("FALSE" in predicate for predicate in predicates)  # none, where Spark ended before


@pytest.mark.parametrize("form", sorted(FORMS))
def test_an_empty_fact(spark, tables, tmp_path, form):
    path = Table(tmp_path / "fact", {"id": "int", "l": "long"}).write()
    load(spark, path).createOrReplaceTempView("empty")
    query = "SELECT f.id FROM empty f JOIN dim d ON f.l = d.l WHERE d.k < 6"
    for name, value in FORMS[form].items():
        spark.conf.set(PREFIX + name, value)
    try:
        assert spark.sql(query).collect() == []
    finally:
        for name in FORMS[form]:
            spark.conf.unset(PREFIX + name)


@pytest.mark.parametrize(
    "partition", ["l", "bucket[16](l)", "truncate[100](l)", "day(n)", "bucket[16](n)", "hour(n)"]
)
def test_partitions_are_left_out(spark, tmp_path, partition):
    """Keys between the least and the greatest of the partitions, in few of them."""
    start = datetime.datetime(2024, 1, 1)
    rows = [{"l": 100 * place, "n": start + datetime.timedelta(days=place)} for place in range(20)]
    table = Table(tmp_path / "fact", {"l": "long", "n": "timestamp"}, partition=[partition])
    table.append_all(rows)
    load(spark, table.write(), **{"scan.native": "never"}).createOrReplaceTempView("parted")
    column = "n" if "(n)" in partition else "l"
    keys = [rows[place][column] for place in (0, 19)]
    spark.createDataFrame(
        [(key,) for key in keys], f"k {'timestamp_ntz' if column == 'n' else 'long'}"
    ).createOrReplaceTempView("keys")
    query = f"SELECT /*+ BROADCAST(d) */ f.l FROM parted f JOIN keys d ON f.{column} = d.k"
    spark.conf.set(PREFIX + "maxKeys", "0")
    try:
        assert sorted(row[0] for row in spark.sql(query).collect()) == [0, 1900]
    finally:
        spark.conf.unset(PREFIX + "maxKeys")
    report = twostage.scans(spark)[-1]
    assert f"{column} IN set of 2 keys" in report.predicate
    files = report.count("files.considered")
    pruned = report.count("files.pruned.partition") + report.count("files.pruned.bounds")
    assert files - pruned <= 2 < files  # two dates may share a bucket
    assert report.count("files.pruned.partition") == pruned


@pytest.mark.parametrize("form", sorted(FORMS))
def test_bytes_with_a_null_among_them(spark, tmp_path, form):
    """A right join brings the NULLs of its right side, and before 4.3 Spark has no text of a NULL of type binary."""
    table = Table(tmp_path / "fact", {"id": "int", "b": "binary"})
    for first in (0, 20):
        table.append(
            [{"id": place, "b": bytes([place])} for place in range(first, first + 20)], row_group_size=5
        )
    load(spark, table.write(), **{"scan.native": "never"}).createOrReplaceTempView("bytes_fact")
    spark.sql(
        "CREATE OR REPLACE TEMP VIEW bytes_keys AS SELECT * FROM VALUES (X'01', 1), (NULL, 2), (X'07', 3), (X'FF', 4) k(b, v)"
    )
    query = "SELECT /*+ BROADCAST(f) */ k.v, f.id FROM bytes_fact f RIGHT JOIN bytes_keys k ON f.b = k.b"
    found, predicates = asked(spark, query, FORMS[form])
    assert found == [(1, 1), (2, None), (3, 7), (4, None)]
    assert any("b IN (" in predicate for predicate in predicates) is (form == "list")


@pytest.mark.parametrize("form", sorted(FORMS))
@pytest.mark.parametrize("column", ["p.a", "p.q.b"])
def test_fields_of_structs(spark, tmp_path, form, column):
    columns = {"id": "int", "p": {"a": "long", "q": {"b": "double"}}}
    table = Table(tmp_path / "fact", columns)
    for first in (0, 20):
        rows = [
            {
                "id": place,
                "p": None if place % 7 == 3 else {"a": place, "q": {"b": place / 2} if place % 5 else None},
            }
            for place in range(first, first + 20)
        ]
        table.append(rows, row_group_size=5)
    load(spark, table.write(), **{"scan.native": "never"}).createOrReplaceTempView("nested_fact")
    spark.sql(
        "CREATE OR REPLACE TEMP VIEW nested_keys AS SELECT * FROM VALUES (2L, 1D), (3L, 1.5D), (5L, 2.5D), (NULL, NULL) k(a, b)"
    )
    key = column.rpartition(".")[2]
    query = f"SELECT /*+ BROADCAST(d) */ f.id FROM nested_fact f JOIN nested_keys d ON f.{column} = d.{key}"
    for name, value in FORMS[form].items():
        spark.conf.set(PREFIX + name, value)
    try:
        found = sorted(row[0] for row in spark.sql(query).collect())
    finally:
        for name in FORMS[form]:
            spark.conf.unset(PREFIX + name)
    assert found == [2, 5] if column == "p.a" else [2]
    report = twostage.scans(spark)[-1]
    assert f"{column} IN" in report.predicate or f"{column} >= " in report.predicate, report.predicate
    assert report.count("files.pruned.bounds") == 1
