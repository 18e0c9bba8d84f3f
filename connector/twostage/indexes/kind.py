"""What a kind of index is: one module that builds it, finds rows by it, and says beforehand how large it will be.

Takes a column's values, in the order of a data file's rows; gives blobs of an index file, and from these the rows that a
leaf of a predicate is TRUE for. The rule: what a kind says is right for every row, and only as exact as it says; NULL,
NOT and three-valued logic are not its business, it sees non-NULL values alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyroaring import BitMap

    from twostage.indexes.answer import LookupCost
    from twostage.indexes.puffin import BlobReader, IndexWriter
    from twostage.indexes.wanted import Leaf, Wanted
    from twostage.schema import Primitive, Type

MAX_ROWS_OF_A_FILE = 2**32 - 1
"""Rows of a data file with an index: positions have 32 bits."""


class ColumnValues(Protocol):
    """The values of one column of a data file; they can be read several times.

    Attributes:
        field_id: The column.
        type: Its type in the scan's schema; of a list its elements', of a map its keys'.
        num_rows: Of the data file.
    """

    field_id: int
    type: Primitive
    num_rows: int

    def chunks(self) -> Iterator[pa.Array]:
        """Yield all values in the order of the rows, NULLs included, in the scan's type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildResources:
    """What building may use.

    Attributes:
        folder: For what exceeds the budget; removed afterwards.
        budget: Bytes of memory.
    """

    folder: Path
    budget: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What is known about a column before its index is built; estimates.

    Attributes:
        type: In the scan's schema.
        num_rows: Values, NULLs included.
        num_distinct: Of the non-NULL values.
        num_nulls: Rows.
        value_bytes: Mean size of a distinct value.
        num_runs: Runs of equal neighbours.
        column_bytes: The column's bytes in the data files, encoded and compressed.
        frequencies: Rows of a value, and how many values have about that many; empty: all are about equally frequent.
    """

    type: Primitive
    num_rows: int
    num_distinct: int
    num_nulls: int
    value_bytes: float
    num_runs: int
    column_bytes: int
    frequencies: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedValues:
    """How many distinct values there are among some entries, as ``advise collect`` counted; entries are not NULL.

    Attributes:
        entries: In an average row group.
        distinct: Distinct values among these.
        all_entries: In all row groups that were read.
        all_distinct: Distinct values among these.
    """

    entries: float
    distinct: float
    all_entries: float
    all_distinct: float

    def among(self, entries: float) -> float:
        """Return about how many distinct values there are among this many entries.

        >>> counted = CountedValues(entries=1e5, distinct=1e4, all_entries=1e7, all_distinct=1e5)
        >>> round(counted.among(1e6)), round(counted.among(1e7)), round(counted.among(1e3))
        (31623, 100000, 1000)
        """
        grown = math.log(max(1.0, self.all_entries / self.entries))
        power = math.log(max(1.0, self.all_distinct / self.distinct)) / grown if grown else 1.0
        return min(entries, self.distinct * math.pow(entries / self.entries, min(1.0, power)))


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Rows whose value is wanted: all that may be (`possible`), and those that are (`certain`)."""

    possible: BitMap
    certain: BitMap


class KindReader(Protocol):
    """One column's index of one kind in an open file."""

    def find(self, leaf: Leaf, wanted: Wanted | None, reader: BlobReader) -> Found | None:
        """Return the rows of a leaf's wanted values; None if this kind cannot tell.

        Args:
            leaf: One column's comparison. With ``wanted.is_negated``, find the rows of the wanted values, not of the leaf.
            wanted: The keys that the leaf asks for; None where keys cannot tell.
            reader: Of the file.

        Raises:
            BadIndexError: What was read cannot be an index.
        """

    def cost(self, leaf: Leaf, wanted: Wanted | None, reader: BlobReader) -> LookupCost | None:
        """Return what `find` would read, at most; None if it would return None."""


class IndexKind(Protocol):
    """A kind of index.

    Attributes:
        name: Lower-case letters: part of file names.
        certainty: What its answers are: ``exact``, ``at most`` or ``between``.
        of_elements: It answers tests for elements of lists and keys of maps (`HasElement`), and nothing else.
        answers_ranges: Both ends of a range (`Range`) are looked up at once.
    """

    name: str
    certainty: str
    of_elements: bool
    answers_ranges: bool

    def refuses(self, kind: Type) -> str | None:
        """Return why columns of a type cannot have it; None if they can."""

    def estimate(self, profile: Profile) -> int:
        """Return about how many bytes it would take."""

    def build(self, values: ColumnValues, writer: IndexWriter, resources: BuildResources) -> str | None:
        """Write the blobs of one column; or write nothing and return why these values cannot have this kind."""

    def open(self, field_id: int, num_rows: int, reader: BlobReader) -> KindReader:
        """Return the reader of one column's blobs.

        Raises:
            BadIndexError: They cannot be such an index.
        """


def non_null(chunks: Iterator[pa.Array]) -> Iterator[tuple[np.ndarray, pa.Array]]:
    """Yield for each chunk the positions of its non-NULL values in the data file (int64), and these values."""
    first = 0
    for chunk in chunks:
        if chunk.null_count == len(chunk):
            pass
        elif chunk.null_count:
            places = np.flatnonzero(chunk.is_valid().to_numpy(zero_copy_only=False))
            yield first + places, chunk.drop_null()
        else:
            yield np.arange(first, first + len(chunk)), chunk
        first += len(chunk)
