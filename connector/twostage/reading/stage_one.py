"""Stage one of a row group: prune, positions, filter, equality deletes, top-n.

Takes an open data file with its deletes, and a row group; gives which rows are live, with the columns that were read to
tell, or that the row group is to be read in one stage or in windows. What a task learns here from one row group decides
how the next is read; it never decides which rows come back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from twostage.deletes.anti_join.build_from_rows import reverse_anti_join
from twostage.predicates.predicate import TRUE
from twostage.predicates.prune import Match
from twostage.reading.filter import filter_selection
from twostage.reading.prune_pages import prune_pages
from twostage.reading.prune_row_groups import prune_row_group
from twostage.reading.subtract_deletes import remove_deleted, subtract_equality, subtract_positions
from twostage.reading.task_state import (
    SKIP,
    AwaitDeletes,
    Fetch,
    OpenTask,
    ReadWhole,
    ReadWindows,
    RowGroupPlan,
    Skip,
)
from twostage.reading.windows import count_windows, cut_windows
from twostage.storage.ranges import cost_of

if TYPE_CHECKING:
    from twostage.data_files.row_group import RowGroup
    from twostage.metrics import Metrics
    from twostage.reading.aligned_columns import LiveColumns
    from twostage.reading.conditions.of_file import RowGroupConditions
    from twostage.reading.filter import RowFilter
    from twostage.selection import Selection

MAX_SMALL_BYTES = 64 * 2**10
"""Of a remote row group's select columns that are asked for beside the filter's: they arrive within a millisecond, and asking
for them after the filter takes as long as the store takes to answer."""
MIN_SHARE_EXPECTED = 0.7
"""Of a row group's rows: where more are left before equality deletes, the select columns are asked for beside the keys."""


def plan_row_group(file: OpenTask, row_group: RowGroup, metrics: Metrics) -> RowGroupPlan:
    """Decide which rows of a row group are live, and how their select columns are to be read."""
    data_file, learned = file.data_file, file.learned
    predicate, payoffs, wanted = learned.predicate, learned.payoffs, learned.wanted
    conditions = None if file.conditions is None else file.conditions.ask(row_group)
    metrics.add("row_groups.considered")
    metrics.add("rows.considered", row_group.num_rows)
    with metrics.timed("prune"):
        matching = prune_row_group(
            data_file,
            row_group,
            predicate,
            metrics,
            wanted=wanted,
            dictionaries=payoffs.dictionaries,
            conditions=conditions,
        )
    if matching is Match.NONE:
        return SKIP

    selection = subtract_positions(file, row_group, metrics)
    if not data_file.context.settings.two_stage:
        return ReadWhole(row_group, selection, learned.filter_for(matching))
    considered, left, answers = selection, None, None
    if matching is Match.SOME and selection.count:
        with metrics.timed("filter"):
            if conditions is not None:
                selection, left = conditions.narrow(selection, metrics)
            if file.indexes is not None and selection.count and left != ():
                answers = file.indexes.of(row_group, metrics)
            if answers is not None:
                conjuncts = predicate.conjuncts if left is None else left
                selection, left = answers.narrow(selection, conjuncts, metrics)
        if selection.count == 0:
            metrics.add("row_groups.pruned.filter")
            return SKIP
        matching = Match.ALL if left == () else matching
    row_filter = learned.filter_for(matching, left, answers)
    if matching is Match.SOME and learned.keeps_nearly_all:
        metrics.choices["read in one stage: the filter keeps nearly all rows"] += 1
        return ReadWhole(row_group, selection, replace(row_filter, answers=None))

    if matching is Match.SOME or wanted != TRUE:
        with metrics.timed("prune"):
            selection = prune_pages(
                data_file, row_group, predicate, selection, payoffs.page_indexes, metrics, wanted=wanted
            )
    num_windows = count_windows(data_file, row_group, row_filter)
    if num_windows == 0:
        metrics.choices["read in one stage: the filter columns of a row group exceed task-memory"] += 1
        return ReadWhole(row_group, selection, replace(row_filter, answers=None))
    if matching is Match.SOME and left is None:
        learned.add_filtered(row_group.num_rows)
    if conditions is not None and (matching is Match.ALL or not learned.is_of_all_rows(row_filter, wanted)):
        conditions = None
    if conditions is not None:
        conditions.begin(considered, selection, knows_some=left is not None)
    if num_windows > 1:
        metrics.choices["read in windows: the filter columns of a row group exceed task-memory"] += 1
        windows = cut_windows(selection, num_windows)
        return ReadWindows(row_group, windows, row_filter, conditions)

    is_expected = matching is Match.SOME and _expect_small_columns(file, row_group, row_filter)
    columns = filter_selection(
        data_file,
        row_group,
        row_filter,
        selection,
        payoffs.text_searches,
        metrics,
        learn=None if conditions is None else conditions.add_first,
    )
    if conditions is not None:
        conditions.add_all(selection, columns.selection())
    learned.add_kept(columns.live.count, row_filter)
    _learn_expected(file, row_group, columns, metrics, was_expected=is_expected)
    if columns.live.count == 0:
        metrics.add("row_groups.pruned.filter")
        return SKIP
    return _plan_fetch(file, row_group, columns, metrics)


def _expect_small_columns(file: OpenTask, row_group: RowGroup, row_filter: RowFilter) -> bool:
    """Ask for small select columns of a remote file beside the filter's; return whether that was done.

    Where a task has many files, others are read while one waits, and requests for rows that do not match hold these up: a key in
    96 files took 40 % longer (and in 4 files, 20 to 25 % less). Small columns of the filter come by the same request.
    """
    data_file, learned, context = file.data_file, file.learned, file.data_file.context
    if not data_file.is_remote or not learned.has_few_files or learned.best is not None:
        return False
    if not learned.payoffs.small_columns.pays:
        return False
    read = {field_id for conjunct in row_filter.conjuncts for field_id in conjunct.field_ids}
    wanted = [field for field in context.projection if field.id not in read]
    cost = cost_of(context.settings.merge_gap, None, is_remote=True)
    most = min(cost.gap, MAX_SMALL_BYTES)
    if not read or not wanted or data_file.stored_bytes(row_group, {one.id for one in wanted}) > most:
        return False
    of_filter = [field for field in context.schema.fields if field.id in read]
    if data_file.stored_bytes(row_group, {field.id for field in (*wanted, *of_filter)}) <= most:
        wanted += of_filter
    data_file.expect(row_group, wanted)
    return True


def _learn_expected(
    file: OpenTask, row_group: RowGroup, columns: LiveColumns, metrics: Metrics, *, was_expected: bool
) -> None:
    """Learn whether what `_expect_small_columns` asked for is of use; let go of it if it is not."""
    if not was_expected:
        return
    payoff = file.learned.payoffs.small_columns
    payoff.add(pruned=columns.live.count > 0)
    if columns.live.count == 0:
        file.data_file.expect(row_group, ())
        payoff.report(metrics)


def _plan_fetch(
    file: OpenTask, row_group: RowGroup, columns: LiveColumns, metrics: Metrics
) -> Skip | Fetch | AwaitDeletes:
    """Remove what equality deletes and top-n drop of the rows that the filter kept."""
    learned, data_file = file.learned, file.data_file
    if file.deletes.equality and columns.live.count > row_group.num_rows * MIN_SHARE_EXPECTED:
        read = columns.read_columns()  # few of the others are deleted: what stage two reads may be on its way
        data_file.expect(row_group, [one for one in data_file.context.projection if one.id not in read])
    with metrics.timed("deletes"):
        probe = subtract_equality(file, row_group, columns, metrics)
    if columns.live.count == 0:
        metrics.add("row_groups.pruned.deletes")
        return SKIP
    if probe is not None:
        return AwaitDeletes(row_group, columns, probe)
    if learned.best is not None:
        with metrics.timed("filter"):
            learned.best.admit_row_group(columns, learned.row_filter, metrics)
        if columns.live.count == 0:
            return SKIP
    return Fetch(row_group, columns)


def find_live_rows(
    file: OpenTask,
    row_group: RowGroup,
    row_filter: RowFilter,
    selection: Selection,
    metrics: Metrics,
    conditions: RowGroupConditions | None = None,
) -> LiveColumns:
    """Apply filter and equality deletes to some rows of a row group; nothing waits for other row groups."""
    data_file, learned = file.data_file, file.learned
    columns = filter_selection(
        data_file, row_group, row_filter, selection, learned.payoffs.text_searches, metrics
    )
    if conditions is not None:
        conditions.add_all(selection, columns.selection())
    learned.add_kept(columns.live.count, row_filter)
    with metrics.timed("deletes"):
        probe = subtract_equality(file, row_group, columns, metrics)
        if probe is not None:
            (deleted,) = reverse_anti_join(data_file.context, [probe], metrics, file.contents)
            remove_deleted(file, row_group, columns, deleted, metrics)
    return columns
