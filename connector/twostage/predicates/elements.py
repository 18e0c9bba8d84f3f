"""The elements of lists and the keys of maps, and whether any of a row's satisfies a condition.

Takes Arrow arrays with any offset; returns offsets of shape (rows + 1,) into the elements. The elements of a
NULL list are arbitrary: the caller must apply the lists' nulls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from twostage.errors import InternalError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def elements_of(array: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Return the offsets of each row's elements, and the elements; for a map, its keys.

    Raises:
        InternalError: The array holds neither lists nor maps.

    >>> offsets, elements = elements_of(pa.array([[1], [2, 3], []])[1:])
    >>> offsets, elements.to_pylist()
    (array([0, 2, 2]), [2, 3])
    """
    kind = array.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind)):
        raise InternalError("BAD_PREDICATE", f"No lists to look for elements in: {kind}", stage="filter")
    offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    elements = array.values.slice(first, last - first)
    return offsets - first, elements.field(0) if pa.types.is_map(kind) else elements


def any_of_each(flags: NDArray[np.bool_], offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for each row whether any of its elements' flags is set.

    >>> any_of_each(np.array([False, True]), np.array([0, 1, 1, 2]))
    array([False, False,  True])
    """
    places = np.flatnonzero(flags)
    first = np.searchsorted(places, offsets)
    found: NDArray[np.bool_] = first[1:] > first[:-1]
    return found
