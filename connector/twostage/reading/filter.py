"""Stage one: read the filter columns of a row group and decide which rows live.

Takes the live rows of a row group, and a way to its columns; leaves alive those for which the predicate is
true, and of those the ones that no equality delete removes. Conjuncts run one by one, cheapest and most selective first, each reading its columns only if
something is still alive. The rule: a row leaves only when the predicate is false or NULL for it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twostage.predicates import predicate as tree
from twostage.predicates.evaluate import evaluate
from twostage.predicates.normalize import normalize, pull_common_factors
from twostage.predicates.predicate import (
    And,
    Compare,
    CompareColumns,
    CompareLength,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    StringMatch,
)
from twostage.reading.live_columns import plain

if TYPE_CHECKING:
    from twostage.deletes.equality import EqualityDeletes
    from twostage.metrics import Metrics
    from twostage.predicates.predicate import Predicate
    from twostage.reading.live_columns import LiveColumns
    from twostage.task import ScanContext


@dataclass(slots=True)
class Conjunct:
    """One part of the predicate and what it was measured to do."""

    predicate: Predicate
    text: str
    field_ids: tuple[int, ...]
    guess: float
    rows_in: int = 0
    rows_out: int = 0
    nanoseconds: int = 0

    def rank(self) -> float:
        """Nanoseconds per row that it removes: the optimal order of independent filters is ascending."""
        if self.rows_in == 0:
            return self.guess
        removed = max(self.rows_in - self.rows_out, 0.5)
        return self.nanoseconds / removed


@dataclass(slots=True)
class RowFilter:
    """The predicate of a scan, prepared once per Spark task; learns its order as row groups pass."""

    conjuncts: list[Conjunct] = field(default_factory=list)
    reorder: bool = True
    kernels: bool = True

    @staticmethod
    def of(context: ScanContext) -> RowFilter:
        """Prepare the scan's predicate, normalized as the option ``filter.normalize`` says."""
        predicate = pull_common_factors(tree.push_not_down(context.predicate))
        predicate = normalize(predicate, context.settings.normalize)
        parts = [
            Conjunct(part, str(part), tuple(c.field_id for c in tree.columns(part)), _guess(part))
            for part in tree.conjuncts(predicate)
        ]
        settings = context.settings
        return RowFilter(parts, reorder=settings.reorder_filters, kernels=settings.kernels)

    def ordered(self) -> list[Conjunct]:
        """Return the conjuncts in the order to evaluate them now."""
        return sorted(self.conjuncts, key=Conjunct.rank) if self.reorder else list(self.conjuncts)


def _guess(predicate: Predicate) -> float:
    """Guess a rank before anything was measured: selective and narrow first."""
    match predicate:
        case Constant():
            return 0.0
        case Compare(op, column, _):
            return (1.0 if op in ("=", "<=>") else 3.0) * (2.0 if str(column.type) == "string" else 1.0)
        case In(column, values):
            return 1.5 * (2.0 if str(column.type) == "string" else 1.0) + len(values) * 1e-6
        case StringMatch() | CompareColumns() | CompareLength():
            return 6.0
        case IsNull():
            return 8.0
        case Not(child):
            return 20.0 + _guess(child)
        case And(children) | Or(children):
            return 2.0 + sum(_guess(child) for child in children)
    return 100.0


def filter_rows(row_filter: RowFilter, columns: LiveColumns, metrics: Metrics) -> None:
    """Let only those rows live for which the predicate is true; columns are read only while rows live."""
    for conjunct in row_filter.ordered():
        if columns.alive.count == 0:
            break
        started = time.perf_counter_ns()
        columns.condense()
        before = columns.alive.count
        arrays = {field_id: columns.column(field_id) for field_id in conjunct.field_ids}
        truth = evaluate(conjunct.predicate, arrays, columns.base.count, kernels=row_filter.kernels)
        columns.keep(truth.true)
        spent = time.perf_counter_ns() - started
        conjunct.rows_in += before
        conjunct.rows_out += columns.alive.count
        conjunct.nanoseconds += spent
        metrics.count_predicate(conjunct.text, before, columns.alive.count, spent)


def subtract_equality(equality: EqualityDeletes, columns: LiveColumns, metrics: Metrics) -> None:
    """Let only those rows live that no equality delete removes; only live rows are probed."""
    if not equality or columns.alive.count == 0:
        return
    columns.condense(to_the_rows=True)
    keys = {field_id: plain(columns.column(field_id)) for field_id in equality.field_ids}
    deleted = equality.deleted(keys, columns.base.count)
    columns.keep(~deleted)
    metrics.add("rows.deleted.equality", columns.base.count - columns.alive.count)
