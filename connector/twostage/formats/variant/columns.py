"""Variant columns of files as Spark's two byte strings.

Takes a variant column as a file stores it, a struct of `metadata` and `value` in any order, shredded or not;
returns a struct of the two as `columns.arrow_type` has it. The rule: a variant without one of its parts is a
`CorruptFileError`.
Source: apache/parquet-format, VariantEncoding.md and VariantShredding.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from twostage.columns import arrow_type
from twostage.errors import CorruptFileError
from twostage.formats.promotion import mismatch
from twostage.formats.variant import shredding

if TYPE_CHECKING:
    from twostage.formats.file_schema import FileField
    from twostage.schema import Field


def variant_column(array: pa.Array, source: FileField, target: Field, path: str) -> pa.Array:
    """Return a variant column in the scan's type.

    Raises:
        CorruptFileError: The file's column is not a variant, or a row's parts are missing or contradict each other.
    """
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
        value, metadata = shredding.reconstruct(array)
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
