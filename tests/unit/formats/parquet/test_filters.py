"""Bloom filters and dictionaries: random files and predicates, never a row lost, and row groups really spared."""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from twostage.formats.parquet.bloom import MAX_VALUES_PROBED
from twostage.formats.parquet.filters import prune_by_bloom, prune_by_dictionary
from twostage.predicates.key_set import key_set
from twostage.predicates.predicate import And, Compare, In, InKeys, IsNull, Not, Or, StringMatch
from twostage.schema import Primitive
from written_files import Opened, P, column


@pytest.mark.parametrize("seed", range(4))
def test_no_row_is_ever_lost(seed: int) -> None:
    """Random files and predicates: a pruned row group holds no row for which plain Python says TRUE."""
    rng = random.Random(seed)
    kinds = [P("long"), P("string"), P("double")]
    pruned: Counter[str] = Counter()
    for _ in range(120):
        rows = rng.randrange(1, 30)
        pools: list[list[Any]] = [
            rng.sample(range(-20, 20), rng.randrange(1, 9)),
            [f"k{i}" for i in rng.sample(range(20), rng.randrange(1, 9))],
            [float(i) / 2 for i in rng.sample(range(-9, 9), rng.randrange(1, 6))],
        ]
        nulls = rng.choice([0, 0, 0.3])
        data = [[None if rng.random() < nulls else rng.choice(pool) for _ in range(rows)] for pool in pools]
        table = pa.table(
            {f"c{i}": pa.array(values, kind) for i, (values, kind) in enumerate(
                zip(data, [pa.int64(), pa.string(), pa.float64()], strict=True))}
        )  # fmt: skip
        opened = Opened(
            table, kinds, row_group_size=rng.choice([5, 100]), use_dictionary=rng.random() < 0.7,
            compression=rng.choice(["none", "zstd", "snappy"]), data_page_version=rng.choice(["1.0", "2.0"]),
            bloom_filter_options={f"c{i}": {"ndv": 30, "fpp": 0.01} for i in range(3)},
        )  # fmt: skip
        for _ in range(12):
            predicate, test = random_predicate(rng, kinds, 2)
            for group in opened.footer.row_groups:
                span = range(group.first_row, group.first_row + group.num_rows)
                matches = any(test([values[row] for values in data]) is True for row in span)
                for function in (prune_by_bloom, prune_by_dictionary):
                    if opened.pruned(function, predicate, group.index):
                        pruned[function.__name__] += 1
                        assert not matches, (
                            str(predicate),
                            [values[span.start : span.stop] for values in data],
                        )
    assert min(pruned["prune_by_bloom"], pruned["prune_by_dictionary"]) > 100, pruned


def random_predicate(rng: random.Random, kinds: list[Primitive], depth: int) -> tuple[Any, Any]:
    """Return a predicate and a Python function of a row that says the same."""
    if depth and rng.random() < 0.5:
        parts = [random_predicate(rng, kinds, depth - 1) for _ in range(2)]
        tests = [part[1] for part in parts]
        if rng.random() < 0.5:
            return And(tuple(part[0] for part in parts)), lambda row: all_of([test(row) for test in tests])
        return Or(tuple(part[0] for part in parts)), lambda row: any_of([test(row) for test in tests])
    if depth and rng.random() < 0.2:
        inner, test = random_predicate(rng, kinds, depth - 1)
        return Not(inner), lambda row: None if test(row) is None else not test(row)
    place = rng.randrange(3)
    c = column(kinds[place], place)
    value: Any = [rng.randrange(-20, 20), f"k{rng.randrange(20)}", rng.randrange(-9, 9) / 2][place]
    match rng.randrange(5):
        case 0:
            return IsNull(c), lambda row: row[place] is None
        case 1:
            return Compare("<=>", c, value), lambda row: row[place] == value
        case 2:
            return Compare("<", c, value), lambda row: None if row[place] is None else row[place] < value
        case 3 if place == 1:
            return StringMatch(
                "suffix", c, value[-1]
            ), lambda row: None if row[1] is None else row[1].endswith(value[-1])
    return In(c, (value,)), lambda row: None if row[place] is None else row[place] == value


def all_of(parts: list[bool | None]) -> bool | None:
    return False if False in parts else None if None in parts else True


def any_of(parts: list[bool | None]) -> bool | None:
    return True if True in parts else None if None in parts else False


def test_a_set_of_keys_asks_the_bloom_filter() -> None:
    """Keys within the row group's bounds, if they are at most 256, are asked for as those of a list are."""
    kinds = [P("long")]
    opened = Opened(
        pa.table({"c0": pa.array(range(0, 3000, 3), pa.int64())}), kinds,
        row_group_size=100, use_dictionary=False, bloom_filter_options={"c0": {"ndv": 100, "fpp": 0.0001}},
    )  # fmt: skip
    absent = InKeys(
        column(P("long"), 0),
        key_set(np.array([number for number in range(4, 2900) if number % 100 == 1 and number % 3])),
    )
    present = InKeys(column(P("long"), 0), key_set(np.array([4, 7, 2000, *range(2001, 5000)])))
    groups = [group.index for group in opened.footer.row_groups]
    assert all(opened.pruned(prune_by_bloom, absent, group) for group in groups)
    assert not opened.pruned(prune_by_bloom, present, groups[6])
    assert not opened.pruned(prune_by_bloom, present, groups[-1])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (P("long"), lambda number: number),
        (P("string"), lambda number: f"é{number:05d}"),
        (P("decimal", precision=9, scale=2), Decimal),
        (P("date"), lambda number: number),
    ],
)
def test_of_a_long_list_the_values_within_a_row_group_s_bounds_are_asked(kind, value) -> None:
    """Where these are at most 256; in any order, and the ends of the range included."""
    held = [value(number) for number in range(0, 30_000, 3)]
    stored = pa.int32() if kind.name == "date" else pa.decimal128(9, 2) if kind.name == "decimal" else None
    array = pa.array(held, stored)
    opened = Opened(
        pa.table({"c0": array.cast(pa.date32()) if kind.name == "date" else array}), [kind],
        row_group_size=1000, use_dictionary=False, bloom_filter_options={"c0": {"ndv": 1000, "fpp": 0.00001}},
    )  # fmt: skip
    groups = [group.index for group in opened.footer.row_groups]
    absent = [value(number) for number in range(1, 30_000, 17) if number % 3]
    random.Random(1).shuffle(absent)
    assert len(absent) > MAX_VALUES_PROBED
    asked = column(kind, 0)
    assert all(opened.pruned(prune_by_bloom, In(asked, tuple(absent)), group) for group in groups)
    for end in (3000 * 4, 3000 * 5 - 3):
        found = [opened.pruned(prune_by_bloom, In(asked, (*absent, value(end))), group) for group in groups]
        assert found == [group != 4 for group in groups]
    everything = tuple(value(number) for number in range(1, 30_000) if number % 3)
    assert not any(opened.pruned(prune_by_bloom, In(asked, everything), group) for group in groups)
