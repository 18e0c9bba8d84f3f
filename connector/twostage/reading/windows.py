"""Row groups whose filter columns exceed the task's memory, cut into windows.

Takes a row group and the columns that stage one reads; returns windows, consecutive ranges of its rows that
fit in the task's memory. Each is filtered and fetched before the next is read. The rule: every row is in
exactly one window, in file order.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from twostage.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from twostage.data_files.data_file import DataFile
    from twostage.data_files.row_group import RowGroup
    from twostage.reading.filter import RowFilter

MAX_COPIES = 3
"""Copies of a filter column that exist at once: its decompressed pages, its values, and those of the selected
rows."""
MASK_BYTES_PER_ROW = 4
"""Per row of the row group: masks of the window's rows and of the live rows."""
MIN_WINDOWS = 4
"""With fewer, windows are so large that whole column chunks would be read for each."""


def count_windows(data_file: DataFile, row_group: RowGroup, row_filter: RowFilter) -> int:
    """Return in how many windows stage one fits the task's memory; 0 if the file can't be read in windows."""
    context = data_file.context
    wanted = {field_id for conjunct in row_filter.conjuncts for field_id in conjunct.field_ids}
    wanted.update(field_id for delete in data_file.task.deletes for field_id in delete.equality_ids)
    if context.top is not None:
        wanted.add(context.top.column.field_id)
    size = MAX_COPIES * data_file.decoded_bytes(row_group, wanted)
    if size <= context.settings.memory_budget:
        return 1
    if MASK_BYTES_PER_ROW * row_group.num_rows > context.settings.memory_budget:
        return 0
    count = max(MIN_WINDOWS, -(-size // context.settings.memory_budget))
    wanted.update(field.id for field in context.projection)
    return count if data_file.reads_windows(row_group, wanted, row_group.num_rows // count) else 0


def cut_windows(selection: Selection, count: int) -> Iterator[Selection]:
    """Yield the rows of a selection in `count` windows of equal length; windows without a live row are skipped.

    >>> [window.indices().tolist() for window in cut_windows(Selection.all(5), 2)]
    [[0, 1], [2, 3, 4]]
    """
    edges = [selection.num_rows * number // count for number in range(count + 1)]
    for start, end in itertools.pairwise(edges):
        mask = np.zeros(selection.num_rows, np.bool_)
        mask[start:end] = True if selection.mask is None else selection.mask[start:end]
        window = Selection.of(mask)
        if window.count:
            yield window
