"""ORC and Avro files that are too large to be fetched whole: the same rows, in requests that wait for few others."""

from __future__ import annotations

import random

import pytest

from check import Columns
from core_scan import Opened, scan
from late_store import BUCKET, serve_late
from tables import Table
from twostage.catalog.load_table import load_table
from twostage.data_files import avro_file, data_file, orc_file
from twostage.options import parse_options
from twostage.predicates.predicate import Compare

ROWS = 6_000
KINDS = {"id": "long", "k": "long", "s": "string", "x": "int"}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = tmp_path_factory.mktemp("lake")
    draw = random.Random(7)
    rows = [
        {
            "id": n,
            "k": draw.randrange(10**9),
            "s": f"{draw.getrandbits(400):0100x}",
            "x": draw.randrange(10**6),
        }
        for n in range(ROWS)
    ]
    for name in ("orc", "avro"):
        table = Table(root / name, KINDS, version=2)
        table.location = f"s3://{BUCKET}/{name}"
        table.append(rows, format=name, mixed=True, row_group_size=2_000, metrics="none", compression="none")
        table.write()
    with serve_late(root, rounds=True) as late:
        late.rows = rows
        yield late


@pytest.fixture(autouse=True)
def _files_are_large(monkeypatch):
    monkeypatch.setattr("twostage.planning.plan.indexes_of_scan", lambda *_: None)
    for module in (avro_file, data_file, orc_file):
        monkeypatch.setattr(module, "MAX_WHOLE_BYTES", 1_000)
    monkeypatch.setattr(orc_file, "FIRST_READ_REMOTE", 20_000)
    monkeypatch.setattr(avro_file, "REMOTE_WINDOW_BYTES", 100_000)
    orc_file._tails.clear()


def ask(store, name, **query):
    given = {"path": f"s3://{BUCKET}/{name}", **store.options}
    parsed = parse_options({**given, "io.merge-gap": "1k"})
    opened = Opened(load_table(parsed), parsed)
    store.reset()
    column = Columns(opened.table.schema)
    result = scan(opened, parallelism=1, **{key: make(column) for key, make in query.items()})
    rounds = [one.get("GET data", 0) for one in store.by_round()]
    return result, [count for count in rounds if count]


@pytest.mark.parametrize("name", ["orc", "avro"])
def test_rows_are_those_that_were_written(store, name):
    result, _ = ask(store, name)
    assert sorted(row[0][1] for row in result.rows) == list(range(ROWS))
    by_id = {row[0][1]: row for row in result.rows}
    for one in store.rows[:: ROWS // 50]:
        assert [value for _, value in by_id[one["id"]]] == list(one.values())


@pytest.mark.parametrize("name", ["orc", "avro"])
def test_a_needle(store, name):
    wanted = store.rows[3_333]
    result, rounds = ask(store, name, predicate=lambda column: Compare("=", column("k"), wanted["k"]))
    assert [[value for _, value in row] for row in result.rows] == [list(wanted.values())]
    first, depth = DEPTH[name]
    assert rounds[: len(first)] == first
    assert len(rounds) == depth


DEPTH = {"orc": ([1, 5, 1, 1], 9), "avro": ([5, 2], 2)}
"""The first rounds, and how many there are. ORC: the end, the footers of all five stripes, the filter column of one stripe
after the other, and the other columns of the one that has the row. Avro: the windows of the file."""
