"""Plain-encoded values of a leaf as an Arrow array.

Takes bytes that hold nothing but values, as dictionary pages and plain-encoded data pages do; returns an
array without NULLs of the type that pyarrow gives for the leaf, or None for leaves that are left to pyarrow.
Source: parquet-format, Encodings.md and LogicalTypes.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from twostage.formats.parquet.schema_tree import BYTE_ARRAY, DOUBLE, FIXED, FLOAT, INT32, INT64
from twostage_native.page_values import text_ends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twostage.formats.parquet.schema_tree import Leaf

_WIDTHS = {INT32: 4, INT64: 8, FLOAT: 4, DOUBLE: 8}
_NUMBERS = {INT32: pa.int32(), INT64: pa.int64(), FLOAT: pa.float32(), DOUBLE: pa.float64()}
_UNITS = {"millis": "ms", "micros": "us", "nanos": "ns"}
_TEXTS = frozenset(("string", "enum", "json", "bson"))


def width_of(leaf: Leaf) -> int:
    """Return the bytes of one value; 0 if each has its own length, and for leaves left to pyarrow."""
    return leaf.type_length if leaf.physical == FIXED else _WIDTHS.get(leaf.physical, 0)


def decode(plain: memoryview, count: int, leaf: Leaf) -> pa.Array | None:
    """Decode `count` plain values; None unless they fill `plain` exactly.

    Raises:
        ValueError: Text that is not UTF-8, or a decimal of more digits than its precision (`pa.ArrowInvalid`).
    """
    logical = leaf.logical.name if leaf.logical is not None else ""
    if leaf.physical == BYTE_ARRAY:
        found = _split(plain, count) if logical != "decimal" else None
        return None if found is None else texts(found, leaf)
    width = width_of(leaf)
    if width <= 0 or count * width != len(plain):
        return None
    buffer = pa.py_buffer(plain)
    if logical == "decimal":
        return _decimals(plain, count, width, leaf)
    if leaf.physical == FIXED:
        return pa.Array.from_buffers(pa.binary(width), count, [None, buffer])
    array = pa.Array.from_buffers(_NUMBERS[leaf.physical], count, [None, buffer])
    moment = _moment(leaf)
    return array if moment is None else array.view(moment)


def _moment(leaf: Leaf) -> pa.DataType | None:
    logical = leaf.logical
    if logical is None:
        return None
    if logical.name == "date":
        return pa.date32()
    if logical.name == "timestamp":
        return pa.timestamp(_UNITS[logical.unit], tz="UTC" if logical.utc else None)
    if logical.name == "time":
        return pa.time32("ms") if logical.unit == "millis" else pa.time64(_UNITS[logical.unit])
    return None


def _split(plain: memoryview, count: int) -> list[bytes] | None:
    """Return `count` byte arrays that fill `plain` exactly; None if they do not."""
    ends = text_ends(np.frombuffer(plain, np.uint8), count).tolist()
    if len(ends) != count:
        return None
    return [bytes(plain[start + 4 : end]) for start, end in zip([0, *ends], ends, strict=False)]


def texts(values: Sequence[bytes], leaf: Leaf) -> pa.Array:
    """Return byte arrays as strings or binary, whichever the leaf is.

    Raises:
        ValueError: A string is not UTF-8.
    """
    if leaf.logical is not None and leaf.logical.name in _TEXTS:
        return pa.array([value.decode() for value in values], pa.string())
    return pa.array(values, pa.binary())


def _decimals(plain: memoryview, count: int, width: int, leaf: Leaf) -> pa.Array | None:
    """Return decimals of integers of up to 16 bytes, big-endian in FIXED_LEN_BYTE_ARRAY and little-endian elsewhere."""
    logical = leaf.logical
    if logical is None or not 0 < width <= 16 or not 0 < logical.precision <= 38:
        return None
    numbers: Any = np.frombuffer(plain, np.uint8).reshape(count, width)
    if leaf.physical == FIXED:
        numbers = numbers[:, ::-1]
    wide = np.empty((count, 16), np.uint8)
    wide[:, :width] = numbers
    wide[:, width:] = np.where(numbers[:, -1:] > 0x7F, 0xFF, 0)
    kind = pa.decimal128(logical.precision, logical.scale)
    array = pa.Array.from_buffers(kind, count, [None, pa.py_buffer(wide.tobytes())])
    array.validate(full=True)
    return array
