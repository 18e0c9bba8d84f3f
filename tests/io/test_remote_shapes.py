"""Requests of more kinds of queries of a table in an object store: how many, of which files, and how many wait one for another.

Four files of three row groups. What `test_remote_requests` says of rounds holds here: a list has a dict for each round, and
the report's `store.trips` is their number.
"""

from __future__ import annotations

import pytest

from check import Columns
from core_scan import Opened, scan
from indexed_tables import built
from late_store import BUCKET, serve_late
from remote_scans import ROWS, rows_of
from tables import Table
from twostage.catalog.load_table import load_table
from twostage.data_files import parquet_footers
from twostage.deletes.cache.memory import CACHE
from twostage.formats.parquet import page_tables
from twostage.options import parse_options
from twostage.predicates.predicate import And, Compare, In

FILES, GROUP = 4, 2000
LAYOUT = {
    "row_group_size": GROUP,
    "page_size": 20_000,
    "compression": "none",
    "dictionary": False,
    "page_index": True,
}
KINDS = {"id": "long", "k": "long", "s": "string", "x": "double"}


EVERY = [rows_of(number) for number in range(FILES)]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = tmp_path_factory.mktemp("lake")
    table = Table(root / "wide", KINDS, version=2)
    table.location = f"s3://{BUCKET}/wide"
    for rows in EVERY:
        table.append(rows, **LAYOUT)
    table.write()
    small = Table(root / "small", KINDS, version=2)
    small.location = f"s3://{BUCKET}/small"
    for rows in EVERY:
        small.append(rows[:50], **LAYOUT)
    small.write()
    with serve_late(root, rounds=True) as late:
        for folder, kind in (("indexes", "postings"), ("keys-of-files/indexes", "files")):
            opened = open_remote(late, "wide", **{"index.location": str(root / folder)})
            built(opened, ["k"], kind)
        yield late


@pytest.fixture(autouse=True)
def _forget():
    """Start every test with nothing known of any file."""
    for cache in (parquet_footers._footers, parquet_footers._versions, parquet_footers._tails):
        cache.clear()
    page_tables._tables.clear()
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


def ask(store, opened, **query):
    """Run a query, whose parts are made of a table's columns; return its rows, and of each round how many requests it had.

    Listings of folders and metadata belong to planning, and are left out.
    """
    store.reset()
    column = Columns(opened.table.schema)
    result = scan(opened, parallelism=1, **{key: make(column) for key, make in query.items()})
    rounds = [
        {name: count for name, count in one.items() if name not in ("GET metadata", "GET list")}
        for one in store.by_round()
    ]
    return result, [one for one in rounds if one]


def check(store, opened, rows, first, again, **query):
    """Compare a query's requests with those expected, of the first time and once the worker knows the files."""
    for expected in (first, again):
        result, rounds = ask(store, opened, **query)
        assert sum(result.batch_sizes) == rows
        assert rounds == expected
        assert result.metrics.counters["store.trips"] == len(expected)


def test_a_needle_in_the_only_file_that_bounds_leave(store):
    check(
        store,
        open_remote(store, "wide"),
        1,
        [{"GET data": 1}, {"GET data": 1}, {"GET data": 1}],
        [{"GET data": 1}, {"GET data": 1}],
        predicate=lambda column: Compare("=", column("id"), 2 * ROWS + 17),
    )


def test_a_range_over_the_edge_of_two_row_groups(store):
    """Each has its own requests, which do not wait for those of the other."""
    first, last = 2 * ROWS + GROUP - 10, 2 * ROWS + GROUP + 9
    check(
        store,
        open_remote(store, "wide"),
        20,
        [{"GET data": 1}, {"GET data": 2}, {"GET data": 2}],
        [{"GET data": 2}, {"GET data": 2}],
        predicate=lambda column: And((Compare(">=", column("id"), first), Compare("<=", column("id"), last))),
    )


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ({}, [{"GET data": FILES}, {"GET data": 3 * FILES}]),
        ({"io.merge-gap": "4k"}, [{"GET data": FILES}, {"GET data": 3 * FILES}, {"GET data": 3 * FILES}]),
    ],
)
def test_small_columns_come_with_the_filter(store, options, first):
    """A column of 16 KB of each row group: asked for after the filter, it would take one more round trip."""
    opened = open_remote(store, "wide", **options)
    (field,) = [field for field in opened.table.schema.fields if field.name == "id"]
    check(
        store,
        opened,
        sum(row["k"] < 5 * 10**8 for rows in EVERY for row in rows),
        first,
        first[1:],
        predicate=lambda column: Compare("<", column("k"), 5 * 10**8),
        projection=lambda _: (field,),
    )


def test_small_columns_are_not_asked_for_in_vain_for_long(store):
    """With three row groups that had no row; from then on 16 KB of the filter column alone."""
    opened = open_remote(store, "wide", **{"io.files-ahead": "0"})
    (field,) = [field for field in opened.table.schema.fields if field.name == "id"]
    result, rounds = ask(
        store,
        opened,
        predicate=lambda column: Compare("=", column("k"), 5 * 10**8),
        projection=lambda _: (field,),
    )
    assert result.rows == []
    assert rounds == [{"GET data": 1}, {"GET data": 3}] * FILES
    lengths = [one.sent // 16_000 for one in store.of("/data/") if one.sent > 8 * GROUP]
    assert lengths == [2] * 3 + [1] * (3 * FILES - 3)
    assert any("no longer requested with filter columns" in choice for choice in result.metrics.choices)


def test_few_keys(store):
    """Every row group's filter column at once, then pages of the three row groups that have one of the keys."""
    keys = (EVERY[0][7]["k"], EVERY[0][5_000]["k"], EVERY[3][1]["k"])
    check(
        store,
        open_remote(store, "wide"),
        3,
        [{"GET data": FILES}, {"GET data": 3 * FILES}, {"GET data": 3}],
        [{"GET data": 3 * FILES}, {"GET data": 3}],
        predicate=lambda column: In(column("k"), keys),
    )


def test_a_count_by_a_column(store):
    least = sum(row["k"] < 10**8 for rows in EVERY for row in rows)
    check(
        store,
        open_remote(store, "wide"),
        least,
        [{"GET data": FILES}, {"GET data": 3 * FILES}],
        [{"GET data": 3 * FILES}],
        predicate=lambda column: Compare("<", column("k"), 10**8),
        projection=lambda _: (),
    )


def test_small_files_are_read_whole(store):
    """One request each; of the second time, without their ends."""
    check(
        store,
        open_remote(store, "small"),
        1,
        [{"GET data": FILES}],
        [{"GET data": FILES}],
        predicate=lambda column: Compare("=", column("k"), EVERY[1][7]["k"]),
    )


def test_indexes_of_all_files_are_asked_for_with_the_files(store):
    """Their ends come with the data files' own, and no file without the key has its column read."""
    opened = open_remote(store, "wide", **{"index.location": f"s3://{BUCKET}/indexes"})
    check(
        store,
        opened,
        1,
        [{"GET data": FILES, "GET index": FILES}, {"GET data": 1}, {"GET data": 1}],
        [{"GET data": 1}, {"GET data": 1}],
        predicate=lambda column: Compare("=", column("k"), EVERY[1][7]["k"]),
    )


def test_the_index_of_a_table_leaves_the_files_that_hold_a_key(store):
    """One request of the end of the only run, which has all of it; then the only file."""
    opened = open_remote(store, "wide", **{"index.location": f"s3://{BUCKET}/keys-of-files/indexes"})
    result, rounds = ask(store, opened, predicate=lambda column: Compare("=", column("k"), EVERY[1][7]["k"]))
    assert len(result.rows) == 1
    assert result.count("files.pruned.index") == FILES - 1
    assert rounds == [{"GET index": 1}, {"GET data": 1}, {"GET data": 3}, {"GET data": 1}]
