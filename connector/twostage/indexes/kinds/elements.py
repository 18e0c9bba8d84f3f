"""Elements: of a list or a map, the rows that hold a value, in the order of a hash of their elements or keys.

The postings of all elements: about 3.5 bytes an element. A value is found with one or two reads of a few kilobytes. The answer is
*at most*: it may have rows of other values. NULL elements are left out, so that it does not tell FALSE from NULL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twostage.indexes.keys import hash_values, key_class
from twostage.indexes.kinds.postings import Postings, hash_bits
from twostage.indexes.sorted_pairs import PairSorter, write_pairs
from twostage.predicates.elements import elements_of
from twostage.schema import element_of

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from twostage.indexes.kind import BuildResources, ColumnValues
    from twostage.indexes.puffin import IndexWriter
    from twostage.schema import Type


class Elements(Postings):
    """The kind ``elements``."""

    name = "elements"
    of_elements = True

    def refuses(self, kind: Type) -> str | None:
        """Return why columns of a type cannot have it."""
        element = element_of(kind)
        if element is None:
            return f"type {kind} has no elements"
        return None if key_class(element.type) else f"elements of type {element.type} are not compared"

    def build(self, values: ColumnValues, writer: IndexWriter, resources: BuildResources) -> str | None:
        """Write the postings of a column's elements."""
        key_bits = hash_bits(values.num_rows)
        number_bits = max(1, (values.num_rows - 1).bit_length())
        sorter = PairSorter(key_bits, number_bits, resources.folder, resources.budget, 4 * values.num_rows)
        first = 0
        for chunk in values.chunks():
            rows, present = non_null_elements(chunk)
            hashes = hash_values(present) >> np.uint64(64 - key_bits)
            sorter.add(hashes, (first + rows).astype(np.uint64))
            first += len(chunk)
        write_pairs(writer, values.field_id, self.name, sorter.sorted_parts(), key_bits, number_bits)
        return None


def non_null_elements(lists: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Return the non-NULL elements, of maps the keys, and for each the place of its row (int64, ascending), which come first.

    >>> import pyarrow as pa
    >>> rows, elements = non_null_elements(pa.array([[1, None], None, [], [2, 3]]))
    >>> rows, elements.to_pylist()
    (array([0, 3, 3]), [1, 2, 3])
    """
    offsets, elements = elements_of(lists)
    rows = np.repeat(np.arange(len(lists)), np.diff(offsets))
    kept = lists.is_valid().to_numpy(zero_copy_only=False)[rows]  # a NULL list may have elements in the array
    if elements.null_count:
        kept &= elements.is_valid().to_numpy(zero_copy_only=False)
    places = np.flatnonzero(kept)
    return rows[places], elements if len(places) == len(elements) else elements.take(places)
