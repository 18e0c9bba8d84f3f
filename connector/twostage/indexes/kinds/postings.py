"""Postings: row positions in the order of a hash of their values, for columns of many scattered values of any type.

About 3.5 bytes a row, whatever the type; a value is found with one or two reads of a few kilobytes. The answer is *at most*: about
one look-up in 32 finds a row of another value. NULLs are left out.

Measured on 3,000,000 rows in 8 files: `benchmarks/index_costs.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap

from twostage.indexes import bitmaps
from twostage.indexes.answer import LookupCost
from twostage.indexes.keys import hash_values, key_class
from twostage.indexes.kind import Found, non_null
from twostage.indexes.puffin import BadIndexError
from twostage.indexes.sorted_pairs import PairSorter, SortedPairs, write_pairs

if TYPE_CHECKING:
    from twostage.indexes.keys import Hashes
    from twostage.indexes.kind import BuildResources, ColumnValues, Profile
    from twostage.indexes.puffin import BlobReader, IndexWriter
    from twostage.indexes.wanted import Leaf, Wanted
    from twostage.schema import Type

_SPARE_BITS = 5
"""Bits of a hash beyond those that tell the rows apart: one look-up in 32 finds a wrong row."""
_MIN_BITS, _MAX_BITS = 12, 32
MAX_POINTS = 100_000
"""Values of an IN list; for a longer one the column is read."""


class Postings:
    """The kind ``postings``."""

    name = "postings"
    certainty = "at most"
    of_elements = False
    answers_ranges = False

    def refuses(self, kind: Type) -> str | None:
        """Return why columns of a type cannot have it."""
        return None if key_class(kind) else f"values of type {kind} are not compared"

    def estimate(self, profile: Profile) -> int:
        """Return about how many bytes it would take."""
        rows = profile.num_rows - profile.num_nulls
        return rows * (hash_bits(rows) + 3) // 8

    def build(self, values: ColumnValues, writer: IndexWriter, resources: BuildResources) -> str | None:
        """Write the postings of a column."""
        key_bits = hash_bits(values.num_rows)
        number_bits = max(1, (values.num_rows - 1).bit_length())
        sorter = PairSorter(key_bits, number_bits, resources.folder, resources.budget, values.num_rows)
        for places, array in non_null(values.chunks()):
            hashes = hash_values(array) >> np.uint64(64 - key_bits)
            sorter.add(hashes, places.astype(np.uint64))
        write_pairs(writer, values.field_id, self.name, sorter.sorted_parts(), key_bits, number_bits)
        return None

    def open(self, field_id: int, num_rows: int, reader: BlobReader) -> PostingsReader:
        """Return the reader of a column's postings."""
        return PostingsReader(SortedPairs(field_id, self.name, reader), num_rows)


class PostingsReader:
    """One column's postings."""

    def __init__(self, pairs: SortedPairs, num_rows: int) -> None:
        self._pairs = pairs
        self._num_rows = num_rows

    def find(self, leaf: Leaf, wanted: Wanted | None, reader: BlobReader) -> Found | None:  # noqa: ARG002
        """Return the rows whose hash is that of a wanted value."""
        points = _points(wanted)
        if points is None:
            return None
        _, rows = self._pairs.find(points >> np.uint64(64 - self._pairs.key_bits), reader)
        if len(rows) and int(rows.max()) >= self._num_rows:
            raise BadIndexError(f"postings have row {rows.max()} of {self._num_rows}")
        return Found(bitmaps.of_rows(rows), BitMap())

    def cost(self, leaf: Leaf, wanted: Wanted | None, reader: BlobReader) -> LookupCost | None:  # noqa: ARG002
        """Return what `find` would read."""
        points = _points(wanted)
        if points is None:
            return None
        frequent = self._pairs.min_count(points >> np.uint64(64 - self._pairs.key_bits), reader)
        share = min(1.0, frequent / max(1, self._num_rows))
        return self._pairs.cost(len(points), reader, share) + LookupCost(unsure=len(points) + frequent)


def hash_bits(num_rows: int) -> int:
    """Return how many bits of a hash are kept for a file of this many rows."""
    return min(max(num_rows.bit_length() + _SPARE_BITS, _MIN_BITS), _MAX_BITS)


def _points(wanted: Wanted | None) -> Hashes | None:
    if wanted is None or wanted.points is None or len(wanted.points) > MAX_POINTS:
        return None
    return wanted.points
