"""Sieves of hash tables: a row that holds a key is never left out, and what a set answers stays the same."""

from __future__ import annotations

import os
import random

import numpy as np
import pyarrow as pa
import pytest

from twostage.deletes.keys import key_set, prefilter
from twostage.deletes.keys.budget import Budget
from twostage.deletes.keys.encoding import encode_column, group_by_nulls, take_rows
from twostage.deletes.keys.key_set import KeySet
from twostage.deletes.keys.prefilter import Prefilter
from twostage.schema import Primitive

SEED = int(os.environ.get("TWOSTAGE_SEED", "1"))
AMPLE = Budget(2**30, lambda: 0)
TYPES = {"long": pa.int64(), "double": pa.float64(), "string": pa.string()}


def rows_of(kinds, columns):
    """Return the keys of rows, by which of their columns are NULL."""
    arrays = [pa.array(column, TYPES[kind]) for kind, column in zip(kinds, columns, strict=True)]
    encoded = [encode_column(array, Primitive(kind)) for kind, array in zip(kinds, arrays, strict=True)]
    return list(group_by_nulls(encoded, len(columns[0])))


def some_values(rng, kind, count):
    """Values of a kind, in the forms in which keys come: close, far apart, of one length, of any, alike in part."""
    if kind == "string":
        form = rng.choice(["fixed", "any", "short", "prefixed", "suffixed"])
        texts = {
            "fixed": lambda n: f"order-{n:010d}",
            "any": lambda n: "x" * rng.randrange(30) + str(n),
            "short": lambda n: str(n) if n % 50 else "",
            "prefixed": lambda n: f"https://example.com/{n}",
            "suffixed": lambda n: f"{n}@example.com",
        }
        return [texts[form](rng.randrange(10 * count)) for _ in range(count)]
    factor = rng.choice([1, 1000, 86_400_000_000, 2**40])
    numbers = [rng.randrange(10 * count) * factor - 5 for _ in range(count)]
    return [n % 2**62 for n in numbers] if kind == "long" else [n / 8 for n in numbers]


@pytest.mark.parametrize("seed", range(SEED, SEED + 40))
def test_random_sets(seed, monkeypatch):
    """A set answers as a dict does, by its tables alone, by their sieves, and by sieves that most rows pass."""
    rng = random.Random(seed)
    kinds = [rng.choice(list(TYPES)) for _ in range(rng.randrange(1, 4))]
    print(f"seed {seed}: {kinds}")
    pool = [some_values(rng, kind, 400) for kind in kinds]
    if rng.random() < 0.3:
        pool = [[None if rng.random() < 0.2 else value for value in column] for column in pool]
    monkeypatch.setattr(key_set, "MIN_ROWS_TO_FILTER", 1)
    monkeypatch.setattr(prefilter, "_BLOCK_ROWS", 100)
    keys, known = KeySet(AMPLE, kernels=False, dense=False), {}
    for sequence in (5, 3, 9):
        chosen = [rng.randrange(400) for _ in range(rng.choice([30, 100]))]
        columns = [[column[place] for place in chosen] for column in pool]
        keys.insert(rows_of(kinds, columns), sequence, len(chosen))
        for key in zip(*columns, strict=True):
            known[key] = max(sequence, known.get(key, 0))
        monkeypatch.setattr(prefilter, "MAX_PASSING_FRACTION", rng.choice([0.25, 1.0]))
        asked = [*zip(*pool, strict=True), *zip(*(column[::-1] for column in pool), strict=True)] * 3
        groups = rows_of(kinds, list(zip(*asked, strict=True)))
        for number in (2, 3, 5, 9):
            found = keys.probe(groups, len(asked), number).tolist()
            assert found == [known.get(key, -1) > number for key in asked], f"seed {seed}"


@pytest.mark.parametrize("seed", range(SEED, SEED + 40))
def test_no_key_is_left_out(seed):
    rng = random.Random(seed)
    kinds = [rng.choice(list(TYPES)) for _ in range(rng.randrange(1, 4))]
    print(f"seed {seed}: {kinds}")
    keys = KeySet(AMPLE, kernels=False, dense=False)
    (rows,) = rows_of(kinds, [some_values(rng, kind, 500) for kind in kinds])
    keys.insert([rows], 5, 500)
    table = keys._tables[0]
    if rows.is_word:
        made = Prefilter.of([table.column(0)], table.count, None, AMPLE)
    else:
        made = Prefilter.of(table.arrays(), table.count, rows.words.shape[1], AMPLE)
    if made is not None:
        assert made._may_hold(prefilter._of_rows(rows, 0, 500)).all()
        some = take_rows(rows, np.arange(1, 500, 7))
        assert made._may_hold(prefilter._of_rows(some, 0, len(some.words))).all()


def asked_about(keys, kinds, columns, sequence=1):
    return keys.probe(rows_of(kinds, columns), len(columns[0]), sequence)


def test_a_sieve_is_made_for_many_rows_only_and_anew_after_more_keys():
    keys = KeySet(AMPLE, kernels=False)
    keys.insert(rows_of(["string"], [[f"key {n:05}" for n in range(20_000)]]), 5, 0)
    before = keys.nbytes
    asked_about(keys, ["string"], [["key 00001"] * 30_000])
    assert keys.nbytes == before
    asked_about(keys, ["string"], [["key 00001"] * 10_000])
    assert keys.nbytes > before
    keys.insert(rows_of(["string"], [["another"]]), 5, 0)
    assert not keys._prefilters
    assert asked_about(keys, ["string"], [["another", "key 00002", "other"] * 20_000]).tolist() == [
        True, True, False] * 20_000  # fmt: skip


def test_texts_that_begin_and_end_alike_have_no_sieve():
    columns = [[f"something {n:05} something" for n in range(20_000)]]
    keys = KeySet(AMPLE, kernels=False)
    keys.insert(rows_of(["string"], columns), 5, 0)
    assert asked_about(keys, ["string"], [columns[0] * 3]).all()
    assert keys._prefilters == {0: None}


def test_a_sieve_leaves_memory_for_more_keys():
    keys = KeySet(Budget(2**19, lambda: keys.nbytes), kernels=False)
    keys.insert(rows_of(["string"], [[f"key {n:05}" for n in range(5000)]]), 5, 0)
    assert asked_about(keys, ["string"], [["key 00001"] * 20_000]).all()
    assert keys._prefilters == {0: None}
