"""Queries through Spark of a table in an object store that answers late: rows, requests in flight, a limit, cancelled tasks."""

from __future__ import annotations

import random
import threading
import time

import pytest

import twostage
from late_store import BUCKET, serve_late
from tables import Table

FILES, ROWS = 12, 400
LATENCY = 0.05
PLAIN = {
    "row_group_size": 200,
    "page_size": 2000,
    "compression": "none",
    "dictionary": False,
    "page_index": True,
}


def rows_of(number):
    draw = random.Random(number)
    return [
        {"id": number * ROWS + n, "k": draw.randrange(10**6), "s": f"{draw.getrandbits(4000):0x}", "x": n / 7}
        for n in range(ROWS)
    ]


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Tables of twelve files: without deletes, and with each kind; `rows` are the live ones by table."""
    root = tmp_path_factory.mktemp("lake")
    every = [row for number in range(FILES) for row in rows_of(number)]
    live = {}
    for name, version in (("plain", 2), ("positions", 2), ("vectors", 3), ("keys", 2)):
        table = Table(root / name, {"id": "long", "k": "long", "s": "string", "x": "double"}, version=version)
        table.location = f"s3://{BUCKET}/{name}"
        files = [table.append(rows_of(number), **PLAIN) for number in range(FILES)]
        dead = set()
        if name == "positions":
            table.delete_positions({file: [1, 5, 399] for file in files})
        if name == "vectors":
            table.delete_vectors({file: [1, 5, 399] for file in files})
        if name in ("positions", "vectors"):
            dead = {number * ROWS + place for number in range(FILES) for place in (1, 5, 399)}
        if name == "keys":
            gone = [every[place] for place in range(0, len(every), 97)]
            table.delete_equal(["k"], [{"k": row["k"]} for row in gone[::2]])
            table.delete_equal(["k"], [{"k": row["k"]} for row in gone[1::2]])
            keys = {row["k"] for row in gone}
            dead = {row["id"] for row in every if row["k"] in keys}
        table.write()
        live[name] = [row for row in every if row["id"] not in dead]
    with serve_late(root, latency=LATENCY) as store:
        store.live = live
        yield store


@pytest.fixture
def load(spark, lake):
    def load(name, **options):
        given = {**lake.options, "catalog.s3.request-timeout": "30"}
        reader = spark.read.format("twostage").options(**given)
        for key, value in options.items():
            reader = reader.option(key.replace("_", "-"), value)
        frame = reader.load(f"s3://{BUCKET}/{name}")
        lake.reset()
        return frame

    return load


TABLES = ("plain", "positions", "vectors", "keys")


@pytest.mark.parametrize("name", TABLES)
def test_a_needle(load, lake, name):
    """All of the task's files are asked for at the same time."""
    row = next(row for row in lake.live[name] if row["id"] == 7 * ROWS + 18)
    found = load(name, parallelism="1").where(f"k = {row['k']}").collect()
    expected = [one for one in lake.live[name] if one["k"] == row["k"]]
    assert sorted(tuple(one) for one in found) == sorted(tuple(one.values()) for one in expected)
    assert (
        lake.most_at_once > 1
    )  # how many of the twelve is left to chance: a busy machine may be late to ask
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
        seen = -1
        while (
            seen < len(lake.log) < 2 * FILES
        ):  # a task may hear of it late, and asks once a second until it does
            seen = len(lake.log)
            time.sleep(3)
        assert len(lake.log) < 2 * FILES
    finally:
        lake.latency = LATENCY
