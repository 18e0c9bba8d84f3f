"""The filter columns of a row range, read only as far as rows are alive.

Takes the rows alive at first and a way to read columns for given rows; gives columns that are all aligned to
one `base` of rows, and keeps which rows of the base are alive. The rule: every column handed out has one value
for each row of the base, in row order; the base only shrinks, to the rows alive, when that pays. Text may
come as dictionary arrays; who can't use those asks for `plain` ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twostage.formats.convert import MAX_TEXT_BYTES
from twostage.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

SPARSE = 4
"""Below one live row in SPARSE, columns are cut to the live rows before a predicate looks at them."""
UNREAD_SPARSE = 1.5
"""The same while nothing was read yet: to cut costs nothing then, and pages may be left out."""

PART = 1000
"""Below one row in PART, a column is read for these rows alone: few pages hold them, and fetching reads few."""


class LiveColumns:
    """Columns by field id for the rows of `base`, of which `alive` are alive.

    Args:
        rows: Which rows of the range are alive at first.
        read: Gives a field's array for a selection of the range's rows.
        reads_parts: Whether `read` may leave out what holds no row of the selection.
    """

    def __init__(
        self, rows: Selection, read: Callable[[int, Selection], pa.Array], *, reads_parts: bool = False
    ) -> None:
        self._read = read
        self.reads_parts = reads_parts
        self._columns: dict[int, pa.Array] = {}
        self.base = Selection.all(rows.num_rows)
        self.alive = rows

    def column(self, field_id: int) -> pa.Array:
        """Return a field's values, one for each row of the base."""
        if field_id not in self._columns:
            self._columns[field_id] = self._read(field_id, self.base)
        return self._columns[field_id]

    def part(self, field_id: int, places: NDArray[np.int64], *, keep: bool) -> pa.Array:
        """Return a field's values for the rows at some places of the base (ascending).

        For very few rows only these are read, where the file can skip the others; with `keep`, the field will
        be asked for again, and is read whole.
        """
        few = self.reads_parts and len(places) * PART < self.base.count
        if keep or not few or field_id in self._columns:
            return self.column(field_id).take(pa.array(places))
        chosen = np.zeros(self.base.count, np.bool_)
        chosen[places] = True
        return self._read(field_id, self.base.keep(chosen))

    def some(self, field_id: int, chosen: NDArray[np.bool_], *, whole: bool) -> pa.Array:
        """Return a field's values for chosen rows of the base (bool, one for each).

        Others are not read, unless the field was read before; with `whole` it is read for all, as it is wanted later.
        """
        if whole or field_id in self._columns:
            return self.column(field_id).filter(pa.array(chosen))
        return self._read(field_id, self.base.keep(chosen))

    def keep(self, true: NDArray[np.bool_]) -> None:
        """Let only those rows live for which `true` (bool, one for each row of the base) holds."""
        self.alive = self.alive & Selection.of(true)

    def narrow(self, rows: Selection) -> None:
        """Let only those rows live that are in a selection of the range."""
        self.keep(self.base.marks(rows))

    def has_read(self, field_id: int) -> bool:
        """Tell whether a field was read."""
        return field_id in self._columns

    def condense(self, *, to_the_rows: bool = False) -> None:
        """Make the live rows the base where they are few; with `to_the_rows`, however many they are."""
        if self.alive.is_all:
            return
        sparse = SPARSE if self._columns else UNREAD_SPARSE
        if not to_the_rows and self.alive.count * sparse >= self.alive.num_rows:
            return
        indices = pa.array(self.alive.indices())
        self._columns = {field_id: array.take(indices) for field_id, array in self._columns.items()}
        assert self.alive.mask is not None
        self.base = self.base.keep(self.alive.mask)
        self.alive = Selection.all(self.base.count)

    def forget_all_but(self, field_ids: set[int]) -> None:
        """Drop columns that nobody asks for any more."""
        self._columns = {i: array for i, array in self._columns.items() if i in field_ids}

    def selection(self) -> Selection:
        """Return which rows of the range are alive."""
        return self.base if self.alive.mask is None else self.base.keep(self.alive.mask)

    def read_columns(self) -> dict[int, pa.Array]:
        """Return what was read, aligned to the base."""
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
    """Return the bytes of a dictionary's longest text."""
    return pc.max(pc.binary_length(array.dictionary)).as_py() or 0
