"""A column's bounds and counts in a manifest entry, in the type that the table gives the column.

Takes an entry's metrics; gives `Bounds`. The rule: what may have been written in another unit is widened to hold in both.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from twostage.predicates.bounds import Bounds, decode_bound

if TYPE_CHECKING:
    from twostage.schema import Primitive
    from twostage.table.manifest_entry import ContentFile

_SECOND = {"timestamp": 10**6, "timestamptz": 10**6, "timestamp_ns": 10**9, "timestamptz_ns": 10**9}
_LAST_MILLI = {"time": 86_399_999, "timestamp": 253_402_300_799_999, "timestamptz": 253_402_300_799_999}
"""The end of the day, or of the year 9999, in milliseconds. In microseconds it is early in 1978."""


def metrics_bounds(kind: Primitive, file: ContentFile, field_id: int) -> Bounds | None:
    """Return what a file's metrics say of a column of type `kind`; None if nothing."""
    lower, upper = file.lower_bounds.get(field_id), file.upper_bounds.get(field_id)
    nulls, values = file.null_counts.get(field_id), file.value_counts.get(field_id)
    if lower is None and upper is None and nulls is None and values is None:
        return None
    known = Bounds(
        lower=None if lower is None else decode_bound(kind, lower),
        upper=None if upper is None else decode_bound(kind, upper),
        null_count=nulls,
        nan_count=file.nan_counts.get(field_id),
        value_count=values,
    )
    if file.format == "parquet" and may_count_other_units(kind, known.lower, known.upper):
        return _in_both_units(kind, known)
    return as_stored(kind, known) if file.format == "orc" else known


def may_count_other_units(kind: Primitive, lower: Any, upper: Any) -> bool:
    """Tell whether bounds of moments may count milliseconds or nanoseconds.

    Iceberg's Java library imports Parquet files with the bounds that their footers have, in the file's unit, although
    the rows are read as microseconds. Nothing tells, except the years: bounds that are of a year up to 9999 in
    milliseconds, or of a later one in microseconds, may be such. (Nanoseconds of 1962 to 1977 alone stay unnoticed.)
    """
    most = _LAST_MILLI.get(kind.name)
    bounds = [bound for bound in (lower, upper) if bound is not None]
    if most is None or not bounds:
        return False
    return all(-most <= bound <= most for bound in bounds) or any(
        abs(bound) // 1000 > most for bound in bounds
    )


def _in_both_units(kind: Primitive, bounds: Bounds) -> Bounds:
    """Return bounds that hold in whichever unit these were computed."""
    lower, upper = bounds.lower, bounds.upper
    most = _LAST_MILLI[kind.name]
    if all(bound is None or -most <= bound <= most for bound in (lower, upper)):
        other_lower = None if lower is None else lower * 1000
        other_upper = None if upper is None else upper * 1000
    else:
        other_lower = None if lower is None else lower // 1000
        other_upper = None if upper is None else -(-upper // 1000)
    return replace(
        bounds,
        lower=None if other_lower is None else min(lower, other_lower),
        upper=None if other_upper is None else max(upper, other_upper),
    )


def as_stored(kind: Primitive, bounds: Bounds | None) -> Bounds | None:
    """Return bounds that hold for what readers return of ORC files, which is not always what was written.

    ORC's Java writer loses the sign of moments within the last second before 1970: they are stored, and read, a
    second late, while metrics and partitions were computed from what was meant.
    """
    second = _SECOND.get(kind.name)
    if second is None or bounds is None or bounds.upper is None:
        return bounds
    if not -second <= bounds.upper < second:
        return bounds
    return replace(bounds, upper=second, exact_upper=False)
