"""Joins by several keys: the scan is filtered by all of them together, and the rows are those of plain Parquet."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

import twostage
from joined_tables import (
    bytes_of,
    clear_reports,
    confs,
    count_as_large,
    make_tables,
    plain,
    same,
    view,
)
from lakehouse import canonical
from native_scans import load
from tables import Table
from twostage.predicates.evaluate import evaluate
from twostage.predicates.key_set import key_set
from twostage.predicates.predicate import Column, InTuples
from twostage.schema import Primitive

JOIN = "SELECT {hint} f.id, f.l, d.v FROM {{fact}} f JOIN {{dim}} d ON {keys} WHERE d.v < 7"
BY_TWO = "f.n = d.n AND f.s = d.s"
HINTS = ("/*+ BROADCAST(d) */", "/*+ MERGE(d) */", "/*+ SHUFFLE_HASH(d) */")
TUPLES = re.compile(r"\([\w, .]+\) IN set of ([\d,]+) keys")


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    return make_tables(spark, tmp_path_factory.mktemp("joined"))


@pytest.fixture(autouse=True)
def _large(tables, monkeypatch):
    count_as_large(monkeypatch, bytes_of(tables["fact"]))


def run(spark, bridge, tables, query: str, **limits: str):
    """Run a query over both kinds of tables, compare, and return the predicates of the scans and the keys they were given."""
    view(spark, tables)
    clear_reports(bridge)
    with confs(spark, "spark.twostage.dynamicFilter.", maxBuildShare="1000", **limits):
        same(spark, query)
    reports = twostage.scans(spark)
    return " ".join(report.predicate for report in reports), [
        keys for report in reports for keys in report.joins
    ]


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize("hint", HINTS)
@pytest.mark.parametrize(
    ("keys", "names"),
    [
        (BY_TWO, "(n, s)"),
        ("f.real = d.real AND f.wide = d.wide", "(real, wide)"),
        ("f.l = d.l AND f.amount = d.amount AND f.day = d.day", "(l, amount, day)"),
        ("f.ts = d.ts AND f.raw = d.raw AND f.n = d.n", "(ts, n)"),
        ("f.day = d.day AND f.amount <=> d.amount AND f.s = d.s AND f.n = d.l", "(day, s)"),
    ],
)
def test_rows_and_tuples(spark, bridge, tables, keys, names, hint, adaptive):
    with confs(spark, adaptive_enabled=adaptive):
        predicates, _ = run(spark, bridge, tables, JOIN.format(hint=hint, keys=keys))
    assert f"{names} IN set of" in predicates


@pytest.mark.parametrize(
    "query",
    [
        "SELECT f.id FROM {fact} f LEFT SEMI JOIN {dim} d ON f.n = d.n AND f.s = d.s AND d.v < 7",
        "SELECT f.id FROM {fact} f WHERE (f.n, f.s) IN (SELECT d.n, d.s FROM {dim} d WHERE d.v < 7)",
        "SELECT f.id FROM {fact} f WHERE EXISTS (SELECT 1 FROM {dim} d WHERE d.n = f.n AND d.s = f.s AND d.v < 7)",
        "SELECT f.id, d.v FROM {fact} f RIGHT JOIN {dim} d ON f.n = d.n AND f.s = d.s WHERE d.v < 7",
        (
            "SELECT f.id FROM (SELECT * FROM {fact} UNION ALL SELECT * FROM {fact} WHERE v > 4) f "
            "JOIN {dim} d ON f.n = d.n AND f.s = d.s WHERE d.v < 7"
        ),
        (
            "SELECT f.n, f.s, f.c FROM (SELECT n, s, count(*) c FROM {fact} GROUP BY n, s) f "
            "JOIN {dim} d ON f.n = d.n AND f.s = d.s WHERE d.v < 7"
        ),
        "SELECT a.id, b.id FROM {fact} a JOIN {fact} b ON a.n = b.n AND a.s = b.s WHERE b.v = 3",
    ],
)
def test_shapes_of_queries(spark, bridge, tables, query):
    assert TUPLES.search(run(spark, bridge, tables, query)[0])


@pytest.mark.parametrize(
    "query",
    [
        "SELECT f.id FROM {fact} f LEFT ANTI JOIN {dim} d ON f.n = d.n AND f.s = d.s AND d.v < 7",
        "SELECT f.id, d.v FROM {fact} f LEFT JOIN {dim} d ON f.n = d.n AND f.s = d.s AND d.v < 7",
        "SELECT f.id, d.v FROM {fact} f FULL JOIN {dim} d ON f.n = d.n AND f.s = d.s WHERE d.v < 7 OR f.v > 2",
        "SELECT f.id, d.v FROM {fact} f JOIN {dim} d ON f.n <=> d.n AND f.s <=> d.s WHERE d.v < 7",
        "SELECT f.id, d.v FROM {fact} f JOIN {dim} d ON f.n = d.l AND f.s = d.s WHERE d.v < 7",
        (
            "SELECT f.id FROM (SELECT a.n, o.s, a.id FROM {fact} a JOIN {other} o ON a.id = o.id) f "
            "JOIN {tiny} d ON f.n = d.n AND f.s = d.s WHERE d.v < 7"
        ),
    ],
)
def test_where_keys_do_not_belong_together(spark, bridge, tables, query):
    """Joins that keep rows without a partner, keys that are NULL or cast, and columns of two scans."""
    assert not TUPLES.search(run(spark, bridge, tables, query)[0])


def test_each_key_alone_still_prunes_and_is_read_with_the_tuples(spark, bridge, tables):
    """One reading of the side gives them all."""
    with confs(spark, adaptive_enabled="false"):
        predicates, joins = run(spark, bridge, tables, JOIN.format(hint=HINTS[1], keys=BY_TWO))
    assert re.search(r"n IN \(.*\) AND s IN \(.*\) AND \(n, s\) IN set of \d+ keys", predicates)
    assert [(keys.column, keys.form, keys.broadcast) for keys in joins] == [
        ("f.(n, s)", "set of tuples", False)
    ]


def test_where_all_combinations_are_keys_the_tuples_would_say_nothing_new(spark, bridge, tables):
    spark.sql(
        "SELECT * FROM VALUES (1), (2), (3) AS a(n) CROSS JOIN VALUES (4), (5) AS b(v)"
    ).createOrReplaceTempView("grid")
    view(spark, tables)
    clear_reports(bridge)
    query = "SELECT f.id FROM {} f JOIN grid g ON f.n = g.n AND f.v = g.v"
    with confs(spark, "spark.twostage.dynamicFilter.", maxBuildShare="1000"):
        found = canonical(spark.sql(query.format("fact")).collect())
    assert found == canonical(spark.sql(query.format("plain_fact")).collect())
    (report,) = twostage.scans(spark)
    assert "n IN (1, 2, 3)" in report.predicate
    assert not TUPLES.search(report.predicate)


@pytest.mark.parametrize("limit", ["0", "1"])
def test_the_limit(spark, bridge, tables, limit):
    query = JOIN.format(hint=HINTS[1], keys=BY_TWO)
    predicates, joins = run(spark, bridge, tables, query, maxTuples=limit)
    assert not TUPLES.search(predicates)
    assert ("f.(n, s)" in [keys.column for keys in joins]) is (limit == "1")


def test_a_limit_that_is_no_number(spark, tables):
    view(spark, tables)
    with confs(spark, "spark.twostage.dynamicFilter.", maxTuples="few"):
        frame = spark.sql(JOIN.format(hint="", keys=BY_TWO).format(fact="fact", dim="dim"))
        with pytest.raises(Exception, match=r"TWOSTAGE.OPTION.*maxTuples.*few"):
            frame.collect()


def test_a_side_without_rows(spark, bridge, tables):
    query = "SELECT {hint} f.id FROM {{fact}} f JOIN {{none}} d ON f.n = d.n AND f.s = d.s WHERE d.v >= 0"
    for hint in HINTS:
        run(spark, bridge, tables, query.format(hint=hint))
        assert spark.sql(plain(query.format(hint=hint))).count() == 0


@pytest.mark.parametrize("hint", ["MERGE", "BROADCAST"])
def test_fields_of_structs_and_names_with_dots(spark, bridge, tmp_path, monkeypatch, hint):
    rows = [{"id": n, "a.b": n % 7, "p": {"x`y": n % 5, "z": f"k{n % 11}"}} for n in range(500)]
    fields = {"id": "long", "a.b": "int", "p": {"x`y": "int", "z": "string"}}
    table = Table(tmp_path / "t", fields, version=2)
    table.append(rows[:250], row_group_size=50)
    table.append(rows[250:], row_group_size=50)
    path = str(table.write())
    count_as_large(monkeypatch, 1)
    load(spark, path).createOrReplaceTempView("fields_of_structs")
    build = "(SELECT * FROM VALUES (1, 1, 'k1'), (2, 3, 'k8'), (6, 4, 'k9'), (3, 0, NULL) AS d(a, x, z))"
    query = (
        f"SELECT /*+ {hint}(d) */ f.id FROM fields_of_structs f JOIN {build} d "
        "ON f.`a.b` = d.a AND f.p.`x``y` = d.x AND f.p.z = d.z"
    )
    clear_reports(bridge)
    with confs(spark, "spark.twostage.dynamicFilter.", maxBuildShare="1000"):
        found = sorted(row.id for row in spark.sql(query).collect())
    keys = {(1, 1, "k1"), (2, 3, "k8"), (6, 4, "k9")}
    assert found == [n for n in range(500) if (n % 7, n % 5, f"k{n % 11}") in keys]
    (report,) = twostage.scans(spark)
    assert "(`a.b`, p.`x`y`, p.z) IN set of 3 keys" in report.predicate
    assert "set of tuples" in [keys.form for keys in report.joins]


def test_hashes_are_those_of_spark_s_own_function(spark, tables):
    """Rows whose hash is in a set that Spark's SQL made, and no others."""
    kinds = {
        "n": "int",
        "l": "long",
        "s": "string",
        "real": "float",
        "wide": "double",
        "day": "date",
        "ts": "timestamptz",
    }
    named = [Column(place, (name,), Primitive(kind)) for place, (name, kind) in enumerate(kinds.items())]
    amount = Column(len(named), ("amount",), Primitive("decimal", precision=9, scale=2))
    columns = (*named, amount)
    everything = " AND ".join(f"{name} IS NOT NULL" for name in (*kinds, "amount"))
    frame = spark.sql(
        f"SELECT *, xxhash64({', '.join((*kinds, 'amount'))}) h FROM plain_fact WHERE {everything}"
    )
    rows = pa.Table.from_batches(frame.toArrow().to_batches()).combine_chunks()
    hashes = rows["h"].to_numpy()
    wanted = np.unique(hashes[::2])
    assert len(hashes) > 20
    arrays = {place: rows[column.path[0]].combine_chunks() for place, column in enumerate(columns)}
    for kernels in (True, False):
        truth = evaluate(InTuples(columns, key_set(wanted)), arrays, len(hashes), kernels=kernels)
        assert truth.true.tolist() == np.isin(hashes, wanted).tolist()
