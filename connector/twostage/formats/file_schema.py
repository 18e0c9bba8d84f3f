"""Which column of a data file is which field of the table.

Takes the Arrow schema of a file, and the table's name mapping; returns a tree of `FileField`s that carry
Iceberg field ids and the range of file leaves (Parquet's leaf columns) below each. The rule: ids decide;
names count only if the file has no ids at all.
Source: Iceberg table spec, "Column Projection" and "Name Mapping Serialization".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from twostage.columns import NULL_TEST
from twostage.errors import CorruptFileError, UnsupportedFeatureError
from twostage.schema import Field, List, Map, Primitive, Schema, Struct, children

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

ID_KEYS = (b"PARQUET:field_id", b"iceberg.id")
"""Keys of Arrow field metadata that hold the id: Parquet's, and the one used here for ORC and Avro."""


@dataclass(frozen=True, slots=True)
class FileField:
    """A field of a file: its id (None if it has none), and its leaves ``first_leaf … end_leaf - 1``."""

    id: int | None
    name: str
    children: tuple[FileField, ...]
    first_leaf: int
    end_leaf: int

    @property
    def has_ids(self) -> bool:
        """Whether it or a field below has an id."""
        return self.id is not None or any(child.has_ids for child in self.children)

    def has_leaf(self, leaf: int) -> bool:
        """Tell whether a leaf is this field's or lies below it."""
        return self.first_leaf <= leaf < self.end_leaf

    def has_any(self, leaves: Collection[int]) -> bool:
        """Tell whether this field has any of these leaves."""
        return any(leaf in leaves for leaf in range(self.first_leaf, self.end_leaf))


def identify(
    schema: pa.Schema,
    name_mapping: Sequence[Mapping[str, Any]] | None,
    table: Schema | None = None,
    path: str = "",
) -> tuple[FileField, ...]:
    """Return the file's fields with their ids.

    A file without any id takes its ids from the name mapping. Without a mapping, Iceberg-Java numbers the columns from
    1; so do we, but only if the names agree with the table's, because a wrong guess would be wrong rows.

    Args:
        schema: The file's columns, with ids as field metadata.
        name_mapping: The table property ``schema.name-mapping.default``, parsed; None without one.
        table: The table's schema; without it a file that has neither ids nor a mapping keeps no ids.
        path: The file, for errors.

    Raises:
        CorruptFileError: One id on two fields.
        UnsupportedFeatureError: No ids, no name mapping, and names that contradict the numbering.
    """
    fields: list[FileField] = []
    leaf = 0
    for field in schema:
        found = _from_arrow(field, leaf)
        fields.append(found)
        leaf = found.end_leaf
    ids = list(_ids(fields))
    if len(set(ids)) < len(ids):
        raise CorruptFileError(
            "DUPLICATE_FIELD_ID",
            f"File gives two columns one field id: {next(i for i in ids if ids.count(i) > 1)}",
            path=path,
            stage="open",
        )
    if ids:
        return tuple(fields)
    if name_mapping is not None:
        return _by_name(fields, name_mapping)
    if table is None:
        return tuple(fields)
    for position, field in enumerate(fields, start=1):
        if position in table and table.field(position).name != field.name:
            raise UnsupportedFeatureError(
                "NO_FIELD_IDS",
                f"File has no field ids and the table no name mapping; column {position} is {field.name!r} in "
                f"the file and {table.field(position).name!r} in the table",
                path=path,
                stage="open",
                hint="Set the table property schema.name-mapping.default.",
            )
    known = [field for field in table.fields if field.id <= len(fields)]
    return _by_name(fields, [_mapping_of(field) for field in known])


def _mapping_of(field: Field) -> dict[str, Any]:
    """Return the name mapping of a field under its current names."""
    inner = [_mapping_of(child) for child in children(field.type)]
    return {"field-id": field.id, "names": [field.name], "fields": inner}


def _from_arrow(field: pa.Field, first_leaf: int) -> FileField:
    kind = field.type
    # Name mappings use these names for elements, keys and values, whatever the writer calls them.
    if pa.types.is_struct(kind):
        inner = [kind.field(i) for i in range(kind.num_fields)]
    elif pa.types.is_map(kind):
        inner = [kind.key_field.with_name("key"), kind.item_field.with_name("value")]
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        inner = [kind.value_field.with_name("element")]
    else:
        inner = []
    parts: list[FileField] = []
    leaf = first_leaf
    for child in inner:
        parts.append(_from_arrow(child, leaf))
        leaf = parts[-1].end_leaf
    end = leaf if inner else first_leaf + 1
    return FileField(_id_of(field), field.name, tuple(parts), first_leaf, end)


def _id_of(field: pa.Field) -> int | None:
    for key in ID_KEYS:
        raw = (field.metadata or {}).get(key)
        if raw is not None and raw.lstrip(b"-").isdigit():
            number = int(raw)
            return number if number >= 0 else None
    return None


def _ids(fields: Iterable[FileField]) -> Iterator[int]:
    """Yield the ids at every depth."""
    for field in fields:
        if field.id is not None:
            yield field.id
        yield from _ids(field.children)


def _by_name(fields: Iterable[FileField], mapping: Sequence[Mapping[str, Any]]) -> tuple[FileField, ...]:
    """Return the fields with ids by name; a map's key and value are its direct children, as in name mappings."""
    by_name = {name: entry for entry in mapping for name in entry.get("names", ())}
    result = []
    for field in fields:
        entry = by_name.get(field.name)
        if entry is None:
            result.append(field)
            continue
        inner = _by_name(field.children, entry.get("fields") or ())
        found = entry.get("field-id")
        result.append(replace(field, id=None if found is None else int(found), children=inner))
    return tuple(result)


def find(fields: Iterable[FileField], field_id: int) -> FileField | None:
    """Return the field with this id at this level; None if the file lacks it."""
    return next((field for field in fields if field.id == field_id), None)


def wanted_leaves(
    fields: Sequence[FileField], targets: Iterable[Field], constants: Collection[int] = ()
) -> set[int]:
    """Return the leaves that must be decoded to build `targets`; those in `constants` need none.

    If the file has none of a struct's wanted sub-fields, one leaf is still needed, to tell where the struct
    itself is NULL.
    """
    leaves: set[int] = set()
    by_id = {field.id: field for field in reversed(fields)}
    for target in targets:
        source = by_id.get(target.id)
        if source is None or target.id in constants:
            continue
        if target.type == NULL_TEST and source.children:
            # Any one leaf tells; a shredded variant has many.
            metadata = next(
                (child for child in source.children if child.name == "metadata"), source.children[0]
            )
            leaves.add(metadata.first_leaf)
            continue
        inner = children(target.type)
        if not inner or not source.children:
            leaves.update(range(source.first_leaf, source.end_leaf))
            continue
        parts = _nested_sources(source, target)
        below = wanted_leaves(parts, inner, constants)
        leaves.update(below or {source.first_leaf})
        if isinstance(target.type, Map) and source.children:  # a map is built from its keys, wanted or not
            leaves.update(range(source.children[0].first_leaf, source.children[0].end_leaf))
    return leaves


def _nested_sources(source: FileField, target: Field) -> tuple[FileField, ...]:
    """Return the file's children with the ids that the table uses for an element, a key or a value."""
    if isinstance(target.type, List) and len(source.children) == 1:
        return (replace(source.children[0], id=target.type.element.id),)
    if isinstance(target.type, Map) and len(source.children) == 2:
        key, value = source.children
        return (replace(key, id=target.type.key.id), replace(value, id=target.type.value.id))
    return source.children


def cut(fields: Iterable[FileField], leaves: Collection[int]) -> tuple[FileField, ...]:
    """Return the fields cut to some leaves: the shape of what a reader returns for them."""
    return tuple(
        replace(field, children=cut(field.children, leaves)) if field.children else field
        for field in fields
        if field.has_any(leaves)
    )


def thin(field: Field) -> Field:
    """Return the field with each struct cut to one leaf and without variants' bytes: enough to tell where it is NULL."""
    if field.type == Primitive("variant"):
        return replace(field, type=NULL_TEST)
    if isinstance(field.type, Struct) and field.type.fields:
        return replace(field, type=Struct((thin(field.type.fields[0]),)))
    if isinstance(field.type, List):
        return replace(field, type=List(thin(field.type.element)))
    if isinstance(field.type, Map):
        return replace(field, type=Map(field.type.key, thin(field.type.value)))
    return field
