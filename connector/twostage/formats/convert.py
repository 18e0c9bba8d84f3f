"""Turns what a file holds into what the scan's schema says: by field id, at every depth.

Takes decoded Arrow arrays and their `FileField`s; gives arrays of exactly `columns.arrow_type(target)`:
sub-fields reordered, renamed and dropped, missing ones filled with the initial default or NULL, types
promoted. The rule: a value changes its type, never its meaning; what cannot be promoted is refused.
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twostage.columns import NULL_TEST, arrow_type, is_truncated
from twostage.errors import CorruptFileError
from twostage.formats.variant import shredding
from twostage.schema import Field, List, Map, Primitive, Struct, Type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from twostage.formats.file_schema import FileField

MAX_TEXT_BYTES = 2**31 - 1
"""What the 32-bit offsets of an array of text reach."""
_VARIANT = Primitive("variant")
_TEXTS = frozenset(("string", "uuid"))
_EXACT = Context(prec=76)  # the default context holds 28 digits, a decimal 38
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


def convert(
    array: pa.Array, source: FileField, target: Field, constants: Mapping[int, Any], path: str
) -> pa.Array:
    """Convert one column of a file to its target field.

    Args:
        array: Decoded values.
        source: The file's field, cut to the leaves that were decoded.
        target: The field wanted, maybe with fewer sub-fields than the table's.
        constants: Partition values by field id; they stand for the file's own values.
        path: The file, for errors.
    """
    kind = target.type
    if isinstance(kind, Primitive):
        if kind == _VARIANT:
            return _variant(array, source, target, path)
        return promote(array, kind, path, target.name)
    if pa.types.is_dictionary(array.type):
        array = _looked_up(array, path, target.name)
    if isinstance(kind, Struct):
        return _convert_struct(array, source, target, constants, path)
    validity = array.buffers()[0]
    offsets = array.buffers()[1] if len(array.buffers()) > 1 else None
    if isinstance(kind, List):
        if pa.types.is_large_list(array.type) or pa.types.is_fixed_size_list(array.type):
            array = array.cast(pa.list_(array.type.value_field))
            validity, offsets = array.buffers()[:2]
        if not pa.types.is_list(array.type):
            raise mismatch(array.type, kind, path, target.name)
        inner = [_child(array.values, source, 0, kind.element, constants, path)]
    else:
        in_keys, in_values = _pairs(array, kind, path, target.name)
        keys = _child(in_keys, source, 0, kind.key, constants, path)
        values = _child(in_values, source, 1, kind.value, constants, path)
        wanted = arrow_type(kind)
        entries = pa.StructArray.from_arrays([keys, values], fields=[wanted.key_field, wanted.item_field])
        inner = [entries]
    return pa.Array.from_buffers(
        arrow_type(kind), len(array), [validity, offsets], array.null_count, array.offset, inner
    )


def _pairs(array: pa.Array, kind: Map, path: str, name: str) -> tuple[pa.Array, pa.Array]:
    """Return all keys and values of a map, which comes as a list of pairs where its keys may be NULL."""
    if pa.types.is_map(array.type):
        return array.keys, array.items
    if not pa.types.is_list(array.type) or not pa.types.is_struct(array.type.value_type):
        raise mismatch(array.type, kind, path, name)
    parts = array.values.flatten()
    if len(parts) > 2:
        raise mismatch(array.type, kind, path, name)
    if parts[0].null_count:
        raise CorruptFileError(
            "NULL_IN_REQUIRED_COLUMN",
            f"Column {name!r} holds a map with a key that is NULL",
            path=path,
            stage="fetch",
        )
    return parts[0], parts[-1]


def _child(
    array: pa.Array,
    source: FileField,
    position: int,
    target: Field,
    constants: Mapping[int, Any],
    path: str,
) -> pa.Array:
    if position >= len(source.children):  # a map whose values were not wanted
        return constant(target.type, target.initial_default, len(array))
    return convert(array, source.children[position], target, constants, path)


def _convert_struct(
    array: pa.Array, source: FileField, target: Field, constants: Mapping[int, Any], path: str
) -> pa.Array:
    assert isinstance(target.type, Struct)
    if not pa.types.is_struct(array.type):
        raise mismatch(array.type, target.type, path, target.name)
    parts = []
    for child in target.type.fields:
        position = next((i for i, field in enumerate(source.children) if field.id == child.id), None)
        if child.id in constants:
            parts.append(constant(child.type, constants[child.id], len(array)))
        elif position is None:
            parts.append(constant(child.type, child.initial_default, len(array)))
        else:
            parts.append(convert(array.field(position), source.children[position], child, constants, path))
    kind = arrow_type(target.type)
    fields = [kind.field(i) for i in range(kind.num_fields)]
    mask = array.is_null() if array.null_count else None
    if not parts:
        buffer = None if mask is None else pc.invert(mask).buffers()[1]
        return pa.Array.from_buffers(kind, len(array), [buffer], array.null_count)
    return pa.StructArray.from_arrays(parts, fields=fields, mask=mask)


def _variant(array: pa.Array, source: FileField, target: Field, path: str) -> pa.Array:
    """Return a variant as Spark's two byte strings; files keep them as a struct, in any order."""
    wanted = arrow_type(target.type)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), wanted)
    if not pa.types.is_struct(array.type):
        raise mismatch(array.type, target.type, path, target.name)
    names = [child.name for child in source.children]
    if "typed_value" in names:
        return _shredded(array, target, path)
    if sorted(names) != ["metadata", "value"]:
        raise mismatch(array.type, target.type, path, target.name)
    parts = []
    for field in wanted:
        part = array.field(names.index(field.name))
        kind, types = part.type, pa.types
        if not (types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind)):
            raise mismatch(array.type, target.type, path, target.name)
        if pc.any(pc.and_(array.is_valid(), part.is_null())).as_py():
            raise CorruptFileError(
                "CORRUPT_VARIANT",
                f"Column {target.name!r} holds a variant without {field.name}",
                path=path,
                stage="fetch",
            )
        parts.append(pc.fill_null(part.cast(field.type), b""))
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=mask)


def _shredded(array: pa.Array, target: Field, path: str) -> pa.Array:
    wanted = arrow_type(target.type)
    try:
        value, metadata = shredding.put_together(array)
    except ValueError as error:
        raise CorruptFileError(
            "CORRUPT_VARIANT",
            f"Column {target.name!r} holds a shredded variant that cannot be put together: {error}",
            path=path,
            stage="fetch",
        ) from None
    parts = {"value": value, "metadata": metadata}
    filled = [pc.fill_null(parts[field.name], b"").cast(field.type) for field in wanted]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(filled, fields=list(wanted), mask=mask)


def promote(array: pa.Array, kind: Primitive, path: str, name: str) -> pa.Array:
    """Cast a leaf to the table's type, by the promotions that Iceberg allows and no other.

    Raises:
        CorruptFileError: The file's type cannot become the table's.
    """
    target = arrow_type(kind)
    found = array.type
    if found == target and kind.name not in _TEXTS:
        return array  # as most are
    if pa.types.is_dictionary(found):
        array = _looked_up(array, path, name)
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
    if kind.name in ("geometry", "geography"):  # nobody asks for more than where they are NULL
        return pc.if_else(array.is_valid(), pa.scalar(b""), pa.scalar(None, target))
    if kind.name == "time" or kind.name.startswith("timestamp"):
        return _promote_moment(array, kind, target, path, name)
    if kind.name == "uuid" and pa.types.is_fixed_size_binary(found) and found.byte_width == 16:
        return uuid_text(array)
    if not _allowed(found, kind):
        raise mismatch(found, kind, path, name)
    is_large = pa.types.is_large_string(found) or pa.types.is_large_binary(found)
    if is_large and array.nbytes > MAX_TEXT_BYTES:
        return array  # a whole row group, which stage one looks at and nobody returns
    try:
        return array.cast(target)
    except pa.ArrowInvalid as error:  # a decimal wider than the table's type, text that is no UTF-8
        raise mismatch(found, kind, path, name) from error


def _looked_up(array: pa.DictionaryArray, path: str, name: str) -> pa.Array:
    """Return the values that codes stand for; pyarrow's Parquet reader passes on codes that stand for none."""
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
    """Refuse text that is no UTF-8, which pyarrow's Parquet reader passes on.

    ASCII, which one look at all bytes tells, takes a tenth of the time: 0.2 ms a million short strings.
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
    """Tell whether a string array's bytes are all ASCII, also those that no string of it holds."""
    data = array.buffers()[2]
    if data is None or data.size == 0:
        return True
    # Only what lies between the first string's start and the last one's end: what is behind may be garbage.
    width = np.int64 if pa.types.is_large_string(array.type) else np.int32
    offsets = np.frombuffer(array.buffers()[1], width)
    start, end = int(offsets[array.offset]), int(offsets[array.offset + len(array)])
    signed = np.frombuffer(data, np.int8)[start:end]
    return len(signed) == 0 or int(signed.min()) >= 0


def _allowed(found: pa.DataType, kind: Primitive) -> bool:
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


_UNITS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def _promote_moment(array: pa.Array, kind: Primitive, target: pa.DataType, path: str, name: str) -> pa.Array:
    """Rescale by the unit alone: an Arrow cast between zones would move the instant."""
    found = array.type
    if kind.name in ("timestamp", "timestamp_ns") and pa.types.is_date32(found):
        return array.cast(target)
    same_kind = pa.types.is_time(found) if kind.name == "time" else pa.types.is_timestamp(found)
    if not same_kind:
        raise mismatch(found, kind, path, name)
    numbers = array.view(pa.int32() if found.bit_width == 32 else pa.int64()).cast(pa.int64())
    factor, wanted = _UNITS[found.unit], _UNITS[target.unit]
    try:
        if factor > wanted:
            numbers = pc.multiply_checked(numbers, factor // wanted)
        elif factor < wanted:
            step = wanted // factor
            # Floor, so that an instant before 1970 does not move towards it.
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


def constant(kind: Type, value: Any, num_rows: int) -> pa.Array:
    """Return `num_rows` times a value in internal form (see `schema.py`); NULL for None."""
    target = arrow_type(kind)
    if value is None:
        return pa.nulls(num_rows, target)
    return pa.repeat(_scalar(kind, value, target), num_rows)


def values(kind: Type, items: Sequence[Any]) -> pa.Array:
    """Return values in internal form (a struct by field id, a map as pairs) as an array."""
    target = arrow_type(kind)
    return pa.array([_nested(kind, item) for item in items], _plain(target)).cast(target)


def _scalar(kind: Type, value: Any, target: pa.DataType) -> pa.Scalar:
    if isinstance(kind, Primitive):
        if kind.name == "date" or kind.name.startswith("timestamp"):
            width = pa.int32() if kind.name == "date" else pa.int64()
            return pa.array([_nested(kind, value)], width).view(target)[0]
        if kind.name == "time":
            return pa.array([value * 1000], pa.int64()).view(target)[0]
        if kind.name == "decimal":
            value = Decimal(value).quantize(Decimal(f"1E-{kind.scale}"), context=_EXACT)
        return pa.scalar(value, target)
    return pa.array([_nested(kind, value)], _plain(target))[0].cast(target)


def _nested(kind: Type, value: Any) -> Any:
    """Return a nested default as Python values that Arrow reads (moments stay numbers, cast later)."""
    if value is None:
        return None
    if isinstance(kind, Struct):
        return {
            field.name: _nested(
                field.type, value[field.id] if value.get(field.id) is not None else field.initial_default
            )
            for field in kind.fields
        }
    if isinstance(kind, List):
        return [_nested(kind.element.type, item) for item in value]
    if isinstance(kind, Map):
        return [(_nested(kind.key.type, key), _nested(kind.value.type, item)) for key, item in value]
    if kind.name == "decimal":
        return Decimal(value).quantize(Decimal(f"1E-{kind.scale}"), context=_EXACT)
    if is_truncated(kind):
        return value // 1000
    return value * 1000 if kind.name == "time" else value


def _plain(target: pa.DataType) -> pa.DataType:
    """Return the type with moments as the numbers that hold them."""
    if pa.types.is_date(target):
        return pa.int32()
    if pa.types.is_timestamp(target) or pa.types.is_time(target):
        return pa.int64()
    if pa.types.is_struct(target):
        fields = [target.field(i) for i in range(target.num_fields)]
        return pa.struct([field.with_type(_plain(field.type)) for field in fields])
    if pa.types.is_map(target):
        return pa.map_(_plain(target.key_type), target.item_field.with_type(_plain(target.item_type)))
    if pa.types.is_list(target):
        return pa.list_(target.value_field.with_type(_plain(target.value_type)))
    return target


def column(
    sources: Mapping[int, tuple[pa.Array, FileField]],
    target: Field,
    constants: Mapping[int, Any],
    num_rows: int,
    path: str,
) -> pa.Array:
    """Build one target column from the decoded top-level columns, by field id.

    Raises:
        CorruptFileError: A type mismatch, or NULL in a required column.
    """
    if target.id in constants:
        built = constant(target.type, constants[target.id], num_rows)
    else:
        source = sources.get(target.id)
        if source is None:
            built = constant(target.type, target.initial_default, num_rows)
        else:
            built = convert(*source, target, constants, path)
    if target.required and built.null_count:
        raise CorruptFileError(
            "NULL_IN_REQUIRED_COLUMN",
            f"Required column {target.name!r} holds NULL or is missing without a default",
            path=path,
            stage="fetch",
        )
    return built
