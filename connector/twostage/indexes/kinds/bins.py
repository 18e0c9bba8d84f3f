"""Bins: for each row the number of its value's quantile bin, as eight bit slices; for ranges of scattered values.

One byte a row, whatever the type. A range is answered by reading the slices: rows of bins that lie inside are certain, those of
the two edge bins are possible. A column of at most 256 distinct values is answered exactly. Bins are intervals of keys,
in Spark's order; the keys of text are the eight bytes after the prefix of all values.

Source: O'Neil and Quass, Improved Query Performance with Variant Indexes, 1997 (bit-sliced indexes); Rinfret, O'Neil,
O'Neil, Bit-Sliced Index Arithmetic, 2001.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap

from twostage.indexes import bitmaps
from twostage.indexes.answer import LookupCost
from twostage.indexes.key_forms import KeyForm, form_of, quantiles, sample_keys
from twostage.indexes.keys import key_class
from twostage.indexes.kind import Found
from twostage.indexes.puffin import BadIndexError
from twostage.schema import Primitive
from twostage_native.bit_packing import less_equal, pack_slices

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from twostage.indexes.kind import BuildResources, ColumnValues, Profile
    from twostage.indexes.puffin import BlobReader, IndexWriter
    from twostage.indexes.wanted import Leaf, Wanted
    from twostage.schema import Type

    Longs = NDArray[np.int64]

BINS = 256
BITS = 8
_HEAD = struct.Struct("<IHBH")


class Bins:
    """The kind ``bins``."""

    name = "bins"
    certainty = "between"
    of_elements = False
    answers_ranges = True

    def refuses(self, kind: Type) -> str | None:
        """Return why columns of a type cannot have it."""
        if kind == Primitive("boolean"):
            return "a boolean has two values"
        return None if key_class(kind) else f"values of type {kind} are not ordered"

    def estimate(self, profile: Profile) -> int:
        """Return about how many bytes it would take."""
        return profile.num_rows + BINS * 16

    def build(self, values: ColumnValues, writer: IndexWriter, resources: BuildResources) -> str | None:
        """Write the slices of a column, the highest bit first; reads it once for each batch of slices that the budget holds."""
        form = form_of(values)
        sample = sample_keys(values, form)
        if sample is None:
            return "decimals beyond 64 bits"
        bounds = quantiles(sample, BINS)
        least = np.full(len(bounds) + 1, 2**63 - 1, np.int64)
        greatest = np.full(len(bounds) + 1, -(2**63), np.int64)
        at_once = min(BITS, max(1, resources.budget // 4 // max(1, values.num_rows // 8)))

        def slices() -> Iterator[bytes]:
            for first in range(0, BITS, at_once):
                count = min(at_once, BITS - first)
                shift = np.uint64(BITS - first - count)
                codes = (own >> shift for own in _codes(values, form, bounds, least, greatest))
                for part in pack_slices(codes, count, values.num_rows):
                    yield part.tobytes()

        writer.add(values.field_id, self.name, "slices", slices())
        prefix = form.prefix or b""
        head = _HEAD.pack(values.num_rows, len(least), form.prefix is not None, len(prefix))
        directory = head + prefix + least.tobytes() + greatest.tobytes()
        writer.add(values.field_id, self.name, "directory", directory, at_end=True)
        return None

    def open(self, field_id: int, num_rows: int, reader: BlobReader) -> BinsReader:
        """Return the reader of a column's slices."""
        data = reader.whole(reader.blob(field_id, self.name, "directory"))
        if len(data) < _HEAD.size:
            raise BadIndexError("bins without bounds")
        rows, count, is_text, prefix_bytes = _HEAD.unpack_from(data)
        start = _HEAD.size + prefix_bytes
        if rows != num_rows or not 0 < count <= BINS or len(data) != start + 16 * count:
            raise BadIndexError("inconsistent bins")
        least, greatest = np.frombuffer(data[start:], np.int64).reshape(2, count)
        prefix = data[_HEAD.size : start] if is_text else None
        return BinsReader(field_id, num_rows, KeyForm(prefix), least, greatest)


class BinsReader:
    """One column's slices."""

    def __init__(self, field_id: int, num_rows: int, form: KeyForm, least: Longs, greatest: Longs) -> None:
        self._field_id = field_id
        self._num_rows = num_rows
        self._form = form
        self._least, self._greatest = least, greatest

    def find(self, leaf: Leaf, wanted: Wanted | None, reader: BlobReader) -> Found | None:  # noqa: ARG002
        """Return the rows of the bins that hold wanted keys."""
        chosen = self._chosen(wanted)
        if chosen is None:
            return None
        possible, certain = chosen
        if not possible.any():
            return Found(BitMap(), BitMap())
        blob = reader.blob(self._field_id, Bins.name, "slices")
        if blob.length != self._nbytes:
            raise BadIndexError("slices of another length")
        slices = np.frombuffer(reader.whole(blob), np.uint64).reshape(BITS, -1)
        return Found(self._rows(slices, possible), self._rows(slices, certain))

    def cost(self, leaf: Leaf, wanted: Wanted | None, reader: BlobReader) -> LookupCost | None:  # noqa: ARG002
        """Return what `find` would read."""
        chosen = self._chosen(wanted)
        if chosen is None:
            return None
        if not chosen[0].any():
            return LookupCost()
        edges = int((chosen[0] & ~chosen[1]).sum())
        unsure = -(-edges * self._num_rows // len(self._least))
        return LookupCost(requests=1, nbytes=self._nbytes, unsure=unsure)

    @property
    def _nbytes(self) -> int:
        return BITS * ((self._num_rows + 63) // 64 * 8)

    def _chosen(self, wanted: Wanted | None) -> tuple[NDArray[np.bool_], NDArray[np.bool_]] | None:
        """Return which bins may hold a wanted value, and which hold no other; None for lists of many values."""
        if wanted is None or len(wanted.intervals) > BINS:
            return None
        if (self._form.prefix is not None) != (wanted.key_class == "text"):
            raise BadIndexError("bins of another type")
        possible, certain = (np.zeros(len(self._least), np.bool_) for _ in range(2))
        filled = self._least <= self._greatest
        for interval in wanted.intervals:
            low, high, is_inclusive = self._form.limits(interval)
            low, high = max(low, -(2**63)), min(high, 2**63 - 1)
            if low > high:
                continue
            possible |= filled & (self._greatest >= low) & (self._least <= high)
            if is_inclusive:
                certain |= filled & (self._least >= low) & (self._greatest <= high)
            else:
                certain |= filled & (self._least > low) & (self._greatest < high)
        return possible, certain

    def _rows(self, slices: NDArray[np.uint64], bins: NDArray[np.bool_]) -> BitMap:
        """Return the rows of these bins: for each run of bins, those up to its end and not before its start."""
        edges = np.flatnonzero(np.diff(bins.astype(np.int8), prepend=0, append=0)).reshape(-1, 2)
        rows = np.zeros(slices.shape[1], np.uint64)
        for first, end in edges.tolist():
            upto = less_equal(slices, end - 1)
            rows |= upto & ~less_equal(slices, first - 1) if first else upto
        return bitmaps.of_words(rows, self._num_rows)


def _codes(
    values: ColumnValues, form: KeyForm, bounds: Longs, least: Longs, greatest: Longs
) -> Iterator[NDArray[np.uint64]]:
    """Yield the bins of all rows, 0 for NULL; updates each bin's extremes."""
    for chunk in values.chunks():
        codes = np.zeros(len(chunk), np.uint64)
        present = chunk.drop_null() if chunk.null_count else chunk
        if len(present):
            keys = form.keys(present)
            assert keys is not None
            own = np.searchsorted(bounds, keys, "left")
            np.minimum.at(least, own, keys)
            np.maximum.at(greatest, own, keys)
            valid = chunk.is_valid().to_numpy(zero_copy_only=False) if chunk.null_count else slice(None)
            codes[valid] = own
        yield codes
