"""Columns for the rows that a predicate is evaluated on, read lazily.

Takes a function that reads a column, for all or some rows; returns Arrow arrays of `num_rows` values by field id.
`take` narrows the rows; columns read afterwards are decoded for these rows only, if the reader supports that.
Rows keep their order, and a column is read once.
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
        read: Returns a column by field id (None if there is no such column), for the given ascending row indices;
            for None, for all rows.
        num_rows: The number of rows.
        places: The indices of these rows among all that `read` knows; None: all.
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
        """Wrap columns that are in memory already."""

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

    def has_read(self, field_id: int) -> bool:
        """Return whether the column was read for these rows."""
        return field_id in self._arrays

    def take(self, places: Places) -> RowColumns:
        """Return the columns of a subset: `places` are indices into these rows."""
        whole = places if self._places is None else self._places[places]
        return RowColumns(self._read, len(places), whole)
