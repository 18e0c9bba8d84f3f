"""What deletes rows of one data file: positions, keys, and keys that were compiled to positions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from declared.files import write_position_deletes
from declared.types import Column
from scan_values import context_of, delete_of, task_of, write_keys
from twostage.data_files.row_group import RowGroup
from twostage.errors import ResourceLimitError
from twostage.metrics import Metrics
from twostage.reading.file_deletes import DeleteLoader, FileDeletes
from twostage.selection import Selection
from twostage.task import DeleteFile, ScanContext, ScanTask

K = Column(1, "k", "long")
GROUPS = [RowGroup(index=i, first_row=50 * i, num_rows=50, num_bytes=1) for i in range(2)]
BY_POSITION, BY_KEY = {3, 60}, {n for n in range(100) if n % 7 == 0}
"""Row n has the key n."""


@pytest.fixture
def deletes(tmp_path: Path) -> tuple[DeleteFile, ...]:
    path = tmp_path / "p.parquet"
    write_position_deletes(path, [("/lake/data.parquet", n) for n in sorted(BY_POSITION)], "parquet")
    keys = write_keys(tmp_path / "k.parquet", [K], [{1: n} for n in sorted(BY_KEY)], [1], scope="global")
    return delete_of(path, "position", record_count=len(BY_POSITION)), keys


def scan_of(
    folder: Path, deletes: tuple[DeleteFile, ...], **settings: object
) -> tuple[ScanContext, ScanTask]:
    settings = {"delete_cache_dir": str(folder / "cache"), **settings}
    context = context_of(folder, [K], settings=settings, equality_deletes=deletes[1:])
    return context, task_of(*deletes, record_count=100)


def load(context: ScanContext, task: ScanTask, metrics: Metrics) -> FileDeletes:
    return DeleteLoader(context, metrics).load(task)


def deleted_rows(found: FileDeletes) -> set[int]:
    """Return all rows of the file that its deletes remove, by whatever way."""
    rows = {*found.positions.within(0, 100).tolist(), *found.compiled_positions.within(0, 100).tolist()}
    marks = found.equality.choose_for_file().deleted({1: pa.array(range(100))}, 100)
    return rows | set(np.flatnonzero(marks).tolist())


@pytest.mark.parametrize("kinds", [(), (0,), (1,), (0, 1)])
def test_each_kind_of_delete_file(
    tmp_path: Path, deletes: tuple[DeleteFile, ...], kinds: tuple[int, ...]
) -> None:
    context, task = scan_of(tmp_path, tuple(deletes[kind] for kind in kinds), delete_cache="worker")
    found = load(context, task, Metrics())
    assert bool(found.positions) == (0 in kinds)
    assert bool(found.equality) == (1 in kinds)
    assert not found.compiled_positions
    assert found.compiled.recorder is None  # nothing would keep the result
    assert deleted_rows(found) == (BY_POSITION if 0 in kinds else set()) | (BY_KEY if 1 in kinds else set())


def test_a_delete_file_of_keys_is_opened_when_rows_are_probed(
    tmp_path: Path, deletes: tuple[DeleteFile, ...]
) -> None:
    metrics = Metrics()
    found = load(*scan_of(tmp_path, deletes, delete_cache="worker"), metrics)
    assert metrics.counters["delete_files.opened"] == 1
    deleted_rows(found)
    assert metrics.counters["delete_files.opened"] == 2
    assert metrics.counters["time.deletes"] > 0


def record(found: FileDeletes, groups: list[RowGroup]) -> None:
    """Read row groups as a scan does."""
    equality = found.equality.choose_for_file()
    for group in found.recorded(groups):
        keys = pa.array(range(group.first_row, group.first_row + group.num_rows))
        marks = equality.deleted({1: keys}, group.num_rows)
        assert found.compiled.recorder is not None
        found.compiled.recorder.add(group.first_row, Selection.all(group.num_rows), marks)


@pytest.mark.usefixtures("small_sets_are_compiled")
def test_what_one_scan_compiles_the_next_one_takes_as_positions(
    tmp_path: Path, deletes: tuple[DeleteFile, ...]
) -> None:
    context, task = scan_of(tmp_path, deletes)
    first, metrics = load(context, task, Metrics()), Metrics()
    assert not first.compiled_positions
    record(first, GROUPS)
    first.finish(metrics)
    assert metrics.counters["delete_compiled.written"] == 1
    again = load(context, task, Metrics())
    assert set(again.compiled_positions.within(0, 100).tolist()) == BY_KEY
    assert not again.equality
    assert deleted_rows(again) == BY_POSITION | BY_KEY == deleted_rows(first)


@pytest.mark.usefixtures("small_sets_are_compiled")
def test_a_scan_that_probed_a_part_compiles_nothing(tmp_path: Path, deletes: tuple[DeleteFile, ...]) -> None:
    context, task = scan_of(tmp_path, deletes)
    found, metrics = load(context, task, Metrics()), Metrics()
    assert list(found.recorded(GROUPS)) == GROUPS
    record(found, GROUPS[:1])
    found.finish(metrics)
    assert metrics.counters["delete_compiled.written"] == 0
    assert load(context, task, Metrics()).equality


def test_row_groups_pass_where_nothing_is_recorded(tmp_path: Path, deletes: tuple[DeleteFile, ...]) -> None:
    found = load(*scan_of(tmp_path, deletes, delete_cache="worker"), Metrics())
    assert found.recorded(GROUPS) is GROUPS
    found.finish(Metrics())


def test_a_scan_that_shows_deleted_rows_removes_none(tmp_path: Path, deletes: tuple[DeleteFile, ...]) -> None:
    context, task = scan_of(tmp_path, deletes)
    found = load(context, task, Metrics())
    shown = found.cleared()
    assert deleted_rows(shown) == set()
    assert not (shown.positions or shown.compiled_positions or shown.equality)
    assert deleted_rows(found) == BY_POSITION | BY_KEY  # as before: they mark the rows


def test_positions_beyond_the_memory(tmp_path: Path, deletes: tuple[DeleteFile, ...]) -> None:
    with pytest.raises(ResourceLimitError, match="task-memory"):
        load(*scan_of(tmp_path, deletes, task_memory=100), Metrics())
