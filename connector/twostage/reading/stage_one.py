"""Stage one of a row group: prune, positions, filter, equality deletes.

Takes an open data file with its deletes, and a row group; gives which rows live, with the columns that were
read to tell, or that the row group is to be read in one stage. What a task learns here from one row group
decides how the next is read; it never decides which rows come back.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from twostage.predicates.predicate import TRUE
from twostage.reading.aligned_columns import LiveColumns
from twostage.reading.filter import RowFilter, filter_rows
from twostage.reading.prune_pages import LEAST_SHARE, prune_pages
from twostage.reading.prune_row_groups import Verdict, judge_row_group
from twostage.reading.subtract_deletes import subtract
from twostage.reading.task_state import (
    SKIP,
    AwaitDeletes,
    Fetch,
    OpenTask,
    ReadWhole,
    ReadWindows,
    RowGroupPlan,
)
from twostage.reading.windows import count_windows, cut_windows
from twostage.selection import Selection

if TYPE_CHECKING:
    from twostage.data_files.row_group import RowGroup
    from twostage.metrics import Metrics
    from twostage.predicates.predicate import Predicate


def plan_row_group(file: OpenTask, row_group: RowGroup, metrics: Metrics) -> RowGroupPlan:
    """Decide which rows of a row group live, and how their select columns are to be read."""
    data_file, learned = file.data_file, file.learned
    settings = data_file.context.settings
    metrics.add("row_groups.considered")
    metrics.add("rows.considered", row_group.num_rows)
    best = learned.best
    with metrics.timed("prune"):
        if best is not None and not best.may_hold(data_file, row_group):
            metrics.add("row_groups.pruned.top-n")
            metrics.add("rows.pruned", row_group.num_rows)
            return SKIP
        verdict = judge_row_group(data_file, row_group, learned.dictionaries, metrics)
    if verdict is Verdict.SKIP:
        return SKIP
    selection = _subtract_positions(row_group, file, metrics)
    filters = verdict is Verdict.FILTER
    row_filter = learned.row_filter if filters else RowFilter()
    wanted = TRUE if best is None else best.wanted
    row_filter = row_filter if best is None else best.joined_to(row_filter)
    if not settings.two_stage:
        return ReadWhole(row_group, selection, row_filter)
    if filters and best is None and learned.keeps_nearly_all:
        metrics.choices["read in one stage: the filter keeps nearly all rows"] += 1
        return ReadWhole(row_group, selection, row_filter)
    if filters or wanted != TRUE:
        with metrics.timed("prune"):
            selection = prune_pages(data_file, row_group, selection, learned.pages, metrics, wanted=wanted)
    parts = count_windows(data_file, row_group, row_filter)
    if parts == 0:
        metrics.choices["read in one stage: the filter columns of a row group exceed task-memory"] += 1
        return ReadWhole(row_group, selection, row_filter)
    if filters:
        learned.groups_filtered += 1
        learned.rows_filtered += row_group.num_rows
    if parts > 1:
        metrics.choices["read in windows: the filter columns of a row group exceed task-memory"] += 1
        return ReadWindows(row_group, cut_windows(selection, parts), row_filter)
    columns = filtered_columns(file, row_group, row_filter, selection, metrics)
    if columns.alive.count == 0:
        metrics.add("row_groups.pruned.filter")
        return SKIP
    with metrics.timed("deletes"):
        asked = subtract(file, row_group, columns, metrics, may_wait=True)
    if columns.alive.count == 0:
        metrics.add("row_groups.pruned.deletes")
        return SKIP
    if asked is not None:
        return AwaitDeletes(row_group, columns, asked)
    if best is not None:
        with metrics.timed("filter"):
            best.admit(columns, learned.row_filter, metrics)
        if columns.alive.count == 0:
            metrics.add("row_groups.pruned.top-n")
            return SKIP
    return Fetch(row_group, columns)


def live_columns(
    file: OpenTask, row_group: RowGroup, row_filter: RowFilter, selection: Selection, metrics: Metrics
) -> LiveColumns:
    """Apply filter and equality deletes to some rows of a row group."""
    columns = filtered_columns(file, row_group, row_filter, selection, metrics)
    with metrics.timed("deletes"):
        subtract(file, row_group, columns, metrics, may_wait=False)
    return columns


def filtered_columns(
    file: OpenTask, row_group: RowGroup, row_filter: RowFilter, selection: Selection, metrics: Metrics
) -> LiveColumns:
    """Apply the filter to some rows of a row group."""
    read = functools.partial(file.data_file.read_filter_column, row_group)
    columns = LiveColumns(selection, read, reads_parts=file.data_file.reads_parts)
    payoff = file.learned.searches

    def search(predicate: Predicate, rows: Selection) -> Selection:
        found = file.data_file.search(row_group, predicate, rows) if payoff.pays else None
        if found is None:
            return rows
        payoff.asked += 1
        payoff.pruned += rows.count - found.count >= rows.count * LEAST_SHARE
        if not payoff.pays:
            metrics.choices[
                f"pages not searched for text any more: {payoff.asked} reads pruned too little"
            ] += 1
        return found

    with metrics.timed("filter"):
        filter_rows(row_filter, columns, metrics, search)
    if row_filter is file.learned.row_filter:
        file.learned.rows_kept += columns.alive.count
    return columns


def _subtract_positions(row_group: RowGroup, file: OpenTask, metrics: Metrics) -> Selection:
    selection = Selection.all(row_group.num_rows)
    for positions in (file.positions, file.compiled):
        before = selection.count
        selection = selection.without(positions.within(row_group.first_row, row_group.num_rows))
        metrics.add(f"rows.deleted.{positions.kind}", before - selection.count)
    return selection
