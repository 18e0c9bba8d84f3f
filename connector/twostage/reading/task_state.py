"""What a Spark task holds open and learns while it reads, and what stage one decides of a row group."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twostage.deletes.positions.position_deletes import DeletedPositions
from twostage.reading.payoff import Payoff

if TYPE_CHECKING:
    from collections.abc import Iterable

    from twostage.data_files.data_file import DataFile
    from twostage.data_files.row_group import RowGroup
    from twostage.deletes.anti_join.build_from_rows import Asked
    from twostage.deletes.anti_join.choose import TaskDeletes
    from twostage.reading.aligned_columns import LiveColumns
    from twostage.reading.filter import RowFilter
    from twostage.reading.top_rows import BestRows
    from twostage.selection import Selection

KEEPS_NEARLY_ALL = 0.9
"""Of the rows considered: a filter that keeps more makes two stages 0 to 6 % slower than one."""
LEAST_GROUPS = 2
"""Row groups that must have been filtered before a task reads the others in one stage."""


@dataclass(slots=True)
class Learned:
    """What a Spark task learns from row group to row group."""

    row_filter: RowFilter
    dictionaries: Payoff = field(default_factory=Payoff)
    pages: Payoff = field(default_factory=Payoff)
    key_pages: Payoff = field(default_factory=Payoff)
    searches: Payoff = field(default_factory=Payoff)
    best: BestRows | None = None
    groups_filtered: int = 0
    rows_filtered: int = 0
    rows_kept: int = 0

    @property
    def keeps_nearly_all(self) -> bool:
        """Whether the filter has removed so little so far that reading late gains nothing."""
        enough = self.groups_filtered >= LEAST_GROUPS
        return enough and self.rows_kept > KEEPS_NEARLY_ALL * self.rows_filtered


@dataclass(frozen=True, slots=True)
class OpenTask:
    """An open data file, what deletes rows of it, and what the task has learned."""

    data_file: DataFile
    positions: DeletedPositions
    equality: TaskDeletes
    learned: Learned
    compiled: DeletedPositions = field(default_factory=DeletedPositions)
    """What equality deletes remove, if that was compiled; `equality` then has none."""


@dataclass(frozen=True, slots=True)
class Skip:
    """No row of the row group lives."""


@dataclass(frozen=True, slots=True)
class ReadWhole:
    """The row group is read in one stage: filter and equality deletes are applied while its columns are decoded."""

    row_group: RowGroup
    selection: Selection
    """The rows that neither positions delete nor pages rule out."""
    row_filter: RowFilter


@dataclass(frozen=True, slots=True)
class ReadWindows:
    """Its filter columns exceed the budget: both stages run for one window of rows after another."""

    row_group: RowGroup
    windows: Iterable[Selection]
    row_filter: RowFilter


@dataclass(frozen=True, slots=True)
class Fetch:
    """Stage one is done: these rows live, and the select columns are still to be read for them."""

    row_group: RowGroup
    columns: LiveColumns


@dataclass(frozen=True, slots=True)
class AwaitDeletes:
    """As `Fetch`, but equality deletes are still to be asked about the rows."""

    row_group: RowGroup
    columns: LiveColumns
    asked: Asked


RowGroupPlan = Skip | ReadWhole | ReadWindows | Fetch | AwaitDeletes
"""What stage one decided of a row group."""
SKIP = Skip()
