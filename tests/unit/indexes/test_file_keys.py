"""Which data files hold a key: runs, merged runs and files without coverage, against brute force."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from twostage.indexes.file_key_runs import RunBuilder, level_of, merge_runs
from twostage.indexes.file_keys import file_key, find_files
from twostage.indexes.keys import hash_values
from twostage.indexes.place import index_place, list_indexes
from twostage.metrics import Metrics
from twostage.options import ReadSettings
from twostage.predicates.predicate import Column, Compare, In, IsNull
from twostage.schema import Primitive
from twostage.task import ScanTask, Storage

LONG = Primitive("long")
COLUMN = Column(5, ("key",), LONG)
MEMORY = 2**28


@pytest.fixture
def place(tmp_path):
    return index_place(Storage(root=str(tmp_path / "t")), ReadSettings(), "uuid")


def task(number):
    path = f"s3://lake/t/data/{number}.parquet"
    return ScanTask(
        written_path=path, path=path, record_count=10, format="parquet", file_size=100, start=0, length=100,
        sequence_number=1, spec_id=0,
    )  # fmt: skip


def publish(place, tmp_path, data_files, budget=MEMORY):
    """Write one run of some data files: values by number."""
    builder = RunBuilder(5, LONG, tmp_path, budget, len(data_files), sum(map(len, data_files.values())))
    for number, values in data_files.items():
        builder.begin(file_key(task(number)))
        builder.add(hash_values(pa.array(values, pa.int64())))
    return builder.publish(place)


def holding(place, leaf, numbers, metrics=None):
    answer = find_files(place, list_indexes(place, Metrics()), leaf, metrics or Metrics(), MEMORY)
    assert answer is not None
    return {number for number in numbers if answer.may_hold(task(number))}


@pytest.mark.parametrize("merged", [False, True])
def test_look_ups_find_what_brute_force_finds(place, tmp_path, merged):
    seed = random.randrange(2**32)
    print("seed", seed)
    drawn = random.Random(seed)
    data = {number: [drawn.randrange(2_000) for _ in range(drawn.randrange(1, 300))] for number in range(40)}
    for start in range(0, 36, 9):  # the last four have no coverage
        publish(place, tmp_path, {number: data[number] for number in range(start, start + 9)})
    indexes = list_indexes(place, Metrics())
    assert len(indexes.runs) == 4
    if merged:
        name = merge_runs(place, indexes.runs, 2**16, Metrics())
        assert [run.name for run in list_indexes(place, Metrics()).runs] == [name]
    for _ in range(30):
        listed = tuple({drawn.randrange(2_100) for _ in range(drawn.randrange(1, 4))})
        expected = {number for number, values in data.items() if number >= 36 or set(values) & set(listed)}
        leaf = In(COLUMN, listed) if len(listed) > 1 else Compare("=", COLUMN, listed[0])
        assert holding(place, leaf, data) == expected
    assert holding(place, Compare("=", COLUMN, 10**15), data) == set(range(36, 40))


def test_other_leaves_and_columns_are_not_told(place, tmp_path):
    publish(place, tmp_path, {0: [1]})
    indexes = list_indexes(place, Metrics())
    for leaf in (
        Compare("<", COLUMN, 5),
        Compare("<>", COLUMN, 5),
        IsNull(COLUMN),
        Compare("=", replace(COLUMN, field_id=6), 5),
        Compare("=", replace(COLUMN, type=Primitive("string")), "5"),
    ):
        assert find_files(place, indexes, leaf, Metrics(), MEMORY) is None


def test_a_file_made_anew_under_its_name_is_not_covered(place, tmp_path):
    publish(place, tmp_path, {0: [1]})
    answer = find_files(place, list_indexes(place, Metrics()), Compare("=", COLUMN, 9), Metrics(), MEMORY)
    assert not answer.may_hold(task(0))
    for changed in ({"file_size": 101}, {"record_count": 11}, {"sequence_number": 2}):
        assert answer.may_hold(replace(task(0), **changed))


def test_a_run_twice_is_harmless(place, tmp_path):
    publish(place, tmp_path, {0: [1, 2], 1: [3]})
    publish(place, tmp_path, {1: [3], 2: [4]})
    assert holding(place, Compare("=", COLUMN, 3), range(3)) == {1}
    merge_runs(place, list_indexes(place, Metrics()).runs, MEMORY, Metrics())
    assert holding(place, Compare("=", COLUMN, 3), range(3)) == {1}
    assert holding(place, Compare("=", COLUMN, 4), range(3)) == {2}


def test_merging_drops_what_is_no_longer_live(place, tmp_path):
    publish(place, tmp_path, {0: [1, 2], 1: [3]})
    live = {file_key(task(1))}
    merge_runs(place, list_indexes(place, Metrics()).runs, MEMORY, Metrics(), live)
    assert holding(place, Compare("=", COLUMN, 9), range(2)) == {0}


@pytest.mark.parametrize("fault", ["cut", "flip", "gone", "not one"])
def test_a_bad_run_covers_nothing(place, tmp_path, fault):
    name = publish(place, tmp_path, {0: list(range(3000)), 1: [3]})
    other = publish(place, tmp_path, {2: [4]})
    indexes = list_indexes(place, Metrics())
    path = Path(place.path(name))
    data = path.read_bytes()
    if fault == "gone":
        path.unlink()
    else:
        flipped = bytearray(data)
        flipped[-40] ^= 4
        path.write_bytes({"cut": data[:-5], "flip": bytes(flipped), "not one": b"x" * 99}[fault])
    metrics = Metrics()
    answer = find_files(place, indexes, Compare("=", COLUMN, 9_999), metrics, MEMORY)
    assert [answer.may_hold(task(number)) for number in range(3)] == [True, True, False]
    assert metrics.counters["indexes.ignored"] == int(fault != "gone")
    assert merge_runs(place, indexes.runs, MEMORY, Metrics()) is None
    assert Path(place.path(other)).exists()


def test_a_look_up_is_three_requests_and_few_bytes(place, tmp_path):
    drawn = np.random.default_rng(3)
    builder = RunBuilder(5, LONG, tmp_path, MEMORY, 200, 400_000)
    for number in range(200):
        builder.begin(file_key(task(number)))
        builder.add(drawn.integers(0, 2**63, 2_000).astype(np.uint64))
    name = builder.publish(place)
    assert Path(place.path(name)).stat().st_size < 3.4 * 400_000
    answer = find_files(place, list_indexes(place, Metrics()), Compare("=", COLUMN, 1), Metrics(), MEMORY)
    assert answer.cost.requests <= 4
    assert answer.cost.nbytes < 200_000


def test_levels():
    assert [level_of(4**k) for k in range(8, 12)] == [0, 1, 2, 3]
