"""Sorted rows: row positions in the order of their values, for ranges, prefixes and keys of scattered values.

About 3.5 bytes a row, whatever the type. A range of few rows is found with one or two reads, in proportion to its rows; a
range of more than a sixteenth of the rows is not answered, as reading the column takes less time. Keys are cut to the rank
of a value's quantile and its place within it, so that only the rows whose cut keys are those of a range's ends are left to
check, about as many as `postings` find by chance. The keys of text are the eight bytes after the prefix of all values, of
which digits and letters use few bits: more rows are left to check.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap

from twostage.indexes import bitmaps
from twostage.indexes.answer import LookupCost
from twostage.indexes.key_forms import MAX_PREFIX, KeyForm, form_of, quantiles, sample_keys
from twostage.indexes.keys import key_class
from twostage.indexes.kind import Found, non_null
from twostage.indexes.kinds.postings import MAX_POINTS, hash_bits
from twostage.indexes.puffin import BadIndexError
from twostage.indexes.sorted_pairs import PairSorter, SortedPairs, write_pairs
from twostage.schema import Primitive

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from twostage.indexes.kind import BuildResources, ColumnValues, Profile
    from twostage.indexes.puffin import BlobReader, IndexWriter
    from twostage.indexes.wanted import Leaf, Wanted
    from twostage.schema import Type

    Longs = NDArray[np.int64]
    Words = NDArray[np.uint64]

_BIN_BITS = 8
MAX_SHARE_FOUND = 1 / 16
"""Share of the rows; making the bitmap of more takes longer than reading the column."""
_ROWS_FOUND_ANYWAY = 4096
"""Rows that are found whatever share they are."""
_TEXT_KEYS = 16
"""Distinct keys that a quantile of text has at least; numbers have as many as rows, or are exact."""
_HEAD = struct.Struct("<HBBH")
_LEAST, _GREATEST = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True, eq=False)
class Scale:
    """Cuts keys to a few bits: the quantile that they lie in, and their place within it.

    Attributes:
        edges: int64, ascending: the least key of all, and the greatest key of each quantile.
        key_bits: Of a cut key.
    """

    edges: Longs
    key_bits: int

    @property
    def _inner(self) -> int:
        return self.key_bits - _BIN_BITS

    @property
    def _firsts(self) -> Words:
        """The least key that each quantile may have, as uint64: distances from it wrap."""
        firsts = (self.edges[:-1].view(np.uint64) + np.uint64(1)).copy()
        firsts[0] = self.edges[:1].view(np.uint64)[0]
        return firsts

    @property
    def _shifts(self) -> Words:
        """By how many bits keys of each quantile are cut."""
        spans = self.edges[1:].view(np.uint64) - self._firsts
        return np.array([max(0, int(span).bit_length() - self._inner) for span in spans], np.uint64)

    def bins(self, cut: Words) -> Longs:
        """Return the quantiles of cut keys."""
        return (cut >> np.uint64(self._inner)).astype(np.int64)

    def cut(self, keys: Longs) -> tuple[Words, Words, Words]:
        """Return keys cut, in the same order: uint64.

        Args:
            keys: From the least to the greatest key of all.

        Returns:
            The cut keys; what was cut off; and the most that it could be.
        """
        bins = np.searchsorted(self.edges[1:-1], keys, "left")
        shifts = self._shifts[bins]
        distances = keys.view(np.uint64) - self._firsts[bins]
        cut = (bins.astype(np.uint64) << np.uint64(self._inner)) | (distances >> shifts)
        masks = (np.uint64(1) << shifts) - np.uint64(1)
        return cut, distances & masks, masks

    def limits(self, cut: Words, *, lower: bool) -> Longs:
        """Return the least (or the greatest) keys that are cut to these: int64, in their order."""
        bins = self.bins(cut)
        if len(bins) and int(bins.max()) >= len(self.edges) - 1:
            raise BadIndexError("a key for a quantile that does not exist")
        shifts = self._shifts[bins]
        inner = np.uint64((1 << self._inner) - 1)
        starts = self._firsts[bins] + ((cut & inner) << shifts)
        if lower:
            return starts.view(np.int64)
        ends = (starts + ((np.uint64(1) << shifts) - np.uint64(1))).view(np.int64)
        # The last cut of a quantile may go beyond it, and beyond 64 bits.
        return np.where(
            (ends < starts.view(np.int64)) | (ends > self.edges[bins + 1]), self.edges[bins + 1], ends
        )


class SortedRows:
    """The kind ``sorted``."""

    name = "sorted"
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
        rows = profile.num_rows - profile.num_nulls
        return rows * (hash_bits(rows) + 3) // 8

    def build(self, values: ColumnValues, writer: IndexWriter, resources: BuildResources) -> str | None:
        """Write the rows of a column."""
        form = form_of(values)
        sample = sample_keys(values, form)
        if sample is None:
            return "decimals beyond 64 bits"
        least, greatest = _GREATEST, _LEAST
        for _, array in non_null(values.chunks()):
            keys = form.keys(array)
            assert keys is not None
            least, greatest = min(least, int(keys.min())), max(greatest, int(keys.max()))
        inner = quantiles(sample, 1 << _BIN_BITS)
        edges = np.array([least, *inner.tolist(), greatest], np.int64)
        scale = Scale(edges, hash_bits(values.num_rows))
        counts = np.zeros(len(edges) - 1, np.int64)
        number_bits = max(1, (values.num_rows - 1).bit_length())
        sorter = PairSorter(scale.key_bits, number_bits, resources.folder, resources.budget, values.num_rows)
        for places, array in non_null(values.chunks()):
            keys = form.keys(array)
            assert keys is not None
            cut = scale.cut(keys)[0]
            counts += np.bincount(scale.bins(cut), minlength=len(counts))
            sorter.add(cut, places.astype(np.uint64))
        write_pairs(writer, values.field_id, self.name, sorter.sorted_parts(), scale.key_bits, number_bits)
        prefix = form.prefix or b""
        head = _HEAD.pack(len(edges), scale.key_bits, form.prefix is not None, len(prefix))
        scale_bytes = head + prefix + edges.tobytes() + counts.tobytes()
        writer.add(values.field_id, self.name, "scale", scale_bytes, at_end=True)
        return None

    def open(self, field_id: int, num_rows: int, reader: BlobReader) -> SortedRowsReader:
        """Return the reader of a column's rows."""
        data = reader.whole(reader.blob(field_id, self.name, "scale"))
        if len(data) < _HEAD.size:
            raise BadIndexError("sorted rows without a scale")
        count, key_bits, is_text, prefix_bytes = _HEAD.unpack_from(data)
        start = _HEAD.size + prefix_bytes
        pairs = SortedPairs(field_id, self.name, reader)
        fits = (
            2 <= count <= (1 << _BIN_BITS) + 1
            and len(data) == start + 8 * (2 * count - 1)
            and prefix_bytes <= MAX_PREFIX
            and key_bits == pairs.key_bits
            and key_bits > _BIN_BITS
        )
        if not fits:
            raise BadIndexError("inconsistent sorted rows")
        edges = np.frombuffer(data, np.int64, count, start)
        counts = np.frombuffer(data, np.int64, count - 1, start + 8 * count)
        if pairs.count and (bool((edges[1:] < edges[:-1]).any()) or int(counts.sum()) != pairs.count):
            raise BadIndexError("an inconsistent scale")
        form = KeyForm(data[_HEAD.size : start] if is_text else None)
        return SortedRowsReader(form, Scale(edges, key_bits), counts, pairs, num_rows)


@dataclass(frozen=True, slots=True, eq=False)
class _Cuts:
    """Cut keys of intervals: from `low` to `high` they are possible, between these certain, and at an end where its flag says so."""

    low: Words
    high: Words
    low_certain: NDArray[np.bool_]
    high_certain: NDArray[np.bool_]


class SortedRowsReader:
    """One column's sorted rows."""

    def __init__(self, form: KeyForm, scale: Scale, counts: Longs, pairs: SortedPairs, num_rows: int) -> None:
        self._form = form
        self._scale = scale
        self._counts = counts
        self._pairs = pairs
        self._num_rows = num_rows

    @property
    def count(self) -> int:
        """How many rows have a value."""
        return int(self._pairs.count)

    def best(self, count: int, reader: BlobReader, *, last: bool) -> Longs:
        """Return bounds of the least (`last`: greatest) numbers of `count` rows, best first: int64 keys.

        At place i, at least i + 1 rows have a number as good as the key or better.
        """
        if self._form.prefix is not None:
            raise BadIndexError("sorted rows of another type")
        cut = self._pairs.ends(count, reader, last=last)
        keys = self._scale.limits(cut, lower=last)
        return keys[::-1] if last else keys

    def find(self, leaf: Leaf, wanted: Wanted | None, reader: BlobReader) -> Found | None:  # noqa: ARG002
        """Return the rows whose keys are those of wanted values."""
        cuts = self._cuts(wanted)
        if cuts is None or self._is_wide(self._count(cuts)):
            return None
        keys, rows = self._pairs.find_between(cuts.low, cuts.high, reader)
        if len(rows) and int(rows.max()) >= self._num_rows:
            raise BadIndexError(f"sorted rows have row {rows.max()} of {self._num_rows}")
        if not len(rows):
            return Found(BitMap(), BitMap())
        own = np.searchsorted(cuts.low, keys, "right") - 1
        certain = ((keys > cuts.low[own]) | cuts.low_certain[own]) & (
            (keys < cuts.high[own]) | cuts.high_certain[own]
        )
        # Two intervals may end and begin at one cut key.
        shared = np.isin(keys, cuts.high[:-1][cuts.high[:-1] == cuts.low[1:]])
        return Found(bitmaps.of_rows(rows), bitmaps.of_rows(rows[certain & ~shared]))

    def cost(self, leaf: Leaf, wanted: Wanted | None, reader: BlobReader) -> LookupCost | None:
        """Return about what `find` would read."""
        del leaf
        cuts = self._cuts(wanted)
        if cuts is None:
            return None
        count = self._count(cuts)
        if self._is_wide(count):
            return None
        cost = self._pairs.cost(len(cuts.low), reader, count / max(1, self._num_rows))
        ends = int((~cuts.low_certain).sum() + (~cuts.high_certain).sum())
        each = 1 if self._form.prefix is None else self._num_rows // (len(self._counts) * _TEXT_KEYS) + 1
        return cost + LookupCost(unsure=ends * each)

    def _is_wide(self, count: float) -> bool:
        return count > max(_ROWS_FOUND_ANYWAY, MAX_SHARE_FOUND * self._num_rows)

    def _count(self, cuts: _Cuts) -> float:
        """Return about how many rows intervals hold.

        A quantile of more than twice the usual rows has one very frequent value: it counts as a whole.
        """
        counts = self._counts.astype(np.float64)
        usual = 2 * self._num_rows / 2**_BIN_BITS
        before = np.concatenate([[0.0], np.cumsum(counts)])
        inner = 2.0 ** (self._scale.key_bits - _BIN_BITS)
        first, last = self._scale.bins(cuts.low), self._scale.bins(cuts.high)
        place = (cuts.high.astype(np.float64) + 1) / inner - last
        start = cuts.low.astype(np.float64) / inner - first
        is_heavy_first, is_heavy_last = counts[first] > usual, counts[last] > usual
        low = before[first] + np.where(is_heavy_first, 0.0, start * counts[first])
        high = before[last] + np.where(is_heavy_last, 1.0, place) * counts[last]
        return float((high - low).sum())

    def _cuts(self, wanted: Wanted | None) -> _Cuts | None:
        """Return the cut keys of the wanted values; None where keys cannot tell."""
        if wanted is None or len(wanted.intervals) > MAX_POINTS:
            return None
        if (self._form.prefix is not None) != (wanted.key_class == "text"):
            raise BadIndexError("sorted rows of another type")
        edges = self._scale.edges
        least, greatest = int(edges[0]), int(edges[-1])
        limits = []
        for interval in wanted.intervals:
            first, last, _ = self._form.limits(interval)
            if first <= last and first <= greatest and last >= least:
                limits.append((first, last))
        lows, highs = (np.array([pair[place] for pair in limits], object) for place in (0, 1))
        low, low_off, _ = self._scale.cut(np.maximum(lows, least).astype(np.int64))
        high, high_off, masks = self._scale.cut(np.minimum(highs, greatest).astype(np.int64))
        if self._form.prefix is not None:  # for the ends' own keys only the text decides
            return _Cuts(low, high, (lows < least).astype(bool), (highs > greatest).astype(bool))
        return _Cuts(low, high, low_off == 0, (high_off == masks) | (highs >= greatest).astype(bool))
