"""Assembles a nested column from arrays of its leaves.

Takes one array for each leaf, each nested as if the leaf were the column's only one; returns the column. The
rule: the levels above two leaves are the same in both arrays, so NULLs and offsets are taken from the first
one; lengths that differ are an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.formats.file_schema import FileField


def assemble(field: FileField, kind: pa.DataType, leaves: Mapping[int, pa.Array]) -> pa.Array:
    """Return the column of `field`, cut to the given leaves.

    Args:
        field: The file's field.
        kind: Its Arrow type in the whole file, which tells lists and maps apart.
        leaves: Arrays by leaf number, of equal length and with offset 0. A map's leaves come as lists.

    Raises:
        ValueError: The arrays do not fit each other.
    """
    if not field.children:
        return leaves[field.first_leaf]
    first = next(iter(leaves.values()))
    if len({len(array) for array in leaves.values()}) > 1:
        raise ValueError("leaves of one column differ in length")
    if pa.types.is_struct(kind):
        fields, parts = [], []
        for number, child in enumerate(field.children):
            below = {leaf: array.field(0) for leaf, array in leaves.items() if child.has_leaf(leaf)}
            if below:
                part = assemble(child, kind.field(number).type, below)
                parts.append(part)
                fields.append(pa.field(child.name, part.type))
        return pa.StructArray.from_arrays(
            parts, fields=fields, mask=first.is_null() if first.null_count else None
        )
    validity, offsets = first.buffers()[:2]
    inner = {leaf: array.values for leaf, array in leaves.items()}
    if pa.types.is_map(kind):
        keys, items = (
            assemble(child, below, {leaf: array for leaf, array in inner.items() if child.has_leaf(leaf)})
            for child, below in zip(field.children, (kind.key_type, kind.item_type), strict=True)
        )
        wanted = pa.map_(keys.type, items.type)
        values = pa.StructArray.from_arrays([keys, items], fields=[wanted.key_field, wanted.item_field])
    else:
        values = assemble(field.children[0], kind.value_type, inner)
        wanted = pa.list_(values.type)
    return pa.Array.from_buffers(wanted, len(first), [validity, offsets], first.null_count, 0, [values])


def can_assemble(field: FileField, kind: pa.DataType, leaves: frozenset[int]) -> bool:
    """Tell whether these leaves of a field can be assembled: a map needs its keys and a leaf of its values."""
    if not field.children:
        return True
    if pa.types.is_map(kind):
        kinds = [kind.key_type, kind.item_type]
    elif pa.types.is_struct(kind):
        kinds = [kind.field(i).type for i in range(kind.num_fields)]
    else:
        kinds = [kind.value_type]
    for child, below in zip(field.children, kinds, strict=True):
        wanted = frozenset(leaf for leaf in leaves if child.has_leaf(leaf))
        if (pa.types.is_map(kind) and not wanted) or (wanted and not can_assemble(child, below, wanted)):
            return False
    return True
