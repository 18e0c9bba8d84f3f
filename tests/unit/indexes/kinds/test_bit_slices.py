"""Bit slices: sums, extremes and ranges of any rows are those of the values themselves."""

from __future__ import annotations

import random
from decimal import Decimal

import pyarrow as pa
import pytest
from pyroaring import BitMap

from index_columns import FIELD, Values, build, check, opened
from twostage.columns import arrow_type
from twostage.indexes.data_file_index import DataFileIndex
from twostage.indexes.kinds.bit_slices import BitSlices, BitSlicesReader, SlicedColumn
from twostage.metrics import Metrics
from twostage.predicates.predicate import Column, Compare, In
from twostage.schema import Field, List, Primitive

LONG = Primitive("long")
LEAST, GREATEST = -(2**63), 2**63 - 1


def sliced(index: DataFileIndex) -> SlicedColumn:
    found = index.of_kind(FIELD, BitSlicesReader, lambda kind, reader: kind.read(reader), Metrics())
    assert found is not None
    return found


def compare(column: SlicedColumn, values: list[int | None], drawn: random.Random) -> None:
    """Compare sums and extremes of some rows with those of the values."""
    present = [row for row, value in enumerate(values) if value is not None]
    for share in (1.0, 0.5, 0.01):
        rows = [row for row in present if drawn.random() < share]
        own = [values[row] for row in rows]
        assert column.sum(BitMap(rows)) == sum(own)
        if own:
            assert column.extreme(BitMap(rows), last=False) == min(own)
            assert column.extreme(BitMap(rows), last=True) == max(own)


POOLS = {
    "one value": [7],
    "zero": [0],
    "negative": range(-90, -20),
    "around zero": range(-5, 6),
    "the ends of a long": [LEAST, LEAST + 1, -1, 0, GREATEST - 1, GREATEST],
    "a power of two": [0, 255, 256, 511],
}


@pytest.mark.parametrize("budget", [2**28, 2**14], ids=["at once", "slice by slice"])
@pytest.mark.parametrize("pool", POOLS)
def test_sums_and_extremes(tmp_path, pool, budget):
    drawn = random.Random(f"{pool} {budget}")
    values = [drawn.choice(POOLS[pool]) if drawn.random() < 0.9 else None for _ in range(2**16 + 1000)]
    index = opened(
        build(tmp_path, Values(pa.array(values, pa.int64()), LONG, chunk=999), ("slices",), budget)
    )
    compare(sliced(index), values, drawn)
    column = Column(FIELD, ("x",), LONG)
    for value in (*POOLS[pool][:3], LEAST, GREATEST, 8, 300):
        for op in ("=", "<>", "<", ">="):
            answer = check(index, Compare(op, column, value), pa.array(values, pa.int64()))
            assert answer.is_exact
    assert check(index, In(column, (7, 256, -1, 0)), pa.array(values, pa.int64())).is_exact
    assert check(index, In(column, tuple(range(100))), pa.array(values, pa.int64())) is None


@pytest.mark.parametrize("rows", [0, 1, 63, 64, 65, 2**16 - 1, 2**16, 2**16 + 1])
def test_numbers_of_rows_at_the_edges_of_words_and_containers(tmp_path, rows):
    drawn = random.Random(rows)
    values = [drawn.randrange(-1000, 1000) for _ in range(rows)]
    index = opened(build(tmp_path, Values(pa.array(values, pa.int64()), LONG, chunk=100), ("slices",)))
    compare(sliced(index), values, drawn)


@pytest.mark.parametrize("rows", [0, 1, 100])
def test_only_nulls(tmp_path, rows):
    index = opened(build(tmp_path, Values(pa.nulls(rows, pa.int64()), LONG), ("slices",)))
    column = sliced(index)
    assert (column.slices, column.sum(BitMap())) == ([], 0)
    assert not check(index, Compare("=", Column(FIELD, ("x",), LONG), 0), pa.nulls(rows, pa.int64())).possible


@pytest.mark.parametrize("name", ["int", "date", "timestamp", "timestamptz"])
def test_every_whole_number(tmp_path, name):
    drawn = random.Random(name)
    kind = Primitive(name)
    width = 32 if name in ("int", "date") else 64
    numbers = [drawn.randrange(-(10**6), 10**6) for _ in range(500)]
    array = pa.array(numbers, pa.int32() if width == 32 else pa.int64()).cast(arrow_type(kind))
    compare(sliced(opened(build(tmp_path, Values(array, kind), ("slices",)))), numbers, drawn)


def test_decimals_are_unscaled_numbers_if_they_fit_64_bits(tmp_path):
    drawn = random.Random(1)
    kind = Primitive("decimal", precision=20, scale=3)
    numbers = [drawn.randrange(-(10**18), 10**18) for _ in range(500)]
    array = pa.array([Decimal(number).scaleb(-3) for number in numbers], pa.decimal128(20, 3))
    compare(sliced(opened(build(tmp_path, Values(array, kind), ("slices",)))), numbers, drawn)
    wide = pa.array([Decimal(10**19).scaleb(-3), Decimal(0)], pa.decimal128(20, 3))
    index = opened(build(tmp_path, Values(wide, kind), ("slices",), name="wide.puffin"))
    assert index.kinds(FIELD) == ()


def test_it_takes_as_many_bitmaps_as_the_spread_has_bits(tmp_path):
    rows = 2**17
    array = pa.array([10**15 + number * number % 251 for number in range(rows)])
    path = build(tmp_path, Values(array, LONG), ("slices",))
    assert len(sliced(opened(path)).slices) == 8
    assert path.stat().st_size < 8 * rows / 8 + 2_000


def test_what_it_refuses():
    of = BitSlices().refuses
    assert of(Primitive("string")) == "values of type string are not whole numbers"
    assert of(Primitive("double")) is not None
    assert of(Primitive("boolean")) is not None
    assert of(List(Field(id=2, name="element", type=LONG))) is not None
    assert of(Primitive("decimal", precision=38, scale=2)) is None  # the values decide


def test_a_smaller_index_is_read_where_rows_can_be_checked(tmp_path):
    drawn = random.Random(2)
    array = pa.array([drawn.randrange(2**40) for _ in range(200_000)])
    index = opened(build(tmp_path, Values(array, LONG), ("postings", "slices")))
    leaf = Compare("=", Column(FIELD, ("x",), LONG), array[77].as_py())
    assert index.find(leaf, Metrics()).kinds == ("postings",)
    assert index.find(leaf, Metrics(), exactly=True).kinds == ("slices",)
    assert index.cost(leaf, Metrics()).nbytes * 4 < index.cost(leaf, Metrics(), exactly=True).nbytes
