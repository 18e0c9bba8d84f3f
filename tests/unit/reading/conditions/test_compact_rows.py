"""Rows come back as they were, in the smaller of two forms; what is no rows of a row group is refused."""

from __future__ import annotations

import numpy as np
import pytest

from twostage.reading.conditions.compact_rows import CompactRows
from twostage.selection import Selection


def masks():
    rng = np.random.default_rng(7)
    for num_rows in (0, 1, 2, 8, 64, 65, 1000, 100_003):
        yield np.zeros(num_rows, np.bool_)
        yield np.ones(num_rows, np.bool_)
        for share in (0.001, 0.1, 0.5, 0.999):
            yield rng.random(num_rows) < share
        yield np.arange(num_rows) % 700 < 300  # runs
        yield np.arange(num_rows) >= num_rows // 3


@pytest.mark.parametrize("mask", list(masks()), ids=lambda mask: f"{mask.sum()} of {len(mask)}")
def test_rows_come_back(mask):
    rows = CompactRows.of(Selection.of(mask))
    again = rows.selection()
    assert (again.num_rows, again.count) == (len(mask), mask.sum())
    assert np.array_equal(again.indices(), np.flatnonzero(mask))
    assert rows.nbytes <= max(4 * 65, -(-len(mask) // 8))
    checked = CompactRows.checked(len(mask), rows.form, rows.data.copy())
    assert np.array_equal(checked.selection().indices(), again.indices())
    assert rows.is_all == (mask.all() if rows.form == "edges" else False)


def test_few_rows_and_runs_take_few_bytes():
    mask = np.zeros(1_000_000, np.bool_)
    mask[[3, 500_000]] = True
    mask[700_000:800_000] = True
    assert CompactRows.of(Selection.of(mask)).nbytes == 24
    assert CompactRows.of(Selection.all(1_000_000)).nbytes == 4
    assert CompactRows.of(Selection.none(1_000_000)).nbytes == 0


@pytest.mark.parametrize(
    ("num_rows", "form", "data"),
    [
        (10, "bits", np.zeros(1, np.uint8)),
        (10, "bits", np.zeros(2, np.uint32)),
        (10, "edges", np.zeros(2, np.uint8)),
        (10, "edges", np.array([3, 3], np.uint32)),
        (10, "edges", np.array([4, 3], np.uint32)),
        (10, "edges", np.array([3, 10], np.uint32)),
        (10, "rows", np.array([3], np.uint32)),
        (-1, "edges", np.array([], np.uint32)),
        (10, "edges", np.array([[1], [2]], np.uint32)),
    ],
)
def test_what_is_no_rows_is_refused(num_rows, form, data):
    with pytest.raises(ValueError, match="not the rows"):
        CompactRows.checked(num_rows, form, data)
