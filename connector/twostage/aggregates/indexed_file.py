"""What the indexes of one data file say about its columns: where they are NULL, which values they have and in which rows.

Takes the open indexes of a data file; gives bitmaps of row positions, and values in the internal form of `schema.py`. The
rules: deletes are not applied here; what is read and compared is charged to a budget, because the driver does it for all
files, and what exceeds the budget is not answered (`UnansweredError`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from twostage.aggregates.sums import Sum, sum_of
from twostage.errors import TwoStageError
from twostage.formats.promotion import promote
from twostage.indexes.keys import is_same_domain, value_of_key
from twostage.indexes.kinds.bit_slices import BitSlices, BitSlicesReader
from twostage.indexes.kinds.values import Values, ValuesReader
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyroaring import BitMap

    from twostage.indexes.data_file_index import DataFileIndex, ValueCounts
    from twostage.indexes.kind import KindReader
    from twostage.indexes.kinds.bit_slices import SlicedColumn
    from twostage.indexes.puffin import BlobReader
    from twostage.metrics import Metrics
    from twostage.schema import Field

Result = TypeVar("Result")
Kind = TypeVar("Kind", bound="KindReader")
MAX_BYTES = 64 * 2**20
"""Bytes of indexes that the driver reads for one query: 0.1 s of reading and decoding."""
MAX_CONTAINERS = 2**19
"""Containers of bitmaps, of 65,536 rows each, that are compared for one query: about 1 µs for one."""
MAX_BITMAPS = 10_000
"""Bitmaps of one column of a data file that are decoded: 2 to 5 µs for a small one."""
MAX_LISTED = 100_000
"""Values of one column of a data file that are listed without their bitmaps."""


class UnansweredError(Exception):
    """Why indexes do not answer for a data file; it is read."""


@dataclass(slots=True)
class DriverBudget:
    """What the driver may still do for one query; threads that share it may exceed it a little."""

    nbytes: int = MAX_BYTES
    containers: int = MAX_CONTAINERS

    def read(self, nbytes: int) -> None:
        """Pay for reading some bytes.

        Raises:
            UnansweredError: There are not that many left.
        """
        self.nbytes -= nbytes
        if self.nbytes < 0:
            raise UnansweredError(f"more than {MAX_BYTES >> 20} MiB of indexes would have to be read first")

    def compare(self, bitmaps: int, num_rows: int) -> None:
        """Pay for comparing this many pairs of bitmaps.

        Raises:
            UnansweredError: There are not that many left.
        """
        self.containers -= bitmaps * (1 + num_rows // 65536)
        if self.containers < 0:
            raise UnansweredError("too many bitmaps would have to be compared first")


class IndexedFile:
    """The indexes of one data file.

    Args:
        num_rows: Of the data file.
        indexes: By field id; without columns whose value the partition decides.
        budget: Of the query.
        metrics: Gains warnings.
    """

    def __init__(
        self, num_rows: int, indexes: Mapping[int, DataFileIndex], budget: DriverBudget, metrics: Metrics
    ) -> None:
        self.num_rows = num_rows
        self.indexes = indexes
        self.budget = budget
        self.metrics = metrics
        self._columns: dict[int, list[tuple[Any, BitMap]]] = {}
        self._slices: dict[int, SlicedColumn] = {}

    def nulls(self, field: Field) -> BitMap:
        """Return the rows in which a column is NULL.

        Raises:
            UnansweredError: It has no index.
        """
        index = self.indexes.get(field.id)
        found = None if index is None else index.nulls(field.id, self.metrics)
        if found is None:
            raise UnansweredError(f"a file has no index of {field.name}")
        return found

    def values(self, field: Field) -> list[tuple[Any, BitMap]]:
        """Return a column's values in ascending order, each with its rows.

        Raises:
            UnansweredError: It has no bitmaps of values, or too many.
        """
        if field.id not in self._columns:
            array, rows = self.arrays(field)
            self._columns[field.id] = list(zip(_internal(array, field), rows, strict=True))
        return self._columns[field.id]

    def counts(self, field: Field) -> tuple[list[Any], list[int], int]:
        """Return a column's values in ascending order, the number of rows of each, and that of NULLs; reads no bitmaps.

        Raises:
            UnansweredError: It has no bitmaps of values, or too many.
        """
        index = self._index_of_values(field)

        def size(kind: ValuesReader, _: BlobReader) -> int:
            return kind.num_values

        num_values = self._ask(index, field, ValuesReader, size)
        if num_values is not None and num_values > MAX_LISTED:
            raise UnansweredError(f"{field.name} has more than {MAX_LISTED:,} values in a file")
        found: ValueCounts | None = index.value_counts(field.id, self.metrics)
        if found is None:
            raise UnansweredError(f"a file's index of {field.name} is damaged")
        return _internal(found.values, field), found.counts.tolist(), found.nulls

    def extreme(self, field: Field, rows: BitMap, *, last: bool) -> Any:
        """Return the least (the `last`: the greatest) value of a column in some rows; None if all are NULL there.

        Raises:
            UnansweredError: It has no bitmaps of values, or it takes too many to find it.
        """
        sliced = None if self._has(field, Values.name) else self._sliced(field)
        if sliced is not None:
            present = rows - self.nulls(field)
            self.budget.compare(len(sliced.slices), self.num_rows)
            assert isinstance(field.type, Primitive)
            return value_of_key(sliced.extreme(present, last=last), field.type) if present else None
        index = self._index_of_values(field)
        is_whole = len(rows) == self.num_rows
        if not is_whole and self._is_small(index, field):  # cached for the next call
            values = self.values(field)
            self.budget.compare(len(values), self.num_rows)
            ordered = reversed(values) if last else iter(values)
            return next((value for value, own in ordered if own.intersect(rows)), None)

        def find(kind: ValuesReader, reader: BlobReader) -> pa.Array | str:
            if is_whole or not kind.num_values:
                ends = kind.ends(reader)
                return ends[len(ends) - 1 :] if last else ends[:1]
            seen = 0
            numbers = range(kind.num_blocks)
            for number in reversed(numbers) if last else numbers:
                self.budget.read(kind.nbytes() // kind.num_blocks)
                array, parts = kind.block(number, reader)
                self.budget.compare(len(parts), self.num_rows)
                places = range(len(parts))
                for place in reversed(places) if last else places:
                    if parts[place].intersect(rows):
                        return array[place : place + 1]
                seen += len(parts)
                if seen > MAX_BITMAPS:
                    return f"the extreme of {field.name} comes after more than {MAX_BITMAPS:,} other values"
            return array[:0]

        found = self._ask(index, field, ValuesReader, find)
        if found is None or isinstance(found, str):
            raise UnansweredError(found or f"a file's index of {field.name} is damaged")
        return _internal(found, field)[0] if len(found) else None

    def sum(self, field: Field, rows: BitMap) -> Sum:
        """Return the sum of a column in some rows: one or more, none of which is NULL.

        Raises:
            UnansweredError: It has neither bit slices nor bitmaps of values, or too many.
        """
        sliced = self._sliced(field)
        if sliced is not None:
            self.budget.compare(len(sliced.slices), self.num_rows)
            value = sliced.sum(rows)
            if sliced.least >= 0 or sliced.greatest <= 0:
                return Sum(value, abs(value))
            return Sum(value, max(-sliced.least, sliced.greatest) * len(rows))
        nulls = self.nulls(field)
        if len(rows) == self.num_rows - len(nulls):
            values, counts, _ = self.counts(field)
            return sum_of(field.type, zip(values, counts, strict=True))
        known = self.values(field)
        self.budget.compare(len(known), self.num_rows)
        return sum_of(field.type, ((value, int(own.intersection_cardinality(rows))) for value, own in known))

    def arrays(self, field: Field) -> tuple[pa.Array, list[BitMap]]:
        """Return a column's values in ascending order as an array of the scan's type, and the rows of each.

        Raises:
            UnansweredError: It has no bitmaps of values, or too many.
        """
        index = self._index_of_values(field)

        def read(kind: ValuesReader, reader: BlobReader) -> list[tuple[pa.Array, list[BitMap]]] | str:
            if kind.num_values > MAX_BITMAPS:
                return f"{field.name} has more than {MAX_BITMAPS:,} values in a file"
            self.budget.read(kind.nbytes())
            return [kind.block(number, reader) for number in range(kind.num_blocks)]

        found = self._ask(index, field, ValuesReader, read)
        if found is None or isinstance(found, str):
            raise UnansweredError(found or f"a file's index of {field.name} is damaged")
        parts = [_promoted(array, field) for array, _ in found]
        array = pa.concat_arrays(parts) if parts else pa.nulls(0)
        rows: list[BitMap] = [one for _, bitmaps in found for one in bitmaps]
        return array, rows

    def _ask(
        self,
        index: DataFileIndex,
        field: Field,
        kind: type[Kind],
        ask: Callable[[Kind, BlobReader], Result],
    ) -> Result | None:
        """Return what `ask` returns for a column's reader of one class, counting what is read; None if the index is bad."""

        def counted(kind: Kind, reader: BlobReader) -> Result:
            try:
                return ask(kind, reader)
            finally:
                self.metrics.add("indexes.bytes_read", reader.cost.nbytes)

        return index.of_kind(field.id, kind, counted, self.metrics)

    def _sliced(self, field: Field) -> SlicedColumn | None:
        """Return the bit slices of a column; None if it has none.

        Raises:
            UnansweredError: They are too large, damaged, or of a type whose values have other keys now.
        """
        if field.id in self._slices:
            return self._slices[field.id]
        if not self._has(field, BitSlices.name):
            return None
        built = self.indexes[field.id].type_of(field.id, self.metrics)
        assert isinstance(field.type, Primitive)
        if built is None or not is_same_domain(built, field.type):
            raise UnansweredError(f"a file's index of {field.name} is of another type")

        def read(kind: BitSlicesReader, reader: BlobReader) -> SlicedColumn:
            self.budget.read(kind.nbytes)
            return kind.read(reader)

        found = self._ask(self.indexes[field.id], field, BitSlicesReader, read)
        if found is None:
            raise UnansweredError(f"a file's index of {field.name} is damaged")
        self._slices[field.id] = found
        return found

    def _has(self, field: Field, kind: str) -> bool:
        index = self.indexes.get(field.id)
        return index is not None and kind in index.kinds(field.id)

    def _is_small(self, index: DataFileIndex, field: Field) -> bool:
        """Tell whether a column's values are one block at most."""

        def count(kind: ValuesReader, _: BlobReader) -> int:
            return kind.num_blocks

        return field.id in self._columns or (self._ask(index, field, ValuesReader, count) or 0) == 1

    def _index_of_values(self, field: Field) -> DataFileIndex:
        index = self.indexes.get(field.id)
        if index is None or not self._has(field, Values.name):
            raise UnansweredError(f"a file has no bitmaps of the values of {field.name}")
        return index


def _promoted(array: pa.Array, field: Field) -> pa.Array:
    assert isinstance(field.type, Primitive)
    try:
        return promote(array, field.type, "", field.name)
    except TwoStageError:
        raise UnansweredError(f"a file's index of {field.name} is of another type") from None


def _internal(array: pa.Array, field: Field) -> list[Any]:
    """Return values in internal form; NaN is the same object each time."""
    assert isinstance(field.type, Primitive)
    name = field.type.name
    array = _promoted(array, field)
    if name == "date":
        return list(array.cast(pa.int32()).to_pylist())
    if name in ("timestamp", "timestamptz"):
        return list(array.cast(pa.int64()).to_pylist())
    if name in ("float", "double"):
        return [math.nan if math.isnan(value) else value for value in array.to_pylist()]
    return list(array.to_pylist())
