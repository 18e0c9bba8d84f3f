"""Filters the rows of a row group: evaluates the scan's conjuncts, reading columns only as far as needed.

Takes the live rows of a row group and a way to read their columns; keeps the rows for which every conjunct is
true. Conjuncts are evaluated one by one, cheapest and most selective first, and a column is read only while a
row is live. The rule: a row is dropped only where the predicate is false or NULL.
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from twostage.predicates import predicate as tree
from twostage.predicates.costs import Costs
from twostage.predicates.evaluate import evaluate
from twostage.predicates.residual import Residuals
from twostage.predicates.row_columns import RowColumns
from twostage.reading.aligned_columns import MIN_ROWS_PER_LIVE_ROW, LiveColumns
from twostage.reading.prune_row_groups import row_group_bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from twostage.data_files.data_file import DataFile
    from twostage.data_files.row_group import RowGroup
    from twostage.metrics import Metrics
    from twostage.options import ReadSettings
    from twostage.predicates.predicate import Predicate
    from twostage.predicates.residual import Changed
    from twostage.predicates.truth import Truth
    from twostage.reading.index_answers import RowGroupAnswers
    from twostage.reading.payoff import Payoff
    from twostage.reading.scan_predicate import Conjunct, ScanPredicate
    from twostage.selection import Selection

    Read = Callable[[int, NDArray[np.int64] | None], pa.Array]
    Search = Callable[[Predicate, Selection], Selection]
    Learn = Callable[[Conjunct, Selection], None]
    Decide = Callable[[Predicate, Changed | None], Predicate]

MIN_ROWS_TO_GIVE_UP = 100_000
"""Rows on which a task evaluates join keys before it may give them up."""
MIN_PRUNED_SHARE = 0.1
"""Of the rows: a text search of pages that prunes fewer counts as a failure."""
DECIDED = "part of the filter was not read: row group statistics decide it"


@dataclass(slots=True)
class RowFilter:
    """The conjuncts that rows must meet; learns their best order as row groups pass."""

    conjuncts: Sequence[Conjunct] = ()
    reorder: bool = True
    kernels: bool = True
    costs: Costs = field(default_factory=Costs)
    min_dropped_share: float = 0.25
    """Of the rows: join keys that drop fewer are given up."""
    shared: frozenset[int] = frozenset()
    """The ids of the columns that several leaves read, so that reading them whole pays."""
    answers: RowGroupAnswers | None = None
    """What indexes tell about the row group."""
    residuals: Residuals = field(default_factory=Residuals)
    """The conjuncts' residuals under the statistics of row groups."""
    _tried: Counter[int] = field(default_factory=Counter)
    """Rows on which optional conjuncts were evaluated, by `id`: hashing a list of 1,000 keys takes too
    long."""
    _dropped: Counter[int] = field(default_factory=Counter)
    _given_up: set[int] = field(default_factory=set)

    @staticmethod
    def of(predicate: ScanPredicate, settings: ReadSettings) -> RowFilter:
        """Return the filter of a scan's rows."""
        return RowFilter(
            predicate.conjuncts,
            reorder=settings.reorder_filters,
            kernels=settings.kernels,
            min_dropped_share=settings.min_dropped_share,
            shared=predicate.shared,
        )

    def ordered(self) -> list[Conjunct]:
        """Return the conjuncts in the current order of evaluation, without those that were given up."""
        conjuncts = [one for one in self.conjuncts if not one.is_optional or id(one) not in self._given_up]
        if not self.reorder or len(conjuncts) < 2:
            return conjuncts
        by_part = {id(conjunct.predicate): conjunct for conjunct in conjuncts}
        parts = [conjunct.predicate for conjunct in conjuncts]
        return [by_part[id(part)] for part in self.costs.order(parts, "Filters")]

    def add_tried(self, conjunct: Conjunct, tried: int, dropped: int, metrics: Metrics) -> None:
        """Count rows on which join keys were evaluated, and give the keys up if they drop too few."""
        key = id(conjunct)
        self._tried[key] += tried
        self._dropped[key] += dropped
        share = self._dropped[key] / max(1, self._tried[key])
        if self._tried[key] >= MIN_ROWS_TO_GIVE_UP and share < self.min_dropped_share:
            self._given_up.add(key)
            metrics.choices[f"join keys given up: {conjunct.predicate} dropped {share:.0%} of the rows"] += 1


def filter_selection(
    data_file: DataFile,
    row_group: RowGroup,
    row_filter: RowFilter,
    selection: Selection,
    text_searches: Payoff,
    metrics: Metrics,
    learn: Learn | None = None,
) -> LiveColumns:
    """Return the rows of a selection for which every conjunct is true, with the columns that were read for it.

    `learn` is called with the conjunct that was evaluated first, and the rows that meet it.
    """
    read = functools.partial(data_file.read_filter_column, row_group)
    columns = LiveColumns(selection, read, reads_parts=data_file.reads_parts)

    def search(predicate: Predicate, rows: Selection) -> Selection:
        found = data_file.search(row_group, predicate, rows) if text_searches.pays else None
        if found is None:
            return rows
        text_searches.add(pruned=rows.count - found.count >= rows.count * MIN_PRUNED_SHARE)
        text_searches.report(metrics)
        return found

    bounds_of = row_group_bounds(data_file, row_group)

    def decide(predicate: Predicate, changed: Changed | None) -> Predicate:
        return row_filter.residuals.of(predicate, bounds_of, row_group.num_rows, changed)

    may_decide = data_file.context.settings.prune_row_groups
    with metrics.timed("filter"):
        filter_rows(row_filter, columns, metrics, search, learn, decide if may_decide else None)
    return columns


def filter_rows(
    row_filter: RowFilter,
    columns: LiveColumns,
    metrics: Metrics,
    search: Search | None = None,
    learn: Learn | None = None,
    decide: Decide | None = None,
) -> None:
    """Keep the rows for which every conjunct is true.

    Args:
        row_filter: The conjuncts.
        columns: The rows, with a way to read their columns.
        metrics: Gains how many rows each conjunct dropped.
        search: Takes a predicate and some rows; returns the rows that may match, without decoding the column.
        learn: Takes the conjunct that is evaluated first, and the rows for which it is true.
        decide: Takes a predicate; returns its residual on these rows, without reading a column.
    """
    known: dict[int, Truth] = {}

    def read(field_id: int, places: NDArray[np.int64] | None) -> pa.Array:
        if places is None:
            return columns.column(field_id)
        # If an index answers a range, both of its ends test the same few rows in doubt: no reason to read the
        # whole column.
        whole = field_id in row_filter.shared and not known
        return columns.part(field_id, places, whole=whole, in_doubt=bool(known))

    clock = row_filter.costs.clock = metrics.clock
    bytes_read = row_filter.costs.bytes_read = metrics.filter_bytes
    costs = row_filter.costs if row_filter.reorder else None
    for conjunct in row_filter.ordered():
        if columns.live.count == 0:
            break
        started, read_before = clock(), bytes_read()
        before = columns.live.count
        left = (
            conjunct.predicate
            if decide is None
            else _undecided(conjunct, before, decide, row_filter, metrics)
        )
        if left == tree.TRUE:
            metrics.count_predicate(conjunct.text, before, before, clock() - started, 0)
            continue
        columns.condense()
        if search is not None and not any(map(columns.has_read, conjunct.field_ids)):
            columns.narrow(search(left, columns.selection()))
            columns.condense()
        if columns.live.count:
            count = columns.base.count
            predicate, known = left, {}
            if row_filter.answers is not None:
                predicate, known = row_filter.answers.known_parts(conjunct, columns.base)
                predicate = predicate if decide is None else decide(predicate, None)
            true = None
            if search is not None and not known:
                true = _searched(predicate, columns, read, search, row_filter)
            if true is None:
                true = evaluate(
                    predicate,
                    RowColumns(read, count),
                    count,
                    kernels=row_filter.kernels,
                    costs=costs,
                    known=known,
                ).true
            columns.keep(true)
        if learn is not None:
            learn(conjunct, columns.selection())
            learn = None
        spent = clock() - started
        after = columns.live.count
        read_bytes = bytes_read() - read_before
        row_filter.costs.of(conjunct.predicate).add(before, before - after, spent)
        metrics.count_predicate(conjunct.text, before, after, spent, read_bytes)
        if costs is not None and _is_one_part(left, conjunct.predicate):
            costs.count_child(left, before, after, spent, read_bytes)
        metrics.add(conjunct.counter, before - after)
        if conjunct.is_optional:
            row_filter.add_tried(conjunct, before, before - after, metrics)
    for part, *cost in row_filter.costs.take_children():
        metrics.count_part(str(part), *cost)
    metrics.choices.update(row_filter.costs.changes)
    row_filter.costs.changes.clear()


def _undecided(
    conjunct: Conjunct, num_rows: int, decide: Decide, row_filter: RowFilter, metrics: Metrics
) -> Predicate:
    """Return a conjunct's residual; children that bounds decide are counted as evaluated on all rows."""
    costs = row_filter.costs

    def changed(part: Predicate, left: Predicate) -> None:
        if left in (tree.TRUE, tree.FALSE):
            costs.count_child(part, num_rows, num_rows if left == tree.TRUE else 0, 0, 0)
        else:
            costs.count_as(left, part)

    left = decide(conjunct.predicate, changed if row_filter.reorder else None)
    if left is not conjunct.predicate:
        metrics.choices[DECIDED] += 1
    return left


def _is_one_part(left: Predicate, whole: Predicate) -> bool:
    """Tell whether the residual of an AND or OR is a single child or part of one, which is not counted elsewhere."""
    is_left = left is not whole and left not in (tree.TRUE, tree.FALSE)
    return is_left and type(left) is not type(whole)


def _searched(
    predicate: Predicate, columns: LiveColumns, read: Read, search: Search, row_filter: RowFilter
) -> NDArray[np.bool_] | None:
    """Evaluate an OR on the rows of the base, if a search leaves few rows on which to evaluate one child.

    That child's column is then read for those rows only, so no other child may use it. None if there is no
    such child: all children are then evaluated on all rows.
    """
    if not isinstance(predicate, tree.Or):
        return None
    live = columns.selection()
    fields = [{column.field_id for column in tree.columns(child)} for child in predicate.children]
    for number, child in enumerate(predicate.children):
        rest = [part for other, part in enumerate(predicate.children) if other != number]
        if not fields[number].isdisjoint(row_filter.shared) or any(map(columns.has_read, fields[number])):
            continue
        may_match = search(child, live)
        if may_match.count * MIN_ROWS_PER_LIVE_ROW > live.count:
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
