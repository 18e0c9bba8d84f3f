"""What a scan notes of equality deletes: complete only if every row was asked about or deleted by position."""

from __future__ import annotations

import numpy as np
from pyroaring import BitMap64

from twostage.data_files.row_group import RowGroup
from twostage.deletes.compiled.recorder import Recorder
from twostage.selection import Selection

GROUPS = [RowGroup(index=i, first_row=10 * i, num_rows=10, num_bytes=1) for i in range(3)]
ALL, NONE = np.ones(10, np.bool_), np.zeros(10, np.bool_)


def some(*rows: int) -> np.ndarray:
    mask = np.zeros(10, np.bool_)
    mask[list(rows)] = True
    return mask


def test_deleted_rows_are_counted_from_the_file_s_first() -> None:
    recorder = Recorder()
    for group in recorder.counted(GROUPS):
        recorder.add(group.first_row, Selection.all(10), some(1, 9))
    assert recorder.is_complete
    assert list(recorder.bitmap) == [1, 9, 11, 19, 21, 29]


def test_rows_that_nobody_asked_about() -> None:
    recorder = Recorder()
    assert not recorder.is_complete, "nothing was read"
    assert list(recorder.counted(GROUPS)) == GROUPS
    recorder.add(0, Selection.all(10), NONE)
    recorder.add(20, Selection.all(10), ALL)
    recorder.add(10, Selection.of(some(0, 1, 2, 5)), np.array([False, True, False, True]))
    assert not recorder.is_complete
    assert list(recorder.bitmap) == [11, 15, *range(20, 30)]
    recorder.add(10, Selection.of(some(3, 4, 6, 7, 8, 9)), np.zeros(6, np.bool_))
    assert recorder.is_complete


def test_rows_that_positions_delete_need_no_asking() -> None:
    recorder = Recorder(BitMap64([13, 14]))
    (group,) = recorder.counted(GROUPS[1:2])
    recorder.add(group.first_row, Selection.of(~some(3, 4)), np.zeros(8, np.bool_))
    assert recorder.is_complete
    assert not recorder.bitmap
