"""Which row groups need not be read, and which need not be filtered.

Takes an open data file, a row group and the scan's predicate; tells from statistics, Bloom filters and dictionaries
whether none, some or all of its rows match. May keep too much; must never rule out a row group that holds a matching row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twostage.data_files.computed_columns import COMPUTED, DELETED, LAST_UPDATED, POSITION
from twostage.predicates.bounds import Bounds
from twostage.predicates.predicate import FALSE, TRUE
from twostage.predicates.prune import Match, match
from twostage.predicates.residual import Residuals
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Callable

    from twostage.data_files.data_file import DataFile
    from twostage.data_files.row_group import RowGroup
    from twostage.metrics import Metrics
    from twostage.predicates.predicate import Predicate
    from twostage.reading.conditions.of_file import RowGroupConditions
    from twostage.reading.payoff import Payoff
    from twostage.reading.scan_predicate import ScanPredicate


def prune_row_group(
    data_file: DataFile,
    row_group: RowGroup,
    predicate: ScanPredicate,
    metrics: Metrics,
    *,
    wanted: Predicate = TRUE,
    dictionaries: Payoff | None = None,
    conditions: RowGroupConditions | None = None,
) -> Match:
    """Tell whether none, some (possibly none) or all rows of a row group match, and count what ruled it out.

    Args:
        data_file: The open file.
        row_group: Its row group.
        predicate: The scan's predicate.
        metrics: Gains ``row_groups.pruned.*``, ``row_groups.unjoined`` and ``rows.pruned``.
        wanted: What rows must also meet to be among the first under ``ORDER BY … LIMIT``.
        dictionaries: Whether probing dictionaries has paid; None: they are not probed.
        conditions: Answers of earlier scans for the row group; if they decide it, nothing is read to rule it
            out. Gains new answers.
    """
    settings, num_rows = data_file.context.settings, row_group.num_rows
    bounds_of = row_group_bounds(data_file, row_group)
    reason: str | None
    if settings.prune_row_groups and wanted != TRUE and match(wanted, bounds_of, num_rows) is Match.NONE:
        reason = "top-n"
    elif predicate.exact == FALSE:
        return Match.NONE
    elif data_file.task.all_match and settings.prune_files and data_file.context.hint == TRUE:
        return Match.ALL
    elif not settings.prune_row_groups:
        return Match.ALL if predicate.exact == TRUE else Match.SOME
    elif match(predicate.prunable, bounds_of, num_rows) is Match.NONE:
        reason = "statistics"
        others = predicate.without_keys
        if others is not None and match(others, bounds_of, num_rows) is not Match.NONE:
            metrics.add("row_groups.unjoined")
    elif match(predicate.exact, bounds_of, num_rows) is Match.ALL:
        return Match.ALL
    elif conditions is not None and conditions.is_known:
        return Match.SOME
    else:
        left = Residuals().of(predicate.stored, bounds_of, num_rows)
        reason = _probe_filters(data_file, row_group, left, metrics, dictionaries)
        if reason is not None and conditions is not None:
            conditions.add_none()
    if reason is None:
        return Match.SOME
    metrics.add(f"row_groups.pruned.{reason}")
    metrics.add("rows.pruned", num_rows)
    return Match.NONE


def _probe_filters(
    data_file: DataFile,
    row_group: RowGroup,
    stored: Predicate,
    metrics: Metrics,
    dictionaries: Payoff | None,
) -> str | None:
    """Return whether a Bloom filter or a dictionary proves that no row meets `stored`; None if neither does."""
    settings = data_file.context.settings
    may_probe = settings.dictionary_filter and dictionaries is not None and dictionaries.pays
    reason = data_file.cannot_match(row_group, stored, probe_dictionaries=may_probe)
    if dictionaries is not None and may_probe and reason != "bloom":
        dictionaries.add(pruned=reason == "dictionary")
        dictionaries.report(metrics)
    return reason


def row_group_bounds(data_file: DataFile, row_group: RowGroup) -> Callable[[int], Bounds | None]:
    """Return a function from field id to the field's bounds in a row group."""
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
        return None  # NaN and -0.0 are special cases, and a constant column costs nothing to filter
    if value is None:
        return Bounds(null_count=num_rows, value_count=num_rows)
    return Bounds(lower=value, upper=value, null_count=0, nan_count=0, value_count=num_rows)


def computed_bounds(data_file: DataFile, row_group: RowGroup, field_id: int) -> Bounds | None:
    """Return the bounds of a computed column in a row group."""
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
