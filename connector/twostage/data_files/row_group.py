"""What every format of data file tells of its rows: row groups, and bounds of their pages."""

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


@dataclass(frozen=True, slots=True, eq=False)
class PageBounds:
    """What a file knows of a column's pages: their first rows within the row group (int64), their bounds."""

    first_rows: NDArray[np.int64]
    bounds: Sequence[Bounds]
