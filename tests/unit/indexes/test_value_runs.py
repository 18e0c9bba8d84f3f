"""Collected values: each once, in Spark's order, with all its rows, whatever was spilled; against a dictionary in Python."""

from __future__ import annotations

import math
import random
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from twostage.indexes import value_runs
from twostage.indexes.value_runs import ValueRuns, normal

SMALL = 1
"""A budget of which the least that is held at all, 64 KiB, remains."""


def drawn_values(kind: str, count: int, drawn: random.Random) -> list:
    match kind:
        case "long":
            return [
                drawn.choice((drawn.randrange(-50, 50), drawn.randrange(-(2**63), 2**63)))
                for _ in range(count)
            ]
        case "double":
            odd = (math.nan, -math.nan, 0.0, -0.0, math.inf, -math.inf)
            return [drawn.choice(odd) if drawn.random() < 0.3 else drawn.uniform(-9, 9) for _ in range(count)]
        case "string":
            return [
                "é" * drawn.randrange(3) + str(drawn.randrange(400)) * drawn.randrange(1, 9)
                for _ in range(count)
            ]
    return [bytes(drawn.randrange(256) for _ in range(drawn.randrange(4))) for _ in range(count)]


TYPES = {"long": pa.int64(), "double": pa.float64(), "string": pa.string(), "binary": pa.binary()}


def key(value):
    """What equal values share, and their order in Spark: NaN is the greatest, text goes by its bytes."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value.encode() if isinstance(value, str) else value


@pytest.mark.parametrize("budget", [2**30, SMALL], ids=["in memory", "spilled"])
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("seed", range(2))
def test_each_value_once_with_all_its_rows(tmp_path, kind, budget, seed):
    drawn = random.Random(f"{kind} {seed}")
    values = drawn_values(kind, 6_000, drawn)
    rows = sorted(drawn.sample(range(50_000), len(values)))
    runs, expected, start = ValueRuns(tmp_path, budget), {}, 0
    while start < len(values):
        end = start + drawn.randrange(1, 900)
        runs.add(
            np.array(rows[start:end], np.int64), pa.array(values[start:end], TYPES[kind], from_pandas=False)
        )
        start = end
    for value, row in zip(values, rows, strict=True):
        expected.setdefault(key(value), set()).add(row)
    assert bool(list(tmp_path.iterdir())) == (budget == SMALL)
    merged = list(runs.merged())
    assert (len(merged) > 1) == (budget == SMALL)
    found = [
        (key(value.as_py()), bitmap.as_py())
        for run in merged
        for value, bitmap in zip(run.values, run.bitmaps, strict=True)
    ]
    assert [value for value, _ in found] == sorted(expected)
    assert {value: set(BitMap.deserialize(bitmap)) for value, bitmap in found} == expected


def test_nothing_was_added(tmp_path):
    assert list(ValueRuns(tmp_path, 2**20).merged()) == []


def test_one_value_of_all_rows_is_one_run_however_often_it_was_spilled(tmp_path, monkeypatch):
    runs = ValueRuns(tmp_path, SMALL)
    monkeypatch.setattr(runs, "_budget", 10)
    for start in range(0, 5_000, 1_000):
        runs.add(np.arange(start, start + 1_000), pa.array(["same"] * 1_000))
    (run,) = runs.merged()
    assert run.values.to_pylist() == ["same"]
    assert BitMap.deserialize(run.bitmaps[0].as_py()) == BitMap(range(5_000))


def test_floats_have_one_zero_and_one_nan():
    odd = np.array([0x7FF8000000000001, 0xFFF8000000000000, 0x8000000000000000], np.uint64).view(np.float64)
    for dtype in (np.float64, np.float32):
        bits = normal(pa.array(odd.astype(dtype), from_pandas=False)).to_numpy()
        assert np.signbit(bits[2]) == np.False_
        assert bits[:1].tobytes() == bits[1:2].tobytes()
    assert normal(pa.array([3, 4])).to_pylist() == [3, 4]


def test_ranges_divide_by_values_that_there_are():
    """A range's limit is a value of the runs, never NaN, and the least one divides nothing."""
    run = value_runs.ValueRun(pa.array([1.0, 2.0, math.nan]), pa.array([b""] * 3, pa.large_binary()))
    pivots = [one.as_py() for one in value_runs._pivots([run, run], 8)]
    assert pivots == [2.0]


def test_a_million_rows_at_once_are_not_a_million_objects(tmp_path):
    """A bitmap of its own for each row takes some 130 bytes as a Python object, eight times the row's own."""
    count = 100_000
    array, rows = pa.array(range(count)), np.arange(count)
    runs = ValueRuns(tmp_path, 2**30)
    runs.add(rows, array)
    tracemalloc.start()
    try:
        found = list(runs.merged())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(len(run.values) for run in found) == count
    assert peak < 80 * count
