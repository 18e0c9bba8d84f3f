"""A Spark task's open files and what it has learned, and the plans that stage one makes for row groups."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from twostage.predicates.predicate import TRUE
from twostage.predicates.prune import Match
from twostage.reading.conditions.of_file import ScanConditions
from twostage.reading.deleted_column import shows_deleted
from twostage.reading.filter import RowFilter
from twostage.reading.payoff import Payoffs
from twostage.reading.scan_predicate import ScanPredicate
from twostage.reading.top_rows import BestRows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import ExitStack

    from twostage.data_files.data_file import DataFile
    from twostage.data_files.row_group import RowGroup
    from twostage.deletes.anti_join.build_from_rows import RemainingRows
    from twostage.deletes.files.contents import DeleteContents
    from twostage.metrics import Metrics
    from twostage.predicates.predicate import Predicate
    from twostage.reading.aligned_columns import LiveColumns
    from twostage.reading.conditions.of_file import FileConditions, RowGroupConditions
    from twostage.reading.file_deletes import FileDeletes
    from twostage.reading.index_answers import FileAnswers, RowGroupAnswers
    from twostage.reading.scan_predicate import Conjunct
    from twostage.selection import Selection
    from twostage.task import ScanContext

MAX_KEPT_SHARE = 0.9
"""Of the considered rows: with more kept, two stages are 0 to 6 % slower than one (`make bench
PAGES=gate`)."""
MIN_ROW_GROUPS_FILTERED = 2
"""Row groups to filter before a task may read the others in one stage."""


@dataclass(slots=True)
class Learned:
    """What a Spark task knows about its rows, and learns from row group to row group.

    Attributes:
        predicate: What rows must meet.
        row_filter: The same, with the measured costs of evaluation.
        best: The best rows so far, under ``ORDER BY … LIMIT``.
        conditions: The conditions that earlier scans may have answered.
        payoffs: Which ways of pruning have paid off.
    """

    predicate: ScanPredicate
    row_filter: RowFilter
    best: BestRows | None = None
    conditions: ScanConditions | None = None
    payoffs: Payoffs = field(default_factory=Payoffs)
    row_groups_filtered: int = 0
    rows_filtered: int = 0
    rows_kept: int = 0
    row_groups_expected: int = 0
    """Row groups whose columns are in flight while equality deletes are applied to them."""
    holds_enough: bool = False
    """Whether early columns of waiting row groups take so much memory that no more should be requested."""
    shows_deleted: bool = False
    """The scan uses the column `_deleted`: deleted rows are returned, marked."""
    has_few_files: bool = False
    """In an object store: reading other files does not hide the wait for one."""

    @staticmethod
    def of(context: ScanContext, metrics: Metrics) -> Learned:
        """Return what is known before the first row group."""
        predicate, settings = ScanPredicate.of(context), context.settings
        best = None if context.top is None else BestRows(context.top, kernels=settings.kernels)
        conditions = ScanConditions.of(context, predicate, metrics)
        row_filter = RowFilter.of(predicate, settings)
        return Learned(predicate, row_filter, best, conditions, shows_deleted=shows_deleted(context))

    @property
    def wanted(self) -> Predicate:
        """What further rows must meet to be among the best; TRUE without ``ORDER BY … LIMIT``."""
        return TRUE if self.best is None else self.best.wanted

    def filter_for(
        self,
        matching: Match,
        left: Sequence[Conjunct] | None = None,
        answers: RowGroupAnswers | None = None,
    ) -> RowFilter:
        """Return the filter of a row group: none of the scan's conjuncts if bounds prove that all rows match.

        With `left`, it has only these conjuncts, because the others are already answered; `answers` has more
        about these.
        """
        row_filter = RowFilter() if matching is Match.ALL else self.row_filter
        if left is not None and matching is not Match.ALL:
            row_filter = replace(row_filter, conjuncts=left, answers=answers)
        return row_filter if self.best is None else self.best.joined_to(row_filter)

    def is_of_all_rows(self, row_filter: RowFilter, wanted: Predicate) -> bool:
        """Tell whether a filter's results hold for any scan, not only for the best rows of this one."""
        own = self.predicate.conjuncts
        return wanted == TRUE and all(any(one is known for known in own) for one in row_filter.conjuncts)

    def add_filtered(self, num_rows: int) -> None:
        """Count a row group whose rows will be filtered."""
        self.row_groups_filtered += 1
        self.rows_filtered += num_rows

    def add_kept(self, num_rows: int, row_filter: RowFilter) -> None:
        """Count the rows that a filter kept, if it is the scan's own, unchanged by top-n, bounds or known answers."""
        if row_filter is self.row_filter:
            self.rows_kept += num_rows

    @property
    def keeps_nearly_all(self) -> bool:
        """Whether the filter has removed so few rows so far that late materialization gains nothing."""
        enough = self.row_groups_filtered >= MIN_ROW_GROUPS_FILTERED
        return self.best is None and enough and self.rows_kept > MAX_KEPT_SHARE * self.rows_filtered


@dataclass(frozen=True, slots=True)
class OpenFile:
    """An open data file, its deletes, and what the Spark task has learned."""

    data_file: DataFile
    deletes: FileDeletes
    learned: Learned
    contents: DeleteContents | None = None
    """Reads remote delete files, if the Spark task schedules its own reads."""
    conditions: FileConditions | None = None
    indexes: FileAnswers | None = None


@dataclass(frozen=True, slots=True)
class Skip:
    """No row of the row group is live."""


@dataclass(frozen=True, slots=True)
class ReadWhole:
    """The row group is read in one stage: filter and equality deletes are applied while its columns are decoded."""

    row_group: RowGroup
    selection: Selection
    """The rows that neither positions delete nor known answers or pages rule out."""
    row_filter: RowFilter


@dataclass(frozen=True, slots=True)
class ReadWindows:
    """The filter columns exceed the budget: both stages run for one window of rows after another."""

    row_group: RowGroup
    windows: Iterable[Selection]
    row_filter: RowFilter
    conditions: RowGroupConditions | None = None
    """The row group's conditions, if the filter's results may be kept."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """Stage one is done: these rows are live, and the select columns are still to be read for them."""

    row_group: RowGroup
    columns: LiveColumns


@dataclass(frozen=True, slots=True)
class AwaitDeletes:
    """Like `Fetch`, but equality deletes must still be streamed past the rows."""

    row_group: RowGroup
    columns: LiveColumns
    probe: RemainingRows
    learn: Callable[[Metrics], None]
    """To be called once the deletes are applied: only then is it known whether early requests were useful."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A data file has been read, except for waiting rows: `opened` keeps it open."""

    file: OpenFile
    opened: ExitStack


@dataclass(frozen=True, slots=True)
class Waits:
    """A row group of a file waits for delete files or for better rows."""

    file: OpenFile
    plan: Fetch | AwaitDeletes


RowGroupPlan = Skip | ReadWhole | ReadWindows | Fetch | AwaitDeletes
"""What stage one decided for a row group."""
Step: TypeAlias = pa.RecordBatch | Waits | Ended
"""What reading a data file yields, in the order of its rows."""
SKIP = Skip()
