"""Avro schemas of data files, and their records as Arrow arrays.

Takes the schema that a file was written with; gives a tree of nodes, the schemas that read only wanted leaves,
and arrays of logical types from records read with them. The rules: fields are matched by their place in the
file, never by a name; values pass through no Python date or decimal, which cannot hold all that Avro can.
Source: Apache Avro 1.11 specification; Iceberg table spec, appendix A, "Avro".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from twostage.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set as AbstractSet

    from numpy.typing import NDArray

    from twostage.formats.file_schema import FileField

MAX_DEPTH = 100
MAX_NODES = 100_000
_PLAIN = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "enum": pa.string(),
    "bytes": pa.binary(),
}
_LOGICAL: dict[tuple[str, str | None], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms"),
    ("long", "timestamp-micros"): pa.timestamp("us"),
    ("long", "timestamp-nanos"): pa.timestamp("ns"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}
_DECIMAL_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A type of the file: its kind without the union that makes it optional.

    `kind` is ``record``, ``array``, ``map``, ``union`` (of several types: not readable) or a primitive.
    `branches` are the places of NULL and of the type in that union, None for a type that stands alone.
    """

    kind: str
    branches: tuple[str, ...] | None = None
    logical: str | None = None
    precision: int = 0
    scale: int = 0
    size: int = 0
    symbols: tuple[str, ...] = ()
    parts: tuple[Node, ...] = ()
    names: tuple[str, ...] = ()
    ids: tuple[int | None, ...] = ()
    children: tuple[Node, ...] = ()


class _Parser:
    """Turns the JSON of a schema into nodes, with references to named types resolved."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}
        self._nodes = 0

    def parse(self, schema: Any, space: str, depth: int, branches: tuple[str, ...] | None = None) -> Node:
        self._nodes += 1
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            raise ValueError("the schema is nested too deep, or refers to itself")
        if isinstance(schema, list):
            return self._union(schema, space, depth)
        if isinstance(schema, str):
            if schema in _PLAIN and schema != "enum":
                return Node(kind=schema, branches=branches)
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
            return Node(
                kind=kind,
                branches=branches,
                names=tuple(str(one.get("iceberg-field-name", one["name"])) for one in fields),
                ids=tuple(_id(one.get("field-id")) for one in fields),
                children=tuple(self.parse(one["type"], space, depth + 1) for one in fields),
            )
        if kind == "array":
            element = self.parse(schema["items"], space, depth + 1)
            if schema.get("logicalType") == "map" and element.kind == "record" and len(element.children) == 2:
                return Node(
                    kind="map",
                    branches=branches,
                    ids=element.ids,
                    children=element.children,
                    names=("key", "value"),
                )
            own = _id(schema.get("element-id"))
            return Node(kind=kind, branches=branches, names=("element",), ids=(own,), children=(element,))
        if kind == "map":
            value = self.parse(schema["values"], space, depth + 1)
            ids = (_id(schema.get("key-id")), _id(schema.get("value-id")))
            key = Node(kind="string")
            return Node(kind=kind, branches=branches, names=("key", "value"), ids=ids, children=(key, value))
        if kind not in _PLAIN and kind != "fixed":
            return self.parse(kind, space, depth + 1, branches)
        return Node(
            kind=kind,
            branches=branches,
            logical=schema.get("logicalType"),
            precision=int(schema.get("precision", 0)),
            scale=int(schema.get("scale", 0)),
            size=int(schema.get("size", 0)),
            symbols=tuple(schema.get("symbols", ())),
        )

    def _union(self, schema: list[Any], space: str, depth: int) -> Node:
        others = [part for part in schema if part != "null"]
        branches = tuple("null" if part == "null" else "type" for part in schema)
        if not others or len(branches) - len(others) > 1:
            return Node(kind="null", branches=branches)
        if len(others) == 1:
            return self.parse(others[0], space, depth + 1, branches)
        return Node(kind="union", parts=tuple(self.parse(part, space, depth + 1) for part in schema))


def _id(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def parse_schema(schema: Mapping[str, Any]) -> Node:
    """Return the tree of a file's schema, a record.

    Raises:
        ValueError: It is no Avro schema, or one without end.
    """
    return _Parser().parse(schema, "", 0)


def arrow_schema(root: Node) -> pa.Schema:
    """Return the shape of a file's columns, with ids as field metadata; leaves are all of one type."""
    return pa.schema([_shape(*item) for item in zip(root.names, root.ids, root.children, strict=True)])


def _shape(name: str, field_id: int | None, node: Node) -> pa.Field:
    target: pa.DataType = pa.binary()
    inner = [_shape(*item) for item in zip(node.names, node.ids, node.children, strict=True)]
    if node.kind == "record":
        target = pa.struct(inner)
    elif node.kind == "array":
        target = pa.list_(inner[0])
    elif node.kind == "map":
        target = pa.map_(inner[0].with_nullable(False), inner[1])
    return pa.field(name, target, metadata=None if field_id is None else {b"iceberg.id": str(field_id)})


class _Numbers:
    """Names for records: unique, and the same in both schemas of a read."""

    def __init__(self) -> None:
        self.next = 0

    def take(self) -> str:
        self.next += 1
        return f"r{self.next}"


def read_schema(
    root: Node, fields: Sequence[FileField], wanted: AbstractSet[int] | None = None
) -> dict[str, Any]:
    """Return a schema that reads the file's records: all of them, or the wanted leaves only.

    Fields are named by their place, so that a projection finds them whatever the file calls them.
    """
    whole = FileRoot(tuple(fields))
    result: dict[str, Any] = _schema(root, whole, wanted, _Numbers())
    return result


@dataclass(frozen=True, slots=True)
class FileRoot:
    """Stands for the record itself, where a field's children are asked for."""

    children: tuple[FileField, ...]


def _holds(field: FileField, wanted: AbstractSet[int]) -> bool:
    return any(leaf in wanted for leaf in range(field.first_leaf, field.end_leaf))


def _kept(node: Node, field: FileField | FileRoot | None, wanted: AbstractSet[int] | None) -> list[int]:
    """Return the places of the children to read."""
    if wanted is None or field is None:
        return list(range(len(node.children)))
    return [place for place, child in enumerate(field.children) if _holds(child, wanted)]


def _below(field: FileField | FileRoot | None, place: int) -> FileField | None:
    return field.children[place] if field is not None and field.children else None


def _schema(
    node: Node, field: FileField | FileRoot | None, wanted: AbstractSet[int] | None, numbers: _Numbers
) -> Any:
    if node.kind == "union":
        return [_schema(part, None, None, numbers) for part in node.parts]
    result: Any = node.kind
    if node.kind in ("record", "map"):
        kept = _kept(node, field, wanted)
        name = numbers.take()
        made = {}
        for place, child in enumerate(node.children):  # names are taken for those left out as well
            made[place] = _schema(child, _below(field, place), wanted if place in kept else None, numbers)
        fields = [{"name": f"f{place}", "type": made[place]} for place in kept]
        result = {"type": "record", "name": name, "fields": fields}
        if node.kind == "map":  # the bytes of a map are those of an array of pairs
            result = {"type": "array", "items": result}
    elif node.kind == "array":
        result = {"type": "array", "items": _schema(node.children[0], _below(field, 0), wanted, numbers)}
    elif node.kind == "fixed":
        result = {"type": "fixed", "name": numbers.take(), "size": node.size}
    elif node.kind == "enum":
        result = {"type": "enum", "name": numbers.take(), "symbols": list(node.symbols)}
    if node.branches is None:
        return result
    return ["null" if branch == "null" else result for branch in node.branches]


def to_arrow(
    root: Node, fields: Sequence[FileField], wanted: AbstractSet[int], records: list[dict[str, Any]]
) -> list[pa.Array]:
    """Return one array for each field that has wanted leaves, from records read with `read_schema`.

    Raises:
        UnsupportedFeatureError: A union of several types, or a type that Iceberg does not have.
        ValueError: Values that their types cannot hold.
    """
    arrays = []
    for place, field in enumerate(fields):
        if _holds(field, wanted):
            node = root.children[place]
            key = f"f{place}"
            plain = pa.array([record[key] for record in records], _plain(node, field, wanted))
            if isinstance(plain, pa.ChunkedArray):
                raise ValueError(f"column {field.name!r} holds more than 2 GiB in one run of blocks")
            arrays.append(_finish(plain, node, field, wanted))
    return arrays


def _plain(node: Node, field: FileField, wanted: AbstractSet[int]) -> pa.DataType:
    """Return the type to build from Python values: logical types as what stores them, maps as pairs."""
    if node.kind in ("record", "map"):
        kept = _kept(node, field, wanted)
        parts = [pa.field(f"f{p}", _plain(node.children[p], field.children[p], wanted)) for p in kept]
        return pa.list_(pa.struct(parts)) if node.kind == "map" else pa.struct(parts)
    if node.kind == "array":
        return pa.list_(_plain(node.children[0], field.children[0], wanted))
    if node.kind == "fixed":
        return pa.binary(node.size)
    if node.kind == "union":
        raise UnsupportedFeatureError(
            "UNSUPPORTED_AVRO_TYPE", f"Column {field.name!r} is a union of several types", stage="fetch"
        )
    return _PLAIN[node.kind]


def _finish(array: pa.Array, node: Node, field: FileField, wanted: AbstractSet[int]) -> pa.Array:
    """Give an array its logical type, at every depth."""
    if node.kind == "record":
        parts = [
            _finish(array.field(position), node.children[place], field.children[place], wanted)
            for position, place in enumerate(_kept(node, field, wanted))
        ]
        target = pa.struct([pa.field(f"f{i}", part.type) for i, part in enumerate(parts)])
        return pa.Array.from_buffers(
            target, len(array), array.buffers()[:1], array.null_count, children=parts
        )
    if node.kind == "array":
        values = _finish(array.values, node.children[0], field.children[0], wanted)
        return _nested(array, pa.list_(values.type), values)
    if node.kind == "map":
        pairs = array.values
        kept = _kept(node, field, wanted)
        parts = [
            _finish(pairs.field(kept.index(place)), node.children[place], field.children[place], wanted)
            if place in kept
            else pa.nulls(len(pairs))
            for place in (0, 1)
        ]
        if kept[:1] == [0] and parts[0].null_count:
            raise ValueError(f"column {field.name!r} has a NULL key")
        target = pa.map_(parts[0].type, parts[1].type)
        entries = pa.StructArray.from_arrays(parts, fields=[target.key_field, target.item_field])
        return _nested(array, target, entries)
    if node.logical == "decimal":
        return _decimals(array, node, field)
    if (node.kind, node.logical) in _LOGICAL:
        made = array.view(_LOGICAL[node.kind, node.logical])
        if pa.types.is_time(made.type):
            made.validate(full=True)  # raises where a time lies outside of the day
        return made
    return array


def _nested(array: pa.Array, target: pa.DataType, values: pa.Array) -> pa.Array:
    buffers = array.buffers()[:2]
    return pa.Array.from_buffers(target, len(array), buffers, array.null_count, children=[values])


def _decimals(array: pa.Array, node: Node, field: FileField) -> pa.Array:
    """Turn big-endian numbers of any length up to 16 bytes into decimals."""
    if not 0 < node.precision <= 38 or not 0 <= node.scale <= node.precision:
        raise UnsupportedFeatureError(
            "UNSUPPORTED_AVRO_TYPE",
            f"Column {field.name!r} is decimal({node.precision},{node.scale})",
            stage="fetch",
        )
    if node.kind == "fixed":
        lengths = np.full(len(array), node.size, np.int64)
        starts = np.arange(len(array), dtype=np.int64) * node.size
        content = array.buffers()[1]
    else:
        offsets = np.frombuffer(array.buffers()[1] or bytes(4), np.int32)[: len(array) + 1].astype(np.int64)
        starts, lengths = offsets[:-1], np.diff(offsets)
        content = array.buffers()[2]
    raw = np.frombuffer(content, np.uint8) if content is not None else np.zeros(0, np.uint8)
    valid = np.ones(len(array), np.bool_)
    if array.null_count:
        valid = array.is_valid().to_numpy(zero_copy_only=False)
    words = np.zeros((len(array), _DECIMAL_BYTES), np.uint8)
    for length in np.unique(lengths[valid]).tolist():
        rows = np.flatnonzero(valid & (lengths == length))
        words[rows] = _little_endian(raw, starts[rows], length, field)
    decimals = pa.Array.from_buffers(
        pa.decimal128(38, node.scale), len(array), [array.buffers()[0], pa.py_buffer(words)], array.null_count
    )
    return decimals.cast(pa.decimal128(node.precision, node.scale))  # raises where there are more digits


def _little_endian(
    raw: NDArray[np.uint8], starts: NDArray[np.int64], length: int, field: FileField
) -> NDArray[np.uint8]:
    if length == 0:
        return np.zeros((len(starts), _DECIMAL_BYTES), np.uint8)
    found = raw[starts[:, None] + np.arange(length)]
    sign = np.where(found[:, :1] >= 128, np.uint8(255), np.uint8(0))
    if length > _DECIMAL_BYTES:
        extra = length - _DECIMAL_BYTES
        fits = (found[:, :extra] == sign).all() and (
            (found[:, extra : extra + 1] >= 128) == (sign == 255)
        ).all()
        if not fits:
            raise ValueError(f"column {field.name!r} holds a decimal of more than 38 digits")
        found = found[:, extra:]
    words = np.repeat(sign, _DECIMAL_BYTES, axis=1)
    words[:, : found.shape[1]] = found[:, ::-1]
    return words
