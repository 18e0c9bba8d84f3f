"""Literals as SQL text, for plans and reports.

Takes a literal in internal form and its type. Dates, times and timestamps are never shown as numbers: those with a
time zone are shown in UTC, because the session's zone is not known here.
"""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from twostage.schema import Primitive

if TYPE_CHECKING:
    from twostage.schema import Type

_MAX_CHARACTERS_SHOWN = 40
_MAX_BYTES_SHOWN = 20
_FIRST_DAY = datetime.date(1970, 1, 1)
_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - used for timestamps with a zone and without


def show(value: Any, kind: Type) -> str:
    """Return a literal of a type as SQL.

    >>> show(19844, Primitive("date")), show(1577836800000000, Primitive("timestamptz"))
    ("DATE '2024-05-01'", "TIMESTAMP '2020-01-01 00:00:00Z'")
    """
    name = kind.name if isinstance(kind, Primitive) else ""
    match value:
        case bool():
            return str(value).upper()
        case str():
            text = value if len(value) <= _MAX_CHARACTERS_SHOWN else value[:_MAX_CHARACTERS_SHOWN] + "…"
            return (
                "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
            )  # Spark concatenates adjacent literals, so '' is no escape
        case bytes():
            return f"X'{value[:_MAX_BYTES_SHOWN].hex()}{'…' if len(value) > _MAX_BYTES_SHOWN else ''}'"
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case Decimal() if value.is_finite():
            return f"{value:f}"
        case int() if name in _MOMENTS:
            return _moment(value, name)
    return str(value)


def _moment(value: int, name: str) -> str:
    try:
        if name == "date":
            return f"DATE '{_FIRST_DAY + datetime.timedelta(days=value)}'"
        moment = _EPOCH + datetime.timedelta(microseconds=value)
    except OverflowError:  # Python's dates span the years 1 to 9999
        return f"{_MOMENTS[name]}({value})"
    if name == "time":
        return f"TIME '{moment.time()}'"
    return f"TIMESTAMP_NTZ '{moment}'" if name == "timestamp" else f"TIMESTAMP '{moment}Z'"


_MOMENTS = {
    "date": "DATE_FROM_UNIX_DATE",
    "time": "TIME_FROM_MICROS",
    "timestamp": "TIMESTAMP_MICROS",
    "timestamptz": "TIMESTAMP_MICROS",
}
"""Temporal types, each with Spark's function for values beyond the range of Python's `datetime`."""
