"""The columns of the rows that a part of a predicate is asked about, read when first asked for.

Takes a way to read a column, whole or for some rows; gives Arrow arrays by field id, one value for each row
of `num_rows`. Cut to fewer rows it reads no more than those where the reader can. The rule: rows keep their
order, and an array is read once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    Places = NDArray[np.int64]


class RowColumns:
    """Columns of `num_rows` rows.

    Args:
        read: Gives a column (None: there is none) by field id, for the rows at the given places of what is
            whole, ascending; for None, for all.
        num_rows: How many rows these are.
        places: Which rows of the whole these are; None: all.
    """

    def __init__(
        self,
        read: Callable[[int, Places | None], pa.Array | None],
        num_rows: int,
        places: Places | None = None,
    ) -> None:
        self._read = read
        self._places = places
        self._arrays: dict[int, pa.Array | None] = {}
        self.num_rows = num_rows

    @staticmethod
    def of(columns: Mapping[int, pa.Array], num_rows: int) -> RowColumns:
        """Return columns that are there already."""

        def read(field_id: int, places: Places | None) -> pa.Array | None:
            array = columns.get(field_id)
            return array if array is None or places is None else array.take(pa.array(places))

        return RowColumns(read, num_rows)

    def array(self, field_id: int) -> pa.Array | None:
        """Return a column's values for these rows; None if there is no such column."""
        if field_id not in self._arrays:
            array = self._read(field_id, self._places)
            self._arrays[field_id] = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        return self._arrays[field_id]

    def holds(self, field_id: int) -> bool:
        """Tell whether the column was read."""
        return field_id in self._arrays

    def cut(self, places: Places) -> RowColumns:
        """Return the columns for the rows at these places among these."""
        whole = places if self._places is None else self._places[places]
        return RowColumns(self._read, len(places), whole)
