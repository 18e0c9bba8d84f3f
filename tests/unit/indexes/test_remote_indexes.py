"""Indexes in a bucket: built, listed, asked and removed there, with few requests."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pytest

from index_columns import FIELD, PLAIN_KINDS, Values
from twostage.deletes.cache.memory import CACHE
from twostage.indexes.build import build_index, describe
from twostage.indexes.data_file_index import DataFileIndex
from twostage.indexes.file_key_runs import RunBuilder, merge_runs
from twostage.indexes.file_keys import find_files
from twostage.indexes.keys import hash_values
from twostage.indexes.place import IndexGroup, index_place, list_indexes
from twostage.indexes.puffin import read_footer
from twostage.metrics import Metrics
from twostage.options import ReadSettings
from twostage.predicates.predicate import Column, Compare
from twostage.schema import Primitive
from twostage.storage import file_systems, files, folders, task_reads
from twostage.storage.arrow_client import ArrowClient
from twostage.task import Storage

ROWS = 30_000
LONG = Primitive("long")
COLUMN = Column(FIELD, ("x",), LONG)


class Bucket:
    """A bucket's objects in a local folder; an object needs no folder. Counts what is opened."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = pyarrow.fs.SubTreeFileSystem(str(folder), pyarrow.fs.LocalFileSystem())
        self.opened = 0

    def open_input_file(self, name: str) -> pa.NativeFile:
        self.opened += 1
        return self.files.open_input_file(name)

    def open_output_stream(self, name: str, metadata: object = None) -> pa.NativeFile:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        return self.files.open_output_stream(name)

    def __getattr__(self, name: str) -> object:
        return getattr(self.files, name)


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    made = Bucket(tmp_path / "store")
    (tmp_path / "store" / "lake").mkdir(parents=True)
    monkeypatch.setattr(file_systems, "_connect", lambda *_: made)
    monkeypatch.setattr(file_systems, "_file_systems", {})
    for module in (task_reads, folders):
        monkeypatch.setattr(module, "client_of", lambda *_: ArrowClient(("bucket",), made))
    return made


@pytest.fixture
def place(bucket):
    found = index_place(Storage(root="s3://lake/db/t"), ReadSettings(), "uuid")
    assert found is not None
    assert found.is_remote
    return found


def test_an_index_in_a_bucket(bucket, place):
    array = pa.array(np.random.default_rng(1).integers(0, 3_000, ROWS))
    group = IndexGroup(columns=((FIELD, tuple(PLAIN_KINDS)),))
    path = place.path(group.name, "x.puffin")
    build_index(
        place.storage,
        path,
        [(Values(array, LONG), tuple(PLAIN_KINDS))],
        describe("f", "/x", ROWS, 1, b""),
        2**28,
    )
    files.write_all(place.storage, place.path(f"{group.name}.json"), b"{}")
    assert list_indexes(place, Metrics()).groups == (group,)
    with files.open_file(place.storage, path) as file:
        footer, _ = read_footer(file)
    index = DataFileIndex(place.storage, path, footer)
    bucket.opened = 0
    for op in ("=", "<", ">="):
        metrics = Metrics()
        answer = index.find(Compare(op, COLUMN, 1_500), metrics)
        assert not metrics.counters
        assert answer.is_exact
        assert answer.cost.requests <= 3, "neighbours are one request"
    assert bucket.opened <= 1, "it stays open"
    files.remove(place.storage, place.path(f"{group.name}.json"))
    assert not list_indexes(place, Metrics())


def test_runs_in_a_bucket(place):
    with tempfile.TemporaryDirectory() as folder:
        for first in (0, 2):
            builder = RunBuilder(FIELD, LONG, Path(folder), 2**20, 2, 10)
            for number in range(first, first + 2):
                builder.begin(bytes([number]) * 12)
                builder.add(hash_values(pa.array([number, 100])))
            builder.publish(place)
    for _ in range(2):
        indexes = list_indexes(place, Metrics())
        found = find_files(place, indexes, Compare("=", COLUMN, 3), Metrics(), 2**20)
        assert found.holding == {bytes([3]) * 12}
        assert len(found.covered) == 4
        merge_runs(place, indexes.runs, 2**20, Metrics())
    assert len(list_indexes(place, Metrics()).runs) == 1


def test_runs_are_asked_at_the_same_time(bucket, place, monkeypatch):
    with tempfile.TemporaryDirectory() as folder:
        for number in range(3):
            builder = RunBuilder(FIELD, LONG, Path(folder), 2**20, 2, 10)
            builder.begin(bytes([number]) * 12)
            builder.add(hash_values(pa.array([number, 100])))
            builder.publish(place)
    indexes = list_indexes(place, Metrics())
    meeting = threading.Barrier(3, timeout=30)
    real = bucket.open_input_file

    def together(name: str) -> pa.NativeFile:
        meeting.wait()
        return real(name)

    monkeypatch.setattr(bucket, "open_input_file", together)
    found = find_files(place, indexes, Compare("=", COLUMN, 100), Metrics(), 2**20)
    assert len(found.holding) == len(found.covered) == 3
    monkeypatch.setattr(bucket, "open_input_file", real)
    damaged = bucket.folder / place.path(indexes.runs[1].name).removeprefix("s3://")
    damaged.write_bytes(b"\0" * 200)
    CACHE.clear()
    metrics = Metrics()
    found = find_files(place, indexes, Compare("=", COLUMN, 100), metrics, 2**20)
    assert len(found.holding) == 2
    assert metrics.counters["indexes.ignored"] == 1


def test_a_store_that_fails_is_a_warning(bucket, place, monkeypatch):
    def fail(*_: object) -> None:
        raise OSError("When listing: AWS Error ACCESS_DENIED")

    monkeypatch.setattr(bucket, "get_file_info", fail, raising=False)
    metrics = Metrics()
    assert not list_indexes(place, metrics)
    assert metrics.counters["indexes.failed"] == 1
