"""A column's bounds and counts in a manifest entry, in the column's type in the table.

Takes an entry's metrics; returns `Bounds`. Timestamps and times that may have been written in another unit get bounds
that hold for both units; bounds of ORC files hold for the values read, which may differ from those measured.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from twostage.predicates.bounds import Bounds, decode_bound

if TYPE_CHECKING:
    from twostage.schema import Primitive
    from twostage.table.manifest_entry import ContentFile

_UNITS_PER_SECOND = {"timestamp": 10**6, "timestamptz": 10**6, "timestamp_ns": 10**9, "timestamptz_ns": 10**9}
_MAX_MILLISECONDS = {"time": 86_399_999, "timestamp": 253_402_300_799_999, "timestamptz": 253_402_300_799_999}
"""The end of the day, or of the year 9999, in milliseconds; as microseconds, the latter is early in 1978."""
_BEFORE_SPACE = re.compile("[\0-\x1f]")


def metrics_bounds(kind: Primitive, file: ContentFile, field_id: int) -> Bounds | None:
    """Return the bounds and counts of a column of type `kind` in a file; None if it has no metrics."""
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
    return _without_padding(kind, as_stored(kind, known)) if file.format == "orc" else known


def may_count_other_units(kind: Primitive, lower: Any, upper: Any) -> bool:
    """Return whether bounds of times or timestamps may be in milliseconds or nanoseconds.

    When Iceberg's Java library imports Parquet files, it copies the bounds from their footers in the file's unit,
    although the rows are read as microseconds. Only the magnitude tells: bounds that are at most the year 9999 as
    milliseconds, or beyond it as microseconds, may be in another unit. (Nanoseconds from 1962 to 1977 alone are not
    recognized.)
    """
    limit = _MAX_MILLISECONDS.get(kind.name)
    bounds = [bound for bound in (lower, upper) if bound is not None]
    if limit is None or not bounds:
        return False
    return all(-limit <= bound <= limit for bound in bounds) or any(
        abs(bound) // 1000 > limit for bound in bounds
    )


def _in_both_units(kind: Primitive, bounds: Bounds) -> Bounds:
    """Return bounds that hold in either unit."""
    lower, upper = bounds.lower, bounds.upper
    limit = _MAX_MILLISECONDS[kind.name]
    if all(bound is None or -limit <= bound <= limit for bound in (lower, upper)):
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
    """Return bounds that hold for the values that readers get from ORC files.

    ORC's Java writer loses the sign of timestamps within the last second before 1970: they are stored, and read, one
    second too late, while metrics and partition values were computed from the original values.
    """
    second = _UNITS_PER_SECOND.get(kind.name)
    if second is None or bounds is None or bounds.upper is None:
        return bounds
    if not -second <= bounds.upper < second:
        return bounds
    return replace(bounds, upper=second, exact_upper=False)


def _without_padding(kind: Primitive, bounds: Bounds | None) -> Bounds | None:
    """Return bounds that also hold for ORC's type char: imported files have bounds of space-padded values.

    Values are read without these spaces, which makes them smaller. The lower bound without them, up to its
    first character that sorts before a space, is still a lower bound: a value below it would, padded, have
    been below the original one.
    """
    if kind.name != "string" or bounds is None or bounds.lower is None:
        return bounds
    control = _BEFORE_SPACE.search(bounds.lower)
    lower = bounds.lower[: None if control is None else control.start()].rstrip(" ")
    return bounds if lower == bounds.lower else replace(bounds, lower=lower, exact_lower=False)
