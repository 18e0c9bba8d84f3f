"""Data files in an object store that others were put in place of: indexes of what was there serve no more, and are built again."""

from __future__ import annotations

import itertools
import os

import pytest

from check import Columns
from core_scan import Opened, scan
from indexed_tables import built, everything_pays
from late_store import BUCKET, serve_late
from tables import Table
from twostage.aggregates.metadata_answer import answer
from twostage.aggregates.totals import Aggregate
from twostage.catalog.load_table import load_table
from twostage.data_files import parquet_footers
from twostage.deletes.cache.memory import CACHE
from twostage.maintenance.index_files import index_files
from twostage.maintenance.table_indexes import OwnedIndexes
from twostage.options import parse_options
from twostage.predicates.predicate import Compare
from twostage.storage import immutable_files

FILES, ROWS, EVEN = 3, 20_000, 76
LAYOUT = {"compression": "none", "dictionary": False, "page_size": 20_000, "page_index": True}


def rows_of(number, odd):
    return [{"id": n, "k": 2 * ((n * 7919 + number) % ROWS) + odd} for n in range(ROWS)]


@pytest.fixture
def lake(tmp_path):
    root = tmp_path / "lake"
    for name, odd in (("t", 0), ("other", 1)):
        table = Table(root / name, {"id": "long", "k": "long"})
        table.location = f"s3://{BUCKET}/{name}"
        for number in range(FILES):
            table.append(rows_of(number, odd), **LAYOUT)
        table.write()
    for cache in (parquet_footers._footers, parquet_footers._versions, parquet_footers._tails):
        cache.clear()
    immutable_files.forget()
    CACHE.clear()
    with serve_late(root) as late, everything_pays():
        yield late


def open_remote(store, place=f"s3://{BUCKET}/indexes"):
    parsed = parse_options(
        {
            "path": f"s3://{BUCKET}/t",
            **store.options,
            "footers.cache": "worker",
            "index.location": place,
        }
    )
    return Opened(load_table(parsed), parsed)


def replace_first(store):
    """Put another object of the same size in the place of the first data file."""
    one, other = (min((store.root / name / "data").rglob("*.parquet")) for name in ("t", "other"))
    assert one.stat().st_size == other.stat().st_size
    one.write_bytes(other.read_bytes())
    os.utime(one, ns=(10**18, 10**18))


def owned(store):
    """Return the table with its indexes in the same place, which the server lets nobody write to."""
    return open_remote(store, str(store.root / "indexes"))


def refresh(store):
    run = lambda works: map(index_files, works)
    return OwnedIndexes(owned(store).options, {}, run, lambda text: None).refresh()


@pytest.mark.parametrize("kind", ["values", "sorted"])
def test_a_worker_uses_the_index_that_was_built_again(lake, kind):
    opened = open_remote(lake)
    built(owned(lake), ["k"], kind)
    where = Compare("=", Columns(opened.table.schema)("k"), EVEN)

    numbers = itertools.count()

    def ask():
        result = scan(opened, predicate=where, parallelism=1, scan_id=str(next(numbers)))
        return len(result.rows), result.count("indexes.used")

    assert ask() == (FILES, FILES)
    replace_first(lake)
    parquet_footers._versions.clear()  # another worker's: this one would ask for the object that is no more
    assert ask() == (FILES - 1, FILES - 1), "the index of the object that is no more says nothing"
    assert refresh(lake).counters["indexes.made"] == 1
    assert ask() == (FILES - 1, FILES)
    assert refresh(lake).counters["indexes.made"] == 0


def test_the_driver_counts_by_the_index_that_was_built_again(lake):
    opened = open_remote(lake)
    built(owned(lake), ["k"], "values")
    asked = {
        "aggregates": (Aggregate("rows"),),
        "predicate": Compare("=", Columns(opened.table.schema)("k"), EVEN),
    }
    assert answer(opened.table, opened.options, **asked).rows == ((FILES,),)
    replace_first(lake)
    assert refresh(lake).counters["indexes.made"] == 1
    told = answer(opened.table, opened.options, **asked)
    assert told.by_index == FILES
    assert told.rows == ((FILES - 1,),)


def test_the_table_s_index_has_the_values_of_what_is_there_now(lake):
    opened = open_remote(lake)
    built(owned(lake), ["k"], "files")
    where = Compare("=", Columns(opened.table.schema)("k"), EVEN + 1)
    assert scan(opened, predicate=where, parallelism=1).rows == []
    replace_first(lake)
    assert refresh(lake).counters["indexes.made"] == 1
    assert len(scan(opened, predicate=where, parallelism=1).rows) == 1
    assert refresh(lake).counters["indexes.made"] == 0


def test_an_object_that_is_not_there_is_no_reason_to_refuse(lake):
    """`refresh` indexes what lacks an index; whoever reads the table is told what it lacks."""
    built(owned(lake), ["k"], "values,files")
    min((lake.root / "t" / "data").rglob("*.parquet")).unlink()
    assert refresh(lake).counters["indexes.made"] == 0
