"""Avro schemas: what a file's writer declared, and the schemas that we read it with.

Takes the JSON schema of a file's header; returns a tree of `AvroType`s, the Arrow shape that field ids are
found in, and reader schemas that skip everything but the wanted leaves. The rule: a projection finds a field
by its position in the file, never by its name, because writers sanitize names in different ways.
Source: Apache Avro 1.11 specification; Iceberg table spec, appendix A, "Avro".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set as AbstractSet

    from twostage.formats.file_schema import FileField

MAX_DEPTH = 100
MAX_TYPES = 100_000
"""Types in one schema: a schema of 2 kB can refer to its named types so often that the tree has 2**100 nodes."""
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "string", "enum", "bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroType:
    """A type of the file, without the union that makes it optional.

    `kind` is ``record``, ``array``, ``map``, ``union`` (of several types besides NULL: not readable) or a primitive.
    `branches` is the order of that union, such as ``("null", "type")``; None for a type that cannot be NULL.
    `names`, `ids` and `children` describe the fields of a record, the element of an array, or the key and the value of
    a map. `precision`, `scale`, `size` (bytes of a fixed) and `symbols` (of an enum) are those of the declaration.
    """

    kind: str
    branches: tuple[str, ...] | None = None
    logical: str | None = None
    precision: int = 0
    scale: int = 0
    size: int = 0
    symbols: tuple[str, ...] = ()
    parts: tuple[AvroType, ...] = ()
    """The types of a union."""
    names: tuple[str, ...] = ()
    ids: tuple[int | None, ...] = ()
    children: tuple[AvroType, ...] = ()


class _Parser:
    """Turns the JSON of a schema into types; references to named types are resolved."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}
        self._num_types = 0

    def parse(self, schema: Any, space: str, depth: int, branches: tuple[str, ...] | None = None) -> AvroType:
        self._num_types += 1
        if depth > MAX_DEPTH or self._num_types > MAX_TYPES:
            raise ValueError("the schema is nested too deep, or refers to itself")
        if isinstance(schema, list):
            return self._union(schema, space, depth)
        if isinstance(schema, str):
            if schema in PRIMITIVES and schema != "enum":
                return AvroType(kind=schema, branches=branches)
            known = self._named.get(schema) or self._named.get(f"{space}.{schema}")
            if known is None:
                raise ValueError(f"unknown type {schema!r}")
            return self.parse(known, space, depth + 1, branches)
        kind = schema["type"]
        if isinstance(kind, (dict, list)):
            return self.parse(kind, space, depth + 1, branches)
        if kind in ("record", "fixed", "enum"):
            space = schema.get("namespace", space)
            self._named[schema["name"]] = self._named[f"{space}.{schema['name']}"] = schema
        if kind == "record":
            fields = schema["fields"]
            return AvroType(
                kind=kind,
                branches=branches,
                names=tuple(str(one.get("iceberg-field-name", one["name"])) for one in fields),
                ids=tuple(_id(one.get("field-id")) for one in fields),
                children=tuple(self.parse(one["type"], space, depth + 1) for one in fields),
            )
        if kind == "array":
            element = self.parse(schema["items"], space, depth + 1)
            if schema.get("logicalType") == "map" and element.kind == "record" and len(element.children) == 2:
                return AvroType(
                    kind="map",
                    branches=branches,
                    ids=element.ids,
                    children=element.children,
                    names=("key", "value"),
                )
            own = _id(schema.get("element-id"))
            return AvroType(kind=kind, branches=branches, names=("element",), ids=(own,), children=(element,))
        if kind == "map":
            value = self.parse(schema["values"], space, depth + 1)
            ids = (_id(schema.get("key-id")), _id(schema.get("value-id")))
            key = AvroType(kind="string")
            return AvroType(
                kind=kind, branches=branches, names=("key", "value"), ids=ids, children=(key, value)
            )
        if kind not in PRIMITIVES and kind != "fixed":
            return self.parse(kind, space, depth + 1, branches)
        return AvroType(
            kind=kind,
            branches=branches,
            logical=schema.get("logicalType"),
            precision=int(schema.get("precision", 0)),
            scale=int(schema.get("scale", 0)),
            size=int(schema.get("size", 0)),
            symbols=tuple(schema.get("symbols", ())),
        )

    def _union(self, schema: list[Any], space: str, depth: int) -> AvroType:
        others = [part for part in schema if part != "null"]
        branches = tuple("null" if part == "null" else "type" for part in schema)
        if not others or len(branches) - len(others) > 1:
            return AvroType(kind="null", branches=branches)
        if len(others) == 1:
            return self.parse(others[0], space, depth + 1, branches)
        return AvroType(kind="union", parts=tuple(self.parse(part, space, depth + 1) for part in schema))


def _id(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def parse_schema(schema: Mapping[str, Any]) -> AvroType:
    """Return the types of a file's schema, whose root is a record.

    Raises:
        ValueError: It is not an Avro schema, is nested more than `MAX_DEPTH` deep, or contains itself.
    """
    return _Parser().parse(schema, "", 0)


def arrow_schema(root: AvroType) -> pa.Schema:
    """Return the shape of a file's columns, field ids as metadata; every leaf is declared as binary.

    Only shape, names and ids are meaningful: it is what `file_schema.identify` looks for fields in.
    """
    return pa.schema([_shape(*item) for item in zip(root.names, root.ids, root.children, strict=True)])


def _shape(name: str, field_id: int | None, kind: AvroType) -> pa.Field:
    target: pa.DataType = pa.binary()
    inner = [_shape(*item) for item in zip(kind.names, kind.ids, kind.children, strict=True)]
    if kind.kind == "record":
        target = pa.struct(inner)
    elif kind.kind == "array":
        target = pa.list_(inner[0])
    elif kind.kind == "map":
        target = pa.map_(inner[0].with_nullable(False), inner[1])
    return pa.field(name, target, metadata=None if field_id is None else {b"iceberg.id": str(field_id)})


class _RecordNames:
    """Names for the records of a reader schema: unique, and the same in the whole schema and in each projection."""

    def __init__(self) -> None:
        self._count = 0

    def take(self) -> str:
        self._count += 1
        return f"r{self._count}"


def read_schema(
    root: AvroType, fields: Sequence[FileField], wanted: AbstractSet[int] | None = None
) -> dict[str, Any]:
    """Return a schema that reads the file's records: whole ones, or only the `wanted` leaves of them.

    A field is named ``f`` and its position, so that fastavro resolves a projection whatever the file names
    its fields.
    """
    result: dict[str, Any] = _schema(root, FieldsRoot(tuple(fields)), wanted, _RecordNames())
    return result


@dataclass(frozen=True, slots=True)
class FieldsRoot:
    """Stands for the root record where a field with children is expected."""

    children: tuple[FileField, ...]


def children_to_read(
    kind: AvroType, field: FileField | FieldsRoot | None, wanted: AbstractSet[int] | None
) -> list[int]:
    """Return the positions of the children that hold wanted leaves; all of them if nothing is left out."""
    if wanted is None or field is None:
        return list(range(len(kind.children)))
    return [place for place, child in enumerate(field.children) if child.has_any(wanted)]


def _below(field: FileField | FieldsRoot | None, place: int) -> FileField | None:
    return field.children[place] if field is not None and field.children else None


def _schema(
    kind: AvroType, field: FileField | FieldsRoot | None, wanted: AbstractSet[int] | None, names: _RecordNames
) -> Any:
    if kind.kind == "union":
        return [_schema(part, None, None, names) for part in kind.parts]
    result: Any = kind.kind
    if kind.kind in ("record", "map"):
        kept = children_to_read(kind, field, wanted)
        name = names.take()
        made = {}
        # Omitted children are named as well, so that the names after them stay the same.
        for place, child in enumerate(kind.children):
            made[place] = _schema(child, _below(field, place), wanted if place in kept else None, names)
        fields = [{"name": f"f{place}", "type": made[place]} for place in kept]
        result = {"type": "record", "name": name, "fields": fields}
        if kind.kind == "map":  # encoded exactly as an array of pairs, of which either side can be skipped
            result = {"type": "array", "items": result}
    elif kind.kind == "array":
        result = {"type": "array", "items": _schema(kind.children[0], _below(field, 0), wanted, names)}
    elif kind.kind == "fixed":
        result = {"type": "fixed", "name": names.take(), "size": kind.size}
    elif kind.kind == "enum":
        result = {"type": "enum", "name": names.take(), "symbols": list(kind.symbols)}
    if kind.branches is None:
        return result
    return ["null" if branch == "null" else result for branch in kind.branches]
