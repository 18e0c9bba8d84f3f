"""What is found out once for all data files of a task: where compiled deletes are kept, and how they are named."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyroaring import BitMap64

from declared.types import Column
from scan_values import context_of, delete_of, task_of
from twostage.deletes.cache import fingerprint
from twostage.deletes.cache.memory import CACHE
from twostage.deletes.compiled import entry_name as module, store
from twostage.deletes.compiled.entry_name import MAX_SETS, entry_name, name_set, name_set_with_positions
from twostage.deletes.compiled.find import CompiledFinder
from twostage.deletes.positions.position_deletes import DeletedPositions
from twostage.errors import ForbiddenLocationError, MissingFileError
from twostage.metrics import Metrics

K, S = Column(1, "k", "long"), Column(2, "s", "string")
DELETES = tuple(
    replace(
        delete_of(Path("/x"), "equality", equality_ids=(1 + number % 2,), sequence_number=number + 5),
        path=f"s3://lake/d{number}.parquet",
    )
    for number in range(8)
)
POSITION = delete_of(Path("/lake/p.parquet"), "position")
TASKS = [task_of(*DELETES, path=f"s3://lake/{number}.parquet") for number in range(20)]


@pytest.fixture
def context(tmp_path):
    settings = {"delete_cache_dir": str(tmp_path / "cache")}
    return context_of(tmp_path, [K, S], settings=settings, table_uuid="uuid")


def counted(monkeypatch, module, name):
    """Return the list of what a function is called with from now on."""
    calls, real = [], getattr(module, name)

    def call(*given):
        calls.append(given)
        return real(*given)

    monkeypatch.setattr(module, name, call)
    return calls


def test_data_files_share_what_is_the_same_for_all(context, monkeypatch):
    directories = counted(monkeypatch, store.HostCache, "find")
    digests = counted(monkeypatch, fingerprint, "of_delete")
    readings = counted(monkeypatch, module, "name_reading")
    finder = CompiledFinder(context, Metrics())
    found = [finder.find_compiled(task, DeletedPositions()) for task in TASKS]
    assert all(one.recorder is not None for one in found)
    assert len({one.name for one in found}) == len(TASKS)
    assert (len(directories), len(digests), len(readings)) == (1, len(DELETES), 1)


def test_nothing_is_recorded_unless_scans_may_compile(context):
    """What is compiled is found all the same."""
    settings = replace(context.settings, compile_deletes=False)
    finder = CompiledFinder(replace(context, settings=settings), Metrics())
    found = finder.find_compiled(TASKS[0], DeletedPositions())
    assert (found.positions, found.recorder) == (None, None)
    name = CompiledFinder(context, Metrics()).find_compiled(TASKS[0], DeletedPositions()).name
    CACHE.put(name, BitMap64([3]), 100, limit=10_000)
    assert finder.find_compiled(TASKS[0], DeletedPositions()).positions.count == 1
    CACHE.clear()


@pytest.mark.parametrize("with_positions", [False, True])
@pytest.mark.parametrize("change", [{}, {"length": 10}, {"delete_set": "known"}])
def test_names_are_those_that_entries_have(context, change, with_positions):
    """Of a set of delete files that was met before as of a new one, whatever part of the file is read."""
    finder = CompiledFinder(context, Metrics())
    finder.find_compiled(TASKS[0], DeletedPositions())
    task = replace(TASKS[1], deletes=(POSITION, *DELETES) if with_positions else DELETES, **change)
    positions = DeletedPositions("position", BitMap64([1]), 1) if with_positions else DeletedPositions()
    delete_set = name_set(task, DELETES)
    if with_positions:
        delete_set = name_set_with_positions(task, delete_set)
    assert finder.find_compiled(task, positions).name == entry_name(context, task, DELETES, delete_set)


def test_each_set_of_delete_files_has_its_own_name(context):
    finder = CompiledFinder(context, Metrics())
    newer = [replace(DELETES[0], sequence_number=number) for number in range(MAX_SETS + 3)]
    for task in [replace(TASKS[0], deletes=(*DELETES[1:], one)) for one in newer] * 2:
        assert finder.find_compiled(task, DeletedPositions()).name == entry_name(context, task, task.deletes)


def test_local_delete_files_are_looked_at_again(context, tmp_path):
    """They may be others by then: their names go by when they were written."""
    paths = [tmp_path / f"d{number}.parquet" for number in range(8)]
    for path in paths:
        path.write_bytes(b"1")
    deletes = tuple(delete_of(path, "equality", equality_ids=(1,)) for path in paths)
    finder, task = CompiledFinder(context, Metrics()), task_of(*deletes)
    before = finder.find_compiled(task, DeletedPositions()).name
    assert finder.find_compiled(task, DeletedPositions()).name == before
    os.utime(paths[0], ns=(1, 1))
    assert finder.find_compiled(task, DeletedPositions()).name not in (None, before)


def test_few_keys_of_a_small_file_are_not_looked_for(context, monkeypatch):
    directories = counted(monkeypatch, store.HostCache, "find")
    task = task_of(replace(DELETES[0], record_count=9), record_count=9)
    found = CompiledFinder(context, Metrics()).find_compiled(task, DeletedPositions())
    assert (found.positions, found.recorder, found.stores, directories) == (None, None, [], [])


class Contents:
    """What a task has asked for of a bucket that has no entries."""

    def __init__(self):
        self.asked = []

    def ask_beside(self, storage, path, limit, expected):
        self.asked.append(path)
        if "forbidden" in path:
            raise ForbiddenLocationError("FORBIDDEN_LOCATION", "no", path=path, stage="storage")

        def result():
            raise MissingFileError("MISSING_FILE", "not there", path=path, stage="storage")

        return SimpleNamespace(result=result)


def in_bucket(context, folder="s3://cache/compiled"):
    return replace(context, settings=replace(context.settings, compiled_dir=folder))


def test_what_a_bucket_may_have_is_asked_for_ahead(context, monkeypatch):
    """Each entry once; of a data file that has positions both names, as it is not known yet whether they delete rows."""
    read = counted(monkeypatch, store.files, "read_all")
    finder, contents = CompiledFinder(in_bucket(context), Metrics()), Contents()
    with_positions = replace(TASKS[1], deletes=(POSITION, *DELETES))
    for task in (TASKS[0], with_positions):
        finder.ask_for_compiled(task, contents)
    assert len(contents.asked) == len(set(contents.asked)) == 3
    assert finder.find_compiled(TASKS[0], DeletedPositions()).recorder is not None
    assert finder.find_compiled(with_positions, DeletedPositions()).recorder is not None
    assert read == []
    assert not finder._asked  # what was not read is let go of


def test_what_the_host_has_is_not_asked_for(context):
    finder, contents = CompiledFinder(in_bucket(context), Metrics()), Contents()
    name = finder.find_compiled(TASKS[0], DeletedPositions()).name
    CACHE.put(name, BitMap64([3]), 100, limit=10_000)
    finder.ask_for_compiled(TASKS[0], contents)
    assert contents.asked == []
    assert finder.find_compiled(TASKS[0], DeletedPositions()).positions.count == 1
    CACHE.clear()


def test_a_folder_that_cannot_be_asked_ends_no_scan(context, monkeypatch):
    """It is said where it is read."""
    monkeypatch.setattr(
        store.files, "read_all", lambda *_, **__: Contents().ask_beside(None, "forbidden", 0, 0)
    )
    metrics = Metrics()
    finder = CompiledFinder(in_bucket(context, "s3://forbidden/x"), metrics)
    finder.ask_for_compiled(TASKS[0], Contents())
    assert finder.find_compiled(TASKS[0], DeletedPositions()).recorder is not None
    assert metrics.counters["delete_compiled.ignored"] == 1


def test_a_local_folder_is_not_asked(context, tmp_path):
    contents = Contents()
    CompiledFinder(in_bucket(context, str(tmp_path / "compiled")), Metrics()).ask_for_compiled(
        TASKS[0], contents
    )
    assert contents.asked == []
