"""How a declared table's columns and partition specs came about.

Takes declarations (a dict of names and types, changes by dotted path); gives every schema and spec that the
metadata lists. Ids are given out once and never again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from declared.content import PartitionField
from declared.manifests import partition_column
from declared.types import Column, Kind, ListOf, MapOf, Struct, inner, plain, walk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass
class Evolution:
    """Schemas, specs and names so far."""

    schemas: list[tuple[Column, ...]] = field(default_factory=list)
    specs: list[tuple[PartitionField, ...]] = field(default_factory=list)
    names: dict[int, list[str]] = field(default_factory=dict)
    all_columns: dict[int, Column] = field(default_factory=dict)

    def add_schema(self, columns: Sequence[Column]) -> None:
        """Make these the current columns."""
        self.schemas.append(tuple(columns))
        for column, _ in walk(columns):
            self.all_columns[column.id] = column
            names = self.names.setdefault(column.id, [])
            if column.name not in names:
                names.append(column.name)

    def partition_columns(self, spec_id: int) -> list[tuple[Column, str, int]]:
        """Return the spec's result columns with transform and source id."""
        return [
            (
                partition_column(part.id, part.name, part.transform, self.all_columns[part.source].type),
                part.transform,
                part.source,
            )
            for part in self.specs[spec_id]
        ]

    def name_mapping(self, columns: Sequence[Column]) -> list[dict[str, Any]]:
        """Return a name mapping with every name that a column ever had."""
        mapping = []
        for column in columns:
            entry: dict[str, Any] = {"field-id": column.id, "names": self.names[column.id]}
            if children := inner(column.type):
                entry["fields"] = self.name_mapping(children)
            mapping.append(entry)
        return mapping


class Evolving:
    """The part of a table that knows its columns and specs.

    Args:
        columns: The first schema, by name.
        partition: The first spec.
    """

    def __init__(self, columns: Mapping[str, Any], partition: Sequence[str]) -> None:
        self._evolution = Evolution()
        self._last_id = 0
        self._next_part = 1000
        self._evolution.add_schema(self._columns(columns))
        self.partition_by(partition)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The current columns."""
        return self._evolution.schemas[-1]

    @property
    def specs(self) -> tuple[tuple[PartitionField, ...], ...]:
        """All partition specs; the last one is the current one."""
        return tuple(self._evolution.specs)

    @property
    def current_spec(self) -> tuple[PartitionField, ...]:
        """The spec of the next data files."""
        return self._evolution.specs[-1]

    def column(self, path: str) -> Column:
        """Return the current field that a dotted path leads to."""
        return next(field for field, names in walk(self.columns) if ".".join(names) == path)

    # ---- schema and specs

    def _columns(self, declared: Mapping[str, Any]) -> tuple[Column, ...]:
        return tuple(self._column(name, kind) for name, kind in declared.items())

    def _column(self, name: str, kind: Any) -> Column:
        self._last_id += 1
        field_id = self._last_id
        required = isinstance(kind, str) and kind.endswith("!")
        return Column(field_id, name, self._kind(kind.rstrip("!") if required else kind), required)

    def _kind(self, declared: Any) -> Kind:
        if isinstance(declared, dict):
            return Struct(self._columns(declared))
        if isinstance(declared, list):
            return ListOf(self._column("element", declared[0]))
        if isinstance(declared, tuple):
            _, key, value = declared
            return MapOf(replace(self._column("key", key), required=True), self._column("value", value))
        return str(declared)

    def partition_by(self, fields: Sequence[str]) -> None:
        """Make a new spec: ``transform(column)`` or a column's name for identity."""
        spec = []
        for text in fields:
            transform, _, rest = text.partition("(")
            source = self.column(rest.rstrip(")") if rest else text)
            transform = transform if rest else "identity"
            name = f"{source.name}_{transform.partition('[')[0]}_{self._next_part}"
            spec.append(PartitionField(self._next_part, name, transform, source.id))
            self._next_part += 1
        self._evolution.specs.append(tuple(spec))

    def add_column(self, path: str, kind: Any, *, default: Any = None) -> None:
        """Add a column or a field inside structs (``list.element.name`` too); `default` is its initial default (v3)."""
        *parents, name = path.split(".")
        added = self._column(name, kind)
        added = replace(added, default=plain(added.type, default))
        self._evolution.add_schema(_insert(self.columns, tuple(parents), added))

    def drop_column(self, path: str) -> None:
        """Drop a field."""
        self._change(self.column(path).id, lambda _: None)

    def rename_column(self, path: str, name: str) -> None:
        """Rename a field."""
        self._change(self.column(path).id, lambda column: replace(column, name=name))

    def widen_column(self, path: str, kind: str) -> None:
        """Promote a field's type."""
        self._change(self.column(path).id, lambda column: replace(column, type=kind))

    def order_columns(self, names: Sequence[str]) -> None:
        """Put the top-level columns into this order."""
        self._evolution.add_schema([self.column(name) for name in names])

    def order_fields(self, path: str, names: Sequence[str]) -> None:
        """Put the fields of the struct at a dotted path into this order."""
        struct = self.column(path)
        by_name = {field.name: field for field in inner(struct.type)}
        kind = Struct(tuple(by_name[name] for name in names))
        self._change(struct.id, lambda column: replace(column, type=kind))

    def _change(self, field_id: int, change: Any) -> None:
        self._evolution.add_schema(_changed(self.columns, field_id, change))


def _insert(columns: Sequence[Column], parents: tuple[str, ...], added: Column) -> tuple[Column, ...]:
    if not parents:
        return (*columns, added)
    return tuple(
        replace(c, type=_with_inner(c.type, _insert(inner(c.type), parents[1:], added)))
        if c.name == parents[0]
        else c
        for c in columns
    )


def _with_inner(kind: Kind, fields: Sequence[Column]) -> Kind:
    """Return a nested type with other fields directly inside."""
    match kind:
        case Struct():
            return Struct(tuple(fields))
        case ListOf():
            return ListOf(*fields)
        case MapOf():
            return MapOf(*fields)
    return kind


def _changed(columns: Sequence[Column], field_id: int, change: Any) -> tuple[Column, ...]:
    result = []
    for column in columns:
        if column.id == field_id:
            result += [kept] if (kept := change(column)) else []
        else:
            changed = _changed(inner(column.type), field_id, change)
            result.append(replace(column, type=_with_inner(column.type, changed)))
    return tuple(result)


def only(columns: Sequence[Column], wanted: set[int]) -> tuple[Column, ...]:
    """Return the columns cut down to these fields; structs keep what leads to one."""
    result = []
    for column in columns:
        if column.id in wanted:
            result.append(column)
        elif isinstance(column.type, Struct) and (fields := only(column.type.fields, wanted)):
            result.append(replace(column, type=Struct(fields)))
    return tuple(result)


def leaf(columns: Sequence[Column], row: Mapping[int, Any] | None, field_id: int) -> Any:
    """Return the value of a field inside structs; None where a struct is NULL."""
    for column in columns:
        value = row.get(column.id) if row else None
        if column.id == field_id:
            return value
        if isinstance(column.type, Struct) and any(f.id == field_id for f, _ in walk(column.type.fields)):
            return leaf(column.type.fields, value, field_id)
    return None
