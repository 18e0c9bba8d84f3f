"""Contents of remote delete files: each asked for once, vectors of one Puffin file together."""

from __future__ import annotations

import gc
import random
import threading
import time
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
def contents_of(store, *tasks, memory_budget=0, **limits):
    properties = {key.removeprefix("catalog."): value for key, value in store.options.items()}
    store.reset()
    with TaskReads(**limits) as reads:
        storage = Storage(properties=properties, root=f"s3://{BUCKET}")
        yield DeleteContents(reads, storage, tasks, memory_budget)


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


@pytest.mark.parametrize("largest", [999, 1000])
def test_larger_files_are_fetched_where_all_of_their_keys_are_read(store, monkeypatch, largest):
    """As much as the task's memory allows; else, as of deletes that are streamed, their readers choose what to read."""
    monkeypatch.setattr(module, "MAX_WHOLE_FILE_BYTES", 100)
    files = [remote(f"d{number}.parquet", "equality") for number in range(3)]
    for are_loaded in (True, False):
        with contents_of(store, memory_budget=largest * module.LOADED_BUDGET_DIVISOR) as contents:
            found = [content for _, content in contents.in_order(files, are_loaded=are_loaded)]
            is_fetched = are_loaded and largest == 1000
            assert [content is not None for content in found] == [is_fetched] * 3
            assert len(store.log) == 3 * is_fetched


def test_files_to_load_are_waited_for_within_bounds(store, monkeypatch):
    """The others come later: of tens of gigabytes of delete files not all are in memory at once."""
    monkeypatch.setattr(module, "MAX_BYTES_AHEAD", 2000)
    monkeypatch.setattr(module, "MAX_WHOLE_FILE_BYTES", 1000)
    files = [remote(f"d{number}.parquet", "equality") for number in range(5)]
    with contents_of(store) as contents:
        contents.await_whole(files)
        assert len(store.log) == 2
        steps = contents.in_order(files, are_loaded=True)
        for number, (_, content) in enumerate(steps):
            assert bytes(content) == CONTENT[: 1000 + number]
            assert len(store.log) <= number + 2
    too_large = remote("d4.parquet", "equality", file_size=3000)
    with contents_of(store) as contents:
        contents.await_whole([too_large, files[0]])
        assert [request.key for request in store.log] == ["d0.parquet"]


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
        assert held(contents, 0) == 0, "what was decoded is let go of"


def test_a_vector_that_parts_of_a_file_share_is_kept_until_the_last_one(store):
    shared, other = vector(4, 100), vector(400_000, 77)
    tasks = [task_of(shared), task_of(shared), task_of(other)]
    with contents_of(store, *tasks) as contents:
        assert contents.vector(shared) == contents.vector(shared) == CONTENT[4:104]
        assert len(store.log) == 2
        contents.leave(tasks[0])
        assert held(contents, 177) == 177
        contents.leave(tasks[1])
        assert contents.vector(other) == CONTENT[400_000:400_077]
        assert held(contents, 0) == 0
        assert len(store.log) == 2


def test_what_pruned_files_asked_for_is_let_go_of(store):
    files, places = (
        [remote(f"d{number}.parquet") for number in range(2)],
        [vector(4, 100), vector(400_000, 77)],
    )
    tasks = [task_of(*files), task_of(files[1]), *map(task_of, places)]
    with contents_of(store, *tasks) as contents:
        contents.ask(files)
        contents.ask_vector(places[0])
        contents.await_whole(files)
        contents.leave(tasks[0])
        assert list(contents._whole) == [files[1].path], "another file needs it"
        for task in tasks[1:]:
            contents.leave(task)
        assert held(contents, 0) == 0  # nobody waits for the vectors any more, which are on their way
        assert len(store.log) == 4


def held(contents, expected):
    """Bytes that count as held, once all requests have been sent.

    Bytes count until nothing refers to them. The thread of the store's loop may for a moment, so wait for `expected`.
    """
    reads = contents._reads
    for pending in [one for vectors in contents._vectors.values() for one, _ in vectors.asked.values()]:
        pending.result()
    ends = time.monotonic() + 30
    while (found := reads._held_bytes - sum(reads._freed)) != expected and time.monotonic() < ends:
        time.sleep(0.01)
        gc.collect()
    return found


def test_files_asked_for_ahead_count_by_their_size(store):
    """The budget has room for one of them; whoever waits gets the next one all the same."""
    files = [remote(f"d{number}.parquet", file_size=1000 + number) for number in range(3)]
    with contents_of(store, most_bytes=1500) as contents:
        contents.ask(files)
        contents._whole[files[0].path].block()
        assert [contents._whole[one.path].is_sent for one in files] == [True, False, False]
        assert held(contents, 1000) == 1000
        assert [bytes(content) for _, content in contents.in_order(files)] == [
            CONTENT[: 1000 + number] for number in range(3)
        ]
        assert held(contents, 0) == 0


def test_bytes_ahead_are_those_of_small_remote_positions(tmp_path, store):
    large = module.MAX_WHOLE_FILE_BYTES + 1
    with contents_of(store) as contents:
        assert contents.num_bytes(remote("d0.parquet", file_size=1234)) == 1234
        assert contents.num_bytes(vector(4, 100)) == 100
        assert contents.num_bytes(remote("d0.parquet", file_size=large)) == 0
        assert contents.num_bytes(remote("d0.parquet", "equality")) == 0
        assert contents.num_bytes(vector(499_990, 100)) == 0
        assert contents.num_bytes(delete_of(tmp_path / "d", "position")) == 0


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
