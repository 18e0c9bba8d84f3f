"""Queries through Spark of a table in an object store that answers late: rows, requests in flight, a limit, cancelled tasks."""

from __future__ import annotations

import threading
import time
from collections import Counter

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import twostage
from deleted_tables import TABLES, write_tables
from late_store import BUCKET, kind_of, serve_late

FILES, ROWS = 12, 400
LATENCY = 0.05


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Tables of twelve files: without deletes, and with each kind; `rows` are the live ones by table."""
    root = tmp_path_factory.mktemp("lake")
    live = write_tables(root, f"s3://{BUCKET}", files=FILES, rows=ROWS)
    with serve_late(root, latency=LATENCY) as store:
        store.live = live
        yield store


@pytest.fixture
def load(spark, lake):
    def load(name, **options):
        reader = spark.read.format("twostage").options(**lake.options)
        for key, value in options.items():
            reader = reader.option(key.replace("_", "-"), value)
        frame = reader.load(f"s3://{BUCKET}/{name}")
        lake.reset()
        return frame

    return load


@pytest.mark.parametrize("name", TABLES)
def test_a_needle(load, lake, name):
    """All of the task's files are asked for at the same time."""
    row = next(row for row in lake.live[name] if row["id"] == 7 * ROWS + 18)
    found = load(name, parallelism="1").where(f"k = {row['k']}").collect()
    expected = [one for one in lake.live[name] if one["k"] == row["k"]]
    assert sorted(tuple(one) for one in found) == sorted(tuple(one.values()) for one in expected)
    assert lake.most_at_once > 1  # of twelve files: how many is left to how busy the machine is
    assert {one.method for one in lake.of("/data/")} == {"GET"}


@pytest.mark.parametrize(
    ("name", "options"), [*((name, {}) for name in TABLES), ("keys", {"io.files_ahead": "0"})]
)
def test_a_scan_of_all_rows(load, lake, name, options):
    found = load(name, parallelism="1", **options).where("x >= 0").select("id", "s").collect()
    expected = [(row["id"], row["s"]) for row in lake.live[name]]
    assert [tuple(row) for row in found] == expected  # one task: in the table's order


@pytest.mark.parametrize("name", TABLES)
def test_first_rows(load, lake, name):
    found = load(name).orderBy("k", ascending=False).limit(7).collect()
    expected = sorted((tuple(row.values()) for row in lake.live[name]), key=lambda row: -row[1])[:7]
    assert sorted(tuple(row) for row in found) == sorted(expected)


@pytest.mark.parametrize("name", TABLES)
def test_a_limit_reads_few_files(load, lake, name):
    found = load(name, parallelism="1").where("x >= 0").limit(5).collect()
    assert len(found) == 5
    assert {row["id"] for row in found} <= {row["id"] for row in lake.live[name]}
    assert len({one.key for one in lake.of("/data/.*parquet")}) <= FILES // 2


def test_counts_of_the_report(spark, load, lake):
    load("vectors", parallelism="1").where(
        "k = 500000"
    ).collect()  # within the bounds of all files, and in none
    report = twostage.scans(spark)[-1]
    assert report.count("files.read") == FILES
    assert FILES <= report.count("store.requests") <= 5 * FILES  # the driver's own among them
    assert report.count("time.waiting") > 0  # how long is left to chance: a busy machine is late to wait


def test_a_warm_query_takes_a_listing_and_a_request_for_each_file(spark, tmp_path):
    """Of planning and tasks together, as the store sees them and as the report has them."""
    catalog = SqlCatalog("local", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/lake")
    catalog.create_namespace("db")
    schema = pa.schema([("id", pa.int64()), ("k", pa.int64())])
    table = catalog.create_table("db.t", schema, location=f"file://{tmp_path}/lake/t")
    for number in range(5):
        ids = range(number * ROWS, (number + 1) * ROWS)
        table.append(pa.table({"id": ids, "k": [(7919 * n) % 10_007 for n in ids]}, schema=schema))
    with serve_late(tmp_path / "lake", latency=0.01) as store:
        options = {**store.options, "allow-moved-paths": "true", "parallelism": "1"}
        for name in ("cold", "warm"):
            store.reset()
            frame = spark.read.format("twostage").options(**options).load(f"s3://{BUCKET}/t")
            found = frame.where("k = 4000 AND id >= 0").collect()
            assert [tuple(row) for row in found] == [
                (n, 4000) for n in range(5 * ROWS) if (7919 * n) % 10_007 == 4000
            ]
            report = twostage.scans(spark)[-1]
            planning, tasks = report.count("planning.requests"), report.count("store.requests")
            assert planning + tasks == len(store.log), name
            kinds = Counter(kind_of(one) for one in store.log)
            if name == "cold":  # two folders, metadata, manifest list, manifests
                assert kinds == {"GET data": 5, "GET list": 2, "GET metadata": 7}
                assert report.count("planning.trips") == 5
            else:
                assert kinds == {"GET data": 5, "GET list": 1}
                assert report.count("planning.trips") == planning == 1
        assert "planning    1 requests by the driver, 1 in sequence" in str(report)


def test_a_cancelled_query_asks_for_nothing_more(spark, load, lake):
    """One request at a time, which takes a second: it would go on for half a minute."""
    frame = load("plain", parallelism="1", **{"io.parallel_requests": "1"}).where("x >= 0")
    spark.sparkContext.setJobGroup("late", "late", interruptOnCancel=True)
    try:
        lake.latency = 1.0

        def cancel():
            while len(lake.of("/data/")) < 3:
                time.sleep(0.05)
            spark.sparkContext.cancelJobGroup("late")

        canceller = threading.Thread(target=cancel)
        canceller.start()
        with pytest.raises(Exception, match="(?i)cancel"):
            frame.collect()
        canceller.join()
        seen, ends = -1, time.monotonic() + 60
        while len(lake.log) != seen and time.monotonic() < ends:  # Spark takes seconds to end a task
            seen = len(lake.log)
            time.sleep(3)
        assert len(lake.log) == seen < 2 * FILES
    finally:
        lake.latency = LATENCY
