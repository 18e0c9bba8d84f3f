"""Sorted rows: cut keys keep their order, ranges bound the rows that the filter keeps, and the first rows are reached."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from index_columns import FIELD, Values, build, check, leaves, literals_of, opened
from twostage.indexes.kinds import sorted_rows
from twostage.indexes.kinds.sorted_rows import Scale, SortedRows, SortedRowsReader
from twostage.indexes.puffin import BadIndexError
from twostage.metrics import Metrics
from twostage.predicates.predicate import Column, Compare, StringMatch
from twostage.schema import Field, List, Primitive

LONG, STRING = Primitive("long"), Primitive("string")
LEAST, GREATEST = -(2**63), 2**63 - 1
POOLS = {
    "uniform": lambda drawn: drawn.randrange(-(10**9), 10**9),
    "skewed": lambda drawn: int(2 ** (drawn.random() * 62)),
    "the ends of a long": lambda drawn: drawn.choice((LEAST, LEAST + 1, -1, 0, 1, GREATEST - 1, GREATEST)),
    "half of one value": lambda drawn: 7 if drawn.random() < 0.5 else drawn.randrange(10**6),
    "one value": lambda drawn: 3,
}


@pytest.mark.parametrize("key_bits", [9, 20, 40])
@pytest.mark.parametrize("pool", POOLS)
def test_cut_keys_are_ordered_and_their_limits_hold_them(pool, key_bits):
    drawn = random.Random(f"{pool} {key_bits}")
    keys = np.array(sorted(POOLS[pool](drawn) for _ in range(2_000)), np.int64)
    inner = sorted({keys[drawn.randrange(len(keys))] for _ in range(drawn.randrange(1, 200))})
    scale = Scale(np.array([keys[0], *inner, keys[-1]], np.int64), key_bits)
    cut, off, masks = scale.cut(keys)
    assert (np.diff(cut.astype(object)) >= 0).all()
    assert int(cut.max()) < 2**key_bits
    assert (off <= masks).all()
    low, high = scale.limits(cut, lower=True), scale.limits(cut, lower=False)
    assert (low <= keys).all()
    assert (keys <= high).all()
    for value, first, last in zip(cut.tolist(), low.tolist(), high.tolist(), strict=True):
        ends = scale.cut(np.array([first, last], np.int64))[0]
        assert ends.tolist() == [value, value]  # no key beyond the limits' own is cut to the same
    is_alone = off == 0
    assert (low[is_alone] == keys[is_alone]).all()


def test_a_quantile_that_there_is_none_of():
    scale = Scale(np.array([0, 10, 20], np.int64), 10)
    with pytest.raises(BadIndexError, match="does not exist"):
        scale.limits(np.array([3 << 2], np.uint64), lower=True)


@pytest.mark.parametrize("budget", [2**28, 2**14], ids=["at once", "in parts"])
@pytest.mark.parametrize("pool", POOLS)
def test_ranges_bound_what_the_filter_keeps(tmp_path, monkeypatch, pool, budget):
    drawn = random.Random(f"ranges {pool} {budget}")
    monkeypatch.setattr(sorted_rows, "_ROWS_FOUND_ANYWAY", 20_000)  # all of them
    values = [None if drawn.random() < 0.1 else POOLS[pool](drawn) for _ in range(8_000)]
    array = pa.array(values, pa.int64())
    index = opened(build(tmp_path, Values(array, LONG), ("sorted",), budget))
    column = Column(FIELD, ("x",), LONG)
    literals = [*literals_of(array, LONG, drawn)[:6], LEAST, GREATEST, 0]
    answers = [answer for leaf in leaves(column, literals, drawn) if (answer := check(index, leaf, array))]
    assert len(answers) > 40
    unsure = sum(len(answer.possible - answer.certain) for answer in answers)
    if pool in ("one value", "uniform"):
        assert unsure <= len(answers) * 20


def test_texts_go_by_what_all_begin_with(tmp_path):
    drawn = random.Random("texts")
    values = [f"https://example.org/{drawn.randrange(10**6):06}/é" for _ in range(3_000)] + [
        None,
        "https://example.org/",
    ]
    array = pa.array(values)
    index = opened(build(tmp_path, Values(array, STRING), ("sorted",)))
    column = Column(FIELD, ("x",), STRING)
    for literal in (values[5], values[5][:23], "a", "z", "", "https://example.org/", "https://example.org/5"):
        for op in ("=", "<", ">=", "<=>"):
            check(index, Compare(op, column, literal), array)
        check(index, StringMatch("prefix", column, literal), array)
    answer = check(index, Compare("=", column, values[5]), array)
    assert answer is not None
    assert len(answer.possible) < 300


def test_a_range_of_many_rows_is_not_answered(tmp_path, monkeypatch):
    monkeypatch.setattr(sorted_rows, "_ROWS_FOUND_ANYWAY", 100)
    rows = 16_000
    array = pa.array([number * 7919 % rows for number in range(rows)])
    index = opened(build(tmp_path, Values(array, LONG), ("sorted",)))
    column = Column(FIELD, ("x",), LONG)
    share = sorted_rows.MAX_SHARE_FOUND
    assert check(index, Compare("<", column, int(rows * share * 0.9)), array) is not None
    assert check(index, Compare("<", column, int(rows * share * 1.2)), array) is None


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("pool", POOLS)
def test_the_first_rows_reach_the_keys_that_it_says(tmp_path, pool, last):
    drawn = random.Random(f"best {pool} {last}")
    values = [None if drawn.random() < 0.1 else POOLS[pool](drawn) for _ in range(5_000)]
    index = opened(build(tmp_path, Values(pa.array(values, pa.int64()), LONG), ("sorted",)))
    present = sorted((value for value in values if value is not None), reverse=last)
    for count in (1, 10, 700):
        keys = index.of_kind(
            FIELD, SortedRowsReader, lambda kind, reader, n=count: kind.best(n, reader, last=last), Metrics()
        )
        assert keys is not None
        assert len(keys) >= count
        for place, key in enumerate(keys.tolist()[:count]):
            # Of these rows, `place` + 1 are as good as the key, or better.
            assert present[place] >= key if last else present[place] <= key


def test_what_it_refuses_and_takes(tmp_path):
    of = SortedRows().refuses
    assert of(Primitive("boolean")) == "a boolean has two values"
    assert of(List(Field(id=2, name="element", type=LONG))) is not None
    assert of(LONG) is None
    rows = 2**17
    drawn = random.Random("size")
    array = pa.array([drawn.randrange(LEAST, GREATEST) for _ in range(rows)])
    path = build(tmp_path, Values(array, LONG), ("sorted",))
    assert path.stat().st_size < 5 * rows
