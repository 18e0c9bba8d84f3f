"""Value bitmaps: for each value the bitmap of its rows, for columns of few values.

Exact, for every comparison of the column, also those that need the text itself (suffixes, lengths): they are
evaluated on the values by the same code that filters rows. The values are sorted, in blocks, so that a range, a prefix
or a list reads the blocks that may hold it; bitmaps lie in the same order. For counts, groups and wide ORs: one of few
values is found as fast in a dictionary-encoded column, which is smaller.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from twostage.formats.promotion import promote
from twostage.indexes import bitmaps
from twostage.indexes.answer import LookupCost
from twostage.indexes.dictionary_blocks import Dictionary, write_dictionary
from twostage.indexes.keys import key_class
from twostage.indexes.kind import Found, non_null
from twostage.indexes.puffin import BadIndexError, checked
from twostage.indexes.value_runs import ValueRuns
from twostage.indexes.wanted import Range
from twostage.predicates.evaluate import evaluate
from twostage.predicates.predicate import And, Compare, In
from twostage.schema import Primitive, Type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from twostage.indexes.dictionary_blocks import Block
    from twostage.indexes.kind import BuildResources, ColumnValues, Profile
    from twostage.indexes.puffin import BlobReader, IndexWriter
    from twostage.indexes.wanted import Leaf, Wanted
    from twostage.predicates.predicate import Predicate

_DENSE = 4096
"""Rows among 65,536 from which on a bitmap takes 8 kB for them."""


class Values:
    """The kind ``values``."""

    name = "values"
    certainty = "exact"
    of_elements = False
    answers_ranges = True

    def refuses(self, kind: Type) -> str | None:
        """Return why columns of a type cannot have it."""
        return None if key_class(kind) else f"values of type {kind} are not compared"

    def estimate(self, profile: Profile) -> int:
        """Return about how many bytes it would take."""
        rows, distinct = profile.num_rows - profile.num_nulls, max(1, profile.num_distinct)
        containers = max(1, -(-profile.num_rows // 65536))
        scattered = heads = 0.0
        for each, values in profile.frequencies or ((rows / distinct, distinct),):
            in_each = each / containers
            scattered += values * (each * 2 if in_each < _DENSE else containers * 8192)
            heads += values * (8 + 8 * min(containers, max(1.0, each)))
        runs = profile.num_runs * 4
        return int(min(scattered, runs) + heads + distinct * (12 + profile.value_bytes / 2))

    def build(self, values: ColumnValues, writer: IndexWriter, resources: BuildResources) -> str | None:
        """Write the bitmaps of a column."""
        runs = ValueRuns(resources.folder, resources.budget)
        for places, array in non_null(values.chunks()):
            runs.add(places, array)
        write_dictionary(
            writer,
            values.field_id,
            self.name,
            runs.merged(),
            lambda data: len(BitMap.deserialize(data)),
            resources.folder,
        )
        return None

    def open(self, field_id: int, num_rows: int, reader: BlobReader) -> ValuesReader:
        """Return the reader of a column's bitmaps."""
        return ValuesReader(Dictionary(field_id, self.name, num_rows, reader), num_rows)


class ValuesReader:
    """One column's bitmaps."""

    def __init__(self, dictionary: Dictionary, num_rows: int) -> None:
        self._dictionary = dictionary
        self._num_rows = num_rows

    def find(self, leaf: Leaf, wanted: Wanted | None, reader: BlobReader) -> Found | None:
        """Return the rows of the values for which the leaf is TRUE."""
        plain = _plain(leaf)
        chosen: list[tuple[Block, NDArray[np.int64]]] = []
        for block in self._candidates(wanted, reader):
            assert isinstance(leaf.column.type, Primitive)
            values = promote(block.values, leaf.column.type, "", str(leaf.column))
            hits = evaluate(plain, {leaf.column.field_id: values}, len(values)).true
            chosen.append((block, np.flatnonzero(hits)))
        found = self._bitmaps(chosen, reader)
        rows = BitMap.union(*found) if found else BitMap()
        return Found(rows, rows)

    def cost(self, leaf: Leaf, wanted: Wanted | None, reader: BlobReader) -> LookupCost | None:  # noqa: ARG002
        """Return what `find` would read: all bitmaps of the blocks, unless the leaf is a list of values."""
        blocks = self._dictionary.candidates(None if wanted is None else wanted.intervals)
        if not blocks:
            return LookupCost()
        values, rows = self._dictionary.nbytes(blocks)
        if wanted is not None and wanted.points is not None and self._dictionary.num_values:
            mean = self._dictionary.bitmaps.length // self._dictionary.num_values + 1
            rows = min(rows, len(wanted.points) * mean)
        return LookupCost(requests=2 * len(blocks), nbytes=values + rows)

    def counts(self, reader: BlobReader) -> tuple[list[pa.Array], NDArray[np.int64]]:
        """Return all values in order, and how many rows each has, without their bitmaps."""
        blocks = list(self._candidates(None, reader))
        rows = [block.rows for block in blocks]
        return [block.values for block in blocks], np.concatenate([np.zeros(0, np.int64), *rows])

    @property
    def num_values(self) -> int:
        """How many distinct values the column has."""
        return int(self._dictionary.num_values)

    @property
    def num_blocks(self) -> int:
        """How many blocks they are in."""
        return self._dictionary.num_blocks

    def nbytes(self) -> int:
        """Bytes of all values and bitmaps in the file."""
        return sum(self._dictionary.nbytes(list(range(self.num_blocks))))

    def block(self, number: int, reader: BlobReader) -> tuple[pa.Array, list[BitMap]]:
        """Return the values of one block with their bitmaps."""
        (block,) = self._dictionary.read([number], reader)
        return block.values, self._bitmaps([(block, np.arange(len(block.values)))], reader)

    def ends(self, reader: BlobReader) -> pa.Array:
        """Return the least and the greatest value, in an array of two; an empty one for a column of NULLs."""
        numbers = [0, self.num_blocks - 1] if self.num_values else []
        blocks = list(self._dictionary.read(numbers, reader))
        if not blocks:
            return pa.nulls(0)
        return pa.concat_arrays([blocks[0].values[:1], blocks[-1].values[-1:]])

    def _candidates(self, wanted: Wanted | None, reader: BlobReader) -> Iterator[Block]:
        numbers = self._dictionary.candidates(None if wanted is None else wanted.intervals)
        return self._dictionary.read(numbers, reader)

    def _bitmaps(self, chosen: list[tuple[Block, NDArray[np.int64]]], reader: BlobReader) -> list[BitMap]:
        """Return the bitmaps of some values of some blocks."""
        ranges: list[tuple[int, int]] = []
        expected: list[tuple[int, int]] = []
        for block, places in chosen:
            ranges += zip(block.starts[places].tolist(), block.lengths[places].tolist(), strict=True)
            expected += zip(block.crcs[places].tolist(), block.rows[places].tolist(), strict=True)
        found = []
        parts = reader.read_ranges(self._dictionary.bitmaps, ranges)
        for data, (crc, num_rows) in zip(parts, expected, strict=True):
            bitmap = bitmaps.deserialize(bytes(checked(data, crc)), self._num_rows)
            if len(bitmap) != num_rows:
                raise BadIndexError("a bitmap of another number of rows")
            found.append(bitmap)
        return found


def _plain(leaf: Leaf) -> Predicate:
    """Return the leaf that is TRUE for the wanted ones among the non-NULL values."""
    match leaf:
        case Range(low, high):
            return And((low, high))
        case Compare("<>", column, value):
            return Compare("=", column, value)
        case In(_, _, True):
            return replace(leaf, has_null=False)
    return leaf
