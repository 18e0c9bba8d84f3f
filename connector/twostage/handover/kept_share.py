"""Estimates what share of a plan's rows its predicate keeps, from a probe of a few rows.

Takes a plan; gives an estimate from statistics or counts of NULLs where they suffice, otherwise from some pages of the filter
columns, read as stage one reads them. It decides which reader reads a scan, never which rows come back. The rule: a probe
costs a few pages of the first, the middle and the last file, and no further file after MAX_PAGES_PROBED; in an object store
it takes as many round trips as one file. It does not depend on a clock, so that two runs of a query use the same reader.
"""

from __future__ import annotations

import functools
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twostage.data_files.open_data_file import open_data_file
from twostage.handover.eligibility import MIN_KEPT_SHARE
from twostage.metrics import Metrics
from twostage.planning.estimates import drops_rows
from twostage.predicates import predicate as tree
from twostage.predicates.prune import Match
from twostage.reading.aligned_columns import LiveColumns
from twostage.reading.filter import RowFilter, filter_rows
from twostage.reading.prune_row_groups import prune_row_group
from twostage.reading.scan_predicate import ScanPredicate
from twostage.reading.windows import count_windows
from twostage.selection import Selection
from twostage.storage.driver_reads import driver_reads
from twostage.storage.location import parse_location

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from twostage.data_files.data_file import DataFile
    from twostage.data_files.row_group import RowGroup
    from twostage.handover.file_facts import FileFacts
    from twostage.storage.task_reads import TaskReads
    from twostage.task import ScanContext, ScanPlan, ScanTask

PROBE_ROWS = 4_096
"""Rows probed in a file; at least a page of each filter column is decoded for them."""
MAX_PAGES_PROBED = 24
"""Pages of filter columns, counted as one for each column and file; a page of 20,000 rows takes about a millisecond."""


@dataclass(frozen=True, slots=True)
class KeptShare:
    """What share of the planned files' rows the predicate keeps, and how that is known."""

    share: float
    how: str


def estimate_kept_share(plan: ScanPlan, facts: Sequence[FileFacts] = ()) -> KeptShare | None:
    """Estimate the share of rows of the planned files that the predicate keeps, 0 to 1; None if unknown.

    Args:
        plan: The plan of a scan.
        facts: Those of its files, if they are known. They suffice for a predicate that only leaves out NULLs, which Spark adds
            for keys of joins.
    """
    tasks = [task for group in plan.groups for task in group.tasks]
    if plan.context.predicate == tree.TRUE:
        return KeptShare(1.0, "no predicate")
    if not tasks:
        return None
    if all(task.all_match for task in tasks):
        return KeptShare(1.0, "bounds prove that every row matches")
    if facts and (values := _share_of_values(plan.context.predicate, facts)) is not None:
        return values
    started = time.perf_counter_ns()
    predicate = ScanPredicate.of(plan.context)
    columns = len({field_id for conjunct in predicate.conjuncts for field_id in conjunct.field_ids})
    most = -(-MAX_PAGES_PROBED // max(1, columns))
    chosen = [tasks[index] for index in sorted({0, len(tasks) // 2, len(tasks) - 1})[:most]]
    seen = kept = 0
    for found in _probe_files(plan.context, chosen, predicate):
        if found is None:
            return KeptShare(0.0, "statistics rule out whole row groups")
        seen, kept = seen + found[0], kept + found[1]
    if not seen:
        return None
    spent = (time.perf_counter_ns() - started) / 1e6
    return KeptShare(kept / seen, f"{kept:,} of {seen:,} sampled rows match ({spent:.0f} ms)")


def _share_of_values(predicate: tree.Predicate, facts: Sequence[FileFacts]) -> KeptShare | None:
    """Return the least share of rows that a predicate keeps if it only leaves out NULLs; None if that may be too few to tell."""
    if drops_rows(predicate):
        return None
    nulls = 0
    for column in tree.columns(predicate):
        for known in facts:
            counted = known.columns.get(column.field_id)
            if counted is None or counted.num_nulls is None:
                return None
            nulls += counted.num_nulls
    rows = sum(known.num_rows for known in facts)
    share = 1.0 - nulls / max(1, rows)  # none of the rows with a NULL in one column has one in another
    if share < MIN_KEPT_SHARE:
        return None
    return KeptShare(share, f"footers count {nulls:,} NULLs in {rows:,} rows")


def _probe_files(
    context: ScanContext, tasks: Sequence[ScanTask], predicate: ScanPredicate
) -> Generator[tuple[int, int] | None, None, None]:
    """Yield for each file how many rows were probed, and how many matched; None if its row group is pruned."""

    def probe(task: ScanTask, reads: TaskReads | None) -> tuple[int, int] | None:
        with open_data_file(context, task, Metrics(), reads) as data_file:
            groups = [group for group in data_file.row_groups() if group.num_rows]
            if not groups:
                return 0, 0
            row_filter = RowFilter.of(predicate, context.settings)
            return _probe_row_group(data_file, groups[len(groups) // 2], predicate, row_filter)

    if any(parse_location(task.path).is_local for task in tasks):
        for task in tasks:
            yield probe(task, None)
        return
    # Remote files are probed at the same time. The reads are closed first, so that no thread is left waiting for them.
    with ThreadPoolExecutor(len(tasks), "twostage-probe") as pool, driver_reads() as reads:
        yield from pool.map(lambda task: probe(task, reads), tasks)


def _probe_row_group(
    data_file: DataFile, row_group: RowGroup, predicate: ScanPredicate, row_filter: RowFilter
) -> tuple[int, int] | None:
    """Return how many rows of a row group were probed, and how many matched; None if it is pruned."""
    rows = min(PROBE_ROWS, row_group.num_rows)
    matching = prune_row_group(data_file, row_group, predicate, Metrics())
    if matching is Match.NONE:
        return None
    if matching is Match.ALL:
        return rows, rows
    if count_windows(data_file, row_group, row_filter) != 1:
        return 0, 0  # it is large, and a chunk without a page index would be decoded whole
    start = (row_group.num_rows - rows) // 2
    mask = np.zeros(row_group.num_rows, np.bool_)
    mask[start : start + rows] = True
    columns = LiveColumns(Selection.of(mask), functools.partial(data_file.read_filter_column, row_group))
    columns.condense(force=True)
    filter_rows(row_filter, columns, Metrics())
    return rows, columns.live.count
