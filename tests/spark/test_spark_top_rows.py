"""ORDER BY … LIMIT through Spark: the rows of a plain sort, whatever the types, filters, deletes and formats."""

from __future__ import annotations

import random

import pytest

import twostage
from lakehouse import executed_plan
from native_scans import is_native, load
from tables import FileOptions, Table

KEYS = ("id", "device", "price", "amount", "day", "ts", "local", "`odd.name ``x y`")
CLAUSES = [f"{way} NULLS {nulls}" for way in ("ASC", "DESC") for nulls in ("FIRST", "LAST")]
WIDE = {f"c{n}": "string" for n in range(12)}


@pytest.mark.parametrize("key", KEYS)
def test_rows_are_those_of_a_plain_sort(spark, key):
    for clause in CLAUSES:
        for limit in ("LIMIT 7", "LIMIT 3 OFFSET 40"):
            query = f"SELECT * FROM {{}} ORDER BY {key} {clause}, id {limit}"
            frame = spark.sql(query.format("events"))
            assert "first by " in executed_plan(frame)
            got = frame.collect()
            assert list(map(repr, got)) == list(map(repr, spark.sql(query.format("plain")).collect())), query
            report = twostage.last_scan(spark)
            assert report.top.endswith(f" LIMIT {7 if limit == 'LIMIT 7' else 43}")
            assert report.count("rows.fetched") < 300


@pytest.mark.parametrize("where", ["id > 120", "device = 'd3' OR price > 20", "price IS NULL", "id < 0"])
def test_filters_come_first(spark, where):
    query = f"SELECT id, ts FROM {{}} WHERE {where} ORDER BY ts DESC NULLS FIRST, id LIMIT 9"
    frame = spark.sql(query.format("events"))
    assert "first by " in executed_plan(frame)
    assert frame.collect() == spark.sql(query.format("plain")).collect()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM {} WHERE upper(device) = 'D3' ORDER BY id LIMIT 5",
        "SELECT id FROM {} ORDER BY id % 7, id LIMIT 5",
        "SELECT id FROM {} ORDER BY device COLLATE UNICODE_CI DESC, id LIMIT 5",
        "SELECT person.age FROM {} ORDER BY person.age DESC, id LIMIT 5",
        "SELECT id FROM {} ORDER BY flag, id LIMIT 5",
        "SELECT max(id) FROM {} GROUP BY device ORDER BY 1 LIMIT 5",
        "SELECT id FROM (SELECT * FROM {} LIMIT 300) ORDER BY id LIMIT 5",
    ],
)
def test_what_prunes_nothing_stays_with_spark(spark, query):
    frame = spark.sql(query.format("events"))
    assert "first by " not in executed_plan(frame)
    assert frame.collect() == spark.sql(query.format("plain")).collect()


def test_an_alias_and_a_subquery(spark):
    for query in (
        "SELECT id AS n, price FROM {} ORDER BY n DESC LIMIT 4",
        "SELECT count(*), max(id) FROM (SELECT id FROM {} ORDER BY id LIMIT 17)",
        "SELECT p.id FROM {} p JOIN (SELECT id FROM {} ORDER BY id DESC LIMIT 6) q ON p.id = q.id ORDER BY 1",
        "SELECT id FROM (SELECT id, ts FROM {} ORDER BY id DESC LIMIT 6) WHERE id % 2 = 0 ORDER BY id",
    ):
        assert (
            spark.sql(query.replace("{}", "events")).collect()
            == spark.sql(query.replace("{}", "plain")).collect()
        )


def test_the_switch_gives_the_same_rows(spark, warehouse):
    rows = []
    for switch in ("true", "false"):
        frame = load(spark, warehouse.events, **{"top-n": switch}).orderBy("price", "id").limit(8)
        assert ("first by " in executed_plan(frame)) == (switch == "true")
        rows.append(list(map(repr, frame.collect())))
    assert rows[0] == rows[1]


def made(folder, **more) -> tuple[Table, list[dict]]:
    """A table of six files in three formats with deletes of every kind, and the rows that are left."""
    pick = random.Random(5)
    table = Table(
        folder, {"id": "long", "n": "int", "x": "double", "s": "string", "t": "long", **more}, version=3
    )
    rows, files = {}, []
    for number in range(6):
        options = FileOptions(
            format=("parquet", "orc", "avro")[number % 3], mixed=number % 3 > 0, row_group_size=40,
            page_size=256, page_index=True, compression="zstd" if number % 3 == 0 else "none",
        )  # fmt: skip
        part = [
            {
                "id": 200 * number + i,
                "n": pick.choice((None, *range(4))),
                "x": pick.choice((None, float("nan"), 0.0, -0.0, float("inf"), pick.random())),
                "s": pick.choice((None, "", "é", "z" * 40 + str(i), f"k{i}")),
                "t": 200 * number + (i * 7) % 200,
            }
            for i in range(200)
        ]
        files.append(table.append(part, options))
        rows |= {row["id"]: row for row in part}
    gone = {row for file in range(6) for row in range(200 * file + 150, 200 * file + 190, 1 + file % 2)}
    table.delete_vectors(
        {
            files[number]: sorted(row - 200 * number for row in gone if row // 200 == number)
            for number in range(6)
        }
    )
    table.delete_equal(["t"], [{"t": t} for t in range(1100, 1195)])
    table.write()
    left = [row for row in rows.values() if row["id"] not in gone and not 1100 <= row["t"] < 1195]
    return table, left


@pytest.mark.parametrize("setting", [{}, {"deletes.stream": "always"}, {"two-stage": "false"}])
def test_formats_deletes_and_ties(spark, tmp_path, setting):
    _, left = made(tmp_path)
    assert 900 < len(left) < 1000
    frame = load(spark, tmp_path, **setting)
    spark.createDataFrame([tuple(row.values()) for row in left], frame.schema).createOrReplaceTempView(
        "left_rows"
    )
    frame.createOrReplaceTempView("made")
    for order in (
        "t DESC, id",
        "n DESC NULLS FIRST, id DESC",
        "n, s, id",
        "x DESC, id",
        "x NULLS LAST, id",
        "s DESC, id",
    ):
        for where in ("", "WHERE n = 2 OR id < 900"):
            query = f"SELECT * FROM {{}} {where} ORDER BY {order} LIMIT 12"
            got = spark.sql(query.format("made"))
            assert "first by " in executed_plan(got)
            found = list(map(repr, got.collect()))
            assert found == list(map(repr, spark.sql(query.format("left_rows")).collect())), query
    found = [row.n for row in spark.sql("SELECT n FROM made ORDER BY n DESC LIMIT 30").collect()]
    assert found == sorted((row["n"] for row in left if row["n"] is not None), reverse=True)[:30]


def test_deleted_rows_that_are_shown_count(spark, tmp_path):
    made(tmp_path)
    frame = load(spark, tmp_path).select("id", "t", "_deleted").orderBy("t", ascending=False).limit(20)
    assert [row.t for row in frame.collect()] == list(range(1199, 1179, -1))
    assert sum(row._deleted for row in frame.collect()) > 10


def test_files_and_row_groups_are_pruned(spark, tmp_path):
    """More than 4 MiB in many columns: the scan stays, although nothing filters it."""
    table = Table(tmp_path, {"id": "long", "ts": "timestamptz", **WIDE})
    for number in range(5):
        rows = [
            {"id": i, "ts": 1_700_000_000_000_000 + (number * 1000 + i) * 10**6}
            | dict.fromkeys(WIDE, f"v{i}" * 30)
            for i in range(1000)
        ]
        table.append(rows, row_group_size=100, compression="none", dictionary=False)
    table.write()
    frame = load(spark, tmp_path).orderBy("ts", ascending=False).limit(50)
    assert not is_native(frame)
    assert "ORDER BY and LIMIT leave about" in executed_plan(frame)
    assert [row.id for row in frame.collect()] == list(range(999, 949, -1))
    report = twostage.last_scan(spark)
    assert report.count("files.pruned.top-n") == 4
    assert report.count("row_groups.pruned.top-n") == 9
    assert report.count("rows.top-n") == 50
    assert report.count("rows.fetched") == 50
    assert "4 by top-n" in str(report)
    assert "ts DESC NULLS LAST LIMIT 50" in str(report)
    assert is_native(load(spark, tmp_path, **{"top-n": "false"}).orderBy("ts").limit(50))


def test_one_column_goes_to_sparks_reader_as_before(spark, tmp_path):
    """Reading the key alone would save nothing."""
    table = Table(tmp_path, {"id": "long"})
    table.append([{"id": i * 7919 % 1000} for i in range(1000)])
    table.append([{"id": i * 7919 % 1000} for i in range(1000)])
    table.write()
    frame = load(spark, tmp_path).orderBy("id").limit(5)
    assert is_native(frame)
    assert [row.id for row in frame.collect()] == [0, 0, 1, 1, 2]
