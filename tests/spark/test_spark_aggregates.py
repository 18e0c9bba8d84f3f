"""Aggregates that metadata answers: no task runs, the plan and the report say so, and the rows are those of reading."""

from __future__ import annotations

import os
import random
from decimal import Decimal

import pytest

import random_values
import twostage
from lakehouse import canonical, executed_plan
from tables import Table

SWITCH = "aggregate-push-down-enabled"
SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))


def run(spark, path, sql: str, **options):
    """Run a query over the view `t`; return its frame and rows."""
    spark.read.format("twostage").options(**options).load(str(path)).createOrReplaceTempView("t")
    frame = spark.sql(sql)
    return frame, frame.collect()


def is_answered(frame) -> bool:
    plan = executed_plan(frame)
    assert ("LocalTableScan" in plan) != ("BatchScan" in plan or "FileScan" in plan), plan
    return "LocalTableScan" in plan


def same(spark, path, sql: str, *, answered: bool, **options):
    """Return the rows, alike with and without the switch; and answered as expected."""
    frame, rows = run(spark, path, sql, **options)
    assert is_answered(frame) == answered, executed_plan(frame)
    report = twostage.last_scan(spark)
    assert report.is_from_metadata == answered
    other, expected = run(spark, path, sql, **options, **{SWITCH: "false"})
    assert not is_answered(other)
    assert not twostage.last_scan(spark).is_from_metadata
    assert canonical(rows) == canonical(expected)
    return rows


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """Twelve files: four appends in three identity partitions, one of NULL; v3, a deletion vector in one file."""
    table = Table(
        tmp_path_factory.mktemp("people") / "t",
        {
            "id": "long",
            "p": "string",
            "flag": "boolean",
            "small": "int",
            "single": "float",
            "wide": "double",
            "d9": "decimal(9,2)",
            "d38": "decimal(38,10)",
            "day": "date",
            "local": "timestamp",
            "moment": "timestamptz",
            "word": "string",
            "void": "int",
        },
        version=3,
        partition=["p"],
    )
    for number in range(4):
        files = table.append_all(
            [
                {
                    "id": 100 * number + i,
                    "p": (None, "a", "b")[i % 3],
                    "flag": i % 2 == 0,
                    "small": None if i % 5 == 0 else i - 10,
                    "single": i / 4 + 0.1,
                    "wide": -i / 3 - 1,
                    "d9": Decimal(i).scaleb(-2),
                    "d38": Decimal(10**27 + i).scaleb(-10),
                    "day": 19_000 + i,
                    "local": -(10**15) + i,
                    "moment": 10**15 + i,
                    "word": f"w{i}",
                }
                for i in range(30)
            ]
        )
    return table, files, table.write()


EVERY = ", ".join(
    f"{function}({name})"
    for name in ("id", "flag", "small", "single", "wide", "d9", "d38", "day", "local", "moment", "void", "p")
    for function in ("count", "min", "max")
)


def test_every_type(spark, people):
    (row,) = same(spark, people[2], f"SELECT count(*), {EVERY}, count(word) FROM t", answered=True)
    assert row["count(1)"] == 120
    assert row["count(small)"] == 96
    assert row["max(id)"] == 329
    report = twostage.scans(spark)[-2]
    assert report.count("files.answered") == report.count("files.considered") == 12
    assert report.metrics.counters["bytes.read"] == 0
    assert "12 by metadata" in str(report)
    assert "answered from metadata" in str(report)


@pytest.mark.parametrize(
    ("sql", "answered"),
    [
        ("SELECT p, count(*), min(id), max(day) + 1 AS next FROM t GROUP BY p", True),
        ("SELECT count(*) c FROM t GROUP BY p HAVING count(*) > 3", True),
        ("SELECT DISTINCT p FROM t", True),
        ("SELECT p, count(small) FROM t WHERE p IS NOT NULL GROUP BY p ORDER BY p LIMIT 1", True),
        ("SELECT count(*) FROM t WHERE p = 'a'", True),
        ("SELECT count(*), min(id) FROM t WHERE id >= 100", True),
        ("SELECT count(*), max(id) FROM t WHERE id > 1000", True),
        ("SELECT m FROM (SELECT p AS q, max(id) AS m FROM t GROUP BY p) WHERE q = 'b'", True),
        ("SELECT count(*) FROM (SELECT id AS a, p FROM t) WHERE a < 200", True),
        ("SELECT count(*) FROM t WHERE id > 105", False),
        ("SELECT count(DISTINCT p) FROM t", True),
        ("SELECT count(DISTINCT id) FROM t", False),
        ("SELECT count(*) FILTER (WHERE id > 5) FROM t", False),
        ("SELECT min(id + 1) FROM t", False),
        ("SELECT avg(id), count(*) FROM t", False),
        ("SELECT sum(id) FROM t", False),
        ("SELECT min(word) FROM t", False),
        ("SELECT day, count(*) FROM t GROUP BY day", False),
        ("SELECT p, day, count(*) FROM t GROUP BY p, day", False),
        ("SELECT count(*) FROM t WHERE length(word) > 2", False),
        ("SELECT count(*) FROM (SELECT * FROM t LIMIT 7)", False),
        ("SELECT p, count(*) FROM t GROUP BY ROLLUP (p)", False),
        ("SELECT max(a), count(1 + 1) FROM (SELECT id AS a, p FROM t)", True),
        ("SELECT q, min(a), count(b) FROM (SELECT id AS a, p AS q, 7 AS b FROM t) GROUP BY q", True),
        ("SELECT count(a) FROM (SELECT small + 1 AS a FROM t)", False),
    ],
)
def test_queries(spark, people, sql, answered):
    same(spark, people[2], sql, answered=answered)


@pytest.mark.parametrize("native", ["auto", "never"])
@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT count(DISTINCT 1) FROM t", [(1,)]),
        ("SELECT count(DISTINCT 'x'), count(*) FROM t", [(1, 120)]),
        ("SELECT count(DISTINCT true) FROM t WHERE id >= 100", [(1,)]),
        ("SELECT p, count(DISTINCT 1.5) FROM t GROUP BY p", [("a", 1), ("b", 1), (None, 1)]),
        ("SELECT count(DISTINCT a) FROM (SELECT 1 AS a FROM t)", [(1,)]),
        ("SELECT n FROM (SELECT p, count(DISTINCT 2) n FROM t GROUP BY p) WHERE p = 'a'", [(1,)]),
        ("SELECT (SELECT count(DISTINCT 1) FROM t)", [(1,)]),
        ("SELECT count(1) FILTER (WHERE p = 'a') FROM t", [(40,)]),
        ("SELECT count(DISTINCT 1) FILTER (WHERE p = 'z') FROM t", [(0,)]),
        ("SELECT count(DISTINCT 1, 2), count(DISTINCT p, 1) FROM t", [(1, 2)]),
    ],
)
def test_distinct_literals_are_not_rows(spark, people, sql, expected, native):
    """Spark pushes count(DISTINCT 1) down as count(*)."""
    rows = same(spark, people[2], sql, answered=False, **{"scan.native": native})
    assert canonical(map(tuple, rows)) == canonical(expected)


def test_null_literals_are_not_rows(spark, people):
    """Spark pushes count(NULL) down as count(*), where nothing makes 0 of it before."""
    spark.conf.set(
        "spark.sql.optimizer.excludedRules", "org.apache.spark.sql.catalyst.optimizer.NullPropagation"
    )
    try:
        assert same(spark, people[2], "SELECT count(NULL), count(*) FROM t", answered=False) == [(0, 120)]
    finally:
        spark.conf.unset("spark.sql.optimizer.excludedRules")


def test_the_rows_of_one_query_answered_and_read(spark, people):
    """A scalar subquery is answered, what it filters is read."""
    sql = "SELECT id FROM t WHERE id = (SELECT max(id) FROM t)"
    frame, rows = run(spark, people[2], sql)
    assert [row.id for row in rows] == [329]
    assert {report.is_from_metadata for report in twostage.scans(spark)[-2:]} == {True, False}
    assert "LocalTableScan" in executed_plan(frame)


def test_whole_queries_run_again(spark, people):
    """A frame is planned anew for each action, and each time it is answered."""
    spark.read.format("twostage").load(str(people[2])).createOrReplaceTempView("t")
    frame = spark.sql("SELECT p, count(*) c FROM t GROUP BY p")
    assert canonical(frame.collect()) == canonical(frame.collect())
    assert frame.count() == 3
    assert spark.table("t").count() == 120
    assert twostage.last_scan(spark).is_from_metadata


def test_a_filter_option(spark, people):
    assert same(spark, people[2], "SELECT count(*) n FROM t", answered=True, filter="p = 'a'")[0].n == 40
    assert same(spark, people[2], "SELECT count(*) n FROM t", answered=False, filter="id > 105")[0].n == 84


def test_manifests_are_read_once(spark, people, bridge):
    """The rule before the push-down asks first, and its answer is taken then."""
    run(spark, people[2], "SELECT max(id) FROM t")
    bridge._metadata_answers._waiting = []
    before = dict(bridge.calls)
    run(spark, people[2], "SELECT min(day), max(id) FROM t")
    assert bridge.calls["hand_over"] == before.get("hand_over", 0) + 1
    assert bridge.calls["aggregate"] == before.get("aggregate", 0) + 1
    assert bridge.calls.get("plan", 0) == before.get("plan", 0)
    assert bridge._metadata_answers._waiting == []


def test_names_in_another_case(spark, tmp_path):
    table = Table(tmp_path / "t", {"id": "long", "p": "int"}, partition=["p"])
    for number in range(3):
        table.append([{"id": 10 * number + i, "p": number % 2} for i in range(10)])
    path = table.write()
    rows = same(spark, path, "SELECT P, MAX(ID), COUNT(ID), max(id) FROM t GROUP BY P", answered=True)
    assert sorted(map(tuple, rows)) == [(0, 29, 20, 29), (1, 19, 10, 19)]
    assert same(spark, path, "SELECT MIN(ID) FROM t WHERE P = 1", answered=True) == [(10,)]


def test_a_vector(spark, tmp_path):
    table = Table(tmp_path / "t", {"id": "long", "p": "int"}, version=3, partition=["p"])
    file = table.append([{"id": i, "p": 1} for i in range(5)])
    gone = table.append([{"id": i, "p": 2} for i in range(5)])
    table.delete_vectors({file: [1, 2], gone: range(5)})
    path = table.write()
    assert same(spark, path, "SELECT count(*) n FROM t", answered=True)[0].n == 3
    assert same(spark, path, "SELECT p, count(*) n FROM t GROUP BY p", answered=True) == [(1, 3)]
    assert same(spark, path, "SELECT min(id) n FROM t", answered=False)[0].n == 0


def test_positions(spark, tmp_path):
    table = Table(tmp_path / "t", {"id": "long", "p": "int"}, partition=["p"])
    files = [table.append([{"id": i, "p": p} for i in range(5)]) for p in (1, 2)]
    table.delete_positions({files[0]: [1, 2], files[1]: [0, 9]})
    table.delete_positions({files[0]: [2, 3]})
    path = table.write()
    assert same(spark, path, "SELECT count(*) n FROM t", answered=True)[0].n == 6
    run(spark, path, "SELECT count(*) n FROM t")
    assert "Deleted rows counted in 3 position delete files." in str(twostage.last_scan(spark))
    rows = same(spark, path, "SELECT p, count(*) n FROM t WHERE p > 0 GROUP BY p", answered=True)
    assert sorted(rows) == [(1, 2), (2, 4)]
    assert same(spark, path, "SELECT min(id), max(id), count(id) FROM t", answered=False) == [(0, 4, 6)]


def test_a_damaged_file_of_positions_is_our_error(spark, tmp_path):
    table = Table(tmp_path / "t", {"id": "long"})
    table.delete_positions({table.append([{"id": i} for i in range(5)]): [1]})
    path = table.write()
    (delete,) = (tmp_path / "t" / "data").glob("deletes-*")
    os.truncate(delete, 20)
    with pytest.raises(Exception, match=r"\[TWOSTAGE\."):
        run(spark, path, "SELECT count(*) FROM t")


def test_empty_tables(spark, warehouse):
    assert same(spark, warehouse.empty, "SELECT count(*), count(id), min(id) FROM t", answered=True) == [
        (0, 0, None)
    ]


def test_older_snapshots(spark, warehouse):
    first = str(warehouse.snapshots[0])
    rows = same(
        spark, warehouse.events, "SELECT count(*), max(id) FROM t", answered=True, **{"snapshot-id": first}
    )
    assert rows == [(100, 99)]


def test_sql_catalog(spark):
    (row,) = spark.sql("SELECT count(*), max(id) FROM lake.db.events VERSION AS OF 'audit'").collect()
    assert row == (200, 199)
    assert twostage.last_scan(spark).is_from_metadata
    (row,) = spark.sql(f"SELECT count(*), max(id) FROM lake.db.events WITH (`{SWITCH}` = 'false')").collect()
    assert row == (300, 299)
    assert not twostage.last_scan(spark).is_from_metadata


def test_metadata_tables_are_read(spark, people):
    frame, rows = run(spark, people[2], "SELECT count(*) n FROM t", **{"metadata-table": "files"})
    assert rows[0].n == 12
    assert not is_answered(frame)


# ---- random tables

KINDS = {
    "flag": "boolean",
    "small": "int",
    "big": "long",
    "single": "float",
    "wide": "double",
    "money": "decimal(9,2)",
    "day": "date",
    "local": "timestamp",
    "moment": "timestamptz",
    "word": "string",
}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_random_tables(spark, tmp_path, version):
    """On and off, columns of every type, alone and grouped (TWOSTAGE_SEED)."""
    pick = random.Random(f"{SEED} {version}")
    columns = {"p": pick.choice(("int", "string", "date")), **KINDS}
    table = Table(tmp_path / "t", columns, version=version, partition=["p"])
    pools = {name: random_values.pool(pick, kind, 8) for name, kind in columns.items()}
    for _ in range(3):
        files = table.append_all(
            [
                {name: pick.choice(pool) for name, pool in pools.items() if pick.random() < 0.9}
                for _ in range(20)
            ]
        )
    if version == 3:
        table.delete_vectors({files[0]: [0]})
    path = table.write()
    answered = 0
    for name in ("p", *pick.sample(sorted(KINDS), 4)):
        for functions in (("count",), ("min", "max")):
            for by in ("", " GROUP BY p"):
                values = ", ".join(f"{function}(`{name}`)" for function in functions)
                # As text: Python's datetime holds fewer values than Spark's types.
                sql = f"SELECT CAST(struct(p, *) AS STRING) FROM (SELECT p, {values} FROM t{by})"
                if not by:
                    sql = f"SELECT CAST(struct(*) AS STRING) FROM (SELECT {values} FROM t)"
                frame, rows = run(spark, path, sql)
                other, expected = run(spark, path, sql, **{SWITCH: "false"})
                assert not is_answered(other)
                assert canonical(rows) == canonical(expected), f"TWOSTAGE_SEED={SEED}: {sql}"
                answered += is_answered(frame)
    assert answered >= 4, f"TWOSTAGE_SEED={SEED}: {answered}"
