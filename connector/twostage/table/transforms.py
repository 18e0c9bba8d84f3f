"""Bounds of source columns from partition values: the partition transforms, inverted.

Takes partition specs with the partition values of a file or the summaries of a manifest; returns `Bounds` of the source
columns, by which `predicates/prune.py` prunes, and the constants of identity partitions. The bounds hold for every value
that any known writer puts into the partition; an unknown transform or value gives no bounds.
Source: Iceberg table spec, "Partition Transforms".
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from twostage.errors import CorruptFileError
from twostage.predicates.bounds import Bounds, decode_bound
from twostage.predicates.value_range import order_key
from twostage.schema import Primitive
from twostage.table.bucket_transform import unscaled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.table.manifest_entry import PartitionSummary
    from twostage.table.metadata import PartitionField, PartitionSpec

_WITH_WIDTH = re.compile(r"(bucket|truncate)\s*\[\s*(\d+)\s*\]")
_TEMPORAL = ("year", "month", "day", "hour")
_KNOWN = frozenset(("identity", "void", *_TEMPORAL))
_UNITS_PER_DAY = {
    "date": 0,
    "timestamp": 86_400_000_000,
    "timestamptz": 86_400_000_000,
    "timestamp_ns": 86_400_000_000_000,
    "timestamptz_ns": 86_400_000_000_000,
}
"""Units per day of the source type; 0 for a date, whose unit is the day."""
_INT_MAX, _LONG_MAX = 2**31 - 1, 2**63 - 1
_MAX_YEARS_FROM_1970 = 10**6


@dataclass(frozen=True, slots=True)
class Transform:
    """A parsed transform; `name` is ``unknown`` if we do not know it, `width` the argument of bucket and truncate.

    >>> Transform.parse("bucket[16]")
    Transform(name='bucket', width=16)
    """

    name: str
    width: int = 0

    @staticmethod
    def parse(text: str) -> Transform:
        """Parse a transform as table metadata writes it."""
        if match := _WITH_WIDTH.fullmatch(text):
            width = int(match[2])
            return Transform(match[1], width) if 0 < width <= _INT_MAX else Transform("unknown")
        return Transform(text if text in _KNOWN else "unknown")

    @staticmethod
    def of(field: PartitionField) -> Transform:
        """Return a partition field's transform; a multi-argument one is ``unknown``."""
        return Transform("unknown") if len(field.source_ids) > 1 else Transform.parse(field.transform)

    @property
    def keeps_null(self) -> bool:
        """Whether the result is NULL if and only if the source is."""
        return self.name not in ("void", "unknown")

    def result_type(self, source: Primitive) -> Primitive | None:
        """Return the type of the partition values; None for void and unknown transforms."""
        match self.name:
            case "identity" | "truncate":
                return source
            case "bucket" | "year" | "month" | "day" | "hour":
                return Primitive("int")
        return None


def partition_value(kind: Primitive, value: Any) -> Any:
    """Return a partition value of this type in its internal form.

    Raises:
        CorruptFileError: The manifest has a value of another type.
    """
    if value is None:
        return None
    if kind.name == "uuid" and isinstance(value, bytes) and len(value) == 16:
        return str(UUID(bytes=value))
    if kind.name in ("fixed", "binary") and isinstance(value, bytes):
        return value
    if order_key(kind, value) is None or (isinstance(value, bool) and kind.name != "boolean"):
        raise CorruptFileError(
            "CORRUPT_MANIFEST", f"Partition value is not of type {kind}: {value!r}", stage="plan"
        )
    return value


def constants(
    spec: PartitionSpec, partition: Mapping[int, Any], source_types: Mapping[int, Primitive]
) -> dict[int, Any]:
    """Return the values of identity partition fields by source field id, NULLs included.

    They are the values of columns that a data file lacks (spec, "Column Projection").

    Args:
        spec: The file's partition spec.
        partition: Its partition values by partition field id.
        source_types: The types of the source columns by field id; columns without a type get no constant.
    """
    return {
        field.source_id: partition_value(source_types[field.source_id], partition[field.field_id])
        for field in spec.fields
        if field.transform == "identity" and field.field_id in partition and field.source_id in source_types
    }


def value_bounds(
    transform: Transform, kind: Primitive, value: Any, num_rows: int | None, *, was_int: bool = False
) -> Bounds | None:
    """Return the bounds that a file's partition value gives for the source column; None if it gives none.

    Args:
        transform: The partition field's transform.
        kind: The source column's type.
        value: The partition value; may be NULL.
        num_rows: The file's record count, if known.
        was_int: The column is a long that was an int in an earlier schema, so truncation may have overflowed at 32 bits.
    """
    result = transform.result_type(kind)
    if result is None or not transform.keeps_null:
        return None
    if value is None:
        return Bounds(null_count=num_rows, value_count=num_rows)
    value = partition_value(result, value)
    if transform.name == "identity":
        return _identity(value, num_rows)
    lower, upper, exact = _source_range(transform, kind, value, value, was_int=was_int)
    return Bounds(
        lower=lower,
        upper=upper,
        null_count=0,
        value_count=num_rows,
        exact_lower=exact,
        exact_upper=exact,
    )


def summary_bounds(
    transform: Transform, kind: Primitive, summary: PartitionSummary, *, was_int: bool = False
) -> Bounds | None:
    """Return the bounds that a manifest's partition summary gives for the source column over all its files."""
    result = transform.result_type(kind)
    if result is None:
        return None
    null_count = None if summary.contains_null else 0
    low = None if summary.lower is None else decode_bound(result, summary.lower)
    high = None if summary.upper is None else decode_bound(result, summary.upper)
    lower, upper, _ = _source_range(transform, kind, low, high, was_int=was_int)
    is_identity = transform.name == "identity"
    return Bounds(
        lower=lower,
        upper=upper,
        null_count=null_count,
        nan_count=0 if is_identity and summary.contains_nan is False else None,
    )


def tighter(kind: Primitive, one: Bounds | None, other: Bounds | None) -> Bounds | None:
    """Return the intersection of two bounds of the same rows; None if both are None."""
    if one is None or other is None:
        return other if one is None else one
    lower, exact_lower = one.lower, one.exact_lower
    upper, exact_upper = one.upper, one.exact_upper
    mine, theirs = order_key(kind, lower), order_key(kind, other.lower)
    if theirs is not None and (mine is None or theirs > mine or (theirs == mine and other.exact_lower)):
        lower, exact_lower = other.lower, other.exact_lower
    mine, theirs = order_key(kind, upper), order_key(kind, other.upper)
    if theirs is not None and (mine is None or theirs < mine or (theirs == mine and other.exact_upper)):
        upper, exact_upper = other.upper, other.exact_upper
    return Bounds(
        lower=lower,
        upper=upper,
        null_count=_first(one.null_count, other.null_count),
        nan_count=_first(one.nan_count, other.nan_count),
        value_count=_first(one.value_count, other.value_count),
        exact_lower=exact_lower,
        exact_upper=exact_upper,
    )


def _first(one: int | None, other: int | None) -> int | None:
    return other if one is None else one


def _identity(value: Any, num_rows: int | None) -> Bounds:
    if isinstance(value, float) and math.isnan(value):
        return Bounds(null_count=0, nan_count=num_rows, value_count=num_rows)
    return Bounds(
        lower=value,
        upper=value,
        null_count=0,
        nan_count=0,
        value_count=num_rows,
        exact_lower=True,
        exact_upper=True,
    )


def _source_range(
    transform: Transform, kind: Primitive, low: Any, high: Any, *, was_int: bool
) -> tuple[Any, Any, bool]:
    """Return the least and greatest source value whose transformed value is within ``low … high``; None: no limit.

    The third item is true if every row has exactly that value.
    """
    if transform.name == "identity":
        return low, high, False
    if transform.name == "truncate":
        return _truncated_range(kind, transform.width, low, high, was_int=was_int)
    if transform.name in _TEMPORAL:
        lower = (
            None if low is None else _start(transform.name, kind, low - _may_be_earlier(kind, transform, low))
        )
        upper = None if high is None else _start(transform.name, kind, high + 1)
        return lower, None if upper is None else upper - 1, False
    return None, None, False


def _may_be_earlier(kind: Primitive, transform: Transform, result: int) -> int:
    """Return 1 if the partition may have values of the preceding unit: early Java writers rounded towards 1970."""
    return int(result <= 0 and (transform.name, kind.name) != ("day", "date"))


def _start(unit: str, kind: Primitive, number: int) -> int | None:
    """Return the first value of a year, month, day or hour (counted from 1970), in the source type's unit."""
    units_per_day = _UNITS_PER_DAY.get(kind.name)
    if units_per_day is None or not isinstance(number, int):
        return None
    if unit == "hour":
        return number * (units_per_day // 24) if units_per_day else None
    if unit == "day":
        days = number
    else:
        year, month = (number, 0) if unit == "year" else divmod(number, 12)
        if abs(year) > _MAX_YEARS_FROM_1970:
            return None
        days = _days_before(1970 + year, month)
    return days * units_per_day if units_per_day else days


def _days_before(year: int, month: int) -> int:
    """Return the days from 1970-01-01 to the first of a month (0 is January) in the proleptic Gregorian calendar."""
    year, month = (
        (year, month - 2) if month >= 2 else (year - 1, month + 10)
    )  # count years from March, so that the leap day is the last
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 - 719_468


def _truncated_range(
    kind: Primitive, width: int, low: Any, high: Any, *, was_int: bool
) -> tuple[Any, Any, bool]:
    match kind.name:
        case "int" | "long":
            return _truncated_integers(kind, width, low, high, was_int=was_int)
        case "decimal":
            step = Decimal(f"{width - 1}E-{kind.scale}")
            return low, None if high is None else _exact_sum(high, step, kind.scale), False
        case "string" | "binary":
            is_whole = low is not None and low == high and len(_bytes(low)) < width
            return low, high if is_whole or high is None else _after(high), is_whole
    return None, None, False


def _truncated_integers(
    kind: Primitive, width: int, low: int | None, high: int | None, *, was_int: bool
) -> tuple[Any, Any, bool]:
    """Return the source range of truncated integers.

    Java truncates in the source's width, so values just above the minimum overflow to the top of the range.
    """
    limits = [_INT_MAX] if kind.name == "int" or was_int else []
    if kind.name == "long":
        limits.append(_LONG_MAX)
    for limit in limits:
        wraps = (2 * limit + 2) % width != 0
        reaches_top = (low is None or low <= limit) and (high is None or high > limit - width)
        is_floor = low is not None and low == high and low % width == 0
        if wraps and reaches_top and not is_floor:
            return None, None, False
    return low, None if high is None else high + width - 1, False


def _exact_sum(value: Decimal, step: Decimal, scale: int) -> Decimal | None:
    """Add exactly: the decimal context would round to 28 digits."""
    one, other = unscaled(value, scale), unscaled(step, scale)
    return None if one is None or other is None else Decimal(f"{one + other}E-{scale}")


def _bytes(value: str | bytes) -> bytes:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


def _after(prefix: str | bytes) -> str | bytes | None:
    """Return the least value that is greater than all with this prefix; None if there is none."""
    if isinstance(prefix, bytes):
        cut = prefix.rstrip(b"\xff")
        return cut[:-1] + bytes((cut[-1] + 1,)) if cut else None
    text = prefix.rstrip("\U0010ffff")
    if not text:
        return None
    code = ord(text[-1]) + 1
    return text[:-1] + chr(0xE000 if 0xD800 <= code <= 0xDFFF else code)
