"""Dense key tables against a Python dict: extremes, growth, hash tables in their stead, budgets, mapped arrays."""

from __future__ import annotations

import os
import random

import numpy as np
import pyarrow as pa
import pytest

from twostage.deletes.keys.budget import Budget
from twostage.deletes.keys.direct_table import (
    MAX_BYTES_PER_KEY,
    MAX_SPARSE_BYTES_PER_KEY,
    MAX_SPARSE_TABLE_BYTES,
    MIN_TABLE_BYTES,
    DirectTable,
)
from twostage.deletes.keys.encoding import encode_column, group_by_nulls
from twostage.deletes.keys.key_set import KeySet
from twostage.deletes.keys.word_table import WordTable
from twostage.errors import ResourceLimitError
from twostage.schema import Primitive

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))
LOWEST, HIGHEST = -(2**63), 2**63 - 1
LONG = Primitive("long")
AMPLE = 2**30


def key_set(limit=AMPLE, **options):
    """Return an empty set whose budget counts what it takes."""
    made = []
    made.append(KeySet(Budget(limit, lambda: sum(one.nbytes for one in made)), kernels=False, **options))
    return made[0]


def insert(keys, values, sequence, *, kind=LONG, expected=0, dtype=None):
    array = pa.array(values, dtype or pa.int64())
    keys.insert(group_by_nulls([encode_column(array, kind)], len(array)), sequence, expected)


def probe(keys, values, sequence, *, kind=LONG, dtype=None):
    array = pa.array(values, dtype or pa.int64())
    return keys.probe(group_by_nulls([encode_column(array, kind)], len(array)), len(array), sequence).tolist()


def kind_of(keys):
    return type(keys._tables[0])


@pytest.mark.parametrize("seed", range(SEED, SEED + 60))
def test_random_sets(seed):
    """Whatever ranges follow each other, and however many sequence numbers, the answer is that of a dict."""
    rng = random.Random(seed)
    keys, known = key_set(dense=rng.random() < 0.9), {}
    centre = rng.choice([0, -1000, 5, 2**31, LOWEST, LOWEST + 3, HIGHEST, HIGHEST - 700])
    far = rng.random() < 0.3
    kinds = set()
    for step in range(rng.choice([3, 30, 400])):
        width = rng.choice([1, 50, 2000])
        start = centre + (step * width if rng.random() < 0.5 else -step * width)
        values = [
            min(HIGHEST, max(LOWEST, start + rng.randrange(-width, width))) for _ in range(rng.randint(0, 30))
        ]
        if far and rng.random() < 0.2:
            values += rng.choices([LOWEST, HIGHEST, 0, None], k=2)
        sequence = rng.choice([step + 1, rng.randint(0, 400)])
        insert(keys, values, sequence, expected=rng.choice([0, 10, 10_000]))
        for value in values:
            known[value] = max(sequence, known.get(value, -1))
        if 0 in keys._tables:
            kinds.add(kind_of(keys))
        if rng.random() < 0.1:
            plain, arrays = keys.take_apart()
            frozen = [array.copy() for array in arrays]
            for array in frozen:
                array.flags.writeable = False
            before = [array.tobytes() for array in frozen]
            keys = KeySet.restored(plain, frozen, Budget(AMPLE, lambda: 0), kernels=False)
            assert before == [array.tobytes() for array in frozen]
    asked = [*known, *(value + 1 for value in known if value is not None and value < HIGHEST), None, 3]
    asked += [LOWEST, HIGHEST, 0, centre]
    assert keys.count == len(known)
    for sequence in (-1, 0, 3, 200, 400):
        right = [known.get(value, -1) > sequence for value in asked]
        assert probe(keys, asked, sequence) == right, f"seed {seed}"
    assert kinds <= {DirectTable, WordTable}


def test_keys_that_lie_close_are_dense_and_others_are_not():
    close, apart = key_set(), key_set()
    insert(close, range(0, 200_000, 10), 5)
    insert(apart, range(0, 20_000 * 2 * MAX_SPARSE_BYTES_PER_KEY, 2 * MAX_SPARSE_BYTES_PER_KEY), 5)
    assert (kind_of(close), kind_of(apart)) == (DirectTable, WordTable)
    assert close.nbytes < 20_000 * MAX_BYTES_PER_KEY
    off = key_set(dense=False)
    insert(off, range(100), 5)
    assert kind_of(off) is WordTable


def test_small_tables_may_be_sparse():
    """Scattered keys need no compiled loop while that takes little memory; many that lie as far apart are hashed."""
    step = 2 * MAX_BYTES_PER_KEY
    few, many = key_set(), key_set()
    insert(few, range(0, 20_000 * step, step), 5)
    insert(many, [0, 2 * MAX_SPARSE_TABLE_BYTES], 5, expected=2 * MAX_SPARSE_TABLE_BYTES // step)
    assert (kind_of(few), kind_of(many)) == (DirectTable, WordTable)
    assert probe(few, [0, 1, step, 20_000 * step], 4) == [True, False, True, False]


def test_files_that_hold_scattered_keys_are_dense_together():
    """One file's keys lie far apart, those of all files close: how many are to come decides."""
    keys = key_set()
    for n in range(20):
        insert(keys, range(n, 400_000, 40), n + 1, expected=(20 - n) * 10_000)
    assert kind_of(keys) is DirectTable
    assert keys.count == 200_000
    assert probe(keys, [0, 19, 20, 39, 40], 0) == [True, True, False, False, True]
    assert probe(keys, [0, 18, 19, 40], 19) == [False, False, True, False]


@pytest.mark.parametrize("outlier", [LOWEST, HIGHEST, 2**40])
def test_an_outlier_makes_it_a_hash_table(outlier):
    """The difference of the extremes exceeds 64 bits with a sign."""
    keys = key_set()
    insert(keys, [-5, HIGHEST - 3 if outlier == LOWEST else 8], 2)
    insert(keys, [*range(-5, 5000), None], 300)
    insert(keys, [outlier, 7], 301)
    assert kind_of(keys) is WordTable
    asked = [-6, -5, 0, 7, 4999, 5000, outlier, None, outlier - 1 if outlier > 0 else outlier + 1]
    assert probe(keys, asked, 0) == [False, True, True, True, True, False, True, True, False]
    assert probe(keys, asked, 300) == [False] * 3 + [True] + [False] * 2 + [True, False, False]


def test_more_than_255_and_65535_sequence_numbers():
    keys = key_set()
    for number in [*range(1, 301), 65_534, 65_535, 65_536, 66_000]:
        while len(keys._sequences) < number:
            keys._code(len(keys._sequences))
        insert(keys, [number % 1000], number)
        if number in (255, 300, 66_000):
            assert keys._tables[0]._codes.dtype.itemsize == {255: 1, 300: 2, 66_000: 4}[number]
    assert kind_of(keys) is DirectTable
    asked = [1, 255, 256, 300, 534, 535, 536, 0, 301]
    assert probe(keys, asked, 0) == [True] * 8 + [False]
    assert probe(keys, asked, 255) == [False, False] + [True] * 6 + [False]
    assert probe(keys, asked, 65_535) == [False] * 6 + [True, True, False]
    insert(keys, [2**60], 66_001)
    assert kind_of(keys) is WordTable
    assert probe(keys, [*asked, 2**60], 65_535) == [False] * 6 + [True, True, False, True]


def test_narrow_integers_meet_longs():
    keys = key_set()
    insert(keys, [-7, 2**31 - 1, -(2**31)], 5, dtype=pa.int32())
    assert probe(keys, [-7, 2**31 - 1, -(2**31), 2**32 - 7, 2**31], 4) == [True] * 3 + [False] * 2
    keys = key_set()
    insert(keys, range(-50, 50), 5, dtype=pa.int64())
    assert probe(keys, [-51, -50, 49, 50, None], 4, dtype=pa.int32()) == [False, True, True, False, False]


def test_nan_and_negative_zero_keep_their_meaning():
    """Doubles are words too: close ones may be dense, and only the same value is the same key."""
    double = Primitive("double")
    keys = key_set()
    insert(keys, [float("nan"), -0.0, None], 5, kind=double, dtype=pa.float64())
    asked = [float("nan"), 0.0, -0.0, None, 1.0]
    assert probe(keys, asked, 4, kind=double, dtype=pa.float64()) == [True, False, True, True, False]
    insert(keys, [5e-324 * n for n in range(100)], 5, kind=double, dtype=pa.float64())
    assert probe(keys, [0.0, 5e-324, 5e-322], 4, kind=double, dtype=pa.float64()) == [True, True, False]


def test_a_budget_that_it_would_exceed_makes_a_hash_table_or_an_error():
    keys = key_set(limit=3 * MIN_TABLE_BYTES)
    insert(keys, range(0, 8000, 8), 5)
    assert kind_of(keys) is DirectTable
    insert(keys, [n * 8 for n in range(1000, 1010)], 5)
    with pytest.raises(ResourceLimitError, match="task-memory"):
        insert(keys, range(0, 400_000, 8), 6, expected=50_000)
    assert keys.nbytes <= 3 * MIN_TABLE_BYTES


@pytest.mark.parametrize("is_dense", [True, False])
def test_a_table_asks_the_budget_of_the_task_that_adds_to_it(is_dense):
    """Not that of the task that made it, which counted other tables."""
    keys = KeySet(Budget(AMPLE, lambda: 0), kernels=False, dense=is_dense)
    insert(keys, range(1000), 5)
    keys.budget = Budget(1000, lambda: 0)
    with pytest.raises(ResourceLimitError, match="1000 bytes"):
        insert(keys, range(100_000), 6)
    keys.budget = Budget(AMPLE, lambda: 0)
    insert(keys, range(100_000), 6)
    assert keys.count == 100_000


def test_arrays_that_are_no_dense_table_are_refused():
    budget = Budget(AMPLE, lambda: 0)
    for low, array in (
        (0, np.zeros(4, np.int64)),
        (0, np.zeros((2, 2), np.uint8)),
        (HIGHEST, np.zeros(2, np.uint8)),
        (LOWEST - 1, np.zeros(2, np.uint8)),
    ):
        with pytest.raises(ValueError, match="dense table"):
            DirectTable.restored(low, [array], budget)


@pytest.mark.parametrize("seed", range(SEED, SEED + 20))
def test_ranges_that_hold_no_key(seed):
    rng = random.Random(seed)
    base = rng.choice([0, -50, LOWEST, HIGHEST - 400])
    keys = key_set()
    known = [base + rng.randrange(400) for _ in range(rng.choice([1, 5, 30]))]
    insert(keys, [*known, None], 5)
    for _ in range(200):
        low = min(HIGHEST, max(LOWEST, base + rng.randrange(-100, 500)))
        high = min(HIGHEST, low + rng.choice([0, 1, 10, 1000]))
        assert keys.none_between(low, high) == (not any(low <= key <= high for key in known)), f"seed {seed}"
    assert not keys.none_between(LOWEST, HIGHEST)
    apart = key_set(dense=False)
    insert(apart, known, 5)
    assert not apart.none_between(base - 10 if base > LOWEST else base, base)  # not known
    only_null = key_set()
    insert(only_null, [None], 5)
    assert only_null.none_between(LOWEST, HIGHEST)


@pytest.mark.parametrize("count", [1, 16, 17])
def test_few_keys_far_apart(count):
    keys = key_set()
    values = [number * 2**58 - 2**62 for number in range(count)]
    for number, value in enumerate(values):
        insert(keys, [value], number + 1)
    if count > 1:
        assert kind_of(keys) is WordTable
    asked = [*values, *(value + 1 for value in values), None, 0 if 0 not in values else 5]
    for sequence in (0, 5, count):
        right = [number + 1 > sequence for number in range(count)] + [False] * (count + 2)
        assert probe(keys, asked, sequence) == right
