"""Which row groups need no reading, and which need no filtering.

Takes an open data file and a row group; gives a verdict from statistics, Bloom filters and dictionaries.
May keep too much; must never skip a row group that holds a matching row.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from twostage.data_files.computed_columns import COMPUTED, DELETED, LAST_UPDATED, POSITION, stored_part
from twostage.predicates import predicate as tree
from twostage.predicates.bounds import Bounds
from twostage.predicates.prune import Match, match
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Callable

    from twostage.data_files.data_file import DataFile
    from twostage.data_files.row_group import RowGroup
    from twostage.metrics import Metrics
    from twostage.reading.payoff import Payoff


class Verdict(enum.Enum):
    """What to do with a row group."""

    SKIP = "no row matches"
    FILTER = "some rows may match"
    TAKE = "every row matches"


def judge_row_group(
    data_file: DataFile, row_group: RowGroup, dictionaries: Payoff, metrics: Metrics
) -> Verdict:
    """Return the verdict on a row group, counting what pruned it."""
    context = data_file.context
    settings = context.settings
    if context.predicate == tree.FALSE:
        return Verdict.SKIP
    if data_file.task.all_match and settings.prune_files and context.hint == tree.TRUE:
        return Verdict.TAKE
    if not settings.prune_row_groups:
        return Verdict.TAKE if context.predicate == tree.TRUE else Verdict.FILTER
    reason: str | None = None
    bounds_of = row_group_bounds(data_file, row_group)
    both = tree.both(context.predicate, context.hint)
    if match(both, bounds_of, row_group.num_rows) is Match.NONE:
        reason = "statistics"
    elif match(context.predicate, bounds_of, row_group.num_rows) is Match.ALL:
        return Verdict.TAKE
    else:
        ask = settings.dictionary_filter and dictionaries.pays
        reason = data_file.cannot_match(row_group, stored_part(both), ask_dictionaries=ask)
        dictionaries.asked += ask and reason != "bloom"
        dictionaries.pruned += reason == "dictionary"
        if ask and not dictionaries.pays:
            metrics.choices[
                f"dictionaries not asked any more: {dictionaries.asked} reads pruned too little"
            ] += 1
    if reason is not None:
        metrics.add(f"row_groups.pruned.{reason}")
        metrics.add("rows.pruned", row_group.num_rows)
        return Verdict.SKIP
    return Verdict.FILTER


def row_group_bounds(data_file: DataFile, row_group: RowGroup) -> Callable[[int], Bounds | None]:
    """Return what tells the bounds of a field in a row group."""
    schema, constants = data_file.context.schema, data_file.task.constants

    def bounds_of(field_id: int) -> Bounds | None:
        if field_id in constants and field_id in schema:
            if isinstance(schema.field(field_id).type, Primitive):
                return _constant(constants[field_id], row_group.num_rows)
            return None
        if field_id in COMPUTED:
            return computed_bounds(data_file, row_group, field_id)
        return data_file.bounds(row_group, field_id)

    return bounds_of


def _constant(value: object, num_rows: int) -> Bounds | None:
    if isinstance(value, float):
        return None  # NaN and -0.0 need care, and a constant column costs nothing to filter
    if value is None:
        return Bounds(null_count=num_rows, value_count=num_rows)
    return Bounds(lower=value, upper=value, null_count=0, nan_count=0, value_count=num_rows)


def computed_bounds(data_file: DataFile, row_group: RowGroup, field_id: int) -> Bounds | None:
    """Return what is known of a computed column in a row group."""
    task, rows = data_file.task, row_group.num_rows
    if field_id == DELETED or rows == 0:
        return None
    lower, upper = row_group.first_row, row_group.first_row + rows - 1
    if field_id != POSITION:
        if task.first_row_id is None:
            return Bounds(null_count=rows, value_count=rows)
        if data_file.holds(field_id):  # for some rows, perhaps
            return None
        lower, upper = lower + task.first_row_id, upper + task.first_row_id
        if field_id == LAST_UPDATED:
            lower = upper = task.sequence_number
    return Bounds(lower=lower, upper=upper, null_count=0, value_count=rows)
