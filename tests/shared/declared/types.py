"""The types of declared tables and their forms in Iceberg's JSON, in Avro and in Arrow.

Takes columns declared in Python; gives what writers need. Values have one plain form: ``bool``, ``int``
(days, microseconds or nanoseconds for dates and times), ``float``, ``Decimal``, ``str`` (string, uuid),
``bytes``; a struct is a dict by field id, a list a list, a map a list of pairs.
"""

from __future__ import annotations

import datetime
import re
import struct
import uuid
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

EPOCH = datetime.datetime(1970, 1, 1)
EXACT = Context(prec=100)


@dataclass(frozen=True)
class Column:
    """A column or nested field."""

    id: int
    name: str
    type: Kind
    required: bool = False
    default: Any = None


@dataclass(frozen=True)
class Struct:
    """A struct of fields."""

    fields: tuple[Column, ...]


@dataclass(frozen=True)
class ListOf:
    """A list."""

    element: Column


@dataclass(frozen=True)
class MapOf:
    """A map."""

    key: Column
    value: Column


Kind = str | Struct | ListOf | MapOf


def decimal_of(kind: Kind) -> tuple[int, int] | None:
    """Return precision and scale of a decimal type; None for every other type."""
    match = re.fullmatch(r"decimal\((\d+), ?(\d+)\)", kind) if isinstance(kind, str) else None
    return (int(match[1]), int(match[2])) if match else None


def fixed_length(kind: Kind) -> int | None:
    """Return N of ``fixed[N]``; None for every other type."""
    match = re.fullmatch(r"fixed\[(\d+)\]", kind) if isinstance(kind, str) else None
    return int(match[1]) if match else None


def inner(kind: Kind) -> tuple[Column, ...]:
    """Return the fields directly inside a type."""
    match kind:
        case Struct(fields):
            return fields
        case ListOf(element):
            return (element,)
        case MapOf(key, value):
            return (key, value)
    return ()


def walk(columns: Iterable[Column], path: tuple[str, ...] = ()) -> Iterator[tuple[Column, tuple[str, ...]]]:
    """Yield every field with the names that lead to it."""
    for column in columns:
        yield column, (*path, column.name)
        yield from walk(inner(column.type), (*path, column.name))


def type_json(kind: Kind) -> Any:
    """Return the type as table metadata writes it."""
    match kind:
        case Struct(fields):
            return {"type": "struct", "fields": [column_json(field) for field in fields]}
        case ListOf(element):
            return {
                "type": "list",
                "element-id": element.id,
                "element": type_json(element.type),
                "element-required": element.required,
            }
        case MapOf(key, value):
            return {
                "type": "map",
                "key-id": key.id,
                "key": type_json(key.type),
                "value-id": value.id,
                "value": type_json(value.type),
                "value-required": value.required,
            }
    return kind


def column_json(column: Column) -> dict[str, Any]:
    """Return a field as table metadata writes it."""
    raw = {
        "id": column.id,
        "name": column.name,
        "required": column.required,
        "type": type_json(column.type),
    }
    if column.default is not None:
        raw["initial-default"] = raw["write-default"] = value_json(column.type, column.default)
    return raw


def value_json(kind: Kind, value: Any) -> Any:
    """Return one value in the spec's JSON single-value form."""
    match kind:
        case Struct(fields):
            return {str(field.id): value_json(field.type, value.get(field.id)) for field in fields}
        case ListOf(element):
            return [value_json(element.type, item) for item in value]
        case "date":
            return (EPOCH + datetime.timedelta(days=value)).date().isoformat()
        case "timestamp" | "timestamptz":
            text = (EPOCH + datetime.timedelta(microseconds=value)).isoformat(timespec="microseconds")
            return text + ("+00:00" if kind == "timestamptz" else "")
        case "binary":
            return value.hex().upper()
    if decimal_of(kind):
        return format(value, "f")
    return value.hex().upper() if fixed_length(kind) else value


def avro_type(kind: Kind, name: str) -> Any:
    """Return the Avro schema of a type; `name` makes names of records and fixed types unique."""
    match kind:
        case Struct(fields):
            return {"type": "record", "name": f"r_{name}", "fields": [avro_field(f, name) for f in fields]}
        case ListOf(element):
            items = _optional(avro_type(element.type, f"{name}_e"), required=element.required)
            return {"type": "array", "element-id": element.id, "items": items}
        case MapOf():
            raise NotImplementedError("maps are no delete keys and no partition values")
        case "date":
            return {"type": "int", "logicalType": "date"}
        case "time":
            return {"type": "long", "logicalType": "time-micros"}
        case "timestamp" | "timestamptz":
            return {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": kind == "timestamptz"}
        case "timestamp_ns" | "timestamptz_ns":
            return {
                "type": "long",
                "logicalType": "timestamp-nanos",
                "adjust-to-utc": kind == "timestamptz_ns",
            }
        case "uuid":
            return {"type": "fixed", "name": f"uuid_{name}", "size": 16, "logicalType": "uuid"}
        case "binary":
            return "bytes"
    if spec := decimal_of(kind):
        return {
            "type": "fixed",
            "name": f"decimal_{name}",
            "size": decimal_bytes(spec[0]),
            "logicalType": "decimal",
            "precision": spec[0],
            "scale": spec[1],
        }
    if length := fixed_length(kind):
        return {"type": "fixed", "name": f"fixed_{name}", "size": length}
    return kind


def avro_field(column: Column, name: str = "") -> dict[str, Any]:
    """Return a record field of an Avro schema with Iceberg's field id."""
    unique = f"{name}_{column.id}"
    field = {"name": column.name, "field-id": column.id}
    field["type"] = _optional(avro_type(column.type, unique), required=column.required)
    return field


def _optional(kind: Any, *, required: bool) -> Any:
    return kind if required else ["null", kind]


def avro_value(kind: Kind, value: Any) -> Any:
    """Return a plain value as fastavro takes it."""
    if value is None:
        return None
    match kind:
        case Struct(fields):
            return {field.name: avro_value(field.type, value.get(field.id)) for field in fields}
        case ListOf(element):
            return [avro_value(element.type, item) for item in value]
        case "uuid":
            return uuid.UUID(value).bytes
    return value


def decimal_bytes(precision: int) -> int:
    """Return how many bytes a decimal of this precision needs."""
    size = 1
    while 2 ** (8 * size - 1) < 10**precision:
        size += 1
    return size


_ARROW = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"),
    "string": pa.string(),
    "uuid": pa.binary(16),
    "binary": pa.binary(),
}


def arrow_type(kind: Kind, *, ids: str | None = "PARQUET:field_id") -> pa.DataType:
    """Return the Arrow type; `ids` is the metadata key for field ids, None leaves them out."""
    match kind:
        case Struct(fields):
            return pa.struct([arrow_field(field, ids=ids) for field in fields])
        case ListOf(element):
            return pa.list_(arrow_field(element, ids=ids))
        case MapOf(key, value):
            return pa.map_(arrow_field(key, ids=ids).with_nullable(False), arrow_field(value, ids=ids))
    if spec := decimal_of(kind):
        return pa.decimal128(*spec)
    if length := fixed_length(kind):
        return pa.binary(length)
    return _ARROW[kind]


def arrow_field(column: Column, *, ids: str | None = "PARQUET:field_id") -> pa.Field:
    """Return the Arrow field with its id in the field's metadata."""
    metadata = {ids: str(column.id)} if ids else None
    return pa.field(column.name, arrow_type(column.type, ids=ids), not column.required, metadata)


def arrow_array(column: Column, values: Sequence[Any], *, ids: str | None = "PARQUET:field_id") -> pa.Array:
    """Return plain values as an Arrow array of the column's type."""
    kind, target = column.type, arrow_type(column.type, ids=ids)
    match kind:
        case Struct(fields):
            arrays = [
                arrow_array(field, [None if v is None else v.get(field.id) for v in values], ids=ids)
                for field in fields
            ]
            mask = pa.array([value is None for value in values], pa.bool_())
            return pa.StructArray.from_arrays(arrays, fields=list(target), mask=mask)
        case ListOf(element):
            items = [item for value in values for item in value or ()]
            return pa.ListArray.from_arrays(
                _offsets(values), arrow_array(element, items, ids=ids), type=target
            )
        case MapOf(key, value):
            pairs = [pair for value in values for pair in value or ()]
            keys = arrow_array(key, [pair[0] for pair in pairs], ids=ids)
            items = arrow_array(value, [pair[1] for pair in pairs], ids=ids)
            return pa.MapArray.from_arrays(_offsets(values), keys, items, type=target)
        case "date":
            return pa.array(values, pa.int32()).cast(target)
        case "time" | "timestamp" | "timestamptz" | "timestamp_ns" | "timestamptz_ns":
            return pa.array(values, pa.int64()).cast(target)
        case "uuid":
            return pa.array([None if v is None else uuid.UUID(v).bytes for v in values], target)
    return pa.array(values, target)


def _offsets(values: Sequence[Any]) -> pa.Array:
    offsets: list[int | None] = []
    end = 0
    for value in values:
        offsets.append(None if value is None else end)
        end += len(value or ())
    return pa.array([*offsets, end], pa.int32())


def plain(kind: Kind, value: Any) -> Any:
    """Bring a declared value (structs by name, maps as dicts) to the plain form, rounded to its type."""
    if value is None:
        return None
    match kind:
        case Struct(fields):
            return {f.id: plain(f.type, value[f.name]) for f in fields if f.name in value}
        case ListOf(element):
            return [plain(element.type, item) for item in value]
        case MapOf(key, item):
            pairs = value.items() if isinstance(value, dict) else value
            return [(plain(key.type, k), plain(item.type, v)) for k, v in pairs]
        case "float":
            return struct.unpack("<f", struct.pack("<f", value))[0]
        case "double":
            return float(value)
        case "date":
            return value if isinstance(value, int) else (value - EPOCH.date()).days
        case "timestamp" | "timestamptz":
            if isinstance(value, int):
                return value
            return (value.replace(tzinfo=None) - EPOCH) // datetime.timedelta(microseconds=1)
        case "uuid":
            return str(uuid.UUID(value))
    if spec := decimal_of(kind):
        return Decimal(value).quantize(Decimal(1).scaleb(-spec[1]), context=EXACT)
    return value
