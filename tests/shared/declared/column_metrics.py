"""Column metrics of a data or delete file: sizes, counts and bounds, as manifests carry them.

Takes the rows; gives maps by field id. Right by default; a test may ask for less (`wanted`).
"""

from __future__ import annotations

import math
import struct
import uuid
from typing import TYPE_CHECKING, Any

from declared.transforms import minimal_twos_complement
from declared.types import EXACT, Column, Kind, Struct, decimal_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TRUNCATED_LENGTH = 16


def encode_single(kind: Kind, value: Any) -> bytes:
    """Return the spec's binary single-value form."""
    match kind:
        case "boolean":
            return b"\x01" if value else b"\x00"
        case "int" | "date":
            return struct.pack("<i", value)
        case "long" | "time" | "timestamp" | "timestamptz" | "timestamp_ns" | "timestamptz_ns":
            return struct.pack("<q", value)
        case "float":
            return struct.pack("<f", value)
        case "double":
            return struct.pack("<d", value)
        case "uuid":
            return uuid.UUID(value).bytes
        case "string":
            return value.encode()
    if spec := decimal_of(kind):
        return minimal_twos_complement(int(value.scaleb(spec[1], EXACT)))
    return bytes(value)


def column_metrics(
    columns: Sequence[Column], rows: Sequence[dict[int, Any]], wanted: str = "full", skip: Sequence[int] = ()
) -> dict[str, dict[int, Any]]:
    """Return the metrics of a file.

    Args:
        columns: The columns that the file holds.
        rows: Its rows.
        wanted: ``full``, ``counts`` (no bounds), ``bounds`` (no counts) or ``none``.
        skip: Field ids of which nothing is said.
    """
    found: dict[str, dict[int, Any]] = {
        name: {}
        for name in ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
    }
    if wanted == "none":
        return found
    for column, values in _leaves(columns, rows):
        if column.id in skip:
            continue
        present = [value for value in values if value is not None]
        if wanted != "bounds":
            found["value_counts"][column.id] = len(values)
            found["null_value_counts"][column.id] = len(values) - len(present)
            if column.type in ("float", "double"):
                found["nan_value_counts"][column.id] = sum(map(math.isnan, present))
        ordered = [v for v in present if not (isinstance(v, float) and math.isnan(v))]
        if wanted == "counts" or not ordered:
            continue
        lower, upper = _bounds(column.type, ordered)
        found["lower_bounds"][column.id] = lower
        if upper is not None:
            found["upper_bounds"][column.id] = upper
    return found


def _leaves(columns: Sequence[Column], rows: Sequence[Any]) -> Iterator[tuple[Column, list[Any]]]:
    for column in columns:
        values = [None if row is None else row.get(column.id) for row in rows]
        if isinstance(column.type, Struct):
            yield from _leaves(column.type.fields, values)
        elif isinstance(column.type, str):
            yield column, values


def _bounds(kind: Kind, values: list[Any]) -> tuple[bytes, bytes | None]:
    if kind in ("float", "double"):  # -0.0 lies below 0.0, as in IEEE 754's total order
        order = [(value, math.copysign(1, value)) for value in values]
        return encode_single(kind, min(order)[0]), encode_single(kind, max(order)[0])
    if kind == "string":
        low = min(values, key=str.encode)[:TRUNCATED_LENGTH]
        return low.encode(), _upper_text(max(values, key=str.encode))
    if kind == "binary":
        return min(values)[:TRUNCATED_LENGTH], _upper_bytes(max(values))
    if kind == "uuid":
        return (
            encode_single(kind, min(values, key=lambda v: uuid.UUID(v).bytes)),
            encode_single(kind, max(values, key=lambda v: uuid.UUID(v).bytes)),
        )
    return encode_single(kind, min(values)), encode_single(kind, max(values))


def _upper_text(text: str) -> bytes | None:
    if len(text) <= TRUNCATED_LENGTH:
        return text.encode()
    for index in range(TRUNCATED_LENGTH - 1, -1, -1):
        following = ord(text[index]) + 1
        if following == 0xD800:  # surrogates are no characters
            following = 0xE000
        if following <= 0x10FFFF:
            return (text[:index] + chr(following)).encode()
    return None


def _upper_bytes(data: bytes) -> bytes | None:
    if len(data) <= TRUNCATED_LENGTH:
        return data
    for index in range(TRUNCATED_LENGTH - 1, -1, -1):
        if data[index] < 255:
            return data[:index] + bytes([data[index] + 1])
    return None
