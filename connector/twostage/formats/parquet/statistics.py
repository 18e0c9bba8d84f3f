"""Bounds of an Iceberg column from a row group's Parquet statistics.

Takes the footer's raw statistics and the type that the scan reads the column as; returns `Bounds` in internal
form. The rule: statistics whose order, unit or writer is in doubt prove nothing, as in Spark and Iceberg.
Source: parquet.thrift (Statistics, ColumnOrder); PARQUET-251 and PARQUET-1655.
"""

from __future__ import annotations

import math
import re
import struct
import uuid
from typing import TYPE_CHECKING, Any

from twostage.formats.parquet.schema_tree import (
    BOOLEAN,
    BYTE_ARRAY,
    DOUBLE,
    FIXED,
    FLOAT,
    INT32,
    INT64,
    INT96,
)
from twostage.predicates.bounds import MAX_DECIMAL_BYTES, Bounds, decimal_of, unscaled_decimal

if TYPE_CHECKING:
    from twostage.formats.parquet.file_metadata import Footer, RowGroupMetadata, Statistics
    from twostage.formats.parquet.schema_tree import Leaf
    from twostage.schema import Primitive

_FORMATS = {
    INT32: struct.Struct("<i"),
    INT64: struct.Struct("<q"),
    FLOAT: struct.Struct("<f"),
    DOUBLE: struct.Struct("<d"),
}
_NANOS = {"millis": 1_000_000, "micros": 1_000, "nanos": 1}
_TIMES = frozenset(("time", "timestamp", "timestamptz"))
_TIMES_NS = frozenset(("timestamp_ns", "timestamptz_ns"))
_TEXTS = frozenset(("string", "enum", "json", "bson"))
_OLD_ARROW = re.compile(r"parquet-cpp(?:-arrow)? version (\d+)\.")


def row_group_bounds(footer: Footer, row_group: RowGroupMetadata, leaf: Leaf, kind: Primitive) -> Bounds:
    """Return the bounds of a leaf that the scan reads as `kind`; whatever is in doubt is unknown."""
    chunk = row_group.columns[leaf.index]
    return stored_bounds(footer, leaf, kind, chunk.statistics, chunk.num_values)


def stored_bounds(
    footer: Footer, leaf: Leaf, kind: Primitive, statistics: Statistics | None, num_values: int
) -> Bounds:
    """Return the bounds that statistics of `num_values` values of a leaf prove; see `row_group_bounds`."""
    if leaf.max_repetition:
        return Bounds()
    lower = upper = None
    exact_lower = exact_upper = True
    if statistics is not None and may_read(leaf, kind):
        raw_lower, raw_upper, exact_lower, exact_upper = _chosen(footer, leaf, statistics)
        lower = _value(raw_lower, leaf, kind, up=False)
        upper = _value(raw_upper, leaf, kind, up=True)
        if _is_nan(lower) or _is_nan(upper):
            lower = upper = None  # a writer that stores NaN as a bound may have lost other values
    return Bounds(
        lower=lower,
        upper=upper,
        null_count=count_nulls(leaf, statistics, num_values),
        value_count=num_values,
        exact_lower=exact_lower,
        exact_upper=exact_upper,
    )


def count_nulls(leaf: Leaf, statistics: Statistics | None, num_values: int) -> int | None:
    """Return how many of `num_values` values of a leaf are NULL; None if statistics do not count them."""
    if leaf.max_definition == 0:
        return 0
    nulls = None if statistics is None else statistics.null_count
    return nulls if type(nulls) is int and 0 <= nulls <= num_values else None


def may_read(leaf: Leaf, kind: Primitive) -> bool:
    """Tell whether the leaf stores values of `kind`, apart from their width and unit of time."""
    logical, physical = leaf.logical, leaf.physical
    name = logical.name if logical is not None else ""
    if logical is not None and name == "integer" and not logical.signed:
        return False
    match kind.name:
        case "boolean":
            return physical == BOOLEAN and not name
        case "int":
            return physical == INT32 and name in ("", "integer")
        case "long":
            return physical in (INT32, INT64) and name in ("", "integer")
        case "float":
            return physical == FLOAT and not name
        case "double":
            return physical in (FLOAT, DOUBLE) and not name
        case "date":
            return physical == INT32 and name == "date"
        case "time":
            return physical in (INT32, INT64) and name == "time"
        case "timestamp" | "timestamptz" | "timestamp_ns" | "timestamptz_ns":
            return physical == INT64 and name == "timestamp"
        case "decimal":
            stored = physical in (INT32, INT64, BYTE_ARRAY, FIXED) and logical is not None
            return stored and logical is not None and name == "decimal" and logical.scale == kind.scale
        case "string":
            return physical == BYTE_ARRAY and (not name or name in _TEXTS)
        case "uuid":
            return physical == FIXED and leaf.type_length == 16 and name in ("", "uuid")
        case "fixed":
            return physical == FIXED and leaf.type_length == kind.length and not name
        case "binary":
            return physical == BYTE_ARRAY and (not name or name in _TEXTS)
    return False


def _chosen(
    footer: Footer, leaf: Leaf, statistics: Statistics
) -> tuple[bytes | None, bytes | None, bool, bool]:
    """Return the encoded lower and upper bound, and whether each is exact: a value of the column."""
    binary = leaf.physical in (BYTE_ARRAY, FIXED)
    if statistics.minimum is not None or statistics.maximum is not None:
        if not footer.ordered[leaf.index] or (binary and _decimals_unordered(footer, leaf)):
            return None, None, False, False
        exact = (
            not binary or leaf.physical == FIXED
        )  # without the flag, parquet-mr may have truncated byte arrays
        return (
            statistics.minimum,
            statistics.maximum,
            exact if statistics.minimum_exact is None else statistics.minimum_exact,
            exact if statistics.maximum_exact is None else statistics.maximum_exact,
        )
    if binary or leaf.physical == INT96:
        return None, None, False, False  # signed bytes in the deprecated fields, or PARQUET-251
    return statistics.old_minimum, statistics.old_maximum, True, True


def _decimals_unordered(footer: Footer, leaf: Leaf) -> bool:
    """Tell whether the writer compared decimals in byte arrays wrongly (PARQUET-1655, before Arrow 1)."""
    if leaf.logical is None or leaf.logical.name != "decimal":
        return False
    match = _OLD_ARROW.match(footer.created_by or "")
    return match is not None and (int(match[1]) < 2 or "-arrow" not in match[0])


def _value(raw: bytes | None, leaf: Leaf, kind: Primitive, *, up: bool) -> Any | None:
    """Decode one plain-encoded bound. `up` rounds a finer unit of time up instead of down."""
    if not isinstance(raw, bytes):
        return None
    if leaf.physical == BOOLEAN:
        return raw != b"\x00" if len(raw) == 1 else None
    layout = _FORMATS.get(leaf.physical)
    if layout is not None:
        if len(raw) != layout.size:
            return None
        number = layout.unpack(raw)[0]
        if kind.name == "decimal":
            return unscaled_decimal(number, kind)
        return _in_unit(number, leaf, kind, up=up)
    if leaf.physical == FIXED and len(raw) > leaf.type_length:
        return None
    if kind.name == "decimal":
        return decimal_of(raw, kind) if 0 < len(raw) <= MAX_DECIMAL_BYTES else None
    if kind.name == "uuid":
        return str(uuid.UUID(bytes=raw)) if len(raw) == 16 else None
    if kind.name == "string":
        return _text(raw, up=up)
    return raw


def _in_unit(number: Any, leaf: Leaf, kind: Primitive, *, up: bool) -> Any | None:
    if kind.name not in _TIMES and kind.name not in _TIMES_NS:
        return number
    if leaf.logical is None or leaf.logical.unit not in _NANOS:
        return None
    nanos = number * _NANOS[leaf.logical.unit]
    if kind.name in _TIMES_NS:
        return nanos
    return -(-nanos // 1_000) if up else nanos // 1_000


def _text(raw: bytes, *, up: bool) -> str | None:
    """Return a bound as text; a lower bound cut within a character is still valid without that character."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return None if up else raw[: error.start].decode("utf-8")


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
