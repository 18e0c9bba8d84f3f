"""Decimals of ORC: a stream of unscaled values as varints of any length, and a scale for each.

Takes the decompressed stream and the scales; returns a decimal128 array. The rule: a number that the column's
type cannot hold exactly is an error; it is never rounded or cut.
Source: ORC specification v1, "Decimal Columns".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from twostage.formats.varint import read_wide_zigzags

if TYPE_CHECKING:
    from numpy.typing import NDArray


def read_decimals(data: bytes, scales: NDArray[np.int64], precision: int, scale: int) -> pa.Decimal128Array:
    """Decode one number for each of `scales` (int64) to ``decimal128(precision, scale)``.

    Raises:
        ValueError: The stream holds a different number of values, or one that does not fit (also as
            `pa.ArrowInvalid`).
    """
    words = read_wide_zigzags(data, len(scales))
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
    return array.cast(wanted)  # raises if a number has more digits than the type
