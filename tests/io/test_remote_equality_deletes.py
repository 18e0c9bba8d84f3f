"""Requests of queries under equality deletes: delete files, their key columns and select columns are asked for together.

Files of one row group of 770 KB. What `test_remote_requests` says of rounds holds here: a list has a dict for each round, and
the report's `store.trips` is their number.
"""

from __future__ import annotations

import pytest

from check import Columns
from core_scan import scan
from late_store import BUCKET, serve_late
from remote_scans import ROWS, ask, forget_files, open_remote, rows_of
from tables import Table
from twostage.deletes.anti_join import host_key_sets, load_key_sets
from twostage.deletes.cache.memory import CACHE
from twostage.predicates.predicate import And, Compare, In
from twostage.reading import waiting
from twostage.reading.expect_columns import MAX_ROW_GROUPS_EXPECTED
from twostage.reading.task_state import Learned

FILES, VERSIONS = 6, 20
LAYOUT = {
    "row_group_size": 10**6,
    "page_size": 20_000,
    "compression": "none",
    "dictionary": False,
    "page_index": True,
}
KINDS = {"id": "long", "k": "long", "s": "string", "x": "double"}
KEY = 10**9
"""Of the row that each file of `rewritten` has: its k, which all files but the last have deleted."""


EVERY = [rows_of(number) for number in range(FILES)]
WANTED = EVERY[3][4321]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = tmp_path_factory.mktemp("lake")
    keys, rewritten = (Table(root / name, KINDS, version=2) for name in ("keys", "rewritten"))
    keys.location, rewritten.location = f"s3://{BUCKET}/keys", f"s3://{BUCKET}/rewritten"
    for rows in EVERY:
        keys.append(rows, **LAYOUT)
    for step in range(3):
        keys.delete_equal(["k"], [{"k": rows[17 + step]["k"]} for rows in EVERY])
    for number in range(VERSIONS):
        rows = rows_of(number)
        rows[100] = {**rows[100], "k": KEY}
        if number == VERSIONS - 1:
            rewritten.delete_equal(["k"], [{"k": KEY}, {"k": 5}])
        rewritten.append(rows, **LAYOUT)
    keys.write()
    rewritten.write()
    with serve_late(root, rounds=True) as late:
        yield late


@pytest.fixture(autouse=True)
def _forget(monkeypatch):
    """Start every test with nothing known of any file; there are no indexes."""
    monkeypatch.setattr("twostage.planning.plan.indexes_of_scan", lambda *_: None)
    forget_files()


def having(opened, name, value):
    return {"predicate": Compare("=", Columns(opened.table.schema)(name), value)}


ENDS, FILTER = {"GET data": 6}, {"GET data": 6}


LAST = {
    "never": [{"GET data": 2, "GET deletes": 3}],
    "always": [{"GET data": 2}, {"GET deletes": 1}],
}
"""Streaming reads the keys first, which leave one delete file; the pages come with them."""


@pytest.mark.parametrize("stream", LAST)
def test_a_row_by_another_column_than_the_key(store, stream):
    """Which delete files may hold its key only its page's bounds tell: none of them was to be fetched before."""
    opened = open_remote(store, "keys", **{"deletes.stream": stream})
    query = having(opened, "x", WANTED["x"])
    first, rounds = ask(store, opened, **query)
    assert [row[0][1] for row in first.rows] == [WANTED["id"]]
    assert rounds == [ENDS, FILTER, *LAST[stream]]
    assert first.metrics.counters["store.trips"] == len(rounds)
    again, rounds = ask(store, opened, **query)
    assert again.rows == first.rows
    assert rounds == [FILTER, {"GET data": 2}, *LAST[stream][1:]]


def test_without_reading_ahead_one_thing_comes_after_the_other(store):
    opened = open_remote(store, "keys", **{"io.prefetch": "false"})
    result, rounds = ask(store, opened, **having(opened, "x", WANTED["x"]))
    assert [row[0][1] for row in result.rows] == [WANTED["id"]]
    assert rounds == [ENDS, FILTER, {"GET deletes": 3}, {"GET data": 1}, {"GET data": 2}]
    assert result.metrics.counters["store.trips"] == 5


def test_versions_of_a_row_that_are_deleted_take_few_requests(store):
    """Nothing is known at first of what is left of the rows: of a few row groups more is asked for than is needed, once."""
    opened = open_remote(store, "rewritten")
    query = having(opened, "k", KEY)
    result, rounds = ask(store, opened, **query)
    assert [row[0][1] for row in result.rows] == [(VERSIONS - 1) * ROWS + 100]
    assert sum(one["GET data"] for one in rounds) <= 2 * VERSIONS + 2 * (MAX_ROW_GROUPS_EXPECTED + 1)
    assert sum(one.get("GET deletes", 0) for one in rounds) == 1
    again, rounds = ask(store, opened, **query)
    assert again.rows == result.rows
    assert rounds == [{"GET data": VERSIONS}, {"GET data": 2}]


def test_row_groups_that_wait_for_streamed_deletes_are_expected_until_they_are_released(store, monkeypatch):
    """Whether columns came to some purpose is learned then, and others may be asked for; before, that ended after eight."""
    monkeypatch.setattr(waiting, "MAX_OPEN_FILES", 4)
    seen = []

    def of(*given, begin=Learned.of):
        seen.append(begin(*given))
        return seen[-1]

    monkeypatch.setattr(Learned, "of", of)
    opened = open_remote(store, "rewritten", **{"deletes.stream": "always", "io.files-ahead": "3"})
    result, _ = ask(store, opened, **having(opened, "k", KEY))
    assert [row[0][1] for row in result.rows] == [(VERSIONS - 1) * ROWS + 100]
    result, _ = ask(store, opened, predicate=Compare("<", Columns(opened.table.schema)("x"), 0.002))
    kept = [row["id"] for rows in map(rows_of, range(VERSIONS)) for row in rows if row["x"] < 0.002]
    assert [row[0][1] for row in result.rows] == kept
    assert [one.row_groups_expected for one in seen] == [0, 0]
    assert all(one.payoffs.before_deletes.probed for one in seen)
    assert seen[1].payoffs.before_deletes.pruned > MAX_ROW_GROUPS_EXPECTED


def test_rows_that_deletes_take_away_after_their_pages_were_asked_for(store):
    """Of the rows that a filter keeps in each file one is deleted: what came for it is not read."""
    opened = open_remote(store, "keys")
    low, high = 10, 40  # with the rows 17, 18 and 19, which are deleted
    for number in (0, 4):
        x = Columns(opened.table.schema)("id")
        parts = Compare(">=", x, number * ROWS + low), Compare("<", x, number * ROWS + high)
        result, _ = ask(store, opened, predicate=And(parts))
        expected = [
            row["id"] for n, row in enumerate(EVERY[number]) if low <= n < high and n not in (17, 18, 19)
        ]
        assert [row[0][1] for row in result.rows] == expected
        assert result.metrics.counters["store.trips"] <= 3


def test_a_set_for_the_host_s_cache_holds_up_no_other_file(store, tmp_path, monkeypatch):
    """What one file waits for before it builds the set, another one waits for too; and so does what comes with it."""
    monkeypatch.setattr(host_key_sets, "MIN_KEYS_TO_SHARE", 1)
    monkeypatch.setattr(load_key_sets, "MIN_KEYS_TO_SHARE", 1)
    shared = {"deletes.cache": "host", "deletes.cache-dir": str(tmp_path / "cache")}
    opened = open_remote(store, "keys", **shared)
    wanted = [EVERY[number][4321] for number in (1, 3)]
    query = {"predicate": In(Columns(opened.table.schema)("x"), tuple(row["x"] for row in wanted))}
    first, rounds = ask(store, opened, **query)
    assert [row[0][1] for row in first.rows] == [row["id"] for row in wanted]
    assert first.metrics.counters["delete_cache.built"] == 1
    assert rounds == [ENDS, FILTER, {"GET data": 4, "GET deletes": 3}]
    CACHE.clear()  # as in another worker: the host has it
    again, rounds = ask(store, opened, **query)
    assert again.rows == first.rows
    assert again.metrics.counters["delete_cache.hits"] >= 1
    assert rounds == [FILTER, {"GET data": 4}]


def test_compiled_deletes_in_a_bucket_come_with_the_ends_of_the_files(store):
    """Whether there are any or not; before, one file after the other waited for its own."""
    local = open_remote(store, "keys", **{"deletes.compiled-dir": str(store.root / "compiled")})
    assert scan(local, parallelism=1).count("delete_compiled.written") == FILES
    for folder, found, last in (
        ("compiled", FILES, {"GET data": 2}),
        ("absent", 0, {"GET data": 2, "GET deletes": 1}),
    ):
        forget_files()
        opened = open_remote(store, "keys", **{"deletes.compiled-dir": f"s3://{BUCKET}/{folder}"})
        result, rounds = ask(store, opened, **having(opened, "k", WANTED["k"]))
        assert [row[0][1] for row in result.rows] == [WANTED["id"]]
        assert result.count("delete_compiled.hits") == found
        assert rounds == [{"GET data": 2 * FILES}, FILTER, last]
        again, _ = ask(store, opened, **having(opened, "k", EVERY[2][18]["k"]))
        assert again.rows == []  # it is deleted
        assert again.count("delete_compiled.ignored") == 0
