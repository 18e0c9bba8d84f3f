"""Answers stay while their worth is greatest, within the bytes given; the host's files are checked like those of deletes."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest

from twostage.metrics import Metrics
from twostage.options import ReadSettings
from twostage.reading.conditions import kept
from twostage.reading.conditions.compact_rows import CompactRows
from twostage.reading.conditions.kept import ENTRY_BYTES, KEPT, ConditionAnswer, ConditionStore, KeptAnswers
from twostage.selection import Selection


def answer_of(
    matching: list[int], *, num_rows: int = 100, undecided: list[int] = (), saved: int = 10_000
) -> ConditionAnswer:
    def rows(places):
        mask = np.zeros(num_rows, np.bool_)
        mask[list(places)] = True
        return CompactRows.of(Selection.of(mask))

    return ConditionAnswer(rows(matching), rows(undecided), saved)


def selection_of(places: list[int], num_rows: int = 100) -> Selection:
    mask = np.zeros(num_rows, np.bool_)
    mask[places] = True
    return Selection.of(mask)


def test_an_answer_is_of_decided_rows_only():
    answer = answer_of([1, 2, 50], undecided=[3, 4])
    assert answer.of(selection_of([1, 2, 9])).indices().tolist() == [1, 2]
    assert answer.of(selection_of([9])).count == 0
    assert answer.of(selection_of([1, 3])) is None
    assert answer.of(Selection.all(100)) is None
    assert answer_of([7]).of(Selection.all(100)).indices().tolist() == [7]


def test_two_answers_know_more_together():
    joined = answer_of([1], undecided=[2, 3]).joined(answer_of([3], undecided=[1, 2], saved=20_000))
    assert joined.matching.selection().indices().tolist() == [1, 3]
    assert joined.undecided.selection().indices().tolist() == [2]
    assert joined.saved == 20_000


def test_an_answer_larger_than_what_it_saves_is_not_worth_its_bytes(monkeypatch):
    monkeypatch.undo()
    assert answer_of([1], saved=ENTRY_BYTES + 8).is_worth_keeping
    assert not answer_of([1], saved=ENTRY_BYTES + 7).is_worth_keeping


def test_what_saves_most_per_byte_stays():
    answers = KeptAnswers()
    limit = 3 * (ENTRY_BYTES + 8)
    for name, saved in (("a", 1000), ("b", 3000), ("c", 2000), ("d", 4000)):
        answers.put(name, answer_of([1], saved=saved), limit=limit)
    assert [answers.get(name) is not None for name in "abcd"] == [False, True, True, True]
    answers.put("e", answer_of([1], saved=1), limit=limit)  # less than anything else, even with its age
    assert answers.get("e") is None


def test_use_counts_and_ages():
    """What is used often outlives what saves more; what is used no more goes at last."""
    answers = KeptAnswers()
    limit = 2 * (ENTRY_BYTES + 8)
    answers.put("often", answer_of([1], saved=1000), limit=limit)
    for _ in range(5):
        answers.get("often")
    for number in range(4):
        answers.put(f"once {number}", answer_of([1], saved=4000), limit=limit)
        assert ("often" in answers._answers) == (number < 3), number


def test_bytes_are_bounded_whatever_is_asked():
    rng = random.Random(3)
    answers = KeptAnswers()
    for _ in range(3000):
        name = f"{rng.randrange(200)}"
        if rng.random() < 0.5:
            answers.get(name)
        else:
            places = rng.sample(range(100), rng.randrange(40))
            answers.put(name, answer_of(places, saved=rng.randrange(10**6)), limit=20_000)
        assert answers.nbytes == sum(one.held for one in answers._answers.values()) <= 20_000
        assert len(answers._least) <= 8 * len(answers) + 65
    assert len(answers) > 10
    answers.put("huge", answer_of([1]), limit=10)
    assert answers.get("huge") is None
    answers.clear()
    assert (len(answers), answers.nbytes) == (0, 0)


@pytest.fixture
def settings(tmp_path: Path) -> ReadSettings:
    return ReadSettings(filter_cache="host", filter_cache_dir=str(tmp_path / "cache"), task_memory=2**30)


@pytest.mark.parametrize("matching", [[], [3, 4, 9], list(range(0, 5000, 2)), list(range(5000))])
def test_the_hosts_cache_gives_back_what_it_was_given(settings, matching):
    metrics = Metrics()
    given = answer_of(matching, num_rows=5000, undecided=[1] if 1 not in matching else [])
    assert ConditionStore(settings, metrics).keep("name", given)
    KEPT.clear()
    found = ConditionStore(settings, metrics).find("name", 5000)
    assert found.matching.selection().indices().tolist() == matching
    assert found.undecided.selection().indices().tolist() == given.undecided.selection().indices().tolist()
    assert found.saved == given.saved
    assert metrics.counters["condition_cache.hits"] == metrics.counters["condition_cache.written"] == 1
    assert ConditionStore(settings, metrics).find("other", 5000) is None
    KEPT.clear()
    assert ConditionStore(settings, Metrics()).find("name", 4999) is None


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_file_of_the_host_is_ignored(settings, tmp_path, seed):
    rng = random.Random(seed)
    ConditionStore(settings, Metrics()).keep("name", answer_of(list(range(0, 5000, 3)), num_rows=5000))
    (path,) = (tmp_path / "cache").glob("*.twostage")
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data if seed % 3 else data[: rng.randrange(len(data))])
    KEPT.clear()
    metrics = Metrics()
    found = ConditionStore(settings, metrics).find("name", 5000)
    if found is None:
        assert metrics.counters["condition_cache.ignored"] == 1
        assert not path.exists()
    else:  # a bit between the arrays, which nobody reads
        assert found.matching.selection().indices().tolist() == list(range(0, 5000, 3))


def test_of_an_engine_of_another_version_nothing_is_used(settings, monkeypatch):
    ConditionStore(settings, Metrics()).keep("name", answer_of([1]))
    KEPT.clear()
    assert ConditionStore(settings, Metrics()).find("name", 100) is not None
    KEPT.clear()
    monkeypatch.setattr(kept, "of_engine", lambda: "another")
    assert ConditionStore(settings, Metrics()).find("name", 100) is None


def test_little_that_is_saved_makes_no_file(settings, tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "MIN_BYTES_SAVED_FOR_A_FILE", 10_001)
    ConditionStore(settings, Metrics()).keep("name", answer_of([1]))
    assert list((tmp_path / "cache").glob("*.twostage")) == []


def test_a_directory_of_others_is_not_used(tmp_path):
    (tmp_path / "cache").mkdir(mode=0o755)
    os.chmod(tmp_path / "cache", 0o777)
    metrics = Metrics()
    settings = ReadSettings(filter_cache="host", filter_cache_dir=str(tmp_path / "cache"))
    store = ConditionStore(settings, metrics)
    assert metrics.counters["condition_cache.unusable"] == 1
    assert store.keep("name", answer_of([1]))
    assert store.find("name", 100) is not None  # in memory
    assert list((tmp_path / "cache").iterdir()) == []


def test_memory_is_a_part_of_the_task(tmp_path):
    store = ConditionStore(ReadSettings(filter_cache="memory", task_memory=8 * 1500), Metrics())
    for number in range(10):
        store.keep(f"{number}", answer_of([1]))
    assert KEPT.nbytes <= 1500
