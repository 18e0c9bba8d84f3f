"""One data file's indexes, asked for NULLs and values: in Spark's order, in internal form, within a budget."""

from __future__ import annotations

import datetime
import hashlib
import math
from decimal import Decimal

import pyarrow as pa
import pytest

from index_columns import FIELD, Values, build, opened
from twostage.aggregates import indexed_file
from twostage.aggregates.indexed_file import DriverBudget, IndexedFile, UnansweredError
from twostage.aggregates.sums import Sum, is_summed, result
from twostage.columns import arrow_type
from twostage.indexes import bitmaps
from twostage.indexes.kinds.bit_slices import BitSlices
from twostage.metrics import Metrics
from twostage.schema import Field, Primitive

_decimal = Primitive("decimal", precision=9, scale=2)


def field(kind: Primitive) -> Field:
    return Field(id=FIELD, name="c", type=kind, required=False)


def made(
    folder, array, kind: Primitive, kinds=("values",), budget: DriverBudget | None = None
) -> IndexedFile:
    path = build(folder, Values(array, kind), kinds)
    return IndexedFile(len(array), {FIELD: opened(path)}, budget or DriverBudget(), Metrics())


CASES = [
    (Primitive("string"), ["b", None, "é", "a", "b", "zz"]),
    (Primitive("int"), [3, None, -7, 3, 2**31 - 1]),
    (Primitive("boolean"), [True, None, False, True]),
    (_decimal, [Decimal("1.50"), None, Decimal("-2.25"), Decimal("1.50")]),
    (Primitive("date"), [datetime.date(1969, 12, 1), None, datetime.date(2024, 2, 29)]),
    (Primitive("timestamptz"), [datetime.datetime(1969, 1, 1, tzinfo=datetime.UTC), None]),
    (Primitive("double"), [1.5, None, math.nan, -1.0, math.nan, 1.5]),
]


def internal(value):
    if isinstance(value, datetime.datetime):
        return round(value.timestamp() * 1e6)
    if isinstance(value, datetime.date):
        return (value - datetime.date(1970, 1, 1)).days
    return value


def hash_of(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def order(value):
    return (isinstance(value, float) and math.isnan(value), value)


@pytest.mark.parametrize(("kind", "values"), CASES, ids=lambda one: str(one)[:12])
def test_values_with_their_rows(tmp_path, kind, values):
    file = made(tmp_path, pa.array(values, arrow_type(kind)), kind)
    column = field(kind)
    rows: dict = {}
    for row, value in enumerate(values):
        if value is not None:
            shown = internal(value)
            rows.setdefault(math.nan if shown != shown else shown, []).append(row)
    expected = sorted(rows.items(), key=lambda pair: order(pair[0]))
    assert repr([(value, list(own)) for value, own in file.values(column)]) == repr(expected)
    assert list(file.nulls(column)) == [row for row, value in enumerate(values) if value is None]
    listed, counts, nulls = file.counts(column)
    assert repr(listed) == repr([value for value, _ in expected])
    assert counts == [len(own) for _, own in expected]
    assert nulls == values.count(None)
    for chosen in ([0], [1], list(range(len(values))), [0, len(values) - 1]):
        within = bitmaps.of_rows(chosen)
        present = sorted((internal(values[n]) for n in chosen if values[n] is not None), key=order)
        assert repr(file.extreme(column, within, last=False)) == repr(present[0] if present else None)
        assert repr(file.extreme(column, within, last=True)) == repr(present[-1] if present else None)


WHOLE = [case for case in CASES if BitSlices().refuses(case[0]) is None]


@pytest.mark.parametrize(("kind", "values"), WHOLE, ids=lambda one: str(one)[:12])
def test_sums_and_extremes_by_bit_slices(tmp_path, kind, values):
    file = made(tmp_path, pa.array(values, arrow_type(kind)), kind, ("slices",))
    for chosen in ([0], [1], list(range(len(values)))):
        present = sorted(internal(values[n]) for n in chosen if values[n] is not None)
        for last in (False, True):
            found = file.extreme(field(kind), bitmaps.of_rows(chosen), last=last)
            assert repr(found) == repr(present[-1 if last else 0] if present else None)
        if present and is_summed(kind):
            rows = bitmaps.of_rows([n for n in chosen if values[n] is not None])
            assert result(kind, file.sum(field(kind), rows)) == sum(present)


def test_bit_slices_after_a_promotion(tmp_path):
    """Days are no microseconds, and an int is a long."""
    dates = made(tmp_path, pa.array([3, 9], pa.int32()).cast(pa.date32()), Primitive("date"), ("slices",))
    with pytest.raises(UnansweredError, match="of another type"):
        dates.extreme(field(Primitive("timestamp")), bitmaps.whole(2), last=True)
    ints = made(tmp_path, pa.array([5, -1], pa.int32()), Primitive("int"), ("slices",))
    assert ints.extreme(field(Primitive("long")), bitmaps.whole(2), last=False) == -1
    assert ints.sum(field(Primitive("long")), bitmaps.whole(2)) == Sum(4, 10)
    others = IndexedFile(2, ints.indexes, DriverBudget(), Metrics())
    with pytest.raises(UnansweredError, match="of another type"):
        others.sum(field(_decimal), bitmaps.whole(2))


def test_how_far_a_sum_by_bit_slices_may_lead(tmp_path):
    """Without values of both signs it is the sum itself."""
    kind = Primitive("long")
    for values, magnitude in (
        ([5, 0, 900], 905),
        ([-5, 0, -900], 905),
        ([-5, 0, 3], 15),
        ([2**60] * 3, 3 * 2**60),
    ):
        file = made(tmp_path, pa.array(values, pa.int64()), kind, ("slices",))
        assert file.sum(field(kind), bitmaps.whole(3)) == Sum(sum(values), magnitude)


def test_after_a_promotion(tmp_path):
    """Of an int that is a long now, the values are those of a long."""
    file = made(tmp_path, pa.array([5, 1], pa.int32()), Primitive("int"))
    array, rows = file.arrays(field(Primitive("long")))
    assert (array.type, array.to_pylist(), [list(one) for one in rows]) == (pa.int64(), [1, 5], [[1], [0]])
    with pytest.raises(UnansweredError, match="of another type"):
        file.arrays(field(Primitive("string")))


def test_what_is_not_there(tmp_path):
    kind = Primitive("long")
    array = pa.array(range(50), pa.int64())
    column = field(kind)
    assert list(made(tmp_path, array, kind, ("postings",)).nulls(column)) == []
    for ask in ("values", "counts", "arrays"):
        with pytest.raises(UnansweredError, match="no bitmaps of the values of c"):
            getattr(made(tmp_path, array, kind, ("postings",)), ask)(column)
    none = IndexedFile(50, {}, DriverBudget(), Metrics())
    with pytest.raises(UnansweredError, match="a file has no index of c"):
        none.nulls(column)
    with pytest.raises(UnansweredError, match="no bitmaps"):
        none.extreme(column, bitmaps.whole(50), last=True)


def test_a_column_of_nulls(tmp_path):
    kind = Primitive("long")
    file = made(tmp_path, pa.nulls(9, pa.int64()), kind)
    assert file.values(field(kind)) == []
    assert file.counts(field(kind)) == ([], [], 9)
    assert file.extreme(field(kind), bitmaps.whole(9), last=True) is None
    assert file.extreme(field(kind), bitmaps.of_rows([3]), last=False) is None


def test_budgets(tmp_path, monkeypatch):
    kind, column = Primitive("long"), field(Primitive("long"))
    array = pa.array(range(3_000), pa.int64())
    with pytest.raises(UnansweredError, match="MiB of indexes"):
        made(tmp_path, array, kind, budget=DriverBudget(nbytes=100)).values(column)
    with pytest.raises(UnansweredError, match="too many bitmaps"):
        made(tmp_path, array, kind, budget=DriverBudget(containers=10)).extreme(column, bitmaps.of_rows([2_999]), last=False)  # fmt: skip
    last = made(tmp_path, array, kind).extreme(column, bitmaps.of_rows([7, 2_999]), last=True)
    assert last == 2_999
    monkeypatch.setattr(indexed_file, "MAX_BITMAPS", 1_000)
    monkeypatch.setattr(indexed_file, "MAX_LISTED", 2_000)
    file = made(tmp_path, array, kind)
    with pytest.raises(UnansweredError, match="more than 1,000 values"):
        file.values(column)
    with pytest.raises(UnansweredError, match="more than 2,000 values"):
        file.counts(column)
    with pytest.raises(UnansweredError, match="after more than 1,000 other values"):
        file.extreme(column, bitmaps.of_rows([2_999]), last=False)
    assert file.extreme(column, bitmaps.whole(3_000), last=True) == 2_999  # the ends are known


def test_a_damaged_index_is_counted(tmp_path):
    kind = Primitive("string")
    path = build(tmp_path, Values(pa.array([f"{hash_of(n)}" for n in range(4_000)]), kind), ("values",))
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    file = IndexedFile(4_000, {FIELD: opened(path)}, DriverBudget(), Metrics())
    with pytest.raises(UnansweredError, match="index of c is damaged"):
        file.values(field(kind))
    assert file.metrics.counters["indexes.ignored"] == 1
