"""Word tables: growth within a budget, codes of any number, mapped arrays, tables of few keys."""

from __future__ import annotations

import random

import numpy as np
import pytest

from twostage.deletes.keys.budget import Budget
from twostage.deletes.keys.encoding import KeyRows
from twostage.deletes.keys.hash_table import COPIED_LOAD, MAX_KEYS_TO_COMPARE, MAX_LOAD, MIN_SLOTS, PROBE_ROWS
from twostage.deletes.keys.word_table import WordTable
from twostage.errors import ResourceLimitError

SEQUENCES = np.array([-1, 5])
APPLIES = SEQUENCES > 0
AMPLE = 2**30


def keys_of(numbers) -> KeyRows:
    words = np.asarray(numbers, np.uint64).reshape(-1, 1)
    return KeyRows(0, None, words, np.zeros(0, np.int64), np.zeros(0, np.uint8))


def table_of(numbers=(), *, expected=0, limit=AMPLE) -> WordTable:
    """Return a table whose budget counts what it takes."""
    made = []
    budget = Budget(limit, lambda: sum(one.nbytes for one in made))
    made.append(WordTable(expected, budget, kernels=False))
    if len(numbers):
        made[0].insert(keys_of(numbers), 1, SEQUENCES)
    return made[0]


@pytest.mark.parametrize("count", [1, MAX_KEYS_TO_COMPARE, MAX_KEYS_TO_COMPARE + 1])
@pytest.mark.parametrize("expected", [0, 10_000])
def test_few_keys_are_found_whichever_way_they_are_compared(count, expected):
    """0 is a key as any other, though empty slots hold it too."""
    numbers = [n * 2**59 % 2**64 for n in range(count)]
    table = table_of(numbers, expected=expected)
    probed = [*range(-3 % 2**64, 2**64), *range(3), *numbers]
    assert table.probe(keys_of(probed), APPLIES).tolist() == [one in set(numbers) for one in probed]
    assert not table.probe(keys_of(numbers), SEQUENCES > 5).any()


def test_more_rows_than_are_probed_at_once():
    table = table_of(range(0, 100, 2))
    rows = np.arange(PROBE_ROWS + 100) % 100
    assert table.probe(keys_of(rows), APPLIES).tolist() == (rows % 2 == 0).tolist()


@pytest.mark.parametrize("step", [1, 2**20, 2**32, 2**44])
def test_keys_of_any_pattern_fill_it(step):
    """Their hashes spread them: linear probing would take long over one run of slots."""
    numbers = [n * step % 2**64 for n in range(20_000)]
    table = table_of(numbers)
    assert table.count == 20_000
    assert table.probe(keys_of(numbers), APPLIES).all()
    assert not table.probe(keys_of([n + 1 for n in numbers if step > 1]), APPLIES).any()


def test_it_grows_within_its_budget_and_fills_up_before_it_refuses():
    limit = 400_000
    table = table_of(limit=limit)
    count = 0
    with pytest.raises(ResourceLimitError, match="task-memory"):
        while True:
            table.insert(keys_of(range(count, count + 500)), 1, SEQUENCES)
            count += 500
            assert table.nbytes <= limit
    slots = len(table.arrays()[0])
    assert count + 500 > MAX_LOAD * slots - 500
    assert table.count == count
    assert table.probe(keys_of(range(count)), APPLIES).all()  # what was refused has changed nothing
    assert not table.probe(keys_of(range(count, count + 500)), APPLIES).any()


@pytest.mark.parametrize("expected", [2**50, 10_000])
def test_it_begins_with_no_more_than_its_budget_has(expected):
    assert table_of(expected=expected, limit=50_000).nbytes <= 50_000
    assert len(table_of(expected=100).arrays()[0]) == MIN_SLOTS


def mapped(table, limit) -> WordTable:
    arrays = [array.copy() for array in table.arrays()]
    for array in arrays:
        array.flags.writeable = False
    return WordTable.restored(table.count, arrays, Budget(limit, lambda: 0), kernels=False)


def test_a_mapped_table_is_copied_as_it_is_while_that_leaves_room():
    first = table_of(range(600))
    slots = len(first.arrays()[0])
    roomy = int(slots * COPIED_LOAD) - 600
    for more, kept in ((roomy, True), (roomy + 1, False)):
        table = mapped(first, AMPLE)
        table.insert(keys_of(range(10_000, 10_000 + more)), 1, SEQUENCES)
        assert (len(table.arrays()[0]) == slots) is kept
        assert table.count == 600 + more
        assert table.probe(keys_of([*range(600), *range(10_000, 10_000 + more)]), APPLIES).all()


def test_a_copy_must_fit_the_budget():
    first = table_of(range(600))
    size = first.nbytes
    table = mapped(first, size - 1)
    with pytest.raises(ResourceLimitError):
        table.insert(keys_of([7000]), 1, SEQUENCES)
    assert table.nbytes == 0
    assert table.probe(keys_of([5, 7000]), APPLIES).tolist() == [True, False]
    mapped(first, size).insert(keys_of([7000]), 1, SEQUENCES)


def test_adopted_keys_keep_their_codes():
    """Those of a direct table, when it becomes a hash table: some thousand times, in parts."""
    rng = random.Random(1)
    numbers = rng.sample(range(2**40), 5000)
    codes = np.array([rng.choice([1, 2, 3]) for _ in numbers], np.uint8)
    table = table_of(expected=10)
    for start in range(0, 5000, 1000):
        words = np.array(numbers[start : start + 1000], np.uint64)
        table.adopt(words, codes[start : start + 1000])
    assert table.count == 5000
    for code in (1, 2, 3):
        applies = np.arange(4) == code
        assert table.probe(keys_of(numbers), applies).tolist() == (codes == code).tolist()


@pytest.mark.parametrize("is_mapped", [True, False])
def test_codes_that_need_more_than_16_bits(is_mapped):
    table = table_of(range(100))
    table = mapped(table, AMPLE) if is_mapped else table
    table.widen_codes()
    sequences = np.arange(70_000) - 1
    table.insert(keys_of([5, 200]), 69_999, sequences)
    assert table.arrays()[1].dtype == np.uint32
    assert table.probe(keys_of([4, 5, 200, 201]), sequences > 69_000).tolist() == [False, True, True, False]
    assert table.probe(keys_of([4, 5, 200, 201]), sequences > 0).tolist() == [False, True, True, False]
    assert table.probe(keys_of([4, 201]), sequences > -1).tolist() == [True, False]


def test_what_is_written_to_a_file_holds_nothing_but_keys():
    """Empty slots are memory that was never written: it may hold anything of this process."""
    table = table_of([7, 9])
    table._keys[table._codes == 0] = 4711
    keys, codes = table.arrays()
    assert sorted(keys.tolist())[-2:] == [7, 9]
    assert np.count_nonzero(keys) == np.count_nonzero(codes) == 2
