"""Contents of remote delete files: each asked for once, vectors of one Puffin file together."""

from __future__ import annotations

import random
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from late_store import BUCKET, serve_late
from scan_values import delete_of, task_of
from twostage.deletes.files import contents as module
from twostage.deletes.files.contents import DeleteContents
from twostage.errors import CorruptFileError, MissingFileError
from twostage.storage.task_reads import TaskReads
from twostage.task import Storage

CONTENT = random.Random(1).randbytes(500_000)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = tmp_path_factory.mktemp("lake")
    for number in range(5):
        (root / f"d{number}.parquet").write_bytes(CONTENT[: 1000 + number])
    (root / "v.puffin").write_bytes(CONTENT)
    with serve_late(root) as late:
        yield late


@contextmanager
def contents_of(store, *tasks):
    properties = {key.removeprefix("catalog."): value for key, value in store.options.items()}
    store.reset()
    with TaskReads() as reads:
        yield DeleteContents(reads, Storage(properties=properties, root=f"s3://{BUCKET}"), tasks)


def remote(name, content="position", **changes):
    path = f"s3://{BUCKET}/{name}"
    made = delete_of(Path(name), content, **{"file_size": 1000, **changes})
    return replace(made, path=path, written_path=path)


def vector(offset, size, **changes):
    place = {"content_offset": offset, "content_size": size, "file_size": len(CONTENT)}
    return remote("v.puffin", "vector", format="puffin", **{**place, **changes})


def test_a_file_is_asked_for_once_however_many_need_it(store):
    files = [remote(f"d{number}.parquet") for number in range(3)]
    with contents_of(store) as contents:
        contents.ask(files)
        contents.ask(files)
        contents.await_whole(files)
        found = [(delete, bytes(content)) for delete, content in contents.in_order(files)]
        assert found == [(delete, CONTENT[: 1000 + number]) for number, delete in enumerate(files)]
        assert len(store.log) == 3
        list(contents.in_order(files))  # what was yielded is forgotten
        assert len(store.log) == 6


def test_what_another_reader_forgets_stays_with_who_waits(store):
    files = [remote("d0.parquet"), remote("d1.parquet")]
    with contents_of(store) as contents:
        steps = contents.in_order(files)
        next(steps)
        contents.forget(files[1])
        assert bytes(next(steps)[1]) == CONTENT[:1001]
        assert len(store.log) == 2


def test_large_and_local_files_are_left_to_their_readers(store, tmp_path):
    files = [
        remote("d0.parquet", file_size=module.MAX_WHOLE_FILE_BYTES + 1),
        delete_of(tmp_path / "d", "position"),
    ]
    with contents_of(store) as contents:
        contents.ask(files)
        assert [content for _, content in contents.in_order(files)] == [None, None]
        assert store.log == []
        assert not contents.has(files[1])


def test_files_are_asked_for_ahead_within_bounds(store, monkeypatch):
    monkeypatch.setattr(module, "MAX_BYTES_AHEAD", 1500)
    files = [remote(f"d{number}.parquet") for number in range(5)]
    with contents_of(store) as contents:
        for number, (_, content) in enumerate(contents.in_order(files)):
            assert bytes(content) == CONTENT[: 1000 + number]
            assert len(store.log) <= number + 2


def test_vectors_of_a_file_are_asked_for_together(store):
    places = [(4, 100), (104, 50), (400_000, 77)]
    vectors = [vector(*place) for place in places]
    with contents_of(store, *(task_of(one) for one in vectors)) as contents:
        found = [bytes(contents.vector(one)) for one in vectors]
        assert found == [CONTENT[o : o + n] for o, n in places]
        assert len(store.log) == 2  # two lie near each other
        assert [bytes(contents.vector(one)) for one in vectors] == found
        assert len(store.log) == 2


def test_a_vector_that_no_task_was_known_to_need(store):
    with contents_of(store) as contents:
        assert bytes(contents.vector(vector(10, 20))) == CONTENT[10:30]


def test_a_vector_beyond_its_file(store):
    good, bad = vector(4, 100), vector(499_990, 100)
    assert contents_sound(good) and not contents_sound(bad) and not contents_sound(vector(4, 0))
    with contents_of(store, task_of(good), task_of(bad)) as contents:
        assert bytes(contents.vector(good)) == CONTENT[4:104]  # not spoilt by the other one
        with pytest.raises(CorruptFileError):
            contents.vector(bad)


def contents_sound(delete):
    return DeleteContents.is_sound(delete)


def test_a_missing_file(store):
    with contents_of(store) as contents, pytest.raises(MissingFileError):
        contents.await_whole([remote("absent.parquet")])
    assert not [thread for thread in threading.enumerate() if thread.name == "twostage-file"]
