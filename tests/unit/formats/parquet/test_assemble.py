"""Nested columns of arrays of their leaves: cut a column into its leaves, and it comes back whole, or without some."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pyarrow as pa
import pytest

from twostage.formats.file_schema import FileField, identify
from twostage.formats.parquet.assemble import assemble, can_assemble

LONG, STRING = pa.int64(), pa.string()
INNER = pa.struct([("x", LONG), ("l", pa.list_(STRING)), ("y", STRING)])
KINDS = [
    LONG,
    INNER,
    pa.struct([("s", INNER), ("m", pa.map_(STRING, LONG)), ("z", LONG)]),
    pa.list_(INNER),
    pa.list_(pa.list_(LONG)),
    pa.map_(STRING, LONG),
    pa.map_(STRING, INNER),
    pa.map_(pa.struct([("k", LONG), ("j", STRING)]), pa.list_(INNER)),
    pa.list_(pa.map_(STRING, pa.struct([("m", pa.map_(STRING, INNER))]))),
]


def field_of(kind: pa.DataType) -> FileField:
    return identify(pa.schema([pa.field("c", kind)]), None)[0]


def drawn(pick: random.Random, kind: pa.DataType, *, nullable: bool = True) -> Any:
    """Return a value of a type as `pa.array` takes it."""
    if nullable and pick.random() < 0.2:
        return None
    if pa.types.is_struct(kind):
        return {one.name: drawn(pick, one.type) for one in kind}
    if pa.types.is_map(kind):
        return [
            (drawn(pick, kind.key_type, nullable=False), drawn(pick, kind.item_type))
            for _ in range(pick.randint(0, 3))
        ]
    if pa.types.is_list(kind):
        return [drawn(pick, kind.value_type) for _ in range(pick.randint(0, 3))]
    number = pick.randrange(100)
    return number if kind == LONG else str(number)


def cut_type(field: FileField, kind: pa.DataType, leaves: set[int], *, maps: bool) -> pa.DataType:
    """Return a type cut to some leaves; a map stays one, or becomes a list of what is left of it."""
    below = [child for child in field.children if child.has_any(leaves)]
    if not field.children:
        return kind
    if pa.types.is_struct(kind):
        return pa.struct(
            [(one.name, cut_type(one, kind.field(one.name).type, leaves, maps=maps)) for one in below]
        )
    if pa.types.is_map(kind):
        parts = [
            cut_type(child, inner, leaves, maps=maps)
            for child, inner in zip(field.children, (kind.key_type, kind.item_type), strict=True)
            if child.has_any(leaves)
        ]
        return pa.map_(*parts) if maps else pa.list_(parts[0])
    return pa.list_(cut_type(field.children[0], kind.value_type, leaves, maps=maps))


def cut_value(field: FileField, kind: pa.DataType, leaves: set[int], value: Any, *, maps: bool) -> Any:
    """Return a value cut likewise."""
    if value is None or not field.children:
        return value
    if pa.types.is_struct(kind):
        return {
            child.name: cut_value(child, kind.field(child.name).type, leaves, value[child.name], maps=maps)
            for child in field.children
            if child.has_any(leaves)
        }
    if pa.types.is_map(kind):
        sides = [
            [cut_value(child, inner, leaves, pair[place], maps=maps) for pair in value]
            for place, (child, inner) in enumerate(
                zip(field.children, (kind.key_type, kind.item_type), strict=True)
            )
            if child.has_any(leaves)
        ]
        return list(zip(*sides, strict=True)) if maps else sides[0]
    return [cut_value(field.children[0], kind.value_type, leaves, one, maps=maps) for one in value]


def leaf_array(field: FileField, kind: pa.DataType, leaf: int, rows: list[Any]) -> pa.Array:
    """Return the array of one leaf, nested as if it were the column's only one."""
    target = cut_type(field, kind, {leaf}, maps=False)
    return pa.array([cut_value(field, kind, {leaf}, row, maps=False) for row in rows], target)


def has_whole_maps(field: FileField, kind: pa.DataType, leaves: set[int]) -> bool:
    """Tell whether each map below has its whole key and a leaf of its values, as the wanted leaves of scans do."""
    if not field.children:
        return True
    inner: list[pa.DataType] = []
    if pa.types.is_map(kind):
        inner = [kind.key_type, kind.item_type]
        if not all(child.has_any(leaves) for child in field.children):
            return False
    elif pa.types.is_struct(kind):
        inner = [one.type for one in kind]
    else:
        inner = [kind.value_type]
    return all(
        has_whole_maps(child, below, leaves)
        for child, below in zip(field.children, inner, strict=True)
        if child.has_any(leaves)
    )


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_column_is_put_together_from_its_leaves(kind: pa.DataType) -> None:
    pick = random.Random(str(kind))
    field = field_of(kind)
    rows = [drawn(pick, kind) for _ in range(40)]
    subsets = [
        set(chosen)
        for size in range(1, field.end_leaf + 1)
        for chosen in itertools.combinations(range(field.end_leaf), size)
    ]
    whole = 0
    for leaves in pick.sample(subsets, min(len(subsets), 25)) + [subsets[-1]]:
        is_possible = has_whole_maps(field, kind, leaves)
        assert can_assemble(field, kind, frozenset(leaves)) == is_possible, leaves
        if is_possible:
            whole += 1
            found = assemble(
                field, kind, {leaf: leaf_array(field, kind, leaf, rows) for leaf in sorted(leaves)}
            )
            found.validate(full=True)
            target = cut_type(field, kind, leaves, maps=True)
            expected = pa.array([cut_value(field, kind, leaves, row, maps=True) for row in rows], target)
            assert found.type == expected.type
            assert found.to_pylist() == expected.to_pylist()
    assert whole > 0


def test_no_rows() -> None:
    field = field_of(INNER)
    arrays = {leaf: leaf_array(field, INNER, leaf, []) for leaf in range(3)}
    assert assemble(field, INNER, arrays).equals(pa.array([], INNER))


def test_leaves_of_other_lengths_are_an_error() -> None:
    """Of rows, and of the elements of a list."""
    struct = field_of(INNER)
    arrays = {0: pa.array([{"x": 1}] * 2), 2: pa.array([{"y": "a"}] * 3)}
    with pytest.raises(ValueError, match="differ in length"):
        assemble(struct, INNER, arrays)
    kind = pa.list_(pa.struct([("x", LONG), ("y", STRING)]))
    arrays = {0: pa.array([[{"x": 1}]]), 1: pa.array([[{"y": "a"}, {"y": "b"}]])}
    with pytest.raises(ValueError, match="differ in length"):
        assemble(field_of(kind), kind, arrays)


def test_a_map_needs_its_keys_and_a_leaf_of_its_values() -> None:
    kind = pa.map_(STRING, INNER)
    field = field_of(kind)
    for leaves, expected in (
        ({0, 1}, True),
        ({0, 3}, True),
        ({0}, False),
        ({1, 2, 3}, False),
        (set(), False),
    ):
        assert can_assemble(field, kind, frozenset(leaves)) == expected
    beside = pa.struct([("m", kind), ("z", LONG)])
    assert can_assemble(field_of(beside), beside, frozenset({4}))
    assert not can_assemble(field_of(beside), beside, frozenset({0, 4}))
