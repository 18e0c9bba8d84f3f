"""Aggregates that metadata answers for most files: the others alone are read, and the rows are those of reading all."""

from __future__ import annotations

import os
import random

import pytest

import random_values
import twostage
from lakehouse import canonical, executed_plan
from tables import Table
from twostage.aggregates import unproven_files
from twostage.aggregates.file_proofs import FileProofs

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))
SWITCH = "aggregate-push-down-enabled"


@pytest.fixture(autouse=True)
def worth_it(monkeypatch):
    """Mix whatever the sizes."""
    monkeypatch.setattr(unproven_files, "MIN_PROVEN_BYTES_TO_MIX", 0)


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    """Ten files: p is 0 to 3 and NULL; two with equality deletes, which leave nothing of p = 3, one without bounds."""
    table = Table(
        tmp_path_factory.mktemp("events") / "t",
        {"id": "long!", "p": "int", "d": "decimal(20,4)", "day": "date", "word": "string", "f": "double"},
        partition=["p"],
    )
    files = []
    for number in range(10):
        rows = [
            {
                "id": 100 * number + i,
                "p": (0, 1, 2, None)[number % 4] if number < 9 else 3,
                "d": f"{number}.{i:04}",
                "day": None if i % 3 else 100 * number + i,
                "word": f"w{i % 7}",
                "f": i / 4 + 1,
            }
            for i in range(50)
        ]
        files.append(table.append(rows, metrics="counts" if number == 5 else "full"))
    table.delete_equal(["p", "id"], [{"p": 0, "id": 0}, {"p": 0, "id": 49}], like=files[0])
    table.delete_equal(["p"], [{"p": 3}], like=files[9])
    return table.write()


def run(spark, path, sql: str, **options):
    """Run a query over the view `t`; return its frame and rows."""
    spark.read.format("twostage").options(**options).load(str(path)).createOrReplaceTempView("t")
    frame = spark.sql(sql)
    return frame, frame.collect()


def is_mixed(frame) -> bool:
    plan = executed_plan(frame)
    return "Union" in plan and "LocalTableScan" in plan and ("BatchScan" in plan or "TwoStageFiles" in plan)


def same(spark, path, sql: str, *, mixed: bool = True):
    """Return the rows, alike with and without the switch, under the same schema; and mixed as expected."""
    frame, rows = run(spark, path, sql)
    assert is_mixed(frame) == mixed, executed_plan(frame)
    answered = twostage.last_scan(spark).count("files.answered")
    other, expected = run(spark, path, sql, **{SWITCH: "false"})
    assert not is_mixed(other)
    assert canonical(rows) == canonical(expected)
    assert frame.schema == other.schema
    plans = [f._jdf.queryExecution().optimizedPlan().schema().json() for f in (frame, other)]
    assert plans[0] == plans[1], "the optimized plan has the same types and may be NULL where the other may"
    return rows, answered


QUERIES = [
    "SELECT count(*) n, count(d), count(day), min(id), max(id) FROM t",
    "SELECT count(*) + 1 AS n, concat('x', max(d)), min(day) IS NULL, max(day), count(*) again FROM t",
    "SELECT p, count(*), max(d), min(day), count(day) FROM t GROUP BY p",
    "SELECT max(id), p FROM t WHERE p IS NOT NULL GROUP BY p HAVING count(*) > 60 ORDER BY p DESC",
    "SELECT p, count(*) FROM t GROUP BY p ORDER BY count(*) DESC, p LIMIT 2",
    "SELECT min(id), count(*) FROM t WHERE p = 0 OR p = 1",
    "SELECT max(id) FILTER (WHERE true) m, min(DISTINCT day) FROM t",
    "SELECT a.n, b.m FROM (SELECT p, count(*) n FROM t GROUP BY p) a JOIN (SELECT p, max(id) m FROM t GROUP BY p) b USING (p)",
    "SELECT id FROM t WHERE id = (SELECT max(id) FROM t)",
    "SELECT p + 1 AS q, count(*) FROM t GROUP BY p",
    "SELECT max(f), min(f), count(f) FROM t",
    "SELECT P, COUNT(*), MAX(D) FROM t WHERE ID >= 0 GROUP BY P",
]


@pytest.mark.parametrize("number", range(len(QUERIES)))
def test_queries(spark, events, number):
    same(spark, events, QUERIES[number])


@pytest.mark.parametrize(
    "confs",
    [
        {"spark.sql.ansi.enabled": "false"},
        {"spark.sql.adaptive.enabled": "false"},
        {"spark.sql.codegen.wholeStage": "false"},
        {"spark.sql.planChangeValidation": "true"},
        {"spark.sql.caseSensitive": "true"},
    ],
    ids=lambda confs: next(iter(confs)).rpartition(".")[2],
)
def test_settings(spark, events, confs):
    for name, value in confs.items():
        spark.conf.set(name, value)
    try:
        for query in QUERIES[:4]:
            same(spark, events, query)
    finally:
        for name in confs:
            spark.conf.unset(name)


def test_only_the_others_are_read(spark, events):
    _, answered = same(spark, events, "SELECT count(*) FROM t")
    assert answered == 8
    _, answered = same(spark, events, "SELECT max(id) FROM t")
    assert answered == 7
    run(spark, events, "SELECT max(id) FROM t")
    report = twostage.last_scan(spark)
    assert report.count("files.read") == 3
    assert "Metadata answers for 7 other files." in str(report)
    assert "7 by metadata" in str(report)


def test_groups_of_one_side_only(spark, events):
    """Nothing is left of p = 3, which is read; NULL and 2 are known from metadata alone."""
    rows, _ = same(spark, events, "SELECT p, count(*) n FROM t GROUP BY p")
    assert sorted((row.p is None, row.p, row.n) for row in rows) == [
        (False, 0, 148),
        (False, 1, 100),
        (False, 2, 100),
        (True, None, 100),
    ]
    assert same(spark, events, "SELECT count(*), max(id) FROM t WHERE p = 3", mixed=False)[0] == [(0, None)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(DISTINCT id) FROM t",
        "SELECT sum(id), count(*) FROM t",
        "SELECT max(id + 1) FROM t",
        "SELECT count(*) FROM t WHERE word LIKE 'w1%' AND rand() < 2",
        "SELECT p, id, count(*) FROM t GROUP BY p, id",
        "SELECT max(word) FROM t",
        "SELECT count(*) FROM t WHERE id % 7 = 3",
        "SELECT DISTINCT p FROM t",
        "SELECT count(*) FILTER (WHERE id > 3) FROM t",
        "SELECT count(DISTINCT 1) FROM t",
        "SELECT p, count(DISTINCT 'x'), count(*) FROM t GROUP BY p",
    ],
)
def test_the_rest_is_read_whole(spark, events, sql):
    same(spark, events, sql, mixed=False)


def test_deleted_positions_are_left_to_the_reader_of_spark(spark, tmp_path):
    table = Table(tmp_path / "t", {"id": "long", "x": "long"})
    files = [table.append([{"id": 10 * n + i, "x": i} for i in range(10)]) for n in range(4)]
    table.delete_positions({files[3]: [9, 8]})
    frame, rows = run(spark, table.write(), "SELECT max(id), count(x) FROM t")
    assert rows == [(37, 38)]
    assert is_mixed(frame)
    assert "TwoStageFiles" in executed_plan(frame)
    assert twostage.last_scan(spark).is_handed_over
    assert twostage.last_scan(spark).count("handed_over.files") == 1


def test_snapshots_and_options(spark, tmp_path):
    table = Table(tmp_path / "t", {"id": "long"})
    for number in range(4):
        table.append([{"id": 10 * number + i} for i in range(10)])
    table.delete_equal(["id"], [{"id": 39}])
    table.append([{"id": 99}])
    path, older = table.write(), str(table.snapshots[-2].id)
    sql = "SELECT max(id), count(*) FROM t"
    assert same(spark, path, sql) == ([(99, 40)], 4)  # bounds show that the keys are in one file
    frame, rows = run(spark, path, sql, versionAsOf=older)
    assert rows == [(38, 39)]
    assert is_mixed(frame)
    assert twostage.last_scan(spark).count("files.answered") == 3
    frame, rows = run(spark, path, sql, **{"scan.native": "never"})
    assert rows == [(99, 40)]
    assert is_mixed(frame)


@pytest.mark.parametrize(
    ("suffix", "rows"),
    [
        ("", 300),
        (" VERSION AS OF 'audit'", 200),
        (" WITH (branch = 'audit')", 200),
        (" VERSION AS OF 'audit' WITH (`scan.native` = 'never')", 200),
        (" WITH (filter = 'id < 150')", 150),
    ],
)
def test_time_travel_and_options_in_a_catalog(spark, warehouse, monkeypatch, suffix, rows):
    """What is read beside the answer is of the same snapshot, and part of it only."""
    proven = FileProofs.of

    def first_is_not(self, file, *arguments, **options):
        is_first = file.lower_bounds[1] == bytes(8)
        return "not proven" if is_first else proven(self, file, *arguments, **options)

    monkeypatch.setattr(FileProofs, "of", first_is_not)
    monkeypatch.setattr(unproven_files.UnprovenFiles, "_proves_half_of_bytes", lambda _: True)
    frame = spark.sql(f"SELECT count(*), min(id), max(id) FROM lake.db.events{suffix}")
    assert frame.collect() == [(rows, 0, rows - 1)]
    assert is_mixed(frame)


@pytest.mark.parametrize("version", [2, 3])
def test_random_tables(spark, tmp_path, version):
    """On and off, columns of every type, alone and grouped (TWOSTAGE_SEED)."""
    pick = random.Random(f"mixed {SEED} {version}")
    kinds = {"small": "int", "big": "long", "money": "decimal(9,2)", "day": "date", "moment": "timestamptz"}
    columns = {"p": pick.choice(("int", "string", "date")), **kinds, "word": "string", "flag": "boolean"}
    table = Table(tmp_path / "t", columns, version=version, partition=["p"])
    pools = {name: random_values.pool(pick, kind, 8) for name, kind in columns.items()}
    files = []
    for _ in range(3):
        rows = [{n: pick.choice(pool) for n, pool in pools.items() if pick.random() < 0.9} for _ in range(30)]
        files += table.append_all(rows)
    if version == 2:
        table.delete_equal(["big"], [{"big": pick.choice(pools["big"])}], like=files[0])
    else:
        table.delete_vectors({files[0]: [0], files[1]: [0]})
    path = table.write()
    mixed = 0
    for name in ("p", *pick.sample(sorted(kinds), 3)):
        for by in ("", " GROUP BY p"):
            values = f"count(`{name}`), min(`{name}`), max(`{name}`)"
            # As text: Python's datetime holds fewer values than Spark's types.
            inner = f"SELECT {'p, ' if by else ''}{values} FROM t{by}"
            sql = f"SELECT CAST(struct(*) AS STRING) FROM ({inner})"
            frame, rows = run(spark, path, sql)
            _, expected = run(spark, path, sql, **{SWITCH: "false"})
            assert canonical(rows) == canonical(expected), f"TWOSTAGE_SEED={SEED}: {sql}"
            mixed += is_mixed(frame)
    assert mixed >= 2, f"TWOSTAGE_SEED={SEED}: {mixed}"


def test_the_planner_may_forget_the_part(spark, events, bridge):
    """A DataFrame brings its part of the table along."""
    spark.read.format("twostage").load(str(events)).createOrReplaceTempView("t")
    frame = spark.sql("SELECT p, max(d) FROM t GROUP BY p")
    frame._jdf.queryExecution().optimizedPlan()
    bridge.pins._tables.clear()
    rows = frame.collect()
    assert is_mixed(frame)
    bridge.pins._tables.clear()
    assert canonical(rows) == canonical(
        run(spark, events, "SELECT p, max(d) FROM t GROUP BY p", **{SWITCH: "false"})[1]
    )
