"""Bit slices: for each bit of a whole number the bitmap of the rows that have it set, for sums, extremes and exact ranges.

A value is stored as its distance from the least one, so that a column takes as many bitmaps as that distance has bits. A
sum of any rows is then a few counts of common rows, whatever the values, and a comparison is exact. Whole numbers are
integers, dates, timestamps, and decimals that fit 64 bits.

Source: O'Neil and Quass, Improved Query Performance with Variant Indexes, 1997 (bit-sliced indexes); Rinfret, O'Neil,
O'Neil, Bit-Sliced Index Arithmetic, 2001.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap

from twostage.indexes import bitmaps
from twostage.indexes.answer import LookupCost
from twostage.indexes.keys import key_class, order_keys
from twostage.indexes.kind import Found, non_null
from twostage.indexes.puffin import BadIndexError, checked
from twostage.schema import Primitive
from twostage_native.bit_packing import pack_slices

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from twostage.indexes.kind import BuildResources, ColumnValues, Profile
    from twostage.indexes.puffin import BlobReader, IndexWriter
    from twostage.indexes.wanted import Leaf, Wanted
    from twostage.schema import Type

_HEAD = struct.Struct("<IBqq")
"""Rows, slices, the least and the greatest value."""
_BITS = 64
MAX_INTERVALS = 16
"""Intervals of a list of values: each takes as long as a range."""


class BitSlices:
    """The kind ``slices``."""

    name = "slices"
    certainty = "exact"
    of_elements = False
    answers_ranges = True

    def refuses(self, kind: Type) -> str | None:
        """Return why columns of a type cannot have it."""
        if kind == Primitive("boolean"):
            return "a boolean has two values"
        is_whole = key_class(kind) in ("integer", "decimal")
        return None if is_whole else f"values of type {kind} are not whole numbers"

    def estimate(self, profile: Profile) -> int:
        """Return about how many bytes it would take if the values were dense."""
        return profile.num_rows * min(_BITS, max(1, profile.num_distinct).bit_length()) // 8

    def build(self, values: ColumnValues, writer: IndexWriter, resources: BuildResources) -> str | None:
        """Write the slices of a column, the highest bit first; reads it once for each batch of slices that the budget holds."""
        limits = _limits(values)
        if limits is None:
            return "decimals beyond 64 bits"
        least, greatest = limits
        bits = (greatest - least).bit_length()
        at_once = max(1, resources.budget // 4 // max(1, values.num_rows // 8))
        lengths, sums = np.zeros(bits, np.uint64), np.zeros(bits, np.uint32)

        def slices() -> Iterator[bytes]:
            for first in range(0, bits, at_once):
                count = min(at_once, bits - first)
                codes = _codes(values, least, shift=bits - first - count)
                packed = pack_slices(codes, count, values.num_rows).view(np.uint64)
                for number, words in enumerate(packed, first):
                    data = bitmaps.serialize(bitmaps.of_words(words, values.num_rows))
                    lengths[number], sums[number] = len(data), bitmaps.checksum(data)
                    yield data

        writer.add(values.field_id, self.name, "slices", slices())
        head = _HEAD.pack(values.num_rows, bits, least, greatest)
        directory = head + lengths.tobytes() + sums.tobytes()
        writer.add(values.field_id, self.name, "directory", directory, at_end=True)
        return None

    def open(self, field_id: int, num_rows: int, reader: BlobReader) -> BitSlicesReader:
        """Return the reader of a column's slices."""
        data = reader.whole(reader.blob(field_id, self.name, "directory"))
        if len(data) < _HEAD.size:
            raise BadIndexError("bit slices without a directory")
        rows, bits, least, greatest = _HEAD.unpack_from(data)
        if rows != num_rows or bits > _BITS or len(data) != _HEAD.size + 12 * bits:
            raise BadIndexError("inconsistent bit slices")
        if least > greatest or (greatest - least).bit_length() != bits:
            raise BadIndexError("bit slices of other values")
        lengths = np.frombuffer(data, np.uint64, bits, _HEAD.size).tolist()
        sums = np.frombuffer(data, np.uint32, bits, _HEAD.size + 8 * bits).tolist()
        return BitSlicesReader(field_id, num_rows, (least, greatest), lengths, sums)


class BitSlicesReader:
    """One column's slices in an open file.

    Attributes:
        nbytes: Of all slices.
        num_slices: How many there are.
    """

    def __init__(
        self, field_id: int, num_rows: int, limits: tuple[int, int], lengths: list[int], sums: list[int]
    ) -> None:
        self._field_id = field_id
        self._num_rows = num_rows
        self._limits = limits
        self._lengths, self._sums = lengths, sums
        self.nbytes = sum(lengths)
        self.num_slices = len(lengths)

    def find(self, leaf: Leaf, wanted: Wanted | None, reader: BlobReader) -> Found | None:  # noqa: ARG002
        """Return the rows of wanted values; None for lists of many."""
        codes = self._codes(wanted)
        if codes is None:
            return None
        column = self.read(reader) if codes else None
        rows = BitMap()
        for low, high in codes:
            assert column is not None
            rows |= column.between(low, high)
        return Found(rows, rows)

    def cost(self, leaf: Leaf, wanted: Wanted | None, reader: BlobReader) -> LookupCost | None:  # noqa: ARG002
        """Return what `find` would read: all slices, or nothing where no value is wanted."""
        codes = self._codes(wanted)
        if codes is None:
            return None
        return LookupCost(requests=1, nbytes=self.nbytes) if codes else LookupCost()

    def read(self, reader: BlobReader) -> SlicedColumn:
        """Read all slices."""
        blob = reader.blob(self._field_id, BitSlices.name, "slices")
        if blob.length != self.nbytes:
            raise BadIndexError("bit slices of another length")
        ends = np.cumsum([0, *self._lengths]).tolist()
        parts = reader.read_ranges(blob, list(zip(ends[:-1], self._lengths, strict=True)))
        slices = [
            bitmaps.deserialize(bytes(checked(data, crc)), self._num_rows)
            for data, crc in zip(parts, self._sums, strict=True)
        ]
        return SlicedColumn(self._num_rows, *self._limits, slices)

    def _codes(self, wanted: Wanted | None) -> list[tuple[int, int]] | None:
        """Return the intervals of distances from the least value that are wanted; None where slices cannot tell."""
        if wanted is None or len(wanted.intervals) > MAX_INTERVALS:
            return None
        if wanted.key_class not in ("integer", "decimal"):
            raise BadIndexError("bit slices of another type")
        least, greatest = self._limits
        found = []
        for interval in wanted.intervals:
            assert isinstance(interval.low, int)
            assert isinstance(interval.high, int)
            low, high = max(interval.low, least), min(interval.high, greatest)
            if low <= high:
                found.append((low - least, high - least))
        return found


@dataclass(frozen=True, slots=True, eq=False)
class SlicedColumn:
    """The slices of a column, the highest bit first; a row that is NULL is in none of them, like one of the least value.

    Attributes:
        num_rows: Of the data file.
        least: Of all values; with `greatest` the keys of `indexes.keys.order_keys`: decimals as unscaled numbers.
        greatest: Of all values.
        slices: For each bit of the distance from `least` the rows that have it set.
    """

    num_rows: int
    least: int
    greatest: int
    slices: list[BitMap]

    def between(self, low: int, high: int) -> BitMap:
        """Return the rows whose distance from the least value is `low` to `high`."""
        rows = self._at_most(high)
        return rows - self._at_most(low - 1) if low else rows

    def sum(self, rows: BitMap) -> int:
        """Return the sum of the values of some rows, all of which have one."""
        total = self.least * len(rows)
        for bit, own in enumerate(reversed(self.slices)):
            total += int(rows.intersection_cardinality(own)) << bit
        return total

    def extreme(self, rows: BitMap, *, last: bool) -> int:
        """Return the least (the `last`: the greatest) value of some rows: one or more, all of which have one."""
        left, distance = rows, 0
        for own in self.slices:
            part = left & own if last else left - own
            distance = 2 * distance + (bool(part) == last)
            left = part or left
        return self.least + distance

    def _at_most(self, bound: int) -> BitMap:
        if bound >= self.greatest - self.least:
            return bitmaps.whole(self.num_rows)
        less, equal = BitMap(), bitmaps.whole(self.num_rows)
        for bit, own in zip(range(len(self.slices) - 1, -1, -1), self.slices, strict=True):
            if bound >> bit & 1:
                less |= equal - own
                equal &= own
            else:
                equal -= own
            if not equal:
                break
        return less | equal


def _limits(values: ColumnValues) -> tuple[int, int] | None:
    """Return the least and the greatest key, zeros where all are NULL; None where some value has no key."""
    least = greatest = None
    for _, array in non_null(values.chunks()):
        keys = order_keys(array)
        if keys is None:
            return None
        low, high = int(keys.min()), int(keys.max())
        least = low if least is None else min(least, low)
        greatest = high if greatest is None else max(greatest, high)
    return least or 0, greatest or 0


def _codes(values: ColumnValues, least: int, shift: int) -> Iterator[NDArray[np.uint64]]:
    """Yield for all rows the distances from the least key without their lowest `shift` bits, 0 for NULL."""
    for chunk in values.chunks():
        codes = np.zeros(len(chunk), np.uint64)
        if chunk.null_count < len(chunk):
            keys = order_keys(chunk.drop_null() if chunk.null_count else chunk)
            assert keys is not None
            valid = chunk.is_valid().to_numpy(zero_copy_only=False) if chunk.null_count else slice(None)
            # Numbers wrap at 64 bits, so that distances of 2**63 and more are right, too.
            codes[valid] = keys.view(np.uint64) - np.uint64(least % 2**64) >> np.uint64(shift)
        yield codes
