"""Promotes a leaf's values from the file's type to the table's.

Takes a decoded Arrow array and the table's primitive type; returns an array of exactly `columns.arrow_type`
of it. The rule: only promotions that Iceberg allows, and no value changes its meaning; any other type is a
`CorruptFileError`, and so are text that is not UTF-8 and dictionary codes without a value, which pyarrow's
Parquet reader passes on.
Source: Iceberg table spec, "Schema Evolution".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twostage.columns import NULL_TEST, arrow_type
from twostage.errors import CorruptFileError

if TYPE_CHECKING:
    from twostage.schema import Primitive, Type

MAX_TEXT_BYTES = 2**31 - 1
"""Bytes of text or binary values in one array: what 32-bit offsets reach."""
_TEXTS = frozenset(("string", "uuid"))
_NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
"""Nanoseconds of a unit of time."""
_DASHES = np.frombuffer(b"00000000-0000-0000-0000-000000000000", np.uint8)
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_HEX_AT = np.flatnonzero(_DASHES != ord("-"))


def mismatch(source: pa.DataType, target: Type, path: str, name: str) -> CorruptFileError:
    """Return the error for a file column whose type cannot become the table's."""
    return CorruptFileError(
        "TYPE_MISMATCH",
        f"Column {name!r} is {source} in the file and {target} in the table",
        path=path,
        stage="fetch",
        hint="The file does not belong to this table's schema.",
    )


def promote(array: pa.Array, kind: Primitive, path: str, name: str) -> pa.Array:
    """Return a leaf's values in the table's type.

    Args:
        array: Decoded values, perhaps dictionary-encoded.
        kind: The table's type.
        path: The file, for errors.
        name: The column's name, for errors.

    Returns:
        An array of ``arrow_type(kind)``; of its large form if a row group's text exceeds 2 GiB, which happens
        only in stage one.

    Raises:
        CorruptFileError: The file's type cannot become the table's, a value does not fit it, text is not UTF-8, or a
            dictionary code has no value.
    """
    target = arrow_type(kind)
    found = array.type
    if found == target and kind.name not in _TEXTS:
        return array  # as most columns are
    if pa.types.is_dictionary(found):
        array = decode_dictionary(array, path, name)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    found = array.type
    if pa.types.is_string(found) or pa.types.is_large_string(found):
        _check_text(array, path, name)
    if found == target:
        return array
    if kind.name == "unknown" or pa.types.is_null(found):
        return pa.nulls(len(array), target)
    if kind == NULL_TEST:
        return pc.if_else(array.is_valid(), pa.scalar(value=True), pa.scalar(None, target))
    if kind.name in ("geometry", "geography"):  # queries can only test them for NULL
        return pc.if_else(array.is_valid(), pa.scalar(b""), pa.scalar(None, target))
    if kind.name == "time" or kind.name.startswith("timestamp"):
        return _promote_moment(array, kind, target, path, name)
    if kind.name == "uuid" and pa.types.is_fixed_size_binary(found) and found.byte_width == 16:
        return uuid_text(array)
    if not _allowed(found, kind):
        raise mismatch(found, kind, path, name)
    is_large = pa.types.is_large_string(found) or pa.types.is_large_binary(found)
    if is_large and array.nbytes > MAX_TEXT_BYTES:
        return array  # a whole row group, only in stage one
    try:
        return array.cast(target)
    except pa.ArrowInvalid as error:  # a decimal wider than the table's type, text that is not UTF-8
        raise mismatch(found, kind, path, name) from error


def decode_dictionary(array: pa.DictionaryArray, path: str, name: str) -> pa.Array:
    """Return the values of a dictionary array.

    Raises:
        CorruptFileError: A code has no value: pyarrow's Parquet reader passes such codes on.
    """
    try:
        return array.dictionary_decode()
    except pa.ArrowException as error:
        raise CorruptFileError(
            "CORRUPT_DATA_FILE",
            f"Column {name!r} holds a code outside its dictionary",
            path=path,
            stage="fetch",
        ) from error


def _check_text(array: pa.Array, path: str, name: str) -> None:
    """Refuse text that is not UTF-8, which pyarrow's Parquet reader passes on.

    Most text is ASCII, and one pass over the bytes proves it in a tenth of the time that validation takes: 0.2 ms for
    a million short strings.
    """
    if _is_ascii(array):
        return
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        raise CorruptFileError(
            "CORRUPT_DATA_FILE",
            f"Column {name!r} holds text that is no UTF-8",
            path=path,
            stage="fetch",
        ) from None


def _is_ascii(array: pa.Array) -> bool:
    """Tell whether all bytes between the first string's start and the last one's end are ASCII."""
    data = array.buffers()[2]
    if data is None or data.size == 0:
        return True
    width = np.int64 if pa.types.is_large_string(array.type) else np.int32
    offsets = np.frombuffer(array.buffers()[1], width)
    start, end = int(offsets[array.offset]), int(offsets[array.offset + len(array)])
    signed = np.frombuffer(data, np.int8)[start:end]
    return len(signed) == 0 or int(signed.min()) >= 0


def _allowed(found: pa.DataType, kind: Primitive) -> bool:
    """Tell whether Iceberg promotes an Arrow type of a file to the table's type."""
    types = pa.types
    match kind.name:
        case "boolean":
            return bool(types.is_boolean(found))
        case "int":
            return bool(types.is_integer(found) and found.bit_width <= 32 and found != pa.uint32())
        case "long":
            return bool(types.is_integer(found) and found != pa.uint64())
        case "float":
            return bool(types.is_float32(found) or types.is_float16(found))
        case "double":
            return bool(types.is_floating(found))
        case "decimal":
            return bool(types.is_decimal(found) and found.scale == kind.scale)
        case "date":
            return bool(types.is_date(found))
        case "string" | "uuid" | "binary" | "fixed":
            text = types.is_string(found) or types.is_large_string(found) or types.is_string_view(found)
            fixed = types.is_fixed_size_binary(found)
            plain = types.is_binary(found) or types.is_large_binary(found) or types.is_binary_view(found)
            if kind.name == "uuid":
                return bool(text)
            return bool(text or plain or (fixed and kind.name != "string"))
    return False


def _promote_moment(array: pa.Array, kind: Primitive, target: pa.DataType, path: str, name: str) -> pa.Array:
    """Change a time's or timestamp's unit; the zone is only relabelled: a cast would move the instant."""
    found = array.type
    if kind.name in ("timestamp", "timestamp_ns") and pa.types.is_date32(found):
        return array.cast(target)
    same_kind = pa.types.is_time(found) if kind.name == "time" else pa.types.is_timestamp(found)
    if not same_kind:
        raise mismatch(found, kind, path, name)
    numbers = array.view(pa.int32() if found.bit_width == 32 else pa.int64()).cast(pa.int64())
    found_nanos, target_nanos = _NANOS[found.unit], _NANOS[target.unit]
    try:
        if found_nanos > target_nanos:
            numbers = pc.multiply_checked(numbers, found_nanos // target_nanos)
        elif found_nanos < target_nanos:
            step = target_nanos // found_nanos
            # Floor: Arrow divides towards zero, which would move instants before 1970.
            rest = pc.subtract(numbers, pc.multiply(pc.divide(numbers, step), step))
            down = pc.if_else(pc.less(rest, 0), 1, 0)
            numbers = pc.subtract(pc.divide(numbers, step), down.cast(pa.int64()))
    except pa.ArrowInvalid as error:
        raise CorruptFileError(
            "VALUE_OUT_OF_RANGE",
            f"Column {name!r} holds a moment that {kind} cannot carry",
            path=path,
            stage="fetch",
        ) from error
    return numbers.view(target)


def uuid_text(array: pa.Array) -> pa.Array:
    """Write 16-byte values as canonical UUID text (36 characters), without a Python object per row."""
    count = len(array)
    if count == 0:
        return pa.array([], pa.string())
    data = array.buffers()[1]
    raw = np.frombuffer(data, np.uint8)[array.offset * 16 : (array.offset + count) * 16].reshape(count, 16)
    text = np.empty((count, 36), np.uint8)
    text[:] = _DASHES
    text[:, _HEX_AT[0::2]] = _HEX[raw >> 4]
    text[:, _HEX_AT[1::2]] = _HEX[raw & 15]
    offsets = pa.py_buffer(np.arange(0, 36 * (count + 1), 36, dtype=np.int64))
    validity = None
    if array.null_count:
        validity = array.is_valid().buffers()[1]
    large = pa.Array.from_buffers(
        pa.large_string(), count, [validity, offsets, pa.py_buffer(text)], array.null_count
    )
    return large.cast(pa.string())
