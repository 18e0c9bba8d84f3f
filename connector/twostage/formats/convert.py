"""Builds columns of the scan's schema from columns of a file: by field id, at every depth.

Takes decoded Arrow arrays and their `FileField`s; returns arrays of exactly `columns.arrow_type(target)`:
sub-fields reordered, renamed and dropped, missing ones filled with the initial default or NULL, and leaves
promoted (`promotion.py`). The rule: a value changes its type, never its meaning; what cannot be promoted is
refused.
Source: Iceberg table spec, "Column Projection" and "Schema Evolution".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from twostage.columns import arrow_type
from twostage.errors import CorruptFileError
from twostage.formats.internal_values import constant
from twostage.formats.promotion import decode_dictionary, mismatch, promote
from twostage.formats.variant.columns import variant_column
from twostage.schema import Field, List, Map, Primitive, Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.formats.file_schema import FileField

_VARIANT = Primitive("variant")


def convert(
    array: pa.Array, source: FileField, target: Field, constants: Mapping[int, Any], path: str
) -> pa.Array:
    """Convert one column of a file to its target field.

    Args:
        array: Decoded values.
        source: The file's field, cut to the leaves that were decoded.
        target: The wanted field, perhaps with fewer sub-fields than the table's.
        constants: Partition values by field id, which replace the file's own values.
        path: The file, for errors.

    Raises:
        CorruptFileError: The file's types cannot become the target's, or its values contradict them.
    """
    kind = target.type
    if isinstance(kind, Primitive):
        if kind == _VARIANT:
            return variant_column(array, source, target, path)
        return promote(array, kind, path, target.name)
    if pa.types.is_dictionary(array.type):
        array = decode_dictionary(array, path, target.name)
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
    """Return all keys and values of a map; one with optional keys in the file arrives as a list of pairs."""
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
    if position >= len(source.children):  # only the map's keys were decoded
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


def column(
    sources: Mapping[int, tuple[pa.Array, FileField]],
    target: Field,
    constants: Mapping[int, Any],
    num_rows: int,
    path: str,
) -> pa.Array:
    """Build one column of the scan from a file's decoded top-level columns.

    Args:
        sources: Arrays and their fields by field id.
        target: The wanted field.
        constants: Partition values by field id, which replace the file's own values.
        num_rows: Length of the result.
        path: The file, for errors.

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
