"""Partition values as text for people: ``2024-01`` for a month.

Takes a transform and a value in internal form; returns the text of Iceberg's ``Transform.toHumanString``, as
its version 1.12 writes it: with the formats that Java has for dates, times and floats.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from twostage.schema import Primitive
    from twostage.table.transforms import Transform


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
            return _moment(value, 6) + ("+00:00" if kind.name == "timestamptz" else "")
        case "timestamp_ns" | "timestamptz_ns":
            return _moment(value, 9) + ("+00:00" if kind.name == "timestamptz_ns" else "")
        case "fixed" | "binary":
            return base64.b64encode(value).decode()
        case "boolean":
            return str(value).lower()
        case "float" | "double":
            return _float(np.float32(value) if kind.name == "float" else np.float64(value))
    return str(value)


def _date(days: int) -> str:
    """Return a date; years before 0 have a sign and three digits, as in Java's `%04d`."""
    year, month, day = _civil(days)
    return f"{year:04}-{month:02}-{day:02}"


def _civil(days: int) -> tuple[int, int, int]:
    """Return year, month and day of days since 1970; Python's own dates end with the year 9999."""
    eras, day = divmod(days, 146_097)  # 400 years
    date = np.datetime64(day, "D").astype(object)
    return date.year + 400 * eras, date.month, date.day


def _moment(units: int, digits: int) -> str:
    """Return a date and time in Java's ISO format: always with seconds, a fraction without trailing zeros."""
    seconds, fraction = divmod(units, 10**digits)
    days, second = divmod(seconds, 86_400)
    year, month, day = _civil(days)
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    text = f"{sign}{abs(year):04}-{month:02}-{day:02}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    return text + (f".{fraction:0{digits}}".rstrip("0") if fraction else "")


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


def _float(value: np.floating[Any]) -> str:
    """Return a number as Java writes it: shortest digits, an exponent from ten million and below 0.001."""
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return np.format_float_positional(value, unique=True, trim="0")
    mantissa, _, exponent = np.format_float_scientific(value, unique=True, trim="0").partition("e")
    return f"{mantissa}E{int(exponent)}"
