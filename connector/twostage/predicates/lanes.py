"""Arrow arrays as NumPy views ("lanes") for the kernels in `twostage_native`.

Takes an Arrow array with any offset, with or without a validity bitmap; returns its values as one of three lanes
without copying them (booleans are unpacked), and its nulls separately. Null slots of a lane hold arbitrary
values, so readers of a lane must apply `read_nulls`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twostage.errors import InternalError
from twostage_native.masks import unpack_bits

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """Booleans, integers (dates and times too) or floats: shape (rows,), dtype bool, int8-64, uint8-64 or float32/64."""

    values: NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Wide:
    """Decimals as unscaled 128-bit integers: shape (rows, 2), int64, low word first; value = integer / 10^`scale`."""

    words: NDArray[np.int64]
    scale: int


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """Strings or binary values: `offsets` of shape (rows + 1,), int32 or int64, into the uint8 bytes of `data`."""

    offsets: NDArray[Any]
    data: NDArray[np.uint8]
    is_string: bool


Lane = Numbers | Wide | Text

MAX_CODES_TO_COMPARE = 6
"""Up to this many matching dictionary codes, comparing with each is faster than a lookup per row (0.6 ns a row)."""


def read_nulls(array: pa.Array) -> NDArray[np.bool_] | None:
    """Return a boolean per row, true for NULL, read-only; None if no row is NULL.

    >>> read_nulls(pa.array([1, None])[1:])
    array([ True])
    """
    kind = array.type
    if isinstance(array, pa.DictionaryArray):
        return _dictionary_nulls(array)
    if isinstance(array, pa.ExtensionArray):
        return read_nulls(array.storage)
    if pa.types.is_null(kind):
        return np.ones(len(array), np.bool_)
    if pa.types.is_union(kind) or pa.types.is_run_end_encoded(kind):  # their validity is in their children
        flags = read_lane(array.is_null())
        assert isinstance(flags, Numbers)
        return flags.values
    validity = array.buffers()[0]
    if validity is None or array.null_count == 0:
        return None
    return ~unpack_bits(_buffer(validity, np.uint8), array.offset, len(array))


def _dictionary_nulls(array: pa.DictionaryArray) -> NDArray[np.bool_] | None:
    of_rows, of_values = read_nulls(array.indices), read_nulls(array.dictionary)
    if of_values is None:
        return of_rows
    gathered = gather(of_values, array)
    return gathered if of_rows is None else gathered | of_rows


def gather(flags: NDArray[np.bool_], array: pa.DictionaryArray) -> NDArray[np.bool_]:
    """Return for each row the flag of its dictionary value; the flag of a NULL row is arbitrary."""
    chosen = np.flatnonzero(flags)
    if len(chosen) in (0, len(flags)):
        return np.full(len(array), len(chosen) > 0)
    indices = read_lane(array.indices)
    assert isinstance(indices, Numbers)
    codes = indices.values
    if len(chosen) > MAX_CODES_TO_COMPARE:
        return np.take(flags, codes, mode="clip")  # the index of a null slot may be out of range
    hits: NDArray[np.bool_] = codes == codes.dtype.type(chosen[0])
    for code in chosen[1:]:
        hits |= codes == codes.dtype.type(code)
    return hits


def read_lane(array: pa.Array) -> Lane:
    """Return the values of an array that is neither dictionary-encoded nor nested.

    Dates are days since 1970-01-01; times and timestamps are microseconds, or nanoseconds for the ``_ns`` types.

    Raises:
        InternalError: The type is one that no predicate compares.
    """
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return read_lane(array.storage)
    if pa.types.is_boolean(kind):
        bits = _buffer(array.buffers()[1], np.uint8)
        return Numbers(unpack_bits(bits, array.offset, len(array)))
    if pa.types.is_integer(kind) or _has_our_unit(kind):
        sign = "u" if pa.types.is_unsigned_integer(kind) else "i"
        return Numbers(_fixed(array, np.dtype(f"{sign}{kind.bit_width // 8}")))
    if pa.types.is_floating(kind):
        values = _fixed(array, np.dtype(f"f{kind.bit_width // 8}"))
        return Numbers(values.astype(np.float32) if values.itemsize == 2 else values)
    if pa.types.is_decimal128(kind):
        words = _fixed(array, np.dtype("V16")).view(np.int64).reshape(-1, 2)
        return Wide(words, kind.scale)
    if pa.types.is_decimal(kind):
        return read_lane(array.cast(pa.decimal128(kind.precision, kind.scale)))
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _text(array, np.dtype(np.int32), is_string=pa.types.is_string(kind))
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return _text(array, np.dtype(np.int64), is_string=pa.types.is_large_string(kind))
    if pa.types.is_string_view(kind):
        return read_lane(array.cast(pa.large_string()))
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_binary_view(kind):
        return read_lane(array.cast(pa.large_binary()))
    raise InternalError("BAD_PREDICATE", f"No comparison for values of type: {kind}", stage="filter")


def count_characters(array: pa.Array) -> Numbers:
    """Return each string's length as Spark's ``length()`` gives it: code points, if the bytes are UTF-8."""
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        binary = pa.large_binary() if pa.types.is_large_string(array.type) else pa.binary()
        texts = array.view(binary).to_pylist()
        return Numbers(np.array([_count_steps(text or b"") for text in texts], np.int64))
    return Numbers(_fixed(pc.utf8_length(array), np.dtype(f"i{4 if pa.types.is_string(array.type) else 8}")))


def _count_steps(text: bytes) -> int:
    """Count characters in invalid UTF-8 as Spark's ``UTF8String`` does: the first byte says how many bytes follow."""
    place = count = 0
    while place < len(text):
        first = text[place]
        place += (
            2 if 0xC2 <= first <= 0xDF else 3 if 0xE0 <= first <= 0xEF else 4 if 0xF0 <= first <= 0xF4 else 1
        )
        count += 1
    return count


def _has_our_unit(kind: pa.DataType) -> bool:
    """Return whether a date, time or timestamp type counts in Iceberg's unit."""
    if pa.types.is_timestamp(kind):
        return kind.unit in ("us", "ns")
    return kind in (pa.date32(), pa.time64("us"))


def _buffer(buffer: pa.Buffer | None, dtype: Any) -> NDArray[Any]:
    """Return a buffer as a read-only array: numba would compile each kernel again for writeable arrays."""
    values: NDArray[Any] = np.frombuffer(b"" if buffer is None or buffer.size == 0 else buffer, dtype)
    values.flags.writeable = False
    return values


def _fixed(array: pa.Array, dtype: np.dtype[Any]) -> NDArray[Any]:
    buffer = array.buffers()[1]
    size = 0 if buffer is None else buffer.size // dtype.itemsize * dtype.itemsize
    values = _buffer(None if buffer is None else buffer.slice(0, size), dtype)
    return values[array.offset : array.offset + len(array)]


def _text(array: pa.Array, dtype: np.dtype[Any], *, is_string: bool) -> Text:
    buffers = array.buffers()
    offsets = _buffer(buffers[1], np.uint8)
    offsets = offsets[: len(offsets) // dtype.itemsize * dtype.itemsize].view(dtype)
    offsets = offsets[array.offset : array.offset + len(array) + 1]
    if len(array) == 0:
        offsets = np.zeros(1, dtype)
        offsets.flags.writeable = False
    return Text(offsets, _buffer(buffers[2], np.uint8), is_string)
