"""Two object stores with a bucket of one name, which one process reads one after the other: what it keeps of one serves not the other.

A lake that was copied to another store, and written to there, has tables of the same UUID and files of the same names.
"""

from __future__ import annotations

import pytest

import oracle
from check import Columns
from core_scan import Opened, scan
from indexed_tables import built, everything_pays
from s3_server import BUCKET, serve
from tables import Table
from twostage.catalog.load_table import load_table
from twostage.data_files import parquet_footers
from twostage.deletes.cache.memory import CACHE
from twostage.options import parse_options
from twostage.predicates.predicate import TRUE, Compare
from twostage.storage import immutable_files

ROWS = 40_000


@pytest.fixture(autouse=True)
def _forget():
    for cache in (parquet_footers._footers, parquet_footers._versions, parquet_footers._tails):
        cache.clear()
    immutable_files.forget()
    CACHE.clear()


def make(root, number, deletes):
    table = Table(root / "t", {"id": "long", "k": "long"}, version=3 if deletes == "vectors" else 2)
    table.location = f"s3://{BUCKET}/t"
    options = {"compression": "none", "dictionary": False}
    file = table.append([{"id": n, "k": 2 * (n % 100) + number} for n in range(ROWS)], **options)
    if deletes == "vectors":
        table.delete_vectors({file: [number + 3, 900]})
    elif deletes == "positions":
        table.delete_positions({file: [number + 3, 900]})
    elif deletes == "keys":
        table.delete_equal(["k"], [{"k": 10 + number}])
    table.write()
    return table


def ask(s3, where=None, place=None):
    options = {
        "path": f"s3://{BUCKET}/t",
        **s3.options,
        "footers.cache": "worker",
        "index.location": place or f"s3://{BUCKET}/indexes",
    }
    parsed = parse_options(options)
    opened = Opened(load_table(parsed), parsed)
    if place:
        built(opened, ["k"], "postings")
        return None
    predicate = TRUE if where is None else Compare("=", Columns(opened.table.schema)("k"), where)
    return scan(opened, predicate=predicate)


@pytest.mark.parametrize("deletes", ["positions", "vectors", "keys"])
def test_deletes_are_those_of_the_store(tmp_path, deletes):
    tables = [make(tmp_path / str(number), number, deletes) for number in (0, 1)]
    names = [sorted(str(p.relative_to(t.folder)) for p in t.folder.rglob("*.p*")) for t in tables]
    assert names[0] == names[1]
    with serve(tmp_path / "0") as one, serve(tmp_path / "1") as two:
        for number in (0, 1, 0):
            found = ask((one, two)[number])
            live = oracle.live_rows(tables[number].content())
            expected = [oracle.project(row, found.plan.context.schema.fields) for row in live]
            assert not oracle.difference(found.rows, expected)


def test_indexes_are_those_of_the_store(tmp_path):
    """Where the stores say nothing of an object's version, nothing else tells them apart."""
    for number in (0, 1):
        make(tmp_path / str(number), number, None)
    with serve(tmp_path / "0") as one, serve(tmp_path / "1") as two, everything_pays():
        for number, s3 in enumerate((one, two)):
            s3.etags = False
            ask(s3, place=str(tmp_path / str(number) / "indexes"))
        CACHE.clear()
        for number in (0, 1, 0):
            for value in (20, 21):
                found = ask((one, two)[number], value)
                assert found.count("indexes.used") == 1
                assert len(found.rows) == (ROWS // 100 if value % 2 == number else 0)
