"""Streaming equality deletes or loading them: the thresholds, and what a worker remembers of tasks before."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from declared.types import Column
from scan_values import context_of, delete_of, task_of, write_keys
from twostage.deletes.anti_join import stream_or_load
from twostage.deletes.anti_join.load_key_sets import load_equality
from twostage.deletes.anti_join.stream_or_load import (
    HOST_RETRY_SECONDS,
    MIN_KEYS_PER_ROW_TO_STREAM,
    MIN_KEYS_TO_STREAM,
    SECONDS_TO_LOAD_KEY,
    SECONDS_TO_LOAD_NUMBER,
    StreamOrLoad,
)
from twostage.metrics import Metrics
from twostage.schema import Primitive

COLUMNS = [Column(1, "k", "long"), Column(2, "s", "string")]
FOLDER = Path("/lake")


def forget() -> None:
    for learned in (stream_or_load._streamed, stream_or_load._absent, stream_or_load._too_large):
        learned.clear()


@pytest.fixture(autouse=True)
def _nothing_learned():
    forget()


def keys(count: int, *ids: int, name: str = "d") -> tuple:
    """Return a delete file of so many keys, which nobody opens here."""
    path = FOLDER / f"{name}.parquet"
    return (delete_of(path, "equality", record_count=count, equality_ids=ids or (1,), scope="global"),)


def chooser(deletes: tuple = (), folder: Path = FOLDER, snapshot_id: int = 1, **changes) -> StreamOrLoad:
    context = context_of(
        folder, COLUMNS, settings={"delete_cache": "worker", **changes}, snapshot_id=snapshot_id
    )
    kinds = {1: Primitive("long"), 2: Primitive("string")}
    return StreamOrLoad(context, task_of(*deletes), Metrics(), kinds.__getitem__)


@pytest.mark.parametrize(("setting", "expected"), [("always", True), ("never", False)])
@pytest.mark.parametrize(("count", "num_rows"), [(1, 10**6), (10**8, 1)])
def test_the_option_decides_if_it_is_not_auto(setting, expected, count, num_rows):
    choice = chooser(stream_deletes=setting)
    choice.forbid_loading()
    assert choice.should_stream(keys(count), num_rows) is expected


@pytest.mark.parametrize(
    ("count", "num_rows", "expected"),
    [
        (MIN_KEYS_TO_STREAM - 1, 1, False),
        (MIN_KEYS_TO_STREAM, 1, True),
        (1_600_000, 1_600_000 // MIN_KEYS_PER_ROW_TO_STREAM, True),
        (1_600_000, 1_600_000 // MIN_KEYS_PER_ROW_TO_STREAM + 1, False),
    ],
)
def test_few_rows_and_many_keys_are_streamed(count, num_rows, expected):
    assert chooser().should_stream(keys(count), num_rows) is expected
    halves = (*keys(count // 2, name="a"), *keys(count - count // 2, name="b"))
    assert chooser().should_stream(halves, num_rows) is expected


def test_keys_that_the_worker_holds_are_not_streamed(tmp_path, monkeypatch):
    monkeypatch.setattr(stream_or_load, "MIN_KEYS_TO_STREAM", 1)
    deletes = tuple(
        write_keys(tmp_path / f"{n}.parquet", COLUMNS[:1], [{1: 100 * n + i} for i in range(100)], [1], scope="global")
        for n in range(2)
    )  # fmt: skip
    choice = chooser(deletes, tmp_path)
    assert choice.should_stream(deletes, 5)
    load_equality(choice._context, task_of(deletes[0]), Metrics())
    assert choice.should_stream(deletes, 5)  # 100 of 200 are missing: enough for 5 rows
    assert not choice.should_stream(deletes, 7)
    load_equality(choice._context, task_of(*deletes), Metrics())
    assert not choice.should_stream(deletes, 1)


@settings(deadline=None)
@given(
    count=st.integers(MIN_KEYS_TO_STREAM, 10**8),
    seconds=st.floats(1e-4, 10),
    uses=st.integers(1, 200),
)
def test_it_costs_at_most_twice_what_the_best_choice_would_and_one_pass(count, seconds, uses):
    """Ski rental (Karlin et al. 1988): stream until that has cost one load, which reads all keys once, too."""
    forget()
    loading = count * SECONDS_TO_LOAD_NUMBER + seconds
    choice, spent, is_loaded = chooser(), 0.0, False
    for _ in range(uses):
        if is_loaded:
            break
        if choice.should_stream(keys(count), 1):
            choice.add_streaming_cost(seconds)
            spent += seconds
        else:
            spent += loading
            is_loaded = True
    best = min(uses * seconds, loading)
    assert spent <= (2 * best + seconds) * (1 + 1e-9)
    assert is_loaded or uses * seconds <= (loading + seconds) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("ids", "seconds"),
    [((1,), SECONDS_TO_LOAD_NUMBER), ((2,), SECONDS_TO_LOAD_KEY), ((1, 2), SECONDS_TO_LOAD_KEY)],
)
def test_text_and_several_columns_take_longer_to_load(ids, seconds):
    count = 10**7
    for passes in (2, 3):
        for factor, expected in ((0.99, False), (1.01, True)):
            forget()
            choice = chooser()
            for _ in range(passes):
                choice.add_streaming_cost(factor * count * seconds / (passes - 1))
            assert choice.loading_is_due(keys(count, *ids), count) is expected
    assert not choice.loading_is_due((*keys(count, *ids), *keys(count, 2)), 10 * count)


def test_before_the_first_pass_nothing_is_due():
    assert not chooser().loading_is_due(keys(0), 0)


def test_what_tasks_of_a_snapshot_have_cost_is_added_up():
    chooser().add_streaming_cost(1.0)
    chooser().add_streaming_cost(1.0)
    assert chooser().loading_is_due(keys(10**6), 10**6)
    assert not chooser(snapshot_id=2).loading_is_due(keys(10**6), 10**6)
    assert not chooser(task_memory=10**6).loading_is_due(keys(10**6), 10**6)


def test_keys_that_exceeded_the_budget_are_streamed_from_then_on():
    """In every task of the snapshot with this budget, however few its keys or many its rows."""
    chooser(task_memory=1000).forbid_loading()
    assert chooser(task_memory=1000).should_stream(keys(1), 10**6)
    assert not chooser(task_memory=2000).should_stream(keys(1), 10**6)
    assert not chooser(task_memory=1000, snapshot_id=2).should_stream(keys(1), 10**6)


def test_the_host_s_cache_is_searched_now_and_then(monkeypatch):
    now, searched = [100.0], []
    monkeypatch.setattr(stream_or_load.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(stream_or_load, "map_from_host", lambda _, task, __: searched.append(task.deletes))
    first, second = keys(10**6), keys(10**6, name="other")
    for deletes, count in ((first, 1), (first, 1), (second, 2), (first, 2)):
        assert chooser().should_stream(deletes, 1)
        assert len(searched) == count
    now[0] += HOST_RETRY_SECONDS - 0.1
    chooser().should_stream(first, 1)
    assert len(searched) == 2
    now[0] += 0.1
    chooser().should_stream(first, 1)
    chooser(delete_cache_dir="/another").should_stream(first, 1)
    assert searched == [first, second, first, first]


def test_the_host_s_cache_is_not_searched_for_what_is_loaded_anyway(monkeypatch):
    monkeypatch.setattr(stream_or_load, "map_from_host", lambda *_: pytest.fail("searched"))
    assert not chooser().should_stream(keys(10), 1)
    assert not chooser().should_stream(keys(10**6), 10**6)


def test_keys_that_were_mapped_meanwhile_are_not_streamed(monkeypatch):
    missing = [10**6]
    monkeypatch.setattr(stream_or_load, "count_missing_keys", lambda *_: missing[0])
    monkeypatch.setattr(stream_or_load, "map_from_host", lambda *_: missing.__setitem__(0, 0))
    assert not chooser().should_stream(keys(10**6), 1)
    assert not stream_or_load._absent


def test_only_the_deletes_in_question_are_searched_for(monkeypatch):
    """Not all of the task's: bounds have ruled out some for this row group."""
    searched = []
    monkeypatch.setattr(stream_or_load, "map_from_host", lambda _, task, __: searched.append(task.deletes))
    first, second = keys(10**6), keys(10**6, name="other")
    choice = chooser((*first, *second))
    choice.should_stream(second, 1)
    assert searched == [second]
