"""Prune rows of a row group by the file's page indexes.

Takes an open data file, a row group and its live rows; returns the rows that may match. Pages of different
columns begin at different rows, so each conjunct is tested on runs of rows within which no page of its
columns ends. May keep too much; must never drop a row that matches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twostage.data_files.computed_columns import stored_part
from twostage.predicates import predicate as tree
from twostage.predicates.prune import Match, match
from twostage.predicates.residual import Residuals
from twostage.reading.prune_row_groups import row_group_bounds
from twostage.selection import Selection

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from twostage.data_files.data_file import DataFile
    from twostage.data_files.row_group import PageBounds, RowGroup
    from twostage.metrics import Metrics
    from twostage.predicates.bounds import Bounds
    from twostage.predicates.predicate import Predicate
    from twostage.reading.payoff import Payoff
    from twostage.reading.scan_predicate import ScanPredicate

MIN_PRUNED_SHARE = 0.1
"""Of the rows: pruning fewer counts as a failure. A probe costs 0.2 to 0.7 ms for a row group of 17 pages per
column."""
MAX_RUNS = 20_000
"""Runs of rows on which a conjunct is tested; with more, nothing is pruned."""


def prune_pages(
    data_file: DataFile,
    row_group: RowGroup,
    predicate: ScanPredicate,
    selection: Selection,
    payoff: Payoff,
    metrics: Metrics,
    *,
    wanted: Predicate = tree.TRUE,
) -> Selection:
    """Return the rows of `selection` in pages that may hold a match that also meets `wanted`."""
    if not data_file.context.settings.prune_pages or not payoff.pays or selection.count == 0:
        return selection
    before, is_probed = selection.count, False
    bounds_of, residuals = row_group_bounds(data_file, row_group), Residuals()
    for conjunct in (*predicate.stored_conjuncts, *tree.conjuncts(stored_part(wanted))):
        if selection.count == 0:
            break
        left = conjunct
        if data_file.context.settings.prune_row_groups:
            left = residuals.of(conjunct, bounds_of, row_group.num_rows)
        pages = {
            column.field_id: found
            for column in tree.columns(left)
            if (found := data_file.page_bounds(row_group, column.field_id)) is not None
        }
        if pages:
            is_probed, count = True, selection.count
            selection = selection & _may_match(left, pages, row_group.num_rows)
            if conjunct in predicate.keys:
                metrics.add("rows.unjoined.pages", count - selection.count)
    pruned = before - selection.count
    if is_probed:
        payoff.add(pruned=pruned >= before * MIN_PRUNED_SHARE)
        payoff.report(metrics)
    metrics.add("rows.pruned", pruned)
    return selection


def _may_match(conjunct: Predicate, pages: dict[int, PageBounds], num_rows: int) -> Selection:
    """Return the rows of the runs for which the conjunct may be true."""
    starts: NDArray[np.int64] = np.unique(np.concatenate([found.first_rows for found in pages.values()]))
    if len(starts) > MAX_RUNS:
        return Selection.all(num_rows)
    lengths = np.diff(starts, append=num_rows)
    page_of = {
        field_id: np.searchsorted(found.first_rows, starts, side="right") - 1
        for field_id, found in pages.items()
    }
    kept = np.ones(len(starts), np.bool_)
    for run, length in enumerate(lengths.tolist()):

        def bounds_of(field_id: int, run: int = run) -> Bounds | None:
            found = pages.get(field_id)
            return None if found is None else found.bounds[page_of[field_id][run]]

        kept[run] = match(conjunct, bounds_of, length) is not Match.NONE
    return Selection.all(num_rows) if kept.all() else Selection.of(np.repeat(kept, lengths))
