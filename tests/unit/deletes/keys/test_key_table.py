"""What every table of keys does, whichever way it holds them, against a dict."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from twostage.deletes.keys.budget import Budget
from twostage.deletes.keys.direct_table import DirectTable
from twostage.deletes.keys.encoding import KeyRows
from twostage.deletes.keys.record_table import RecordTable
from twostage.deletes.keys.word_table import WordTable

AMPLE = 2**30
NONE = np.zeros(0, np.int64), np.zeros(0, np.uint8)
SEQUENCES = np.array([-1, 50, 20, 90, 70])
"""By code: not in order, as delete files come."""


def keys_of(kind: str, numbers: list[int]) -> KeyRows:
    words = np.array(numbers, np.uint64).reshape(-1, 1)
    return KeyRows(0, None, np.hstack([words, words]) if kind == "records" else words, *NONE)


def empty_table(kind: str, budget: Budget) -> Any:
    if kind == "dense":
        return DirectTable(budget)
    if kind == "words":
        return WordTable(10, budget, kernels=False)
    return RecordTable(10, keys_of(kind, [1]), budget, kernels=False)


def insert(table: Any, keys: KeyRows, code: int) -> None:
    if isinstance(table, DirectTable):
        assert table.reserve(keys, code, len(keys.words))
    table.insert(keys, code, SEQUENCES)


def restored(table: Any, budget: Budget) -> Any:
    """Return the table as another process maps it: of read-only arrays."""
    arrays = [array.copy() for array in table.arrays()]
    for array in arrays:
        array.flags.writeable = False
    if isinstance(table, DirectTable):
        return DirectTable.restored(table.low, arrays, budget)
    return type(table).restored(table.count, arrays, budget, kernels=False)


KINDS = pytest.mark.parametrize("kind", ["dense", "words", "records"])


@KINDS
@pytest.mark.parametrize("seed", range(6))
def test_it_answers_as_a_dict_does(kind: str, seed: int) -> None:
    """A key has the code of its highest sequence number, whatever the order in which they came."""
    rng = random.Random(seed)
    budget = Budget(AMPLE, lambda: 0)
    table, known = empty_table(kind, budget), {}
    assert table.kind == kind
    for step in range(8):
        code = rng.choice([1, 2, 3, 4])
        numbers = [rng.randrange(3000) for _ in range(rng.choice([1, 40, 1500]))]
        insert(table, keys_of(kind, numbers), code)
        for number in numbers:
            known[number] = max(known.get(number, 0), code, key=lambda one: SEQUENCES[one])
        if step == 3:
            table.widen_codes()
        if step == 5:
            table = restored(table, budget)
            assert table.nbytes == 0
        assert table.count == len(known)
        for sequence in (-1, 20, 60, 90):
            applies = SEQUENCES > sequence
            rows = rng.sample(range(3500), 300)
            right = [row in known and SEQUENCES[known[row]] > sequence for row in rows]
            assert table.probe(keys_of(kind, rows), applies).tolist() == right, f"seed {seed}"
    assert sorted(table.column(0).tolist()) == sorted(known)
    assert table.nbytes == sum(array.nbytes for array in table.arrays()) or kind == "records"


@KINDS
def test_a_restored_table_holds_the_same_and_its_arrays_stay(kind: str) -> None:
    budget = Budget(AMPLE, lambda: 0)
    first = empty_table(kind, budget)
    insert(first, keys_of(kind, [5, 900]), 1)
    second = restored(first, budget)
    before = [array.tobytes() for array in second.arrays()]
    mapped = second.arrays()
    insert(second, keys_of(kind, [901]), 2)
    assert [array.tobytes() for array in mapped] == before
    assert second.nbytes > 0
    assert second.probe(keys_of(kind, [5, 900, 901, 7]), SEQUENCES > 0).tolist() == [True, True, True, False]
    assert first.probe(keys_of(kind, [5, 901]), SEQUENCES > 0).tolist() == [True, False]


@KINDS
def test_a_sample_of_its_keys(kind: str) -> None:
    table = empty_table(kind, Budget(AMPLE, lambda: 0))
    insert(table, keys_of(kind, list(range(500))), 1)
    some = table.column(0, 300).tolist()
    assert 0 < len(some) < 500
    assert len(set(some)) == len(some)
    assert set(some) <= set(range(500))


@KINDS
def test_no_rows_and_no_key(kind: str) -> None:
    table = empty_table(kind, Budget(AMPLE, lambda: 0))
    assert (table.count, table.column(0).tolist()) == (0, [])
    assert table.probe(keys_of(kind, [1, 2]), SEQUENCES > 0).tolist() == [False, False]
    insert(table, keys_of(kind, [1]), 1)
    assert table.probe(keys_of(kind, []), SEQUENCES > 0).tolist() == []
    assert not table.probe(keys_of(kind, [1]), SEQUENCES > 50).any()  # strictly higher only
