"""Aggregates that indexes answer: the rows are those of reading all, and the plan and the report say where they came from."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import pytest

import twostage
from core_scan import open_table
from indexed_tables import built, place_of
from lakehouse import canonical, executed_plan
from tables import Table
from twostage.aggregates import unproven_files

FILES = 6


@pytest.fixture(autouse=True)
def worth_it(monkeypatch):
    """Mix whatever the sizes."""
    monkeypatch.setattr(unproven_files, "MIN_PROVEN_BYTES_TO_MIX", 0)
    monkeypatch.setattr(unproven_files.UnprovenFiles, "_proves_half_of_bytes", lambda _: True)


def row(number: int) -> dict:
    return {
        "id": number,
        "country": ("de", "fr", "us", None, "ü")[number * 7 % 5],
        "kind": number * 3 % 4,
        "price": None if number % 9 == 0 else Decimal(number * 37 % 50).scaleb(-2),
        "day": 19_000 + number * 11 % 30,
        "ts": None if number % 4 == 0 else 1_700_000_000_000_000 + number * 5 % 60 * 1_000_000,
        "x": (1.5, -0.0, 0.0, float("nan"), 2.5, None)[number * 5 % 6],
        "flag": number % 3 == 0,
        "user": number * 17 % 100,
        "s": {"a": number % 6},
    }


COLUMNS = {
    "id": "long!", "country": "string", "kind": "int", "price": "decimal(9,2)", "day": "date",
    "ts": "timestamptz", "x": "double", "flag": "boolean", "user": "long", "s": {"a": "int"},
}  # fmt: skip
INDEXED = ["country", "kind", "price", "day", "ts", "x", "flag", "user", "s.a"]


def make(folder: Path, version: int = 2) -> tuple[Table, list]:
    table = Table(folder, COLUMNS, version=version)
    files = [table.append([row(200 * n + i) for i in range(200)], row_group_size=80) for n in range(FILES)]
    return table, files


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """All files indexed; positions, and keys that `country` and `kind` tell, are deleted."""
    table, files = make(tmp_path_factory.mktemp("whole") / "t")
    table.delete_positions({files[0]: [0, 7, 199], files[1]: range(200)})
    table.delete_equal(["country", "kind"], [{"country": "de", "kind": 0}, {"country": None, "kind": 3}])
    table.delete_equal(["user"], [{"user": 17}])
    path = table.write()
    built(open_table(path), INDEXED, "values")
    return path


@pytest.fixture(scope="module")
def sliced(tmp_path_factory):
    """Whole numbers have bit slices, and text the bitmaps of its values; positions and keys are deleted."""
    table, files = make(tmp_path_factory.mktemp("sliced") / "t")
    table.delete_positions({files[0]: [0, 7, 199], files[1]: range(200)})
    table.delete_equal(["country"], [{"country": "de"}, {"country": None}])
    path = table.write()
    opened = open_table(path)
    built(opened, ["id", "kind", "price", "day", "ts", "user", "s.a"], "slices")
    built(opened, ["country"], "values")
    return path


@pytest.fixture(scope="module")
def part(tmp_path_factory):
    """Two files have an index of `user` alone, one none, one a damaged one, one has deletes that no index tells."""
    table, files = make(tmp_path_factory.mktemp("part") / "t", 3)
    table.delete_vectors({files[3]: [1, 2, 3]})
    path = table.write()
    opened = open_table(path)
    built(opened, INDEXED, "values")
    made = sorted(Path(place_of(opened).folder).rglob("*.puffin"))
    assert len(made) == FILES
    made[0].unlink()
    data = bytearray(made[1].read_bytes())
    data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
    made[1].write_bytes(data)
    table.delete_equal(["id"], [{"id": 1_001}], like=files[5])
    return table.write()


def run(spark, path, sql: str, **options):
    spark.read.format("twostage").options(**options).load(str(path)).createOrReplaceTempView("t")
    frame = spark.sql(sql)
    return frame, frame.collect()


def is_local(frame) -> bool:
    plan = executed_plan(frame)
    return "BatchScan" not in plan and "TwoStageFiles" not in plan and "FileScan" not in plan


def same(spark, path, sql: str):
    frame, rows = run(spark, path, sql)
    report = twostage.last_scan(spark)
    other, expected = run(spark, path, sql, index="off")
    assert twostage.last_scan(spark).count("files.answered.index") == 0
    assert canonical(rows) == canonical(expected), sql
    assert frame.schema == other.schema
    return frame, rows, report


QUERIES = [
    "SELECT count(*) FROM t WHERE country = 'fr'",
    "SELECT count(*), count(price), count(ts), count(x) FROM t WHERE country IN ('de', 'us') OR kind = 2",
    "SELECT count(*) FROM t WHERE NOT (country = 'de' OR price > 0.2)",
    "SELECT count(*) FROM t WHERE country LIKE '%r' AND user BETWEEN 10 AND 40",
    "SELECT count(*) FROM t WHERE country IS NULL",
    "SELECT count(*) FROM t WHERE country = 'nowhere'",
    "SELECT count(*) FROM t WHERE s.a = 4",
    "SELECT count(*) FROM t WHERE x > 1e308",
    "SELECT country, count(*) FROM t GROUP BY country",
    "SELECT country, kind, count(*), count(price), max(day), min(ts) FROM t GROUP BY country, kind",
    "SELECT x, count(*) FROM t GROUP BY x",
    "SELECT flag, count(DISTINCT country), count(DISTINCT country) + 1, count(*) FROM t GROUP BY flag",
    "SELECT price, max(country), min(country) FROM t WHERE kind <> 1 GROUP BY price HAVING count(*) > 3",
    "SELECT count(DISTINCT x), count(DISTINCT user), count(DISTINCT price) FROM t",
    "SELECT count(DISTINCT day) FROM t WHERE country = 'us'",
    "SELECT min(country), max(country), min(price), max(price), min(day), max(ts), min(flag) FROM t",
    "SELECT min(user), max(user) FROM t WHERE country = 'ü' AND kind > 0",
    "SELECT max(x) FROM t",
    "SELECT DISTINCT country FROM t WHERE kind = 1",
    "SELECT sum(user), avg(user), sum(price), avg(price) FROM t",
    "SELECT country, sum(kind), avg(user) + 1, sum(price), count(price) FROM t GROUP BY country",
    "SELECT sum(user), sum(kind) FROM t WHERE user BETWEEN 10 AND 40 OR country = 'us'",
    "SELECT sum(user), avg(price), max(user) FROM t WHERE user > 97",
    """SELECT a.n, b.country FROM (SELECT country, count(*) n FROM t GROUP BY country) a
    JOIN (SELECT country, max(user) m FROM t GROUP BY country) b USING (country)""",
]


@pytest.mark.parametrize("number", range(len(QUERIES)))
def test_all_by_index(spark, whole, number):
    frame, _, report = same(spark, whole, QUERIES[number])
    assert report.count("files.answered.index") >= 1, str(report)
    assert report.count("indexes.ignored") == 0
    assert is_local(frame), executed_plan(frame)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sum(id), avg(id), min(id), max(id) FROM t",
        "SELECT country, sum(user), avg(user), sum(price), avg(price), count(*) FROM t GROUP BY country",
        "SELECT sum(user), min(day), max(ts), max(price) FROM t WHERE user BETWEEN 10 AND 40",
        "SELECT sum(price), count(*) FROM t WHERE price > 0.2 AND NOT (kind = 1)",
        "SELECT sum(price), count(*) FROM t WHERE ts IS NULL OR day < DATE'2022-01-20'",
        "SELECT sum(user) / count(*), country FROM t WHERE s.a IN (1, 4) GROUP BY country HAVING sum(kind) > 1",
        "SELECT sum(user), avg(user) FROM t WHERE id < 0",
    ],
)
def test_all_by_bit_slices(spark, sliced, sql):
    frame, _, report = same(spark, sliced, sql)
    assert report.count("files.answered.index") + report.count("files.pruned.bounds") >= 1, str(report)
    assert is_local(frame), executed_plan(frame)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT try_sum(user) FROM t",
        "SELECT try_avg(user) FROM t",
        "SELECT sum(DISTINCT user) FROM t",
        "SELECT sum(user) FILTER (WHERE kind = 1) FROM t",
        "SELECT sum(x) FROM t",
        "SELECT sum(user + 1) FROM t",
        "SELECT avg(ts) FROM (SELECT unix_micros(ts) ts FROM t)",
    ],
)
def test_sums_that_are_read(spark, sliced, sql):
    frame, _, _ = same(spark, sliced, sql)
    assert not is_local(frame), executed_plan(frame)


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_sums_that_may_overflow_or_round_are_read(spark, tmp_path, ansi):
    """Spark's own sum of longs overflows, and its average adds doubles: where that shows, it decides."""
    table = Table(tmp_path / "t", {"big": "long", "odd": "long", "wide": "decimal(38,0)"})
    rows = [{"big": 2**62, "odd": 2**53 - 1 + i % 2, "wide": Decimal(10**37)} for i in range(4)]
    table.append(rows)
    path = table.write()
    built(open_table(path), ["big", "odd", "wide"], "slices,values")
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        same(spark, path, "SELECT avg(odd), avg(big) FROM t")
        same(spark, path, "SELECT sum(wide) FROM t")
        if ansi == "false":
            same(spark, path, "SELECT sum(big) FROM t")
        else:
            with pytest.raises(Exception, match="ARITHMETIC_OVERFLOW"):
                run(spark, path, "SELECT sum(big) FROM t")
        frame, _, _ = same(spark, path, "SELECT min(big), max(odd) FROM t")
        assert is_local(frame)
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)


@pytest.mark.parametrize("kinds", ["slices", "values"])
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_sums_up_to_the_greatest_long(spark, tmp_path, ansi, kinds):
    """Where Spark's own cannot overflow in any order; averages, which add doubles, are Spark's."""
    table = Table(tmp_path / "t", {"g": "int", "top": "long", "low": "long", "over": "long", "both": "long"})
    rows = [
        {"g": i % 2, "top": 2**61 - i // 3, "low": i // 3 - 2**61, "over": 2**61, "both": (-1) ** i * 2**62}
        for i in range(4)
    ]
    table.append(rows)
    path = table.write()
    built(open_table(path), ["top", "low", "over", "both"], kinds)
    built(open_table(path), ["g"], "values")
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        frame, (found,), _ = same(spark, path, "SELECT sum(top), sum(low), count(*), max(top) FROM t")
        assert is_local(frame), executed_plan(frame)
        assert tuple(found) == (2**63 - 1, 1 - 2**63, 4, 2**61)
        for sql in (
            "SELECT sum(both) FROM t",
            "SELECT sum(top), avg(top) FROM t",
            "SELECT sum(top), count(top) FROM t",
        ):
            frame, _, _ = same(spark, path, sql)
            assert not is_local(frame), executed_plan(frame)
        if ansi == "false":
            same(spark, path, "SELECT sum(over) FROM t")
        else:
            with pytest.raises(Exception, match="ARITHMETIC_OVERFLOW"):
                run(spark, path, "SELECT sum(over) FROM t")
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)


@pytest.mark.parametrize("number", range(len(QUERIES)))
def test_files_without_an_index_alone_are_read(spark, part, number):
    same(spark, part, QUERIES[number])


def test_the_plan_and_the_report_say_so(spark, whole):
    frame, _, report = same(spark, whole, "SELECT count(*) FROM t WHERE country = 'fr'")
    assert "LocalTableScan" in executed_plan(frame)
    assert report.is_from_metadata
    assert "Answered from the metadata of 0 and indexes of 6 data files; none was opened." in str(report)
    assert "nobody: answered from metadata and indexes" in str(report)
    assert "6 by indexes" in str(report)
    assert "index of country read (values): exact" in str(report)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*), max(country) FROM t WHERE country >= 'de'",
        "SELECT kind, count(DISTINCT country), count(*), max(price) FROM t GROUP BY kind",
        "SELECT count(DISTINCT country) FROM t",
        "SELECT country, sum(user), count(*), sum(kind) FROM t GROUP BY country",
        "SELECT country, count(DISTINCT country), count(*) FROM t GROUP BY country",
    ],
)
def test_mixed_with_reading(spark, part, sql):
    frame, _, _ = same(spark, part, sql)
    assert "Union" in executed_plan(frame)
    assert not is_local(frame)
    run(spark, part, sql)
    report = twostage.last_scan(spark)
    answered = report.count("files.answered.index")
    assert 3 <= answered == report.count("files.answered") <= 4  # the names of index files have no order
    assert f"Metadata answers for 0 other files, indexes for {answered}." in str(report)
    assert f"{answered} by indexes" in str(report)


def test_different_values_of_two_columns_are_not_mixed(spark, part):
    frame, _, _ = same(spark, part, "SELECT count(DISTINCT country), count(DISTINCT kind) FROM t")
    assert "LocalTableScan" not in executed_plan(frame)


def test_an_answer_at_most_is_read(spark, tmp_path):
    """Postings find no row where there is none; where they find some, the file is read."""
    table, _ = make(tmp_path / "t")
    path = table.write()
    built(open_table(path), ["id"], "postings")
    _, rows, report = same(spark, path, "SELECT count(*) FROM t WHERE id IN (5, 7000)")
    assert rows == [(1,)]
    assert report.count("files.read") <= 1


def test_python_values_of_moments(spark, whole):
    _, rows, _ = same(spark, whole, "SELECT min(day), min(ts) FROM t WHERE kind = 2 AND country = 'fr'")
    assert isinstance(rows[0][0], datetime.date)
    assert isinstance(rows[0][1], datetime.datetime)


def test_switches(spark, whole):
    sql = "SELECT country, count(*) FROM t GROUP BY country"
    for options in ({"index": "off"}, {"aggregate-push-down-enabled": "false"}):
        frame, rows = run(spark, whole, sql, **options)
        assert not is_local(frame)
        assert canonical(rows) == canonical(run(spark, whole, sql)[1])
