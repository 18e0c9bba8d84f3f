"""Stage one: read the filter columns of a row group and decide which rows live.

Takes the live rows of a row group, and a way to its columns; leaves alive those for which the predicate is
true, and of those the ones that no equality delete removes. Conjuncts run one by one, cheapest and most
selective first, each reading its columns only if something is still alive. The rule: a row leaves only when the predicate is false or NULL for it.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from twostage.predicates import predicate as tree
from twostage.predicates.costs import Costs
from twostage.predicates.evaluate import evaluate
from twostage.predicates.normalize import normalize, pull_common_factors
from twostage.predicates.row_columns import RowColumns
from twostage.reading.aligned_columns import SPARSE, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from numpy.typing import NDArray

    from twostage.deletes.anti_join.choose import Equality
    from twostage.metrics import Metrics
    from twostage.predicates.predicate import Predicate
    from twostage.reading.aligned_columns import LiveColumns
    from twostage.selection import Selection
    from twostage.task import ScanContext

    Read = Callable[[int, NDArray[np.int64] | None], pa.Array]
    Search = Callable[[Predicate, Selection], Selection]


@dataclass(frozen=True, slots=True)
class Conjunct:
    """One part of the predicate."""

    predicate: Predicate
    text: str
    field_ids: tuple[int, ...]
    counter: str = "rows.filtered"
    """What counts the rows that it drops."""


@dataclass(slots=True)
class RowFilter:
    """The predicate of a scan, prepared once per Spark task; learns its order as row groups pass."""

    conjuncts: list[Conjunct] = field(default_factory=list)
    reorder: bool = True
    kernels: bool = True
    costs: Costs = field(default_factory=Costs)
    shared: frozenset[int] = frozenset()
    """Columns that several leaves look at: worth reading whole."""

    @staticmethod
    def of(context: ScanContext) -> RowFilter:
        """Prepare the scan's predicate, normalized as the option ``filter.normalize`` says."""
        predicate = pull_common_factors(tree.push_not_down(context.predicate))
        predicate = normalize(predicate, context.settings.normalize)
        parts = [
            Conjunct(part, str(part), tuple(c.field_id for c in tree.columns(part)))
            for part in tree.conjuncts(predicate)
        ]
        uses = Counter(c.field_id for leaf in tree.leaves(predicate) for c in tree.columns(leaf))
        shared = frozenset(field_id for field_id, count in uses.items() if count > 1)
        settings = context.settings
        return RowFilter(parts, reorder=settings.reorder_filters, kernels=settings.kernels, shared=shared)

    def ordered(self) -> list[Conjunct]:
        """Return the conjuncts in the order to evaluate them now."""
        if not self.reorder or len(self.conjuncts) < 2:
            return list(self.conjuncts)
        by_part = {id(conjunct.predicate): conjunct for conjunct in self.conjuncts}
        parts = [conjunct.predicate for conjunct in self.conjuncts]
        return [by_part[id(part)] for part in self.costs.order(parts, "Filters")]


def filter_rows(
    row_filter: RowFilter,
    columns: LiveColumns,
    metrics: Metrics,
    search: Search | None = None,
) -> None:
    """Let only those rows live for which the predicate is true; columns are read only while rows live.

    Args:
        row_filter: The predicate.
        columns: The rows, and a way to their columns.
        metrics: Gains what each part of the predicate dropped.
        search: Gives of some rows those that may match a part, without decoding its column.
    """

    def read(field_id: int, places: NDArray[np.int64] | None) -> pa.Array:
        if places is None:
            return columns.column(field_id)
        return columns.part(field_id, places, keep=field_id in row_filter.shared)

    costs = row_filter.costs if row_filter.reorder else None
    for conjunct in row_filter.ordered():
        if columns.alive.count == 0:
            break
        started = time.perf_counter_ns()
        columns.condense()
        before = columns.alive.count
        if search is not None and not any(map(columns.has_read, conjunct.field_ids)):
            columns.narrow(search(conjunct.predicate, columns.selection()))
            columns.condense()
        if columns.alive.count:
            count = columns.base.count
            true = (
                None if search is None else _searched(conjunct.predicate, columns, read, search, row_filter)
            )
            if true is None:
                true = evaluate(
                    conjunct.predicate,
                    RowColumns(read, count),
                    count,
                    kernels=row_filter.kernels,
                    costs=costs,
                ).true
            columns.keep(true)
        spent = time.perf_counter_ns() - started
        after = columns.alive.count
        row_filter.costs.of(conjunct.predicate).add(before, before - after, spent)
        metrics.count_predicate(conjunct.text, before, after, spent)
        metrics.add(conjunct.counter, before - after)
    metrics.choices.update(row_filter.costs.changes)
    row_filter.costs.changes.clear()


def _searched(
    predicate: Predicate, columns: LiveColumns, read: Read, search: Search, row_filter: RowFilter
) -> NDArray[np.bool_] | None:
    """Tell of each live row of the base whether an OR is true, where a search leaves few rows to ask one of its parts about.

    None where it does not: then all parts are asked. That part's column is read for those rows alone, so that no other
    part may look at it.
    """
    if not isinstance(predicate, tree.Or):
        return None
    alive = columns.selection()
    fields = [{column.field_id for column in tree.columns(child)} for child in predicate.children]
    for number, child in enumerate(predicate.children):
        rest = [part for other, part in enumerate(predicate.children) if other != number]
        if not fields[number].isdisjoint(row_filter.shared) or any(map(columns.has_read, fields[number])):
            continue
        may_match = search(child, alive)
        if may_match.count * SPARSE > alive.count:
            continue
        chosen = columns.base.marks(may_match)

        def read_found(
            field_id: int, places: NDArray[np.int64] | None, chosen: NDArray[np.bool_] = chosen
        ) -> pa.Array:
            found = columns.some(field_id, chosen, whole=False)
            return found if places is None else found.take(pa.array(places))

        count, kernels = columns.base.count, row_filter.kernels
        true: NDArray[np.bool_] = evaluate(
            tree.Or(tuple(rest)), RowColumns(read, count), count, kernels=kernels
        ).true.copy()
        if may_match.count:
            found = RowColumns(read_found, may_match.count)
            true[chosen] |= evaluate(child, found, may_match.count, kernels=kernels).true
        return true
    return None


def subtract_equality(
    equality: Equality,
    columns: LiveColumns,
    first_row: int,
    metrics: Metrics,
    *,
    asked: NDArray[np.bool_] | None = None,
    wanted: Container[int] = (),
) -> None:
    """Let only those rows live that no equality delete removes; only live rows are probed.

    Args:
        equality: The deletes.
        columns: The rows, and a way to their key columns.
        first_row: The position in the file of the columns' first row.
        metrics: Gains ``rows.deleted.equality``.
        asked: Which live rows may be deleted at all (bool, one for each); None: all.
        wanted: Columns that will be read for all rows that are left.
    """
    if not equality or columns.alive.count == 0:
        return
    columns.condense(to_the_rows=True)
    rows = columns.base
    if asked is None:
        keys = {field_id: plain(columns.column(field_id)) for field_id in equality.field_ids}
    else:
        rows = rows.keep(asked)
        keys = {
            field_id: plain(columns.some(field_id, asked, whole=field_id in wanted))
            for field_id in equality.field_ids
        }
    deleted = equality.deleted(keys, rows.count)
    if equality.recorder is not None:
        equality.recorder.add(first_row, rows, deleted)
    left = ~deleted
    if asked is not None:
        left = np.ones(columns.base.count, np.bool_)
        left[asked] = ~deleted
    columns.keep(left)
    metrics.add("rows.deleted.equality", columns.base.count - columns.alive.count)
