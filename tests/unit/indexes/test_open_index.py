"""Opening the index of a data file: what is absent costs a look, what is of something else is ignored."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from fake_store import FakeStore
from index_columns import FIELD, Values, opened
from twostage.deletes.cache import fingerprint
from twostage.indexes import open_index as module
from twostage.indexes.build import build_index, describe
from twostage.indexes.of_scan import ScanIndexes
from twostage.indexes.open_index import MIN_REMOTE_BYTES, ask_indexes, is_worth_asking, open_index
from twostage.indexes.place import IndexGroup, IndexPlace, TableIndexes, index_place
from twostage.metrics import Metrics
from twostage.options import ReadSettings
from twostage.predicates.predicate import Column, Compare
from twostage.reading.turns import Turns
from twostage.schema import Primitive, Schema
from twostage.storage import task_reads
from twostage.storage.task_reads import TaskReads
from twostage.task import ScanContext, ScanTask, Storage

COLUMN = Column(FIELD, ("x",), Primitive("long"))
LEAF = Compare("=", COLUMN, 1)
GROUP = IndexGroup(columns=((FIELD, ("postings",)),))


@pytest.fixture
def scan(tmp_path):
    storage = Storage(root=str(tmp_path / "t"))
    context = ScanContext(
        schema=Schema(schema_id=0, fields=()),
        storage=storage,
        settings=ReadSettings(),
        scan_id="one",
        table="t",
        snapshot_id=1,
        projection=(),
    )
    task = ScanTask(
        written_path="/t/a.parquet",
        record_count=3,
        path=str(tmp_path / "t" / "a.parquet"),
        format="parquet",
        file_size=100,
        start=0,
        length=100,
        sequence_number=1,
        spec_id=0,
    )
    place = index_place(storage, context.settings, "uuid")
    return context, task, place


def make(place, task, rows=3, data_file=None, stamp=b""):
    values = Values(pa.array(range(rows)), Primitive("long"))
    name = data_file or fingerprint.of_data_file(task)
    properties = describe(name, task.path, rows, 100, b"", stamp)
    build_index(place.storage, place.index_file(GROUP, task), [(values, ("postings",))], properties, 2**20)


def test_an_index_is_opened_once_and_found(scan):
    context, task, place = scan
    make(place, task)
    metrics = Metrics()
    index = open_index(context, place, GROUP, task, metrics)
    assert index is open_index(context, place, GROUP, task, metrics)
    assert index.field_ids == (FIELD,)
    assert index.kinds(FIELD) == ("postings",)
    answer = index.find(Compare("=", Column(FIELD, ("x",), Primitive("long")), 2), metrics)
    assert 2 in answer.possible
    assert not metrics.counters


def test_one_that_is_absent_is_looked_for_once_a_scan(scan, monkeypatch):
    context, task, place = scan
    looked = []
    monkeypatch.setattr(module, "read_index", lambda *_: looked.append(1))
    for _ in range(3):
        assert open_index(context, place, GROUP, task, Metrics()) is None
    assert len(looked) == 1


@pytest.mark.parametrize("fault", ["other file", "other rows", "cut", "empty", "not one"])
def test_one_of_something_else_is_ignored_with_one_warning(scan, fault):
    context, task, place = scan
    make(
        place, task, rows=4 if fault == "other rows" else 3, data_file="0" if fault == "other file" else None
    )
    path = place.index_file(GROUP, task)
    with open(path, "rb") as file:  # noqa: PTH123 - a location, not a Path
        data = file.read()
    if fault in ("cut", "empty", "not one"):
        with open(path, "wb") as file:  # noqa: PTH123
            file.write({"cut": data[:-9], "empty": b"", "not one": b"x" * 500}[fault])
    metrics = Metrics()
    for _ in range(3):
        assert open_index(context, place, GROUP, task, metrics) is None
    assert metrics.counters["indexes.ignored"] == 1
    assert "an index was ignored" in next(iter(metrics.choices))


def test_one_that_was_built_again_is_used_again(scan, monkeypatch):
    """The data file is replaced while a worker lives, and `index refresh` runs elsewhere."""
    context, task, place = scan
    now = {"stamp": b"hostaaaa"}
    monkeypatch.setattr(module, "file_stamp", lambda _: now["stamp"])
    make(place, task, stamp=b"hostaaaa")
    metrics = Metrics()
    first = open_index(context, place, GROUP, task, metrics)
    assert first is not None
    now["stamp"] = b"hostbbbb"
    later = replace(context, scan_id="two")
    assert [open_index(later, place, GROUP, task, metrics) for _ in range(2)] == [None, None]
    assert metrics.counters["indexes.ignored"] == 1
    make(place, task, stamp=b"hostbbbb")
    found = open_index(replace(context, scan_id="three"), place, GROUP, task, metrics)
    assert found is not None
    found._known.is_bad = True
    damaged = replace(context, scan_id="four")
    assert [open_index(damaged, place, GROUP, task, metrics) for _ in range(2)] == [None, None]
    assert open_index(replace(context, scan_id="five"), place, GROUP, task, metrics) is not None
    assert metrics.counters["indexes.ignored"] == 1


def test_one_that_vanishes_after_it_was_opened_is_ignored(scan, tmp_path):
    context, task, place = scan
    make(place, task)
    index = open_index(context, place, GROUP, task, Metrics())
    from pathlib import Path

    path = Path(place.index_file(GROUP, task))
    assert opened(path).num_rows == 3
    path.unlink()
    metrics = Metrics()
    index._footer = type(index._footer)(
        blobs=index._footer.blobs, properties=index._footer.properties, tail=b"", size=index._footer.size
    )
    assert index.find(Compare("=", Column(FIELD, ("x",), Primitive("long")), 2), metrics) is None
    assert metrics.counters["indexes.ignored"] == 1
    assert open_index(context, place, GROUP, task, metrics) is None


def test_a_remote_one_is_read_by_the_requests_of_the_task(scan, tmp_path, monkeypatch):
    """Its end is asked for ahead, once in a worker; threads that take turns may open the same one."""
    context, task, place = scan
    make(place, task)
    data = Path(place.index_file(GROUP, task)).read_bytes()
    remote = IndexPlace(storage=Storage(root="s3://lake/t"), folder="s3://lake/indexes/u")
    fake = FakeStore({remote.index_file(GROUP, task).removeprefix("s3://"): data}, key=("indexes",))
    monkeypatch.setattr(task_reads, "client_of", lambda *_: fake)
    context = replace(context, indexes=ScanIndexes(place=remote, groups=(GROUP,), table=TableIndexes()))
    other = replace(task, path=task.path.replace("a.parquet", "other.parquet"))
    metrics = Metrics()
    turns = Turns(2**20)
    with TaskReads(metrics, wait=turns.wait) as reads:
        asked = [ask_indexes(context, one, reads) for one in (task, task, other)]

        def rows(number, one):
            found = open_index(context, remote, GROUP, one, metrics, asked[number])
            yield None if found is None else list(found.find(LEAF, metrics).possible)

        jobs = [partial(rows, number, one) for number, one in enumerate((task, task, other))]
        assert list(turns.in_order(jobs, lambda running: True)) == [[1], [1], None]
        assert len(fake.requests) == 3, "all three were asked for at once"
        (known,) = ask_indexes(context, task, reads).values()
        assert ask_indexes(context, other, reads) == {}, "in this scan it is known to be absent"
        found = open_index(context, remote, GROUP, task, metrics, {remote.index_file(GROUP, task): known})
        assert list(found.find(LEAF, metrics).possible) == [1]
    assert len(fake.requests) == 3
    assert metrics.counters["store.trips"] == 1
    assert not metrics.counters["indexes.ignored"]


def test_a_damaged_remote_one_is_bad_for_all_of_the_worker(scan, monkeypatch):
    context, task, place = scan
    make(place, task, rows=100_000)
    task = replace(task, record_count=100_000)
    make(place, task, rows=100_000)
    data = Path(place.index_file(GROUP, task)).read_bytes()
    damaged = b"\0" * 200_000 + data[200_000:]
    remote = IndexPlace(storage=Storage(root="s3://lake/t"), folder="s3://lake/indexes/v")
    fake = FakeStore({remote.index_file(GROUP, task).removeprefix("s3://"): damaged}, key=("damaged",))
    monkeypatch.setattr(task_reads, "client_of", lambda *_: fake)
    context = replace(context, indexes=ScanIndexes(place=remote, groups=(GROUP,), table=TableIndexes()))
    metrics = Metrics()
    with TaskReads(metrics) as reads:
        for number in range(3):
            asked = ask_indexes(context, task, reads)
            index = open_index(context, remote, GROUP, task, metrics, asked)
            found = [index.find(Compare("=", COLUMN, value), metrics) for value in range(40)] if index else []
            assert not index or None in found, number
    assert metrics.counters["indexes.ignored"] == 1
    assert index is None


def test_small_data_files_are_read_without_remote_indexes(scan):
    context, task, place = scan
    remote = IndexPlace(storage=Storage(root="s3://lake/t"), folder="s3://lake/indexes/u")
    assert not is_worth_asking(context, task)
    for where, size, expected in (
        (place, 100, True),
        (remote, MIN_REMOTE_BYTES - 1, False),
        (remote, MIN_REMOTE_BYTES, True),
    ):
        indexes = ScanIndexes(place=where, groups=(GROUP,), table=TableIndexes())
        found = is_worth_asking(replace(context, indexes=indexes), replace(task, file_size=size))
        assert found == expected
