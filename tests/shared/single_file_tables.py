"""Any data file as the only file of a table whose schema is derived from the file.

Takes a file and its Arrow schema; returns the table's metadata file. Fields keep the file's ids if it has
any; otherwise a name mapping assigns them. Types are those that a table would have for them: unsigned and
small integers widen, half floats become floats, nanoseconds stay nanoseconds.
"""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tables import Table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

METRICS = (
    "column_sizes",
    "value_counts",
    "null_value_counts",
    "nan_value_counts",
    "lower_bounds",
    "upper_bounds",
)
ID = b"PARQUET:field_id"
_PLAIN = {
    pa.bool_(): "boolean", pa.int8(): "int", pa.int16(): "int", pa.int32(): "int", pa.uint8(): "int",
    pa.uint16(): "int", pa.uint32(): "long", pa.int64(): "long", pa.float16(): "float", pa.float32(): "float",
    pa.float64(): "double", pa.date32(): "date", pa.string(): "string", pa.large_string(): "string",
    pa.binary(): "binary", pa.large_binary(): "binary", pa.null(): "unknown",
}  # fmt: skip


class NoIcebergTypeError(Exception):
    """The file has a type that Iceberg lacks."""


class Derived:
    """An Iceberg schema and name mapping made from an Arrow schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self._all = list(_walk(schema))
        self.has_ids = any(_id_of(field) is not None for field in self._all)
        taken = [number for field in _walk(schema) if (number := _id_of(field)) is not None]
        self._next = itertools.count(max(taken, default=0) + 1)
        self.fields: list[dict[str, Any]] = []
        self.mapping: list[dict[str, Any]] = []
        for field in schema:
            declared, mapped = self._field(field)
            self.fields.append(declared)
            self.mapping.append(mapped)

    @property
    def is_partly_identified(self) -> bool:
        """Whether some fields have ids and others do not."""
        return self.has_ids and any(_id_of(field) is None for field in self._all)

    def is_whole(self, field: pa.Field) -> bool:
        """Whether a field and all fields inside it have ids."""
        return all(_id_of(one) is not None for one in _walk([field]))

    def is_unknown(self, field: pa.Field) -> bool:
        """Whether a field has no id itself."""
        return _id_of(field) is None

    def _field(self, field: pa.Field, name: str | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        own = _id_of(field)
        number = next(self._next) if own is None else own
        kind, inner = self._type(field.type)
        names = [field.name] if name is None else [name]
        declared = {"id": number, "name": names[0], "required": False, "type": kind}
        return declared, {"field-id": number, "names": names, "fields": inner}

    def _type(self, kind: pa.DataType) -> tuple[Any, list[dict[str, Any]]]:
        types = pa.types
        if types.is_struct(kind):
            pairs = [self._field(kind.field(i)) for i in range(kind.num_fields)]
            return {"type": "struct", "fields": [one for one, _ in pairs]}, [two for _, two in pairs]
        if types.is_map(kind):
            key, value = self._field(kind.key_field, "key"), self._field(kind.item_field, "value")
            raw = {"type": "map", "key-id": key[0]["id"], "key": key[0]["type"], "value-id": value[0]["id"],
                   "value": value[0]["type"], "value-required": False}  # fmt: skip
            return raw, [key[1], value[1]]
        if types.is_list(kind) or types.is_large_list(kind):
            one, mapped = self._field(kind.value_field, "element")
            raw = {"type": "list", "element-id": one["id"], "element": one["type"], "element-required": False}
            return raw, [mapped]
        return _primitive(kind), []


def _primitive(kind: pa.DataType) -> str:
    types = pa.types
    if kind in _PLAIN:
        return _PLAIN[kind]
    if types.is_decimal(kind) and kind.precision <= 38 and 0 <= kind.scale <= kind.precision:
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_timestamp(kind):
        return ("timestamp" if kind.tz is None else "timestamptz") + ("_ns" if kind.unit == "ns" else "")
    if types.is_time(kind):
        return "time"
    if types.is_fixed_size_binary(kind):
        return f"fixed[{kind.byte_width}]"
    raise NoIcebergTypeError(str(kind))


def _walk(fields: Any) -> Iterator[pa.Field]:
    for field in fields:
        yield field
        yield from _walk([field.type.field(i) for i in range(field.type.num_fields)])


def _id_of(field: pa.Field) -> int | None:
    raw = (field.metadata or {}).get(ID)
    return int(raw) if raw is not None and int(raw) >= 0 else None


def single_file_table(folder: Path, path: Path, schema: pa.Schema, num_rows: int, file_format: str) -> Path:
    """Write the metadata of a table of this one file; return the metadata file."""
    derived = Derived(schema)
    table = Table(folder, {"id": "long"}, version=3)
    with table.transaction():
        file = table.append([{"id": 0}], format=file_format)
        file.entry["file_path"] = str(path)
        file.entry["record_count"] = num_rows
        file.entry["file_size_in_bytes"] = path.stat().st_size
        file.entry.update(dict.fromkeys(METRICS))
    metadata = table.write()
    raw = json.loads(metadata.read_text())
    raw["schemas"] = [{"type": "struct", "schema-id": 0, "fields": derived.fields}]
    if not derived.has_ids:
        raw["properties"] = {"schema.name-mapping.default": json.dumps(derived.mapping)}
    metadata.write_text(json.dumps(raw))
    return metadata
