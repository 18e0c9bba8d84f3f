"""How many files of a task are read at the same time: bounded by number, by memory, and by what a limit needs."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from scan_values import context_of, delete_of, task_of
from twostage.metrics import Metrics
from twostage.options import ReadSettings
from twostage.reading.files_ahead import MAX_FILES_AHEAD, FilesAhead, are_remote
from twostage.task import Storage, TaskGroup

MIB = 2**20


def group_of(tmp_path, sizes, *, limit=None, **settings):
    context = replace(
        context_of(tmp_path),
        storage=Storage(properties={}, root="s3://lake/t"),
        limit=limit,
        settings=ReadSettings(**{"task_memory": 256 * MIB, **settings}),
    )
    tasks = tuple(
        replace(task_of(), path=f"s3://lake/t/{number}", length=size, file_size=size)
        for number, size in enumerate(sizes)
    )
    return TaskGroup(index=0, context=context, tasks=tasks)


class Gate:
    """What a file waits for; opens when `together` files wait, or after a while: a busy machine starts threads late."""

    waiting: list = []

    def __init__(self, together=0):
        self._together = together
        self._callbacks = []
        self._is_open = False

    def done(self):
        return self._is_open

    def on_done(self, callback):
        self._callbacks.append(callback)
        if not self._together:
            threading.Timer(0.05, self.open).start()
            return
        Gate.waiting.append(self)
        if len(Gate.waiting) >= self._together:
            opened, Gate.waiting = Gate.waiting, []
            for gate in opened:
                threading.Timer(0.01, gate.open).start()

    def open(self):
        self._is_open = True
        for callback in self._callbacks:
            callback()

    def block(self):
        self.open()


def most_at_once(group, store_bytes=0, together=0):
    """Return how many files were open at the same time, at most, and for each file how many when it began."""
    running, seen, metrics = set(), [], Metrics()

    def read(ahead, task):
        running.add(task.path)
        seen.append(len(running))
        ahead.turns.wait(Gate(together))
        metrics.counters["store.bytes"] += store_bytes
        yield task.path
        running.discard(task.path)

    with FilesAhead(group, metrics) as ahead:
        assert list(ahead.files(partial(read, ahead))) == [task.path for task in group.tasks]
    # Of files that wait together, one may always be about to begin or to go on.
    assert together or metrics.counters["time.waiting"] > 0
    return max(seen), seen


def test_small_files_are_read_at_the_same_time(tmp_path):
    assert most_at_once(group_of(tmp_path, [MIB] * 20), together=20)[0] == 20
    assert (
        most_at_once(group_of(tmp_path, [1000] * 2 * MAX_FILES_AHEAD), together=MAX_FILES_AHEAD)[0]
        == MAX_FILES_AHEAD
    )


@pytest.mark.parametrize("ahead", [0, 1, 5])
def test_as_many_as_the_option_says(tmp_path, ahead):
    assert most_at_once(group_of(tmp_path, [MIB] * 12, files_ahead=ahead), together=1 + ahead)[0] == 1 + ahead


def test_large_files_are_bounded_by_memory(tmp_path):
    """A quarter of each is expected to be read, three times as much to be held: 96 MiB of 128."""
    assert most_at_once(group_of(tmp_path, [128 * MIB] * 6), store_bytes=32 * MIB)[0] == 1


def test_what_is_ahead_goes_with_what_files_have_taken(tmp_path):
    _, seen = most_at_once(group_of(tmp_path, [128 * MIB] * 20), store_bytes=MIB)
    assert seen[0] == 1
    assert max(seen[2:]) > 10


def with_deletes(group, names, size):
    """Give each data file the delete file of positions that is named for it."""
    deletes = (
        replace(
            delete_of(Path("/d"), "position"), path=f"s3://lake/t/{name}", file_size=size, format="parquet"
        )
        for name in names
    )
    tasks = (replace(task, deletes=(delete,)) for task, delete in zip(group.tasks, deletes, strict=True))
    return replace(group, tasks=tuple(tasks))


def test_delete_files_take_memory_too(tmp_path):
    group = group_of(tmp_path, [1000] * 10, task_memory=16 * MIB)
    assert most_at_once(with_deletes(group, range(10), 5 * MIB))[0] == 1
    assert most_at_once(with_deletes(group, range(10), 3 * MIB))[0] <= 2
    assert most_at_once(with_deletes(group, [0] * 10, 4 * MIB), together=10)[0] == 10, "one that all have"


def test_a_scan_with_a_limit_begins_with_few(tmp_path):
    _, seen = most_at_once(group_of(tmp_path, [1000] * 30, limit=5))
    assert max(seen[:2]) <= 2
    assert max(seen) > 4


def test_local_files_are_not_read_ahead(tmp_path):
    group = group_of(tmp_path, [1, 2])
    assert are_remote(group)
    local = replace(group, tasks=tuple(replace(task, path=f"/t{n}") for n, task in enumerate(group.tasks)))
    assert not are_remote(local)
    assert not are_remote(replace(group, tasks=()))


def test_the_clock_is_the_process_s_again_afterwards(tmp_path):
    metrics = Metrics()
    with FilesAhead(group_of(tmp_path, [1]), metrics) as ahead:
        assert metrics.clock == ahead.turns.clock
    assert metrics.clock is Metrics().clock
