"""Decimals of ORC: a stream of varints of any length, and a scale for each.

Takes the unpacked stream and the scales; gives a decimal128 array. The rule: a number that the column's type
cannot hold exactly raises, it is never rounded or cut.
Source: ORC specification v1, "Decimal Columns".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAX_BYTES = 19
"""Seven bits each, for the 128 bits of 38 digits and a sign."""
_ONE = np.uint64(1)


def read_decimals(data: bytes, scales: NDArray[np.int64], precision: int, scale: int) -> pa.Decimal128Array:
    """Decode ``len(scales)`` numbers to ``decimal128(precision, scale)``."""
    low, high = _varints(data, len(scales))
    sign = ~(low & _ONE) + _ONE
    low, high = ((low >> _ONE) | (high << np.uint64(63))) ^ sign, (high >> _ONE) ^ sign
    words = np.stack([low, high], axis=1)
    wanted = pa.decimal128(precision, scale)
    if (scales == scale).all():
        return _exact(_array(words, scale), wanted)
    parts, places = [], []
    for one in np.unique(scales).tolist():
        if not 0 <= one <= 38:
            raise ValueError(f"a decimal of scale {one}")
        place = np.flatnonzero(scales == one)
        parts.append(_array(words[place], one).cast(pa.decimal256(76, one)).cast(pa.decimal256(76, scale)))
        places.append(place)
    order = np.argsort(np.concatenate(places), kind="stable")
    return _exact(pa.concat_arrays(parts).take(pa.array(order)), wanted)


def _array(words: NDArray[np.uint64], scale: int) -> pa.Array:
    values = np.ascontiguousarray(words)
    return pa.Array.from_buffers(pa.decimal128(38, scale), len(values), [None, pa.py_buffer(values)])


def _exact(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    return array.cast(wanted)  # raises where a number has more digits than the type


def _varints(data: bytes, count: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the low and high 64 bits of unsigned varints."""
    raw = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(raw < 128) + 1
    if len(ends) != count or (count and ends[-1] != len(raw)):
        raise ValueError(f"a stream does not hold exactly {count} decimals")
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]]) if count else ends
    lengths = ends - starts
    longest = int(lengths.max()) if count else 0
    if longest > _MAX_BYTES:
        raise ValueError(f"a decimal of {longest} bytes")
    low, high = np.zeros(count, np.uint64), np.zeros(count, np.uint64)
    for index in range(longest):
        rows = slice(None) if index == 0 else np.flatnonzero(lengths > index)
        digits = (raw[starts[rows] + index] & 127).astype(np.uint64)
        shift = 7 * index
        if shift < 64:
            low[rows] |= digits << np.uint64(shift)
        if shift >= 64:
            high[rows] |= digits << np.uint64(shift - 64)
        elif shift > 57:
            high[rows] |= digits >> np.uint64(64 - shift)
    return low, high
