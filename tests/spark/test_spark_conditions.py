"""What a scan's filter found out serves later scans through Spark, and indexes answer their filters; keys of joins are not kept."""

from __future__ import annotations

import pytest

import twostage
from native_scans import load
from tables import Table
from twostage.__main__ import main

FILES, ROWS = 6, 20_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    table = Table(tmp_path_factory.mktemp("conditions") / "t", {"id": "long", "k": "long", "s": "string"})
    for number in range(FILES):
        first = number * ROWS
        table.append(
            [
                {"id": i, "k": i * 7919 % 100_003, "s": f"text {i * 31 % 1009}"}
                for i in range(first, first + ROWS)
            ]
        )
    table.write()
    return table.folder


def expected(where):
    return sorted(i for i in range(FILES * ROWS) if where(i * 7919 % 100_003, f"text {i * 31 % 1009}"))


def ids(frame):
    return sorted(row.id for row in frame.select("id").collect())


@pytest.mark.parametrize("cache", ["memory", "host"])
def test_a_filter_is_evaluated_once(spark, folder, tmp_path, cache):
    options = {"filter.cache": cache, "filter.cache-dir": str(tmp_path / "cache"), "scan.native": "never"}
    least = {"memory": 500, "host": 600}[
        cache
    ]  # workers live on: what one test keeps the other must not want
    wanted = expected(lambda k, s: s.endswith("7") and k > least)
    reports = []
    for _ in range(4):
        assert ids(load(spark, folder, **options).where(f"s LIKE '%7' AND k > {least}")) == wanted
        reports.append(twostage.last_scan(spark))
    assert reports[0].count("conditions.known") == 0
    if cache == "host":  # whichever worker it was
        assert [report.count("conditions.known") for report in reports[1:]] == [FILES] * 3
        assert "known from earlier scans" in str(reports[-1])
        assert f"{FILES:,} known" in str(reports[-1])
    assert reports[0].count("rows.filtered") == reports[-1].count("rows.filtered")


def test_keys_of_a_join_are_not_kept(spark, folder, tmp_path):
    options = {"filter.cache": "host", "filter.cache-dir": str(tmp_path / "cache"), "scan.native": "never"}
    for number in range(2):
        keys = [number * 3, 50_000 + number]
        spark.createDataFrame([(key, key % 2) for key in keys], "k long, odd int").createOrReplaceTempView(
            "keys"
        )
        load(spark, folder, **options).createOrReplaceTempView("t")
        found = spark.sql("SELECT t.id FROM t JOIN keys ON t.k = keys.k AND keys.odd >= 0").collect()
        assert sorted(row.id for row in found) == expected(lambda k, s, keys=keys: k in keys)
    assert not list((tmp_path / "cache").glob("*.twostage"))


def test_indexes_answer(spark, folder):
    assert main(["index", "create", str(folder), "--columns", "k", "--kind", "postings,files"]) == 0
    wanted = expected(lambda k, s: k == 4242)
    counted = {}
    for index in ("off", "auto"):
        frame = load(spark, folder, index=index, **{"scan.native": "never", "prune.dictionary": "false"})
        assert ids(frame.where("k = 4242")) == wanted
        counted[index] = twostage.last_scan(spark)
    assert counted["off"].count("files.pruned.index") == 0
    assert counted["auto"].count("files.pruned.index") == FILES - len({i // ROWS for i in wanted})
    assert counted["auto"].count("bytes.read") < counted["off"].count("bytes.read")
    assert "by index" in str(counted["auto"])
