"""Stage one of a row group: prune, positions, filter, equality deletes, top-n.

Takes an open data file with its deletes, and a row group; returns a plan: the live rows with the columns read
so far, or that the row group is to be read in one stage or in windows. What a task learns here from one row
group decides how the next is read, never which rows are returned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from twostage.deletes.anti_join.build_from_rows import reverse_anti_join
from twostage.predicates.predicate import TRUE
from twostage.predicates.prune import Match
from twostage.reading.expect_columns import ExpectedColumns, expect_small_columns, learn_small_columns
from twostage.reading.filter import filter_selection
from twostage.reading.prune_pages import prune_pages
from twostage.reading.prune_row_groups import prune_row_group
from twostage.reading.subtract_deletes import remove_deleted, subtract_equality, subtract_positions
from twostage.reading.task_state import (
    SKIP,
    AwaitDeletes,
    Fetch,
    OpenFile,
    ReadWhole,
    ReadWindows,
    RowGroupPlan,
    Skip,
)
from twostage.reading.windows import count_windows, cut_windows

if TYPE_CHECKING:
    from twostage.data_files.row_group import RowGroup
    from twostage.metrics import Metrics
    from twostage.predicates.predicate import Predicate
    from twostage.reading.aligned_columns import LiveColumns
    from twostage.reading.conditions.of_file import RowGroupConditions
    from twostage.reading.filter import RowFilter
    from twostage.reading.index_answers import RowGroupAnswers
    from twostage.reading.scan_predicate import Conjunct
    from twostage.selection import Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class _KnownRows:
    """What is known about a row group's rows before any of its columns is read.

    Attributes:
        matching: How many meet the predicate: also ALL if nothing remains to be evaluated.
        considered: The rows that no position deletes.
        selection: Those of them that known answers do not rule out.
        left: The conjuncts still to evaluate on them; None: all of the scan's, as nothing is known.
        answers: The indexes' answers for parts of these.
        wanted: What rows had to meet to be among the best when this row group was started; other row groups
            may tighten it since.
    """

    wanted: Predicate
    matching: Match
    considered: Selection
    selection: Selection
    left: tuple[Conjunct, ...] | None = None
    answers: RowGroupAnswers | None = None


def plan_row_group(file: OpenFile, row_group: RowGroup, metrics: Metrics) -> RowGroupPlan:
    """Decide which rows of a row group are live, and how their select columns are to be read."""
    conditions = None if file.conditions is None else file.conditions.for_row_group(row_group)
    wanted = file.learned.wanted
    matching = _prune(file, row_group, wanted, conditions, metrics)
    if matching is Match.NONE:
        return SKIP
    selection = subtract_positions(file, row_group, metrics)
    if not file.data_file.context.settings.two_stage:
        return ReadWhole(row_group, selection, file.learned.filter_for(matching))
    known = _KnownRows(wanted=wanted, matching=matching, considered=selection, selection=selection)
    if matching is Match.SOME and selection.count:
        known = _narrow(file, row_group, known, conditions, metrics)
        if known.selection.count == 0:
            metrics.add("row_groups.pruned.filter")
            return SKIP
    return _choose_plan(file, row_group, known, conditions, metrics)


def _prune(
    file: OpenFile,
    row_group: RowGroup,
    wanted: Predicate,
    conditions: RowGroupConditions | None,
    metrics: Metrics,
) -> Match:
    """Tell how many rows of a row group match, by its metadata, dictionaries and cached conditions."""
    learned = file.learned
    metrics.add("row_groups.considered")
    metrics.add("rows.considered", row_group.num_rows)
    with metrics.timed("prune"):
        return prune_row_group(
            file.data_file,
            row_group,
            learned.predicate,
            metrics,
            wanted=wanted,
            dictionaries=learned.payoffs.dictionaries,
            conditions=conditions,
        )


def _narrow(
    file: OpenFile,
    row_group: RowGroup,
    known: _KnownRows,
    conditions: RowGroupConditions | None,
    metrics: Metrics,
) -> _KnownRows:
    """Drop rows by earlier scans' answers for some conjuncts, and by indexes' answers for the others."""
    selection, left, answers = known.selection, known.left, known.answers
    with metrics.timed("filter"):
        if conditions is not None:
            selection, left = conditions.narrow(selection, metrics)
        if file.indexes is not None and selection.count and left != ():
            answers = file.indexes.of(row_group, metrics)
        if answers is not None:
            conjuncts = file.learned.predicate.conjuncts if left is None else left
            selection, left = answers.narrow(selection, conjuncts, metrics)
    matching = Match.ALL if left == () else known.matching
    return replace(known, matching=matching, selection=selection, left=left, answers=answers)


def _choose_plan(
    file: OpenFile,
    row_group: RowGroup,
    known: _KnownRows,
    conditions: RowGroupConditions | None,
    metrics: Metrics,
) -> RowGroupPlan:
    """Choose how to read a row group: in one stage, in windows, or filter columns first."""
    learned, selection = file.learned, known.selection
    row_filter = learned.filter_for(known.matching, known.left, known.answers)
    if known.matching is Match.SOME and learned.keeps_nearly_all:
        metrics.choices["read in one stage: the filter keeps nearly all rows"] += 1
        return ReadWhole(row_group, selection, replace(row_filter, answers=None))
    if known.matching is Match.SOME or known.wanted != TRUE:
        with metrics.timed("prune"):
            selection = prune_pages(
                file.data_file,
                row_group,
                learned.predicate,
                selection,
                learned.payoffs.page_indexes,
                metrics,
                wanted=known.wanted,
            )
    num_windows = count_windows(file.data_file, row_group, row_filter)
    if num_windows == 0:
        metrics.choices["read in one stage: the filter columns of a row group exceed task-memory"] += 1
        return ReadWhole(row_group, selection, replace(row_filter, answers=None))
    if known.matching is Match.SOME and known.left is None:
        learned.add_filtered(row_group.num_rows)
    if known.matching is Match.ALL or not learned.is_of_all_rows(row_filter, known.wanted):
        conditions = None  # the filter's results are not worth keeping
    if conditions is not None:
        conditions.begin(known.considered, selection, knows_some=known.left is not None)
    if num_windows > 1:
        metrics.choices["read in windows: the filter columns of a row group exceed task-memory"] += 1
        windows = cut_windows(selection, num_windows)
        return ReadWindows(row_group, windows, row_filter, conditions)
    return _filter(file, row_group, row_filter, selection, conditions, metrics)


def _filter(
    file: OpenFile,
    row_group: RowGroup,
    row_filter: RowFilter,
    selection: Selection,
    conditions: RowGroupConditions | None,
    metrics: Metrics,
) -> Skip | Fetch | AwaitDeletes:
    """Read the filter columns of some rows and evaluate the filter; then apply equality deletes and top-n."""
    is_expected = expect_small_columns(file, row_group, row_filter)
    columns = filter_selection(
        file.data_file,
        row_group,
        row_filter,
        selection,
        file.learned.payoffs.text_searches,
        metrics,
        learn=None if conditions is None else conditions.add_first,
    )
    if conditions is not None:
        conditions.add_all(selection, columns.selection())
    file.learned.add_kept(columns.live.count, row_filter)
    learn_small_columns(file, row_group, columns, metrics, was_expected=is_expected)
    if columns.live.count == 0:
        metrics.add("row_groups.pruned.filter")
        return SKIP
    return _plan_fetch(file, row_group, columns, metrics)


def _plan_fetch(
    file: OpenFile, row_group: RowGroup, columns: LiveColumns, metrics: Metrics
) -> Skip | Fetch | AwaitDeletes:
    """Apply equality deletes and top-n to the rows that the filter kept."""
    learned, expected = file.learned, ExpectedColumns(file, row_group, columns)
    expected.ask_for_most()
    with metrics.timed("deletes"):
        probe = subtract_equality(file, row_group, columns, metrics, expected)
    if probe is None:
        expected.learn(metrics)
    if columns.live.count == 0:
        metrics.add("row_groups.pruned.deletes")
        return SKIP
    if probe is not None:
        return AwaitDeletes(row_group, columns, probe, expected.learn)
    if learned.best is not None:
        with metrics.timed("filter"):
            learned.best.admit_row_group(columns, learned.row_filter, metrics)
        if columns.live.count == 0:
            return SKIP
    return Fetch(row_group, columns)


def find_live_rows(
    file: OpenFile,
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
