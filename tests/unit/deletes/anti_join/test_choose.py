"""A task's equality deletes: whichever anti-join is chosen and whatever bounds prove, the rows are those of brute force."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from declared.types import Column
from scan_values import context_of, delete_of, task_of, write_keys
from twostage.data_files.row_group import PageBounds, RowGroup
from twostage.deletes.anti_join import choose as module, stream_or_load
from twostage.deletes.anti_join.build_from_deletes import EqualityDeletes
from twostage.deletes.anti_join.build_from_rows import StreamedDeletes
from twostage.deletes.anti_join.choose import MIN_ROWS_PER_LOOKUP, NO_DELETES, TaskDeletes
from twostage.deletes.cache.memory import CACHE
from twostage.errors import MissingFileError, ResourceLimitError
from twostage.metrics import Metrics
from twostage.predicates.bounds import Bounds
from twostage.schema import Field, Primitive

K, S = Column(1, "k", "long"), Column(2, "s", "string")


@pytest.fixture(autouse=True)
def _nothing_learned():
    for learned in (stream_or_load._streamed, stream_or_load._absent, stream_or_load._too_large):
        learned.clear()


def group_of(rows: list[Any], index: int = 0) -> RowGroup:
    return RowGroup(index=index, first_row=0, num_rows=len(rows), num_bytes=1)


def bounds_of(values: list[Any]) -> Bounds:
    """Return the exact bounds of some values, None among them."""
    known = [value for value in values if value is not None]
    return Bounds(
        lower=min(known, default=None),
        upper=max(known, default=None),
        null_count=len(values) - len(known),
        value_count=len(values),
        exact_lower=True,
        exact_upper=True,
    )


class Rows:
    """A data file of one row group: rows of (k, s), and their bounds."""

    def __init__(self, rows: list[tuple[Any, Any]]) -> None:
        self.rows = rows
        self.group = group_of(rows)
        self.fields_read: Counter[int] = Counter()

    def bounds(self, _: RowGroup, field_id: int) -> Bounds:
        self.fields_read[field_id] += 1
        return bounds_of([row[field_id - 1] for row in self.rows])

    def columns(self, ids: tuple[int, ...]) -> dict[int, pa.Array]:
        kinds = {1: pa.int64(), 2: pa.string()}
        return {i: pa.array([row[i - 1] for row in self.rows], kinds[i]) for i in ids}


def deletes_of(folder, some: list[tuple[tuple[int, ...], list[tuple[Any, Any]]]]):
    """Write delete files of (equality ids, keys), with the bounds that a manifest would tell."""
    files = []
    for number, (ids, keys) in enumerate(some):
        columns = [column for column in (K, S) if column.id in ids]
        rows = [{i: key[i - 1] for i in ids} for key in keys]
        known = {i: bounds_of([key[i - 1] for key in keys]) for i in ids}
        path = folder / f"d{number}.parquet"
        files.append(write_keys(path, columns, rows, list(ids), scope="global", keys=known))
    return tuple(files)


def is_deleted(row, some) -> bool:
    return any(any(all(row[i - 1] == key[i - 1] for i in ids) for key in keys) for ids, keys in some)


def random_case(rng: random.Random):
    base = rng.choice([0, 100])
    number = lambda: None if rng.random() < 0.1 else base + rng.randrange(rng.choice([1, 4, 40]))
    text = lambda: rng.choice(["a", "b", "c"])
    rows = [(number(), text()) for _ in range(rng.choice([1, 10, 60]))]
    some = [
        (rng.choice([(1,), (1,), (1, 2)]), [(number() if rng.random() < 0.5 else rng.randrange(200), text())
                                            for _ in range(rng.randint(1, 20))])
        for _ in range(rng.randint(1, 4))
    ]  # fmt: skip
    return Rows(rows), some


@pytest.mark.parametrize("seed", range(40))
def test_all_ways_give_the_same_rows(tmp_path, seed):
    rng = random.Random(seed)
    data, some = random_case(rng)
    files = deletes_of(tmp_path, some)
    right = [is_deleted(row, some) for row in data.rows]
    for stream in ("always", "never", "auto"):
        for prune in (True, False):
            settings = {"stream_deletes": stream, "prune_deletes": prune, "delete_cache": "worker"}
            context = context_of(tmp_path, [K, S], settings=settings)
            deletes = TaskDeletes(context, task_of(*files, record_count=len(data.rows)), Metrics())
            overlapping = deletes.overlapping(data, data.group)
            for chosen in (deletes.choose_for_file(), deletes.choose(overlapping, len(data.rows))):
                found = chosen.deleted(data.columns(chosen.field_ids), len(data.rows))
                assert found.tolist() == right, f"seed {seed}"
                decided = deletes.all_or_none_deleted(data, data.group, chosen, len(data.rows))
                assert decided is None or right == [decided] * len(right), f"seed {seed}"


def test_bounds_rule_out_files_and_decide_row_groups_now_and_then(tmp_path):
    """What the random cases are worth: each outcome occurs."""
    seen = Counter()
    for seed in range(60):
        data, some = random_case(random.Random(seed))
        folder = tmp_path / str(seed)
        folder.mkdir()
        files = deletes_of(folder, some)
        context = context_of(folder, [K, S], settings={"stream_deletes": "never", "delete_cache": "worker"})
        deletes = TaskDeletes(context, task_of(*files, record_count=len(data.rows)), Metrics())
        overlapping = deletes.overlapping(data, data.group)
        seen["ruled out"] += len(files) - len(overlapping)
        chosen = deletes.choose(overlapping, len(data.rows))
        seen[deletes.all_or_none_deleted(data, data.group, chosen, len(data.rows))] += 1
    assert all(seen[outcome] > 2 for outcome in ("ruled out", True, False, None)), seen


def test_a_task_without_equality_deletes(tmp_path):
    context, positions = context_of(tmp_path, [K]), delete_of(tmp_path / "p.parquet", "position")
    for deletes in (
        TaskDeletes(context, task_of(positions), Metrics()),
        TaskDeletes(context, task_of(positions, delete_of(tmp_path / "d", "equality")), Metrics()).none(),
    ):
        assert not deletes
        assert deletes.files == ()
        assert deletes.overlapping(Rows([(1, "a")]), group_of([1])) == ()
        assert deletes.choose_for_file() is NO_DELETES
    assert not NO_DELETES
    assert not NO_DELETES.deleted({}, 3).any()


def test_without_pruning_nothing_is_looked_at(tmp_path):
    """No bound, no page: the option switches all of it off."""
    files = deletes_of(tmp_path, [((1,), [(500, "a")])])
    data = Rows([(1, "a")] * 20)
    context = context_of(tmp_path, [K, S], settings={"prune_deletes": False, "delete_cache": "worker"})
    deletes = TaskDeletes(context, task_of(*files), Metrics())
    assert deletes.overlapping(data, data.group) == files
    assert deletes.all_or_none_deleted(data, data.group, deletes.choose(files, 20), 20) is None
    assert deletes.key_pages(data, data.group, files) is None
    assert not data.fields_read


@pytest.mark.parametrize(
    ("value", "keys", "overlaps"),
    [
        (7, [(7, "a")], True),
        (7, [(6, "a"), (8, "a")], True),  # between the bounds
        (7, [(8, "a"), (9, "a")], False),
        (None, [(7, "a")], False),
        (None, [(None, "a")], True),
        (7, [(None, "a")], False),
    ],
)
def test_the_partition_s_value_is_the_bound_of_its_column(tmp_path, value, keys, overlaps):
    """Of every row, so that the file, which need not hold the column, is not asked."""
    files = deletes_of(tmp_path, [((1,), keys)])
    data = Rows([(0, "a")] * 9)
    deletes = TaskDeletes(context_of(tmp_path, [K, S]), task_of(*files, constants={1: value}), Metrics())
    assert deletes.overlapping(data, data.group) == (files if overlaps else ())
    assert not data.fields_read


def test_a_partition_of_a_float_proves_nothing(tmp_path):
    """NaN, and -0.0 that equals 0.0 for bounds and not for keys."""
    known = {1: Bounds(lower=5.0, upper=6.0, null_count=0, nan_count=0, value_count=1)}
    delete = delete_of(tmp_path / "d.parquet", "equality", equality_ids=(1,), keys=known)
    context = context_of(tmp_path, [Column(1, "k", "double")])
    deletes = TaskDeletes(context, task_of(delete, constants={1: 0.0}), Metrics())
    assert deletes.overlapping(Rows([(0, "a")]), group_of([1])) == (delete,)


def test_a_dropped_key_has_no_bounds(tmp_path):
    """The scan's statistics are of its schema's columns: another one may have the dropped column's name."""
    files = deletes_of(tmp_path, [((1,), [(500, "a")])])
    old = Field(id=1, name="k", type=Primitive("long"), required=False)
    data = Rows([(1, "a")] * 9)
    for columns, kept in (([K, S], ()), ([S], files)):
        context = context_of(tmp_path, columns, key_fields={1: old})
        assert TaskDeletes(context, task_of(*files), Metrics()).overlapping(data, data.group) == kept


@pytest.mark.parametrize(
    ("stream", "expected"),
    [("always", StreamedDeletes), ("never", ResourceLimitError), ("auto", StreamedDeletes)],
)
def test_keys_beyond_the_budget_are_streamed_if_that_is_allowed(tmp_path, stream, expected):
    keys = [(n * 2**40 % 2**63, "a") for n in range(3000)]
    files = deletes_of(tmp_path, [((1,), keys)])
    settings = {"stream_deletes": stream, "task_memory": 20_000, "delete_cache": "worker"}
    context, metrics = context_of(tmp_path, [K, S], settings=settings), Metrics()
    deletes = TaskDeletes(context, task_of(*files), metrics)
    if expected is ResourceLimitError:
        with pytest.raises(ResourceLimitError, match="task-memory"):
            deletes.choose(files, 1000)
        return
    assert isinstance(deletes.choose(files, 1000), expected)
    # The next task of the snapshot does not try again.
    before = metrics.counters["delete_files.opened"]
    another = TaskDeletes(context, task_of(*files), metrics)
    assert isinstance(another.choose(files, 1000), expected)
    assert metrics.counters["delete_files.opened"] == before


def test_another_error_is_no_reason_to_stream(tmp_path):
    delete = delete_of(tmp_path / "absent.parquet", "equality", equality_ids=(1,))
    deletes = TaskDeletes(context_of(tmp_path, [K]), task_of(delete), Metrics())
    with pytest.raises(MissingFileError):
        deletes.choose((delete,), 10)


def test_what_was_loaded_for_one_row_group_serves_the_next(tmp_path):
    files = deletes_of(tmp_path, [((1,), [(1, "a")]), ((1,), [(2, "a")])])
    deletes = TaskDeletes(context_of(tmp_path, [K, S]), task_of(*files), Metrics())
    both = deletes.choose(files, 10)
    assert isinstance(both, EqualityDeletes)
    assert deletes.choose(files, 5) is both
    CACHE.clear()
    assert deletes.choose(files[:1], 5) is not both


def test_streamed_keys_decide_no_row_group(tmp_path):
    """That would read them all, for a few values."""
    files = deletes_of(tmp_path, [((1,), [(5, "a")])])
    data, metrics = Rows([(5, "a")] * 40), Metrics()
    context = context_of(tmp_path, [K, S], settings={"stream_deletes": "always", "delete_cache": "worker"})
    deletes = TaskDeletes(context, task_of(*files), metrics)
    assert deletes.all_or_none_deleted(data, data.group, deletes.choose(files, 40), 40) is None
    assert metrics.counters["delete_files.opened"] == 0


@pytest.mark.parametrize("spread", [1, 4])
def test_values_are_looked_up_where_several_rows_share_each(tmp_path, spread):
    """Keys 0 to 3 are deleted, in a table whose gaps are not known."""
    keys = [(n, "a") for n in range(spread)] + [(2**60 + n * 2**50, "a") for n in range(20)]
    files = deletes_of(tmp_path, [((1,), keys)])
    settings = {"dense_keys": False, "delete_cache": "worker"}
    deletes = TaskDeletes(context_of(tmp_path, [K, S], settings=settings), task_of(*files), Metrics())
    equality = deletes.choose(files, 10)
    enough = spread * MIN_ROWS_PER_LOOKUP - (MIN_ROWS_PER_LOOKUP - 1)  # rows of the last value may be fewer
    for num_rows, decided in ((enough, True), (enough - 1, None)):
        data = Rows([(n % spread, "a") for n in range(100)])
        assert deletes.all_or_none_deleted(data, data.group, equality, num_rows) is decided
    empty = Rows([])
    assert deletes.all_or_none_deleted(empty, empty.group, equality, 0) is None


@pytest.mark.parametrize(
    ("null_key", "null_row", "decided"), [(True, True, None), (True, False, False), (False, True, False)]
)
def test_a_gap_between_keys_decides_rows_that_are_not_null(tmp_path, null_key, null_row, decided):
    files = deletes_of(tmp_path, [((1,), [(0, "a"), (100, "a"), *([(None, "a")] if null_key else [])])])
    data = Rows([(40, "a"), (60, "a"), *([(None, "a")] if null_row else [])])
    deletes = TaskDeletes(context_of(tmp_path, [K, S]), task_of(*files), Metrics())
    equality = deletes.choose(files, len(data.rows))
    found = deletes.all_or_none_deleted(data, data.group, equality, len(data.rows))
    assert found in ((decided,) if decided is None or not null_row else (None, False))


def test_pages_are_kept_for_the_next_window_of_a_row_group(tmp_path, monkeypatch):
    files = deletes_of(tmp_path, [((1,), [(1, "a")]), ((1, 2), [(2, "a")])])
    pages = {
        field_id: PageBounds(np.array([0, 10]), [bounds_of(one) for one in parts])
        for field_id, parts in {1: ([1, 2], [5, 6]), 2: (["a", "b"], ["x", "y"])}.items()
    }
    file = SimpleNamespace(bounds=lambda *_: None, page_bounds=lambda _, field_id: pages[field_id])
    deletes = TaskDeletes(context_of(tmp_path, [K, S]), task_of(*files), Metrics())
    group = group_of([0] * 20)
    found = deletes.key_pages(file, group, files)
    assert found.lengths.tolist() == [10, 10]
    assert deletes.key_pages(file, group, files) is found
    assert deletes.key_pages(file, replace(group, index=1), files) is not found
    outside = deletes.runs_outside_bounds(found, files)
    assert {ids: runs.tolist() for ids, runs in outside.items()} == {
        (1,): [False, True],
        (1, 2): [False, True],
    }
    monkeypatch.setattr(module.KeyPages, "of", lambda *_: pytest.fail("asked though pages are not pruned"))
    context = context_of(tmp_path, [K, S], settings={"prune_pages": False})
    assert TaskDeletes(context, task_of(*files), Metrics()).key_pages(file, group, files) is None
