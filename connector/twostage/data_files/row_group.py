"""What data files of every format tell about their rows: row groups, and bounds of their pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from twostage.predicates.bounds import Bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """Consecutive rows of a file: ``first_row … first_row + num_rows - 1``.

    A Parquet row group, an ORC stripe, or a run of Avro blocks.
    """

    index: int
    first_row: int
    num_rows: int
    num_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkFacts:
    """What a file tells about how a field of a row group is stored.

    Attributes:
        dictionary_bytes: Of its stored bytes, those of dictionaries, which every read of its pages includes.
        is_dictionary_encoded: Every page is known to be dictionary-encoded.
        has_bloom_filter: It has a Bloom filter.
    """

    dictionary_bytes: int = 0
    is_dictionary_encoded: bool = False
    has_bloom_filter: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class PageBounds:
    """What a file tells about a column's pages: first rows within the row group (int64), and bounds."""

    first_rows: NDArray[np.int64]
    bounds: Sequence[Bounds]
