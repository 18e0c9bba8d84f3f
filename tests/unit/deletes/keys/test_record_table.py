"""Record tables against a dict: keys of several words and of bytes, growth, budgets, mapped arrays."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from twostage.deletes.keys import hash_table
from twostage.deletes.keys.budget import Budget
from twostage.deletes.keys.encoding import KeyRows, encode_column, group_by_nulls
from twostage.deletes.keys.record_table import RecordTable, get_ready
from twostage.errors import ResourceLimitError
from twostage.schema import Primitive
from twostage_native import probe


@pytest.mark.parametrize("kinds", [("string",), ("long", "string"), ("string", "string"), ("long", "long")])
def test_who_is_ready_compiles_nothing_more(monkeypatch, kinds):
    monkeypatch.setattr(hash_table, "MIN_KEYS_TO_COMPILE", 1)
    values = {"long": pa.array([1, 2]), "string": pa.array(["a", "b"])}
    (keys,) = group_by_nulls([encode_column(values[kind], Primitive(kind)) for kind in kinds], 2)
    table = RecordTable(2, keys, Budget(2**20, lambda: 0), kernels=True)
    table.insert(keys, 1, np.array([-1, 5]))
    for kernel in (probe.hash_records, probe.probe_records):
        monkeypatch.setattr(kernel, "_compiled", {})
    get_ready(keys.words.shape[1], has_text=len(keys.offsets) > 0, count=2, kernels=True)
    known = [set(kernel._compiled) for kernel in (probe.hash_records, probe.probe_records)]
    assert all(known)
    assert table.probe(keys, np.array([False, True])).all()
    assert [set(kernel._compiled) for kernel in (probe.hash_records, probe.probe_records)] == known


SEQUENCES = np.array([-1, 5, 9])
AMPLE = 2**30


def text_keys(texts, numbers=None) -> KeyRows:
    """Return keys of a text each, and of a number where these are given."""
    columns = [encode_column(pa.array(texts, pa.string()), Primitive("string"))]
    if numbers is not None:
        columns.append(encode_column(pa.array(numbers, pa.int64()), Primitive("long")))
    (keys,) = group_by_nulls(columns, len(texts))
    return keys


def table_of(keys: KeyRows, *, expected=0, limit=AMPLE) -> RecordTable:
    """Return a table whose budget counts what it takes."""
    made = []
    budget = Budget(limit, lambda: sum(one.nbytes for one in made))
    made.append(RecordTable(expected, keys, budget, kernels=False))
    return made[0]


ALIKE = ["", "\0", "a", "a\0", "\0a", "ab", "abcdefg", "abcdefgh", "abcdefgh\0", "abcdefghi", "é", "x" * 1000]


def test_texts_that_are_alike_are_different_keys():
    """Length and bytes: padding to whole words makes none equal, nor does one that begins as another."""
    for place, text in enumerate(ALIKE):
        table = table_of(text_keys([text]))
        table.insert(text_keys([text]), 1, SEQUENCES)
        found = table.probe(text_keys(ALIKE), SEQUENCES > 0).tolist()
        assert found == [other == place for other in range(len(ALIKE))], repr(text)


@pytest.mark.parametrize("seed", range(8))
def test_random_texts_with_and_without_numbers(seed):
    rng = random.Random(seed)
    has_number = rng.random() < 0.5
    known, table = {}, None
    for _ in range(6):
        count = rng.choice([1, 30, 2000])
        texts = [
            rng.choice([*ALIKE, f"t{rng.randrange(3000)}", "y" * rng.randrange(40)]) for _ in range(count)
        ]
        numbers = [rng.choice([0, -1, 2**63 - 1]) if has_number else None for _ in texts]
        keys = text_keys(texts, numbers if has_number else None)
        table = table or table_of(keys, expected=rng.choice([0, 5000]))
        code = rng.choice([1, 2])
        table.insert(keys, code, SEQUENCES)
        for key in zip(texts, numbers, strict=True):
            known[key] = max(code, known.get(key, 0))
        probed = [(f"t{n}", rng.choice(numbers)) for n in range(3000)] + list(known)
        rows = text_keys([text for text, _ in probed], [n for _, n in probed] if has_number else None)
        for sequence in (4, 5, 9):
            right = [SEQUENCES[known.get(key, 0)] > sequence for key in probed]
            assert table.probe(rows, SEQUENCES > sequence).tolist() == right, f"seed {seed}"
        assert table.count == len(known)


def test_it_grows_within_its_budget_and_what_is_refused_changes_nothing():
    limit = 300_000
    first = text_keys(["key number 0000000"])
    table, count = table_of(first, limit=limit), 0
    texts = lambda start: [f"key number {n:07}" for n in range(start, start + 200)]
    with pytest.raises(ResourceLimitError, match="task-memory"):
        while True:
            table.insert(text_keys(texts(count)), 1, SEQUENCES)
            count += 200
            assert table.nbytes <= limit
    assert count > 2000
    assert table.count == count
    for start in range(0, count, 200):
        assert table.probe(text_keys(texts(start)), SEQUENCES > 0).all()
    assert not table.probe(text_keys(texts(count)), SEQUENCES > 0).any()


@pytest.mark.parametrize("expected", [2**50, 20])
def test_it_begins_with_no_more_than_its_budget_has(expected):
    keys = text_keys(["x" * 100])
    assert table_of(keys, expected=expected, limit=600_000).nbytes <= 600_000


def test_a_mapped_table_is_copied_within_the_budget_before_it_grows():
    texts = [f"text {n}" for n in range(500)]
    first = table_of(text_keys(texts))
    first.insert(text_keys(texts), 1, SEQUENCES)
    arrays = [array.copy() for array in first.arrays()]
    size = sum(array.nbytes for array in arrays)
    for array in arrays:
        array.flags.writeable = False
    small = RecordTable.restored(500, arrays, Budget(size - 1, lambda: 0), kernels=False)
    with pytest.raises(ResourceLimitError):
        small.insert(text_keys(["new"]), 1, SEQUENCES)
    assert small.nbytes == 0
    assert small.probe(text_keys([*texts, "new"]), SEQUENCES > 0).tolist() == [True] * 500 + [False]


def test_one_word_of_all_keys_is_that_of_the_numbers():
    """Whatever bytes stand beside it, in the order in which records lie."""
    numbers = [5, 7, -3, 2**40]
    keys = text_keys(["a", "bb" * 20, "", "c"], numbers)
    table = table_of(keys)
    table.insert(keys, 1, SEQUENCES)
    assert table.column(0).view(np.int64).tolist() == numbers


@pytest.mark.parametrize(
    ("given", "is_loaded"),
    [
        ({"num_words": 1, "has_text": False, "count": 100}, False),  # may be in a direct table
        ({"num_words": 2, "has_text": False, "count": 100}, True),
        ({"num_words": 0, "has_text": True, "count": 100}, True),
        ({"num_words": 2, "has_text": True, "count": 0}, False),
        ({"num_words": 2, "has_text": True, "count": 100, "kernels": False}, False),
    ],
)
def test_kernels_are_loaded_only_for_what_will_need_them(monkeypatch, given, is_loaded):
    monkeypatch.setattr(hash_table, "MIN_KEYS_TO_COMPILE", 1)
    loaded = []
    monkeypatch.setattr(type(probe.hash_records), "compiled", lambda self, *_: loaded.append(self.name))
    get_ready(**{"kernels": True, **given})
    assert len(loaded) == (2 if is_loaded else 0)
