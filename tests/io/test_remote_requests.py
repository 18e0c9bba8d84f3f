"""How many requests a query of a table in an object store takes, and how many of them wait one for another.

Six files of 770 KB, one row group each. A round is a set of requests that were in flight at the same time: their number is
the depth of the requests' dependencies, exact whatever the machine does (`late_store`).
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import replace
from itertools import pairwise

import pytest

from check import Columns
from late_store import BUCKET, serve_late
from remote_scans import ROWS, ask, forget_files, open_remote, rows_of
from tables import Table
from twostage.errors import MissingFileError
from twostage.metrics import Metrics
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE, Compare
from twostage.predicates.top import TopRows
from twostage.reading import files_ahead
from twostage.reading.pipeline import read_group

FILES = 6
LAYOUT = {
    "row_group_size": 10**6,
    "page_size": 20_000,
    "compression": "none",
    "dictionary": False,
    "page_index": True,
}
DEAD = (1, 5, 77)


EVERY = [rows_of(number) for number in range(FILES)]
NEEDLE = EVERY[3][4321]["k"]


@pytest.fixture(autouse=True)
def _there_are_no_indexes(monkeypatch):
    """Whether a table has any is asked once a minute, by one listing: `tests/unit/indexes/test_of_scan.py`."""
    monkeypatch.setattr("twostage.planning.plan.indexes_of_scan", lambda *_: None)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = tmp_path_factory.mktemp("lake")
    for name, version in (("plain", 2), ("positions", 2), ("vectors", 3), ("keys", 2), ("mixed", 3)):
        table = Table(root / name, {"id": "long", "k": "long", "s": "string", "x": "double"}, version=version)
        table.location = f"s3://{BUCKET}/{name}"
        files = [table.append(rows, **LAYOUT) for rows in EVERY]
        if name == "positions":
            table.delete_positions({files[0]: DEAD})
            for file in files[1:]:
                table.delete_positions({file: DEAD})
        if name == "vectors":
            table.delete_vectors({file: DEAD for file in files})
        if name == "mixed":
            table.delete_positions({file: DEAD for file in files[:2]})
            table.delete_vectors({file: DEAD for file in files[2:4]})
        if name in ("keys", "mixed"):
            for step in range(3):
                gone = [rows[17 + step]["k"] for rows in EVERY]
                table.delete_equal(["k"], [{"k": k} for k in gone])
        table.write()
    with serve_late(root, rounds=True) as late:
        yield late


@pytest.fixture(autouse=True)
def _forget():
    """Start every test with nothing known of any file."""
    forget_files()


def needle(opened, value=NEEDLE):
    return {"predicate": Compare("=", Columns(opened.table.schema)("k"), value)}


FIRST = {
    "plain": [{"GET data": 6}, {"GET data": 6}, {"GET data": 2}],
    "positions": [{"GET data": 6, "GET deletes": 6}, {"GET data": 6}, {"GET data": 2}],
    "vectors": [{"GET data": 6, "GET deletes": 1}, {"GET data": 6}, {"GET data": 2}],
    "keys": [{"GET data": 6}, {"GET data": 6}, {"GET data": 2, "GET deletes": 1}],
}
"""The ends of all files with their deletes, the filter column of all, then pages of the one with the row: two requests, as
the other columns lie on both sides of a gap. The bounds of the other two equality-delete files exclude the row's key."""
AGAIN = [{"GET data": 6}, {"GET data": 2}]


@pytest.mark.parametrize("name", FIRST)
def test_a_needle(store, name):
    opened = open_remote(store, name)
    first, rounds = ask(store, opened, **needle(opened))
    assert len(first.rows) == 1
    assert rounds == FIRST[name]
    assert first.metrics.counters["store.trips"] == len(FIRST[name])
    for key in {one.key for one in store.of("/data/.*parquet")}:
        assert len(store.of(key)) <= (4 if len(store.of(key)) > 2 else 2)
    beyond = sum(one.sent for one in store.of("/data/")) - first.count("bytes.read")
    assert beyond <= 20_000 * FILES  # footers and indexes; deletes are small
    again, rounds = ask(store, opened, **needle(opened))
    assert again.rows == first.rows
    assert rounds == AGAIN
    assert again.metrics.counters["store.trips"] == len(AGAIN)


def test_a_needle_one_file_after_the_other(store):
    opened = open_remote(store, "plain", **{"io.files-ahead": "0"})
    result, rounds = ask(store, opened, **needle(opened))
    assert len(result.rows) == 1
    assert result.metrics.counters["store.trips"] == 2 * FILES + 1
    assert (
        rounds == [{"GET data": 1}] * 12 + [{"GET data": 2}]
        or sum(one["GET data"] for one in rounds) == 14
        and len(rounds) == 13
    )


SCAN = {
    "plain": [{"GET data": 6}, {"GET data": 12}],
    "positions": [{"GET data": 6, "GET deletes": 6}, {"GET data": 12}],
    "vectors": [{"GET data": 6, "GET deletes": 1}, {"GET data": 12}],
    "keys": [{"GET data": 6}, {"GET data": 18, "GET deletes": 3}],
}
"""The ends of all files with their deletes, then both columns of all. Equality deletes are asked for with the columns, and
so are the keys of the rows that bounds do not decide on."""


@pytest.mark.parametrize("name", FIRST)
def test_a_scan_of_two_columns(store, name):
    """A first scan reads the ends of all files, and then both columns of all; what the process knows takes no request."""
    opened = open_remote(store, name)
    projection = tuple(field for field in opened.table.schema.fields if field.name in ("id", "x"))
    result, rounds = ask(store, opened, projection=projection)
    dead = {"positions": 18, "vectors": 18, "keys": 18}.get(name, 0)
    assert len(result.rows) == FILES * ROWS - dead
    assert rounds == SCAN[name]
    again, rounds = ask(store, opened, projection=projection)
    assert again.rows == result.rows
    assert rounds == [{"GET data": 18}] if name == "keys" else [{"GET data": 12}]


def test_a_limit_reads_one_file_and_begins_with_few(store):
    opened = open_remote(store, "plain")
    for expected in ([{"GET data": 1}, {"GET data": 2}], [{"GET data": 2}]):
        result, rounds = ask(store, opened, limit=3)
        assert len(result.rows) == 3
        assert rounds == expected


TOP_FIRST = [{"GET data": 2}, {"GET data": 2}, {"GET data": 4}, {"GET data": 3}, {"GET data": 7}]
"""The ends of two files and their sort keys; then the ends of the four others, of which bounds leave three whose sort keys may
reach what was found; at last the pages of the rows that are left."""
TOP_AGAIN = [{"GET data": 2}, {"GET data": 3}, {"GET data": 7}]


def test_the_first_rows_by_a_column(store):
    opened = open_remote(store, "plain")
    top = TopRows(
        column=Columns(opened.table.schema)("k"),
        count=5,
        descending=True,
        nulls_first=False,
        has_more_keys=False,
    )
    best = sorted((row["k"] for rows in EVERY for row in rows), reverse=True)[:5]
    for expected in TOP_FIRST, TOP_AGAIN:
        result, rounds = ask(store, opened, top=top)
        found = sorted((row[1][1] for row in result.rows), reverse=True)[:5]
        assert found == best
        assert rounds == expected


def test_an_object_that_was_replaced_between_queries_is_read_anew(store):
    opened = open_remote(store, "plain")
    ask(store, opened, **needle(opened))
    for path in (store.root / "plain" / "data").iterdir():
        path.write_bytes(path.read_bytes())  # the same bytes, another ETag
    result, _ = ask(store, opened, **needle(opened))
    assert len(result.rows) == 1


def groups_of(opened, **more):
    fields = opened.table.schema.fields
    plan = plan_scan(
        opened.table,
        opened.options,
        projection=fields,
        predicate=TRUE,
        hint=TRUE,
        limit=more.get("limit"),
        parallelism=1,
        scan_id="test",
    )
    return plan.groups


def threads():
    return [one for one in threading.enumerate() if one.name == "twostage-file"]


def test_an_abandoned_scan_ends_its_threads_and_requests(store):
    (group,) = groups_of(open_remote(store, "plain"))
    batches = read_group(group, Metrics())
    assert next(batches).num_rows > 0
    batches.close()
    assert threads() == []
    # What was sent before may be heard by the store a little later; more than that may not come.
    time.sleep(0.5)
    seen = len(store.log)
    time.sleep(0.5)
    assert len(store.log) == seen
    assert store.in_flight == 0


def test_a_file_that_is_missing_fails_where_its_rows_would_have_come(store):
    """Files behind it are read by then; the rows of those before it come first."""
    (group,) = groups_of(open_remote(store, "positions"))
    missing = replace(group.tasks[3], path=f"s3://{BUCKET}/positions/data/absent.parquet")
    group = replace(group, tasks=(*group.tasks[:3], missing, *group.tasks[4:]))
    rows = 0
    with pytest.raises(MissingFileError) as caught:
        for batch in read_group(group, Metrics()):
            rows += batch.num_rows
    assert rows == 3 * (ROWS - len(DEAD))
    assert caught.value.path.endswith("absent.parquet")
    assert threads() == []


def test_a_dictionary_and_its_column_take_one_request(store, tmp_path):
    """Of a small column: the dictionary alone would take as long."""
    folder = store.root / "coded"
    table = Table(folder, {"kind": "string", "s": "string"}, version=2)
    table.location = f"s3://{BUCKET}/coded"
    draw = random.Random(1)
    for _ in range(2):
        rows = [
            {"kind": f"kind {2 * draw.randrange(50)}", "s": f"{draw.getrandbits(400):0100x}"}
            for _ in range(6000)
        ]
        table.append(rows, **{**LAYOUT, "dictionary": True})
    table.write()
    opened = open_remote(store, "coded")
    kind = Columns(opened.table.schema)("kind")
    result, rounds = ask(store, opened, predicate=Compare("=", kind, "kind 7"))
    assert result.rows == []
    assert result.count("row_groups.pruned.dictionary") == 2
    assert rounds == [{"GET data": 2}, {"GET data": 2}]
    result, rounds = ask(store, opened, predicate=Compare("=", kind, "kind 8"), projection=())
    assert sum(result.batch_sizes) > 0
    assert rounds == [{"GET data": 2}]


def test_deletes_of_three_kinds(store):
    """Positions of two files, vectors of two others, and equality deletes of all."""
    opened = open_remote(store, "mixed")
    first, rounds = ask(store, opened, **needle(opened))
    assert len(first.rows) == 1
    assert rounds == [
        {"GET data": 6, "GET deletes": 2},
        {"GET data": 6},
        {"GET data": 2, "GET deletes": 1},
    ]
    again, rounds = ask(store, opened, **needle(opened))
    assert again.rows == first.rows
    assert rounds == AGAIN


def test_a_long_range_is_asked_for_in_parts(store, monkeypatch):
    """Of equal length, at the same time, without a byte twice."""
    real = files_ahead.cost_of
    monkeypatch.setattr(
        files_ahead, "cost_of", lambda *given, **named: replace(real(*given, **named), part=200_000)
    )
    opened = open_remote(store, "plain")
    projection = tuple(field for field in opened.table.schema.fields if field.name == "s")
    result, rounds = ask(store, opened, projection=projection)
    assert sorted(row[0][1] for row in result.rows) == sorted(row["s"] for rows in EVERY for row in rows)
    assert sum(one["GET data"] for one in rounds) == FILES + 4 * FILES
    assert result.metrics.counters["store.trips"] == 2
    for key in {one.key for one in store.of("/data/")}:
        parts = sorted((one.first, one.last) for one in store.of(key))[:4]
        assert all(before[1] + 1 == after[0] for before, after in pairwise(parts))
        lengths = {last - first + 1 for first, last in parts}
        assert max(lengths) - min(lengths) <= 1 < min(lengths) < 200_000
