"""A remote data file: the right bytes in the fewest requests, whatever size the manifest states."""

from __future__ import annotations

import random
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core_scan import open_table, scan
from late_store import BUCKET, serve_late
from scan_values import context_of, task_of
from tables import Table
from twostage.data_files import parquet_chunks
from twostage.data_files.remote_file import ReadAhead, RemoteFile
from twostage.errors import CorruptFileError, MissingFileError
from twostage.storage.task_reads import TaskReads
from twostage.task import Storage

CONTENT = random.Random(1).randbytes(1_000_000)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = tmp_path_factory.mktemp("lake")
    (root / "f.parquet").write_bytes(CONTENT)
    (root / "small").write_bytes(CONTENT[:5000])
    with serve_late(root) as late:
        yield late


@contextmanager
def opened(store, name="f.parquet", size=len(CONTENT), version=None, folder=""):
    properties = {key.removeprefix("catalog."): value for key, value in store.options.items()}
    storage = Storage(properties=properties, root=f"s3://{BUCKET}")
    context = replace(context_of(store.root), storage=storage)
    task = replace(task_of(store.root / "f"), path=f"s3://{BUCKET}/{name}", file_size=size)
    store.reset()
    with TaskReads() as reads:
        yield RemoteFile(reads, context, task, version)


def test_opening_takes_no_request(store):
    with opened(store) as file:
        assert file.size() == len(CONTENT)
        assert not file.is_known
        assert file.version == b""
        assert store.log == []
        assert file.read_at(10, 999_995) == CONTENT[-5:]
        assert file.version
        assert [(one.first, one.last) for one in store.log] == [(999_995, 999_999)]


def test_the_tail_and_what_lies_in_it_take_one_request(store):
    with opened(store) as file:
        file.fetch_tail(20_000)
        assert file.read_at(100, 990_000) == CONTENT[990_000:990_100]
        places = [(980_000, 5), (999_999, 1), (985_000, 0)]
        assert [bytes(view) for view in file.views(places)] == [CONTENT[o : o + n] for o, n in places]
        assert [(one.method, one.first, one.sent) for one in store.log] == [("GET", 980_000, 20_000)]


def test_a_small_file_is_fetched_whole(store):
    with opened(store, "small", 5000) as file:
        file.fetch_tail(100)
        assert file.read_at(5000, 0) == CONTENT[:5000]
        assert len(store.log) == 1


@pytest.mark.parametrize("stated", [1, 900_000, 999_999, 1_000_001, 5_000_000, 0])
def test_a_size_that_the_manifest_states_wrongly(store, stated):
    with opened(store, size=stated) as file:
        file.fetch_tail(1000)
        assert file.size() == len(CONTENT)
        assert file.read_at(1000, 999_000) == CONTENT[999_000:]
        assert len(store.log) <= 3


def test_places_are_asked_for_together_and_kept_within_the_block(store):
    places = [(0, 1000), (500_000, 10), (900_000, 100_000)]
    with opened(store) as file:
        with file.held(places):
            for offset, length in places:
                assert file.read_at(length, offset) == CONTENT[offset : offset + length]
            assert len(store.log) == 3
        file.read_at(1000, 0)
        assert len(store.log) == 4


def test_what_is_kept_takes_no_second_request_until_it_is_forgotten(store):
    with opened(store) as file:
        pending = file.keep([(100, 1000)])
        with file.held([(200, 10), (400_000, 10)]):
            assert file.read_at(10, 200) == CONTENT[200:210]
        assert sorted(one.sent for one in store.log) == [10, 1000]  # both were asked for at once
        file.forget(pending)
        file.forget(pending)
        file.read_at(10, 200)
        assert len(store.log) == 3


def test_pyarrow_decodes_what_is_held(store):
    table = pa.table({"a": list(range(1000)), "s": [f"text {n}" for n in range(1000)]})
    path = store.root / "table.parquet"
    pq.write_table(table, path, row_group_size=500)
    metadata = pq.read_metadata(path)
    size = path.stat().st_size
    with opened(store, "table.parquet", size) as file:
        file.fetch_tail(size)
        reader = pq.ParquetFile(file.arrow_file(), metadata=metadata, pre_buffer=False)
        assert reader.read().equals(table)
        assert len(store.log) == 1


def test_an_object_of_another_version_is_an_error(store):
    with opened(store, version=b'"another"') as file:
        assert file.is_known
        with pytest.raises(CorruptFileError, match="replaced"):
            file.fetch_tail(100)


def test_a_missing_object(store):
    with opened(store, "absent") as file, pytest.raises(MissingFileError):
        file.fetch_tail(100)


@pytest.mark.parametrize("ahead", [0, 1, 5])
def test_a_file_that_is_read_from_front_to_back_arrives_ahead(store, ahead):
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    draw = random.Random(seed)
    with opened(store) as file:
        windows = ReadAhead(file, 600_000, window=70_000, ahead=ahead)
        offset = 0
        while offset < len(CONTENT):
            length = draw.choice((1, 100, 50_000, 200_000))
            assert windows.read_at(length, offset) == CONTENT[offset : offset + length], f"seed {seed}"
            if draw.random() < 0.3:  # a little of what lies behind
                back = max(0, offset - draw.randrange(100_000))
                assert windows.read_at(100, back) == CONTENT[back : back + 100], f"seed {seed}"
            offset += length
        assert windows.read_at(10, len(CONTENT)) == b""
        windows.close()


def test_windows_are_asked_for_together_and_none_beyond_the_end_of_the_task(store):
    with opened(store) as file:
        windows = ReadAhead(file, 250_000, window=50_000, ahead=10)
        assert windows.read_at(10, 120_000) == CONTENT[120_000:120_010]
        for offset in (150_000, 200_000):
            assert windows.read_at(50_000, offset) == CONTENT[offset : offset + 50_000]
        assert sorted(one.first for one in store.log) == [100_000, 150_000, 200_000]
        assert windows.read_at(20, 249_990) == CONTENT[249_990:250_010]
        assert len(store.log) == 4


def test_large_chunks_arrive_before_they_are_needed(tmp_path, monkeypatch):
    """Each column's windows are asked for while those before them are decoded: fewer round trips than requests."""
    monkeypatch.setattr(parquet_chunks, "BUFFER_BYTES", 512 * 2**10)
    draw = random.Random(5)
    rows = [{"a": draw.getrandbits(62), "b": draw.getrandbits(62)} for _ in range(100_000)]
    table = Table(tmp_path / "t", {"a": "long", "b": "long"})
    table.append(rows, row_group_size=10**6, compression="none", dictionary=False)
    table.write()
    with serve_late(tmp_path) as late:
        options = {"allow_moved_paths": "true", "io.merge-gap": "1k", "footers.cache": "worker"}
        opened = open_table(f"s3://{BUCKET}/t", **late.options, **options)
        late.reset()
        late.rounds = True
        found = scan(opened).rows
        late.rounds = False
    assert [tuple(value for _, value in row) for row in found] == [(row["a"], row["b"]) for row in rows]
    data = late.of("/data/")
    print(len(data), late.depth)
    assert len(data) > 20
    assert late.depth <= len(data) / 2
    wanted = sum(one.sent for one in data)
    assert wanted < 1.05 * 16 * len(rows), "no byte of a chunk is asked for twice"
