"""What the driver itself reads of an object store, where tasks are spared or Spark's reader is to read: how many requests, and
how many of them wait one for another. What `test_remote_requests` says of rounds holds here.
"""

from __future__ import annotations

import os
import random

import pytest

from check import Columns
from core_scan import Opened
from indexed_tables import built
from late_store import BUCKET, serve_late
from tables import Table
from twostage.aggregates.deleted_counts import PositionDeleteCounts
from twostage.aggregates.metadata_answer import answer
from twostage.aggregates.totals import Aggregate
from twostage.catalog.load_table import load_table
from twostage.data_files import parquet_footers
from twostage.deletes.cache.memory import CACHE
from twostage.deletes.positions.position_deletes import DeletedPositions
from twostage.formats.parquet import page_tables
from twostage.handover import file_facts as facts
from twostage.handover.deleted_bits import read_deleted
from twostage.handover.file_facts import file_facts
from twostage.handover.kept_share import estimate_kept_share
from twostage.metrics import Metrics
from twostage.options import parse_options
from twostage.planning.choose_files import Planning
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE, Compare
from twostage.storage import immutable_files
from twostage.storage.driver_reads import counted_for

FILES, ROWS = 5, 2500
KINDS = {"id": "long", "k": "long", "s": "string"}
LAYOUT = {"page_size": 20_000, "compression": "none", "dictionary": False, "page_index": True}
DEAD = (1, 5, 77)


def rows_of(number):
    draw = random.Random(number)
    return [
        {
            "id": number * ROWS + n,
            "k": draw.randrange(10**9),
            "s": f"{draw.getrandbits(400):0100x}",
        }
        for n in range(ROWS)
    ]


EVERY = [rows_of(number) for number in range(FILES)]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = tmp_path_factory.mktemp("lake")
    for name, version in (("positions", 2), ("vectors", 3)):
        table = Table(root / name, KINDS, version=version)
        table.location = f"s3://{BUCKET}/{name}"
        for file in [table.append(rows, **LAYOUT) for rows in EVERY]:  # each has its own delete file
            (table.delete_positions if version == 2 else table.delete_vectors)({file: DEAD})
        table.write()
    with serve_late(root) as late:
        for name in ("positions", "vectors"):
            opened = open_remote(late, name, **{"index.location": str(root / "indexes")})
            built(opened, ["k"], "values")
            built(opened, ["s"], "values")
        late.rounds = True
        yield late


@pytest.fixture(autouse=True)
def _forget():
    """Start every test with nothing known of any file."""
    for cache in (parquet_footers._footers, parquet_footers._versions, parquet_footers._tails, facts._cache):
        cache.clear()
    page_tables._tables.clear()
    immutable_files.forget()
    CACHE.clear()


def open_remote(store, name, **options):
    given = {
        "path": f"s3://{BUCKET}/{name}",
        **store.options,
        "footers.cache": "worker",
        **options,
    }
    parsed = parse_options(given)
    return Opened(load_table(parsed), parsed)


def plan(opened, predicate=TRUE):
    return plan_scan(
        opened.table,
        opened.options,
        projection=opened.table.schema.fields,
        predicate=predicate,
        hint=TRUE,
        limit=None,
        parallelism=1,
        scan_id="test",
    )


def rounds_of(store):
    """Return of each round how many requests it had, without those of metadata and listings."""
    rounds = [
        {name: count for name, count in one.items() if name not in ("GET metadata", "GET list")}
        for one in store.by_round()
    ]
    return [one for one in rounds if one]


@pytest.mark.parametrize("name", ["positions", "vectors"])
def test_the_deleted_rows_of_all_files_take_one_round_trip(store, name):
    """Where Spark's reader reads a table with deletes, the driver tells it which rows those are."""
    scan = plan(open_remote(store, name))
    tasks = [task for group in scan.groups for task in group.tasks]
    store.reset()
    found = read_deleted(scan.context, tasks, [DeletedPositions()] * len(tasks), Metrics())
    assert found.rows == FILES * len(DEAD)
    assert rounds_of(store) == [{"GET deletes": FILES}]


@pytest.mark.parametrize("name", ["positions", "vectors"])
def test_the_deleted_rows_of_all_files_are_counted_after_one_round_trip(store, name):
    opened = open_remote(store, name)
    planning = Planning(opened.table, opened.options, (), TRUE, TRUE)
    files = [(file, deletes) for file, _, deletes in planning.files(metrics=False)]
    store.reset()
    assert PositionDeleteCounts(opened.table, opened.options).counts(files) == [len(DEAD)] * FILES
    assert rounds_of(store) == [{"GET deletes": FILES}]


COUNTS = {
    "k": [[{"GET data": FILES, "GET deletes": FILES, "GET index": 2 * FILES}], [{"GET data": FILES}]],
    "s": [
        [{"GET data": FILES, "GET deletes": FILES, "GET index": 2 * FILES}, {"GET index": FILES}],
        [{"GET data": FILES}, {"GET index": FILES}],
    ],
}
"""The ends of all indexes, the version of each data file and its deletes come together. Those of `k` are all in their ends; of `s`,
the blocks lie before them."""


def live(number):
    return [row for n, row in enumerate(EVERY[number]) if n not in DEAD]


@pytest.mark.parametrize("name", ["positions", "vectors"])
@pytest.mark.parametrize(("column", "least"), [("k", 5 * 10**8), ("s", "f")])
def test_a_count_by_indexes(store, name, column, least):
    opened = open_remote(store, name, **{"index.location": f"s3://{BUCKET}/indexes"})
    rows = sum(row[column] >= least for number in range(FILES) for row in live(number))
    for expected in COUNTS[column]:
        store.reset()
        found = answer(
            opened.table,
            opened.options,
            aggregates=(Aggregate("rows"),),
            predicate=Compare(">=", Columns(opened.table.schema)(column), least),
        )
        assert found.rows == ((rows,),)
        assert found.by_index == FILES
        assert rounds_of(store) == expected


def test_an_index_of_an_object_that_was_replaced_answers_nothing(store):
    opened = open_remote(store, "positions", **{"index.location": f"s3://{BUCKET}/indexes"})
    (first, *_) = plan(opened).groups[0].tasks
    path = store.root / first.path.partition(f"{BUCKET}/")[2]
    times = path.stat()
    path.write_bytes(path.read_bytes())  # the same bytes, another ETag
    asked = {
        "aggregates": (Aggregate("rows"),),
        "predicate": Compare("<", Columns(opened.table.schema)("k"), 5 * 10**8),
    }
    try:
        assert answer(opened.table, opened.options, **asked) == "no index of a file decides k < 500000000"
    finally:
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # the others ask it, too


def test_a_probe_of_three_files_takes_as_long_as_one_of_one(store):
    """What decides whether Spark's reader reads a table: the ends of three files, then the filter column of all three."""
    opened = open_remote(store, "positions")
    scan = plan(opened, Compare(">", Columns(opened.table.schema)("k"), 5 * 10**8))
    store.reset()
    found = estimate_kept_share(scan)
    assert 0.4 < found.share < 0.6
    assert rounds_of(store) == [{"GET data": 3}, {"GET data": 3}]
    counted = Metrics()
    store.reset()
    with counted_for(counted):
        assert estimate_kept_share(scan).share == found.share
    assert rounds_of(store) == [{"GET data": 3}]
    assert counted.counters == {"planning.requests": 3, "planning.trips": 1}


def test_the_footers_of_all_files_take_one_round_trip(store):
    opened = open_remote(store, "positions")
    files = plan(opened).groups[0].tasks
    store.reset()
    given = opened.table.storage, [file.path for file in files], {}, [file.file_size for file in files]
    assert [one.num_rows for one in file_facts(*given)] == [ROWS] * FILES
    assert rounds_of(store) == [{"GET data": FILES}]
    store.reset()
    file_facts(*given)
    assert rounds_of(store) == []
