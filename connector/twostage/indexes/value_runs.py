"""Values with the bitmaps of their rows, sorted; collected chunk by chunk, whatever their number, within a budget.

Takes the non-NULL values of a column with their positions; gives (value, bitmap) pairs in the order of the values, each value
once. The rule: floats have one zero and one NaN; what exceeds the budget goes to files, and is merged range by range.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from twostage.indexes import bitmaps

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

_BUDGET_DIVISOR = 4
"""Runs of more than this part of the budget are spilled; merging a range takes as much again, twice."""
_PIVOTS = 64
"""Values of each run that the ranges' limits are chosen from, at least."""
_ROWS_AT_ONCE = 1 << 20
"""Rows whose values are sorted at once: of 65,536 at once, a value's bitmap would be made sixteen times as often, and joined again."""
_MAX_ARRAY_BYTES = 1 << 31
"""Bytes of text in an Arrow array with offsets of 32 bits."""
_BITMAPS_AT_ONCE = 1 << 14
"""Bitmaps that are Python objects at a time, while those of rows are made: those of a million values would take 130 MB."""
_OBJECT_BYTES = 100
"""Bytes of a value's bitmap as a Python object, and of the value's places in arrays."""


@dataclass(frozen=True, slots=True, eq=False)
class ValueRun:
    """Distinct values, sorted as Spark sorts them, and for each its bitmap, serialized."""

    values: pa.Array
    bitmaps: pa.Array

    @property
    def nbytes(self) -> int:
        """Bytes of memory while runs are joined, when bitmaps are Python objects."""
        return int(self.values.nbytes + self.bitmaps.nbytes) + _OBJECT_BYTES * len(self.values)


class ValueRuns:
    """Collects a column's values; `merged` gives them back.

    Args:
        folder: For what exceeds the budget.
        budget: Bytes of memory.
    """

    def __init__(self, folder: Path, budget: int) -> None:
        self._folder = folder
        self._budget = max(budget // _BUDGET_DIVISOR, 2**16)
        self._waiting: list[tuple[NDArray[np.int64], pa.Array]] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._runs: list[ValueRun] = []
        self._held = self._total = 0
        self._files = 0

    def add(self, places: NDArray[np.int64], array: pa.Array) -> None:
        """Add non-NULL values with their rows' positions in the data file."""
        nbytes = array.nbytes + places.nbytes
        if 2 * (self._waiting_bytes + nbytes) > min(self._budget, _MAX_ARRAY_BYTES):
            self._sort()
        self._waiting.append((places, array))
        self._waiting_rows += len(array)
        self._waiting_bytes += nbytes
        if self._waiting_rows >= _ROWS_AT_ONCE:
            self._sort()

    def _sort(self) -> None:
        """Make a run of the waiting values."""
        if not self._waiting:
            return
        places = np.concatenate([own for own, _ in self._waiting])
        values, codes = _distinct(normal(pa.concat_arrays([array for _, array in self._waiting])))
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
        rows = np.ascontiguousarray(places[_order(codes, len(values))], np.uint32)
        limits = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(codes, minlength=len(values)))])
        parts = [
            _bitmaps(rows, limits[a : a + _BITMAPS_AT_ONCE + 1])
            for a in range(0, len(values), _BITMAPS_AT_ONCE)
        ]
        run = ValueRun(values, pa.concat_arrays(parts))
        self._runs.append(run)
        self._held += run.nbytes
        self._total += run.nbytes
        if self._held > self._budget:
            self._spill()

    def _spill(self) -> None:
        """Write the runs in memory to a file, joined to one."""
        joined = _joined(self._runs)
        schema = pa.schema([("value", joined.values.type), ("bitmap", joined.bitmaps.type)])
        with pa.OSFile(self._path(self._files), "wb") as sink, pa.ipc.new_file(sink, schema) as file:
            file.write_batch(pa.record_batch([joined.values, joined.bitmaps], schema=schema))
        self._files += 1
        self._runs, self._held = [], 0

    def _path(self, number: int) -> str:
        return str(self._folder / f"values-{id(self):x}-{number}")

    def merged(self) -> Iterator[ValueRun]:
        """Yield all values in order, in runs that the budget holds."""
        self._sort()
        runs = [*self._spilled(), *self._runs]
        if not runs:
            return
        ranges = max(1, -(-self._total // self._budget))
        if ranges == 1 or len(runs) == 1:
            yield _joined(runs)
            return
        pivots = _pivots(runs, ranges)
        starts = [0] * len(runs)
        for pivot in [*pivots, None]:
            ends = [len(run.values) if pivot is None else _count_less(run.values, pivot) for run in runs]
            parts = [
                ValueRun(run.values.slice(a, b - a), run.bitmaps.slice(a, b - a))
                for run, a, b in zip(runs, starts, ends, strict=True)
                if b > a
            ]
            starts = ends
            if parts:
                yield _joined(parts)

    def _spilled(self) -> list[ValueRun]:
        """Return the runs in files, mapped."""
        found = []
        for number in range(self._files):
            table = pa.ipc.open_file(pa.memory_map(self._path(number))).read_all()
            found.append(ValueRun(table.column(0).combine_chunks(), table.column(1).combine_chunks()))
        return found


def normal(array: pa.Array) -> pa.Array:
    """Return values in which equal ones have the same bits: no -0.0, one NaN.

    >>> normal(pa.array([-0.0, 0.0])).to_pylist()
    [0.0, 0.0]
    """
    if pa.types.is_floating(array.type):
        values = array.to_numpy() + array.type.to_pandas_dtype()(0)
        values[np.isnan(values)] = np.nan
        return pa.array(values, array.type, from_pandas=False)
    return array


def _distinct(array: pa.Array) -> tuple[pa.Array, NDArray[np.int64]]:
    """Return an array's values, sorted, and for each element the place of its value among them."""
    encoded = array.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return encoded.dictionary.take(pa.array(order)), ranks[encoded.indices.to_numpy()]


def _bitmaps(rows: NDArray[np.uint32], limits: NDArray[np.int64]) -> pa.Array:
    """Return bitmaps, serialized, of the rows between each two limits."""
    places = limits.tolist()
    parts = [bitmaps.serialize(bitmaps.of_rows(rows[a:b])) for a, b in itertools.pairwise(places)]
    return pa.array(parts, pa.large_binary())


def _order(codes: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the stable order of numbers below `count`: those of 16 bits NumPy sorts by radix."""
    return np.argsort(codes.astype(np.uint16) if count <= 1 << 16 else codes, kind="stable")


def _joined(runs: list[ValueRun]) -> ValueRun:
    """Return runs joined to one: each value once, with all its rows."""
    if len(runs) == 1:
        return runs[0]
    values, codes = _distinct(pa.concat_arrays([run.values for run in runs]))
    parts = pa.concat_arrays([run.bitmaps for run in runs])
    order = _order(codes, len(values))
    ends = np.cumsum(np.bincount(codes, minlength=len(values))).tolist()
    joined, start = [], 0
    for end in ends:
        own = [parts[place].as_py() for place in order[start:end].tolist()]
        joined.append(
            own[0]
            if len(own) == 1
            else bitmaps.serialize(BitMap.union(*(BitMap.deserialize(one) for one in own)))
        )
        start = end
    return ValueRun(values, pa.array(joined, pa.large_binary()))


def _pivots(runs: list[ValueRun], ranges: int) -> list[pa.Scalar]:
    """Return values that divide all runs' values into about this many equal ranges."""
    count = max(_PIVOTS, 4 * ranges // len(runs))
    drawn = [
        run.values.take(pa.array(np.linspace(0, len(run.values) - 1, count, dtype=np.int64))) for run in runs
    ]
    sample = pa.concat_arrays(drawn)
    if pa.types.is_floating(sample.type):
        sample = sample.filter(pc.invert(pc.is_nan(sample)))
    values, _ = _distinct(sample)
    places = np.unique(np.arange(1, ranges) * len(values) // ranges).tolist()
    return [values[place] for place in places if place]


def _count_less(values: pa.Array, pivot: pa.Scalar) -> int:
    """Return how many of the values are less than the pivot; NaN, which is not, sorts last."""
    return int(pc.sum(pc.less(values, pivot)).as_py() or 0)
