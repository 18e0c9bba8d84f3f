"""Partition values as text for people: ``2024-01`` for a month.

Takes a transform and a value in internal form; gives the text of Iceberg's ``Transform.toHumanString``, including the
format of Java's dates and times.
"""

from __future__ import annotations

import base64
import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twostage.schema import Primitive
    from twostage.table.transforms import Transform

_EPOCH = datetime.date(1970, 1, 1).toordinal()


def human(transform: Transform, kind: Primitive, value: Any) -> str:
    """Return a partition value as text.

    >>> from twostage.table.transforms import Transform
    >>> from twostage.schema import Primitive
    >>> human(Transform("month"), Primitive("int"), 648)
    '2024-01'
    """
    match transform.name:
        case "year":
            return f"{1970 + value:04}"
        case "month":
            year, month = divmod(value, 12)
            return f"{1970 + year:04}-{month + 1:02}"
        case "day":
            return _date(value)
        case "hour":
            day, hour = divmod(value, 24)
            return f"{_date(day)}-{hour:02}"
    match kind.name:
        case "date":
            return _date(value)
        case "time":
            return _clock(value)
        case "timestamp" | "timestamptz":
            day, rest = divmod(value, 86_400_000_000)
            return f"{_date(day)}T{_clock(rest)}{'Z' if kind.name == 'timestamptz' else ''}"
        case "fixed" | "binary":
            return base64.b64encode(value).decode()
        case "boolean":
            return str(value).lower()
        case "decimal":
            return f"{value:f}"
    return str(value)


def _date(days: int) -> str:
    """Return a date; outside of Python's years 1 to 9999, the number of days."""
    ordinal = _EPOCH + days
    return (
        datetime.date.fromordinal(ordinal).isoformat()
        if 1 <= ordinal <= datetime.date.max.toordinal()
        else str(days)
    )


def _clock(micros: int) -> str:
    """Return a time of day in Java's format: no seconds if they are 0, and a fraction of three or six digits."""
    seconds, fraction = divmod(micros, 1_000_000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}"
    if seconds % 60 or fraction:
        text += f":{seconds % 60:02}"
    if fraction:
        digits = f"{fraction:06}"
        text += f".{digits[:3] if digits.endswith('000') else digits}"
    return text
