"""What two engines' answers are compared by: text that is equal if the answers are.

Takes Arrow tables. Rows are in any order, columns by position: engines name and type sums differently.
"""

from __future__ import annotations

import datetime
import hashlib
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

DIGITS_OF_SUMS = 8
"""Sums of doubles depend on the order of the rows; this many digits do not."""
MOD = 1_000_003
"""Timestamps in microseconds are summed modulo this: the sum of millions of them exceeds a long."""


def digest(table: pa.Table, *, exact: bool) -> str:
    """Return the number of rows and a hash of them; without `exact`, floats are cut to DIGITS_OF_SUMS."""
    columns = [_comparable(column) for column in table.columns]
    rows = sorted("|".join(_text(value, exact=exact) for value in row) for row in zip(*columns, strict=True))
    return f"{table.num_rows:,} rows {hashlib.sha256('/'.join(rows).encode()).hexdigest()[:12]}"


def sums(table: pa.Table) -> str:
    """Return the `digest` of the sums of a large table's columns."""
    totals: list[pa.Array] = [pa.array([table.num_rows])]
    for column in table.columns:
        kind, values = column.type, column
        if pa.types.is_timestamp(kind):
            micros = values.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
            values = pc.subtract(micros, pc.multiply(pc.divide(micros, MOD), MOD))
        elif not pa.types.is_integer(kind) and not pa.types.is_floating(kind):
            texts = pa.chunked_array(
                [chunk.cast(pa.large_string()) for chunk in column.chunks], pa.large_string()
            )
            values = pc.utf8_length(texts)
        totals.append(pa.array([pc.sum(values).as_py()]))
    return digest(pa.table(totals, [str(number) for number in range(len(totals))]), exact=False)


def sums_in_spark(names_and_types: list[tuple[str, str]], sql: str) -> str:
    """Return the statement whose only row has the sums of `sums`."""
    parts = ["count(*)"]
    for name, kind in names_and_types:
        match kind:
            case "timestamp" | "timestamp_ntz":
                parts.append(f"sum(unix_micros({name}) % {MOD})")
            case "string":
                parts.append(f"sum(cast(length({name}) AS bigint))")
            case _:
                parts.append(f"sum({name})")
    return f"SELECT {', '.join(parts)} FROM ({sql})"


def _comparable(column: pa.ChunkedArray) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).to_pylist()
    return column.to_pylist()


def _text(value: Any, *, exact: bool) -> str:
    if isinstance(value, (int, float, Decimal)):  # one engine's long is another's decimal
        return repr(value) if exact else f"{float(value):.{DIGITS_OF_SUMS}g}"
    return value.isoformat() if isinstance(value, datetime.date) else str(value)
