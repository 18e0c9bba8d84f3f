"""What ORDER BY … LIMIT proves, from literals: which value enough rows reach, and which rows stay."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from functools import cmp_to_key
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from twostage.columns import arrow_type
from twostage.metrics import Metrics
from twostage.predicates.bind import bind_top
from twostage.predicates.bounds import Bounds
from twostage.predicates.predicate import Column
from twostage.predicates.top import MAX_TOP_ROWS, Threshold, TopRows, threshold_from_bounds
from twostage.reading.aligned_columns import LiveColumns
from twostage.reading.filter import RowFilter
from twostage.reading.top_rows import BestRows
from twostage.schema import Field, Primitive, Schema, Struct
from twostage.selection import Selection

NAN = math.nan
VALUES: dict[str, tuple[Primitive, list[Any]]] = {
    "int": (Primitive("int"), [-5, 0, 3, 3, 7, 2**31 - 1, -(2**31)]),
    "long": (Primitive("long"), [-5, 0, 3, 7, 2**63 - 1, -(2**63)]),
    "float": (Primitive("float"), [NAN, -0.0, 0.0, 1.5, math.inf, -math.inf]),
    "double": (Primitive("double"), [NAN, -0.0, 0.0, 0.1, 1e300, math.inf, -math.inf]),
    "decimal": (
        Primitive("decimal", precision=20, scale=2),
        [Decimal("-1.23"), Decimal("0.00"), Decimal("9.99"), Decimal("123456789012345678.90")],
    ),
    "string": (Primitive("string"), ["", "a", "Z", "é", "\U0001f600", "\uffee", "aa"]),
    "date": (Primitive("date"), [-1, 0, 19000, 19001]),
    "timestamptz": (Primitive("timestamptz"), [-1, 0, 10**15, 10**15 + 1]),
}
SEEDS = range(40)


def top(kind: Primitive, **changes: Any) -> TopRows:
    given = {"count": 3, "descending": True, "nulls_first": False} | changes
    return TopRows(column=Column(1, ("a",), kind), **given)


def before(one: Any, other: Any, wanted: TopRows) -> int:
    """Compare as Spark sorts: written out, and no code of the product."""
    if one is None or other is None:
        return 0 if one is other else (-1 if (one is None) == wanted.nulls_first else 1)
    if isinstance(one, str):
        one, other = one.encode(), other.encode()
    if isinstance(one, float):
        one, other = (math.isnan(one), 0.0 if math.isnan(one) else one), (
            math.isnan(other), 0.0 if math.isnan(other) else other)  # fmt: skip
    less = (one > other) - (one < other)
    return -less if wanted.descending else less


@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_rows_live_however_row_groups_come(seed: int) -> None:
    pick = random.Random(seed)
    name = pick.choice(sorted(VALUES))
    kind, pool = VALUES[name]
    wanted = top(
        kind,
        count=pick.choice((1, 2, 5, 30)),
        descending=pick.random() < 0.5,
        nulls_first=pick.random() < 0.5,
        has_more_keys=pick.random() < 0.5,
    )
    groups = [[pick.choice([None, *pool]) for _ in range(pick.randint(0, 20))] for _ in range(6)]
    best, shown = BestRows(wanted, kernels=pick.random() < 0.5), []
    for values in groups:
        if kind.name in ("date", "timestamptz"):
            raw = pa.array(values, pa.int32() if kind.name == "date" else pa.int64())
            array = raw.view(arrow_type(kind))
        else:
            array = pa.array(values, arrow_type(kind))

        def read(_: int, rows: Selection, array: pa.Array = array) -> pa.Array:
            return array.take(pa.array(rows.indices()))

        columns = LiveColumns(Selection.all(len(values)), read)
        best.admit(columns, RowFilter(), Metrics())
        shown.append((columns, values))
    kept = []
    for columns, values in shown:
        best.cut(columns, Metrics())
        kept += [values[place] for place in columns.selection().indices()]
    key = cmp_to_key(lambda one, other: before(one, other, wanted))
    every = sorted((value for values in groups for value in values), key=key)
    first = every[: wanted.count]
    got = sorted(kept, key=key)
    assert [key(value) for value in got[: wanted.count]] == [key(value) for value in first], f"seed {seed}"
    if wanted.has_more_keys and len(first) == wanted.count:
        ties = [value for value in every if before(first[-1], value, wanted) >= 0]
        assert len(got) == len(ties), f"seed {seed}"
    elif len(first) == wanted.count:
        assert len(got) <= wanted.count * len(groups), f"seed {seed}"


def test_ties_beyond_the_count_go_where_nothing_else_is_ordered_by() -> None:
    array = pa.array([5] * 1000, pa.int64())

    def admitted(*, more: bool) -> int:
        best = BestRows(top(Primitive("long"), has_more_keys=more))
        kept = 0
        for _ in range(3):
            columns = LiveColumns(Selection.all(1000), lambda _, rows: array.take(pa.array(rows.indices())))
            best.admit(columns, RowFilter(), Metrics())
            kept += columns.live.count
        return kept

    assert admitted(more=False) == 3
    assert admitted(more=True) == 3000


@pytest.mark.parametrize(
    ("files", "changes", "reached"),
    [
        ([((1, 9), 0, 2), ((20, 30), 0, 3)], {}, (Threshold(20), 1)),
        ([((1, 9), 0, 2), ((20, 30), 0, 2)], {}, (Threshold(1), 2)),
        ([((1, 9), 0, 2), ((20, 30), 0, 2)], {"descending": False}, (Threshold(30), 2)),
        ([((1, 9), 0, 2)], {}, None),
        ([((1, 9), None, 9)], {}, None),
        ([((1, 9), 2, 4)], {}, None),
        ([((1, 9), 1, 4)], {}, (Threshold(1), 1)),
        ([((1, 9), 3, 4), ((2, 3), 0, 1)], {"nulls_first": True}, (Threshold(None), 1)),
        ([((1, 9), 2, 3), ((2, 3), 0, 1)], {"nulls_first": True}, (Threshold(2), 1)),
        ([((None, None), 5, 5), ((2, 3), 0, 2)], {}, None),
        ([((None, None), 5, 5), ((2, 3), 0, 2)], {"nulls_first": True}, (Threshold(None), 1)),
        ([((9, 1), 0, 5)], {}, None),
        ([((1, 9), 7, 5)], {}, None),
        ([((1, None), 0, 5)], {}, (Threshold(1), 1)),
        ([((1, None), 0, 5)], {"descending": False}, None),
    ],
)
def test_what_enough_rows_reach(
    files: list[tuple[tuple[Any, Any], int | None, int]], changes: dict[str, Any], reached: Any
) -> None:
    known = [
        (
            lambda _, low=low, high=high, nulls=nulls, rows=rows: Bounds(
                lower=low, upper=high, null_count=nulls, value_count=rows
            ),
            rows,
            0,
        )
        for (low, high), nulls, rows in files
    ]
    assert threshold_from_bounds(top(Primitive("long"), **changes), known) == reached


def test_nan_is_the_greatest() -> None:
    def known(nans: int | None) -> Any:
        bounds = Bounds(lower=1.0, upper=2.0, null_count=0, nan_count=nans, value_count=5)
        return [(lambda _: bounds, 5, 0)]

    double = Primitive("double")
    assert threshold_from_bounds(top(double, descending=False), known(0)) == (Threshold(2.0), 1)
    for nans in (None, 1):
        found = threshold_from_bounds(top(double, descending=False), known(nans))
        assert found is not None
        assert math.isnan(found[0].value)
    assert threshold_from_bounds(top(double), known(1)) == (Threshold(1.0), 1)


def test_deleted_rows_may_be_any() -> None:
    bounds = Bounds(lower=1, upper=9, null_count=4, value_count=10)
    for gone, first, last in ((0, 4, 6), (3, 1, 3), (5, 0, 1), (7, 0, 0)):
        for count in range(1, 8):
            known = [(lambda _: bounds, 10, gone)]
            wanted = top(Primitive("long"), count=count, nulls_first=False)
            assert (threshold_from_bounds(wanted, known) is not None) == (count <= last)
            found = threshold_from_bounds(top(Primitive("long"), count=count, nulls_first=True), known)
            assert (found is not None and found[0] == Threshold(None)) == (count <= first)


def test_fields_of_structs_need_a_count_of_their_values() -> None:
    """Of some writers, the number of NULLs leaves out the rows in which the struct is NULL."""
    for path, count, reached in (
        (("a",), None, (Threshold(1), 1)),
        (("s", "a"), None, None),
        (("s", "a"), 3, None),
        (("s", "a"), 5, (Threshold(1), 1)),
    ):
        bounds = Bounds(lower=1, upper=9, null_count=0, value_count=count)
        wanted = TopRows(
            column=Column(1, path, Primitive("long")), count=3, descending=True, nulls_first=False
        )
        assert threshold_from_bounds(wanted, [(lambda _, bounds=bounds: bounds, 5, 0)]) == reached


def test_files_are_read_best_first() -> None:
    bounds = {
        "old": Bounds(lower=1, upper=5, null_count=0),
        "new": Bounds(lower=50, upper=60, null_count=0),
        "nulls": Bounds(lower=2, upper=3, null_count=1),
        "unknown": None,
    }

    def order(**changes: Any) -> list[str]:
        wanted = top(Primitive("long"), **changes)
        return wanted.best_first(bounds, lambda name: (lambda _: bounds[name], 10))

    assert order() == ["new", "old", "nulls", "unknown"]
    assert order(descending=False) == ["old", "nulls", "new", "unknown"]
    assert order(nulls_first=True) == ["nulls", "new", "old", "unknown"]


def test_what_is_bound() -> None:
    fields = (
        Field(id=1, name="A", type=Primitive("long")),
        Field(id=2, name="flag", type=Primitive("boolean")),
        Field(id=3, name="s", type=Struct((Field(id=4, name="x", type=Primitive("int")),))),
    )
    schema = Schema(schema_id=0, fields=fields)
    raw = {"column": ["a"], "descending": True, "nulls_first": False, "keys": 2, "count": 5}
    found = bind_top(raw, schema)
    assert found is not None
    assert str(found) == "A DESC NULLS LAST, … LIMIT 5"
    assert bind_top(raw, schema, case_sensitive=True) is None
    for change in (
        {"column": None},
        {"column": ["flag"]},
        {"column": ["s"]},
        {"column": ["s", "x"]},
        {"count": 0},
        {"count": MAX_TOP_ROWS + 1},
    ):
        assert bind_top({**raw, **change}, schema) is None


def test_what_is_kept_of_a_row_group_is_small() -> None:
    best = BestRows(top(Primitive("long")))
    array = pa.array(np.arange(100_000))
    columns = LiveColumns(Selection.all(len(array)), lambda _, rows: array.take(pa.array(rows.indices())))
    best.admit(columns, RowFilter(), Metrics())
    assert columns.selection().indices().tolist() == [99_997, 99_998, 99_999]
    numbers = best._seen._numbers
    assert numbers is not None
    assert len(numbers) == 3
    assert numbers.base is None


def test_a_row_group_that_loses_its_last_row_is_counted_once() -> None:
    best, metrics = BestRows(top(Primitive("long"))), Metrics()

    def group(first: int) -> LiveColumns:
        array = pa.array(np.arange(first, first + 10))
        return LiveColumns(Selection.all(10), lambda _, rows: array.take(pa.array(rows.indices())))

    early, better, worse = group(100), group(200), group(0)
    for columns, pruned, dropped in ((early, 0, 7), (better, 0, 14), (worse, 1, 24)):
        best.admit_row_group(columns, RowFilter(), metrics)
        assert (metrics.counters["row_groups.pruned.top-n"], metrics.counters["rows.top-n"]) == (
            pruned,
            dropped,
        )
    best.cut(early, metrics)  # what came later beats it
    best.cut(better, metrics)
    assert (early.live.count, better.live.count) == (0, 3)
    for columns in (early, worse):  # nothing is left to drop
        best.cut(columns, metrics)
        best.admit_row_group(columns, RowFilter(), metrics)
    assert (metrics.counters["row_groups.pruned.top-n"], metrics.counters["rows.top-n"]) == (2, 27)
