"""Columns that are read when a predicate first looks at them: once, and for no more rows than it is asked about."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from twostage.predicates.row_columns import RowColumns

WHOLE = {1: pa.array([10, 11, 12, 13, 14]), 2: pa.chunked_array([["a", "b"], ["c", "d", "e"]])}


def test_a_column_is_read_once_and_only_where_asked() -> None:
    reads: list[tuple[int, Any]] = []

    def read(field_id: int, places: np.ndarray | None) -> pa.Array | None:
        reads.append((field_id, None if places is None else places.tolist()))
        array = WHOLE.get(field_id)
        return array if array is None or places is None else array.take(pa.array(places))

    columns = RowColumns(read, 5)
    assert not columns.has_read(1)
    assert columns.array(1) is columns.array(1)
    assert columns.has_read(1)
    assert columns.array(9) is None
    assert columns.array(9) is None
    part = columns.take(np.array([1, 3, 4]))
    least = part.take(np.array([0, 2]))  # places among these rows, not among all
    assert (part.num_rows, least.num_rows) == (3, 2)
    assert least.array(1).to_pylist() == [11, 14]
    assert reads == [(1, None), (9, None), (1, [1, 4])]


def test_arrays_in_hand() -> None:
    columns = RowColumns.of({1: WHOLE[1]}, 5)
    assert columns.array(1) is WHOLE[1]
    assert columns.array(2) is None
    assert columns.take(np.array([4])).array(1).to_pylist() == [14]
    assert columns.take(np.array([4])).array(2) is None


def test_chunks_are_combined() -> None:
    columns = RowColumns(lambda field_id, places: WHOLE[field_id], 5)
    assert isinstance(columns.array(2), pa.StringArray)
    assert columns.array(2).to_pylist() == list("abcde")
