"""Which rows of a range live: the algebra of selections against sets of row numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from twostage.selection import Selection

ROWS = 9
SETS = st.sets(st.integers(0, ROWS - 1))


def selection(rows: set[int]) -> Selection:
    mask = np.zeros(ROWS, np.bool_)
    mask[sorted(rows)] = True
    return Selection.of(mask)


@settings(deadline=None)
@given(SETS, SETS)
def test_algebra(one: set[int], other: set[int]) -> None:
    a, b = selection(one), selection(other)
    for found, expected in ((a & b, one & other), (a | b, one | other), (a - b, one - other)):
        assert list(found) == sorted(expected)
        assert found.count == len(expected)
        assert found.num_rows == ROWS
        assert found.is_all == (len(expected) == ROWS)
    assert a.marks(b).tolist() == [row in other for row in sorted(one)]


@settings(deadline=None)
@given(SETS, SETS, st.integers(0, ROWS), st.integers(0, ROWS))
def test_parts(rows: set[int], gone: set[int], start: int, length: int) -> None:
    given_rows = selection(rows)
    assert list(given_rows.without(np.array(sorted(gone), np.int64))) == sorted(rows - gone)
    kept = given_rows.keep(np.array([row in gone for row in sorted(rows)], np.bool_))
    assert list(kept) == sorted(rows & gone)
    first = given_rows.first(length)
    assert list(first) == sorted(rows)[:length]
    assert (first.num_rows, first.count) == (ROWS, min(length, len(rows)))
    part = given_rows.slice(start, length)
    assert part.num_rows == min(length, ROWS - start)
    assert list(part) == [row - start for row in sorted(rows) if start <= row < start + length]


def test_all_and_none() -> None:
    assert (Selection.all(3).count, Selection.none(3).count) == (3, 0)
    assert Selection.all(3).indices().tolist() == [0, 1, 2]
    assert Selection.all(0).is_all
    assert Selection.of(np.ones(3, np.bool_)).mask is None


def test_masks_are_not_changed_by_whoever_holds_them() -> None:
    given_rows = selection({1, 2})
    assert given_rows.mask is not None
    with pytest.raises(ValueError, match="read-only"):
        given_rows.mask[0] = True
