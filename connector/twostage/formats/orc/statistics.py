"""Bounds of an Iceberg column from a stripe's ORC statistics.

Takes the encoded statistics of one column of a stripe, and the type that the scan reads it as; returns
`Bounds` in internal form. The rule: statistics that a known writer gets wrong, or may have meant in another
way, prove nothing.
Source: ORC specification v1, "Column Statistics"; HIVE-8732.
"""

from __future__ import annotations

import math
import struct
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from twostage.formats.orc.protobuf import Message, parse
from twostage.formats.varint import decode_zigzag
from twostage.predicates.bounds import Bounds

if TYPE_CHECKING:
    from twostage.formats.orc.tail import OrcType, Stripe, Tail
    from twostage.schema import Primitive

JAVA, CPP, PRESTO, TRINO = 0, 1, 2, 4
_WRITERS = (JAVA, CPP, PRESTO, TRINO)
_FIXED_MAXIMUM = 1  # HIVE-8732: before, Java's statistics of stripes could be too narrow
_KINDS = {
    "boolean": ("boolean",),
    "int": ("byte", "short", "int"),
    "long": ("byte", "short", "int", "long"),
    "float": ("float",),
    "double": ("float", "double"),
    "date": ("date",),
    "time": ("long",),
    "timestamp": ("timestamp",),
    "timestamptz": ("timestamp_instant",),
    "decimal": ("decimal",),
    "string": ("string", "varchar"),
}
_DOUBLE = struct.Struct("<d")
_SECOND = 1_000_000


def stripe_bounds(
    tail: Tail, stripe: Stripe, columns: list[bytes], kind: OrcType, target: Primitive, meaning: str | None
) -> Bounds | None:
    """Return the bounds of a column outside lists and maps; None if its statistics prove nothing.

    Args:
        tail: The file's tail.
        stripe: The stripe.
        columns: The encoded statistics of the stripe's columns.
        kind: The column in the file.
        target: The type that the scan reads it as.
        meaning: What the column means beyond its ORC type; see `StripeReader`.

    Raises:
        ValueError: The statistics are not a message.
    """
    old = tail.writer == JAVA and tail.writer_version < _FIXED_MAXIMUM
    if tail.writer not in _WRITERS or old or len(columns) != tail.num_columns:
        return None
    message = parse(columns[kind.column])
    values = message.number(1) if 1 in message else None
    if values is None or not 0 <= values <= stripe.num_rows:
        return None
    nulls = stripe.num_rows - values
    if 10 in message and bool(message.number(10)) and nulls == 0:
        return None  # one of the two is wrong
    lower = upper = None
    exact = True
    if values and _readable(kind, target, meaning):
        lower, upper, exact = _limits(message, kind, target, values)
    return Bounds(
        lower=lower,
        upper=upper,
        null_count=nulls,
        nan_count=0 if isinstance(lower, float) else None,
        value_count=stripe.num_rows,
        exact_lower=exact,
        exact_upper=exact,
    )


def _readable(kind: OrcType, target: Primitive, meaning: str | None) -> bool:
    if kind.kind not in _KINDS.get(target.name, ()):
        return False
    if (meaning == "time") != (target.name == "time") or meaning == "instant":
        return False
    return target.name != "decimal" or kind.scale == target.scale


def _limits(
    message: Message, kind: OrcType, target: Primitive, values: int
) -> tuple[Any | None, Any | None, bool]:
    """Return the lower and upper bound, and whether both are values of rows."""
    match kind.kind:
        case "boolean":
            return _booleans(_part(message, 5), values)
        case "byte" | "short" | "int" | "long":
            return (*_signed(_part(message, 2), 1, 2), True)
        case "date":
            return (*_signed(_part(message, 7), 1, 2), True)
        case "float" | "double":
            return (*_doubles(_part(message, 3)), True)
        case "timestamp" | "timestamp_instant":
            return (*_timestamps(*_signed(_part(message, 9), 3, 4)), False)
        case "decimal":
            part = _part(message, 6)
            return _decimal(part, 1, target), _decimal(part, 2, target), True
    return (*_strings(_part(message, 4)), False)


def _part(message: Message, tag: int) -> Message:
    blob = message.blob(tag)
    return Message() if blob is None else parse(blob)


def _signed(part: Message, low: int, high: int) -> tuple[int | None, int | None]:
    return tuple(decode_zigzag(part.number(tag)) if tag in part else None for tag in (low, high))  # type: ignore[return-value]


def _booleans(part: Message, values: int) -> tuple[bool | None, bool | None, bool]:
    counts = part.numbers(1)
    if len(counts) != 1 or not 0 <= counts[0] <= values:
        return None, None, False
    return counts[0] == values, counts[0] > 0, True


def _doubles(part: Message) -> tuple[float | None, float | None]:
    """Return the bounds, if the sum proves that there is no NaN.

    A leading NaN remains minimum and maximum of its row group, and merging skips such a group altogether; but
    a NaN always reaches the sum.
    """
    raw = [part.blob(tag) for tag in (1, 2, 3)]
    if any(item is None or len(item) != _DOUBLE.size for item in raw):
        return None, None
    low, high, total = (_DOUBLE.unpack(item or b"")[0] for item in raw)
    if math.isnan(low) or math.isnan(high) or math.isnan(total):
        return None, None
    return low, high


def _timestamps(low: int | None, high: int | None) -> tuple[int | None, int | None]:
    """Return bounds in microseconds of stored milliseconds, a millisecond wider on both sides.

    A value within the last second before 1970 is stored, and read, a second late: the upper bound covers that.
    """
    lower = None if low is None else (low - 1) * 1000
    upper = None if high is None else (high + 2) * 1000
    if upper is not None and -_SECOND <= upper < _SECOND:
        upper = _SECOND
    return lower, upper


def _decimal(part: Message, tag: int, target: Primitive) -> Decimal | None:
    raw = part.blob(tag)
    try:
        value = None if raw is None else Decimal(raw.decode("ascii"))
    except (InvalidOperation, UnicodeDecodeError):
        return None
    if value is None or not value.is_finite() or abs(value) >= Decimal(10) ** 38:
        return None
    _, _, exponent = value.as_tuple()
    # More fractional digits than the scale cannot be a value of the column.
    return (
        value if isinstance(exponent, int) and -38 <= exponent and -exponent <= max(target.scale, 0) else None
    )


def _strings(part: Message) -> tuple[str | None, str | None]:
    """Return the bounds: the extreme values, or what the writer truncated them to.

    The C++ writer compares text only up to a NUL character. Of a bound that holds one, the part before it is the lower
    bound, and that part followed by U+0001 the upper bound.
    """
    lower = _text(part.blob(1) if 1 in part else part.blob(4))
    upper = _text(part.blob(2) if 2 in part else part.blob(5))
    if lower is not None:
        lower = lower.partition("\0")[0]
    if upper is not None and "\0" in upper:
        upper = upper.partition("\0")[0] + "\x01"
    return lower, upper


def _text(raw: bytes | None) -> str | None:
    try:
        return None if raw is None else raw.decode()
    except UnicodeDecodeError:
        return None
