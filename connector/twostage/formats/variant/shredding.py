"""Reconstructs shredded variants.

Takes a variant column of a Parquet file, a struct of `metadata`, `value` and `typed_value`; returns the
column's values and metadata as if it had never been shredded. The rule: a row's `value` and `typed_value` do
not contradict each other, or `ValueError` says how they do.
Source: apache/parquet-format, VariantShredding.md, "Reconstructing a Shredded Variant".
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twostage.formats.variant import encoding
from twostage.formats.variant.encoding import Names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

ROWS_AT_ONCE = 8_192
"""Rows reconstructed together: objects are built as Python bytes, with some 50 bytes of overhead a field."""
_LARGE = pa.large_binary()
_PARTS = frozenset(("value", "typed_value"))


def reconstruct(array: pa.StructArray) -> tuple[pa.Array, pa.Array]:
    """Return values and metadata (large_binary) of a shredded variant column, NULL where the variant is.

    Raises:
        ValueError: Its parts are not those of a shredded variant, or contradict each other.
    """
    values, metadata = [], []
    kind = _without_views(array.type)
    if kind != array.type:
        array = array.cast(kind)
    for start in range(0, len(array), ROWS_AT_ONCE):
        one, other = _reconstruct(array.slice(start, ROWS_AT_ONCE))
        values.append(one)
        metadata.append(other)
    if not values:
        return pa.array([], _LARGE), pa.array([], _LARGE)
    return pa.concat_arrays(values), pa.concat_arrays(metadata)


def _without_views(kind: pa.DataType) -> pa.DataType:
    """Return a type without string and binary views, which Rust's writer declares and Arrow cannot filter."""
    types = pa.types
    if types.is_struct(kind):
        return pa.struct([field.with_type(_without_views(field.type)) for field in kind])
    if types.is_list(kind) or types.is_large_list(kind):
        inner = kind.value_field.with_type(_without_views(kind.value_type))
        return pa.list_(inner) if types.is_list(kind) else pa.large_list(inner)
    if types.is_string_view(kind):
        return pa.large_string()
    return _LARGE if types.is_binary_view(kind) else kind


def _reconstruct(array: pa.StructArray) -> tuple[pa.Array, pa.Array]:
    present = array.is_valid()
    parts = _parts(array, _PARTS | {"metadata"})
    if "metadata" not in parts or pc.any(pc.and_(present, parts["metadata"].is_null())).as_py():
        raise ValueError("it has no metadata")
    encoded = _bytes(parts["metadata"]).filter(present).dictionary_encode()
    names = [Names(raw) for raw in encoded.dictionary.to_pylist()]
    if array.null_count:
        parts = {name: part.filter(present) for name, part in parts.items()}
    codes = encoded.indices.to_numpy()
    # By the specification, a missing value where there must be one is the variant null.
    values = _values(parts, names, codes).fill_null(pa.scalar(encoding.NULL, _LARGE))
    metadata = pa.array([one.encode() for one in names], _LARGE).take(encoded.indices)
    if array.null_count:
        missing = pa.nulls(len(array), _LARGE)
        values = pc.replace_with_mask(missing, present, values)
        metadata = pc.replace_with_mask(missing, present, metadata)
    return values, metadata


def _parts(array: pa.Array, allowed: frozenset[str]) -> dict[str, pa.Array]:
    """Return the fields of a struct by name, NULL where the struct is."""
    if not pa.types.is_struct(array.type):
        raise ValueError(f"a part of it is {array.type}, and not value and typed_value")
    names = [field.name for field in array.type]
    if not names or len(set(names)) < len(names) or not allowed.issuperset(names):
        raise ValueError(f"its parts are {', '.join(names) or 'none'}")
    return dict(zip(names, array.flatten(), strict=True))


def _bytes(array: pa.Array) -> pa.Array:
    array = _plain(array)
    if not (pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type)):
        raise ValueError(f"a part of it is {array.type}, and not bytes")
    return array.cast(_LARGE)


def _plain(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _values(parts: dict[str, pa.Array], names: Sequence[Names], codes: NDArray[np.int32]) -> pa.Array:
    """Return the variants of `value` and `typed_value` (large_binary), NULL where both are.

    Args:
        parts: One or both of them, by name.
        names: The distinct metadata of the rows.
        codes: For each row, which of `names` is its own.
    """
    count = len(codes)
    value = _bytes(parts["value"]) if "value" in parts else pa.nulls(count, _LARGE)
    if value.null_count < count and pc.any(pc.equal(pc.binary_length(value), 0)).as_py():
        raise ValueError("it has a value of no bytes")
    if "typed_value" not in parts:
        return value
    typed = _plain(parts["typed_value"])
    is_group = pa.types.is_nested(typed.type)
    if typed.null_count == count:
        if not is_group:
            encoding.encode_scalars(typed)  # raises for a type that cannot be shredded
        return value
    is_typed = typed.is_valid()
    if not pa.types.is_struct(typed.type) and pc.any(pc.and_(is_typed, value.is_valid())).as_py():
        raise ValueError("a row has both a value and a typed value, and is no object")
    if not is_group:
        return pc.coalesce(encoding.encode_scalars(typed), value)
    if typed.null_count:
        codes = codes[is_typed.to_numpy(zero_copy_only=False)]
        typed, remaining = typed.filter(is_typed), value.filter(is_typed)
    else:
        remaining = value
    if pa.types.is_struct(typed.type):
        built = _objects(typed, remaining, names, codes)
    elif pa.types.is_list(typed.type) or pa.types.is_large_list(typed.type):
        built = _arrays(typed, names, codes)
    else:
        raise ValueError(f"it is shredded as {typed.type}, which is no type for that")
    whole = pa.array(built, _LARGE)
    return whole if len(whole) == count else pc.replace_with_mask(value, is_typed, whole)


def _arrays(typed: pa.Array, names: Sequence[Names], codes: NDArray[np.int32]) -> Iterator[bytes]:
    sizes = pc.list_value_length(typed).to_numpy()
    elements = _values(_parts(typed.flatten(), _PARTS), names, np.repeat(codes, sizes))
    elements = elements.fill_null(pa.scalar(encoding.NULL, _LARGE))
    end_of = [0, *np.cumsum(sizes).tolist()]
    offsets = np.frombuffer(elements.buffers()[1], np.int64)[elements.offset :]
    data = memoryview(elements.buffers()[2] or b"")
    for start, end in pairwise(end_of):
        own = offsets[start : end + 1]
        yield encoding.encode_array((own - own[0]).tolist(), bytes(data[own[0] : own[-1]]))


def _objects(
    typed: pa.StructArray, remaining: pa.Array, names: Sequence[Names], codes: NDArray[np.int32]
) -> Iterator[bytes]:
    shredded = [field.name for field in typed.type]
    if len(set(shredded)) < len(shredded):
        raise ValueError("it has one shredded field twice")
    fields = sorted(zip(shredded, typed.flatten(), strict=True), key=lambda field: _order(field[0].encode()))
    keys = [name.encode() for name, _ in fields]
    columns = [_values(_parts(part, _PARTS), names, codes).to_pylist() for _, part in fields]
    taken = frozenset(keys)
    rows = zip(*columns, strict=True) if columns else [()] * len(codes)
    for row, rest, code in zip(rows, remaining.to_pylist(), codes.tolist(), strict=True):
        own = names[code]
        found = [(key, value) for key, value in zip(keys, row, strict=True) if value is not None]
        if rest is not None:
            found += _rest(rest, own, taken)
            found.sort(key=lambda field: _order(field[0]))
        yield encoding.encode_object([own[key] for key, _ in found], [value for _, value in found])


def _rest(value: bytes, names: Names, taken: frozenset[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the fields of an object that are not shredded."""
    for number, one in encoding.read_object(value):
        if number >= names.known:
            raise ValueError("a field's name is not in its metadata")
        name = names.listed[number]
        if name in taken:
            raise ValueError(f"the shredded field {name.decode(errors='replace')!r} is in its value, too")
        yield name, one


def _order(name: bytes) -> bytes:
    """Return the sort key of a name in the order of Spark's binary search, which compares UTF-16 code units.

    The specification's order, by UTF-8 bytes, differs only beyond U+FFFF.
    """
    return name.decode("utf-8", "replace").encode("utf-16-be")
