"""How a predicate, literal or comparison is written: as SQL text, and with the DataFrame API.

Takes plain values (see `declared.types`); returns text whose literals have exactly the wanted type, and
Columns.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

EPOCH = datetime.datetime(1970, 1, 1)


@dataclass(frozen=True)
class Drawn:
    """One predicate. `column` builds it with the DataFrame API; None if only SQL can express it."""

    sql: str
    shape: str
    promised: bool
    column: Callable[[], Any] | None = None

    @property
    def by_api(self) -> bool:
        return self.column is not None


def quote(text: str) -> str:
    """Return a SQL string literal; characters that the parser would change are escaped."""
    escaped = {"'": "\\'", "\\": "\\\\", "\n": "\\n", "\x00": "\\0"}
    return "'" + "".join(escaped.get(letter, letter) for letter in text) + "'"


def literal(kind: str, value: Any) -> str:
    """Return the value as a SQL literal of exactly this type."""
    if value is None:
        return "NULL"
    match kind:
        case "boolean":
            return "true" if value else "false"
        case "int":
            return str(value) if value != -(2**31) else "CAST(-2147483648L AS INT)"
        case "long":
            return f"{value}L" if value != -(2**63) else "(-9223372036854775807L - 1L)"
        case "float" | "double":
            suffix = "F" if kind == "float" else "D"
            if math.isnan(value) or math.isinf(value):
                return f"CAST('{value}' AS {kind.upper()})"
            return f"{value!r}{suffix}"
        case "string" | "uuid":
            return quote(value)
        case "binary":
            return f"X'{value.hex()}'"
        case "date":
            return f"DATE'{_day(value)}'"
        case "timestamptz":
            return f"TIMESTAMP'{_moment(value)}+00:00'"
        case "timestamp":
            return f"TIMESTAMP_NTZ'{_moment(value)}'"
    precision, scale = kind[8:-1].split(",")
    text = format(value, "f")
    digits = len(text.lstrip("-").replace(".", "").lstrip("0"))
    return f"CAST('{text}' AS DECIMAL({max(int(precision), min(38, digits))},{scale}))"


def _day(days: int) -> str:
    return (EPOCH + datetime.timedelta(days=days)).date().isoformat()


def _moment(micros: int) -> str:
    return (EPOCH + datetime.timedelta(microseconds=micros)).isoformat(sep=" ", timespec="microseconds")


def api_value(kind: str, value: Any) -> Any:
    """Return the value as a DataFrame user would write it: Python's own, if Spark gives it this type."""
    from pyspark.sql import functions as F

    if kind == "date" and value > -354_000:  # py4j writes years below 1000 without leading zeros
        return (EPOCH + datetime.timedelta(days=value)).date()
    plain = {"boolean": bool, "int": int, "double": float, "string": str, "uuid": str, "binary": bytes}
    if kind in plain and value is not None and value != -(2**31):
        return bytes(value) if kind == "binary" else value
    return F.expr(literal(kind, value))


def field(name: str) -> Any:
    from pyspark.sql import functions as F

    return F.col(name)


def apply(op: str, left: Any, right: Any) -> Any:
    """Compare with the Column class's own operators."""
    match op:
        case "=" | "==":
            return left == right
        case "<>" | "!=":
            return left != right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case ">=":
            return left >= right
    return left.eqNullSafe(right)
