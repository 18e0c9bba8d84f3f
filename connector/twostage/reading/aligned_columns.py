"""The live rows of a row range, with the columns that were read for them.

Takes the initially live rows and a function that reads columns for given rows; returns Arrow arrays that are
all aligned to one `base` of rows, and tracks which rows of the base are live. The rule: every array has one
value for each row of the base, in row order; the base only shrinks, to the live rows, where that pays. Text
may be dictionary-encoded; `plain` decodes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twostage.formats.promotion import MAX_TEXT_BYTES
from twostage.indexes.answer import ROWS_OF_A_PAGE
from twostage.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

MIN_ROWS_PER_LIVE_ROW = 4
"""With more, columns are cut to the live rows before a predicate is evaluated on them."""
MIN_UNREAD_ROWS_PER_LIVE_ROW = 1.5
"""The same while no column has been read: cutting costs nothing then, and pages may be skipped."""

MIN_ROWS_PER_ROW_READ_ALONE = 1000
"""With more, a column is read for the chosen rows only: they are in few pages, and stage two also reads
few."""
MIN_PAGES_PER_ROW_IN_DOUBT = 2
"""With at least as many, only the rows that an index leaves in doubt are read: at most half of the column."""


class LiveColumns:
    """Columns by field id for the rows of `base`, a selection of the range; `live` is a selection of the base.

    Args:
        rows: The rows of the range that are initially live.
        read: Takes a field id and a selection of the range's rows; returns an array with a value for each of
            them.
        reads_parts: Whether `read` may skip parts of the file without a row of the selection.
    """

    def __init__(
        self, rows: Selection, read: Callable[[int, Selection], pa.Array], *, reads_parts: bool = False
    ) -> None:
        self._read = read
        self.reads_parts = reads_parts
        self._columns: dict[int, pa.Array] = {}
        self.base = Selection.all(rows.num_rows)
        self.live = rows

    def column(self, field_id: int) -> pa.Array:
        """Return a field's values, one for each row of the base."""
        if field_id not in self._columns:
            self._columns[field_id] = self._read(field_id, self.base)
        return self._columns[field_id]

    def part(
        self, field_id: int, places: NDArray[np.int64], *, whole: bool, in_doubt: bool = False
    ) -> pa.Array:
        """Return a field's values for the rows at some places of the base (ascending).

        If they are very few, only they are read, provided that the file can skip the others; with `whole`,
        the field is read for all rows, because it will be used again. With `in_doubt`, an index decides all
        other rows: "few" is then relative to the pages of the range, because a small base may still touch all
        of its pages.
        """
        few = self.reads_parts and len(places) * MIN_ROWS_PER_ROW_READ_ALONE < self.base.count
        if in_doubt and self.reads_parts:
            few = few or len(places) * MIN_PAGES_PER_ROW_IN_DOUBT * ROWS_OF_A_PAGE <= self.base.num_rows
        if whole or not few or field_id in self._columns:
            return self.column(field_id).take(pa.array(places))
        chosen = np.zeros(self.base.count, np.bool_)
        chosen[places] = True
        return self._read(field_id, self.base.keep(chosen))

    def some(self, field_id: int, chosen: NDArray[np.bool_], *, whole: bool) -> pa.Array:
        """Return a field's values for chosen rows of the base (bool, one for each row of the base).

        The others are not read, unless the field was read before; with `whole`, it is read for all rows of
        the base, because it will be used again.
        """
        if whole or field_id in self._columns:
            return self.column(field_id).filter(pa.array(chosen))
        return self._read(field_id, self.base.keep(chosen))

    def keep(self, true: NDArray[np.bool_]) -> None:
        """Keep the live rows for which `true` (bool, one for each row of the base) holds."""
        self.live = self.live & Selection.of(true)

    def keep_first(self, count: int) -> None:
        """Keep the first `count` of the live rows."""
        self.live = self.live.first(count)

    def narrow(self, rows: Selection) -> None:
        """Keep the live rows that are in a selection of the range."""
        self.keep(self.base.marks(rows))

    def has_read(self, field_id: int) -> bool:
        """Tell whether a field has been read."""
        return field_id in self._columns

    def condense(self, *, force: bool = False) -> None:
        """Make the live rows the base if they are few; with `force`, always."""
        if self.live.is_all:
            return
        sparse = MIN_ROWS_PER_LIVE_ROW if self._columns else MIN_UNREAD_ROWS_PER_LIVE_ROW
        if not force and self.live.count * sparse >= self.live.num_rows:
            return
        indices = pa.array(self.live.indices())
        self._columns = {field_id: array.take(indices) for field_id, array in self._columns.items()}
        assert self.live.mask is not None
        self.base = self.base.keep(self.live.mask)
        self.live = Selection.all(self.base.count)

    def forget_all_but(self, field_ids: set[int]) -> None:
        """Drop the other columns, which are no longer needed."""
        self._columns = {i: array for i, array in self._columns.items() if i in field_ids}

    def selection(self) -> Selection:
        """Return which rows of the range are live."""
        return self.base if self.live.mask is None else self.base.keep(self.live.mask)

    def read_columns(self) -> dict[int, pa.Array]:
        """Return the columns read so far, aligned to the base."""
        return dict(self._columns)


def plain(array: pa.Array) -> pa.Array:
    """Return an array without a dictionary; text beyond 2 GiB gets 64-bit offsets."""
    if not isinstance(array, pa.DictionaryArray):
        return array
    if longest_text(array) * len(array) > MAX_TEXT_BYTES:
        large = pa.large_string() if pa.types.is_string(array.type.value_type) else pa.large_binary()
        array = pa.DictionaryArray.from_arrays(array.indices, array.dictionary.cast(large), safe=False)
    return array.dictionary_decode()


def longest_text(array: pa.DictionaryArray) -> int:
    """Return the length in bytes of a dictionary's longest text."""
    return pc.max(pc.binary_length(array.dictionary)).as_py() or 0
