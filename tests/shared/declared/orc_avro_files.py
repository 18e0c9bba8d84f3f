"""Writers of ORC and Avro data files with Iceberg's attributes, by pyarrow and fastavro; no code of the product.

Takes rows by field id, as `declared.files` does. ``row_group_size`` is the rows of an ORC stripe and about
those of an Avro block.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pyarrow.orc

from declared.types import Column, Kind, ListOf, MapOf, Struct, arrow_array, avro_type, fixed_length

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from declared.files import FileOptions

ORC_CODECS = {"zstd": "zstd", "snappy": "snappy", "gzip": "zlib", "none": "uncompressed", "lz4": "lz4"}
AVRO_CODECS = {"zstd": "deflate", "snappy": "deflate", "gzip": "deflate", "none": "null"}


def write_orc(
    path: Path, columns: Sequence[Column], rows: Sequence[Mapping[int, Any]], options: FileOptions
) -> int:
    """Write rows as ORC; return the file's size."""
    fields = [_orc_field(column, options.field_ids) for column in columns]
    arrays = [
        arrow_array(column, [row.get(column.id) for row in rows], ids=None).cast(field.type)
        for column, field in zip(columns, fields, strict=True)
    ]
    table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.orc.write_table(
        table,
        str(path),
        compression=ORC_CODECS[options.compression],
        stripe_size=1,
        batch_size=min(options.row_group_size, 1024),
        dictionary_key_size_threshold=0.8 if options.dictionary else 0,
    )
    return path.stat().st_size


def _orc_field(column: Column, with_ids: bool) -> pa.Field:
    kind = column.type
    target: pa.DataType
    attributes = {"iceberg.id": str(column.id), "iceberg.required": str(column.required).lower()}
    match kind:
        case Struct(fields):
            target = pa.struct([_orc_field(field, with_ids) for field in fields])
        case ListOf(element):
            target = pa.list_(_orc_field(element, with_ids))
        case MapOf(key, value):
            target = pa.map_(_orc_field(key, with_ids).with_nullable(False), _orc_field(value, with_ids))
        case "time":
            target = pa.int64()
            attributes["iceberg.long-type"] = "TIME"
        case "uuid":
            target = pa.binary()
            attributes["iceberg.binary-type"] = "UUID"
        case _ if length := fixed_length(kind):
            target = pa.binary()
            attributes |= {"iceberg.binary-type": "FIXED", "iceberg.length": str(length)}
        case _:
            target = arrow_array(column, [], ids=None).type
    return pa.field(column.name, target, not column.required, attributes if with_ids else None)


def write_avro(
    path: Path, columns: Sequence[Column], rows: Sequence[Mapping[int, Any]], options: FileOptions
) -> int:
    """Write rows as Avro; return the file's size."""
    fields = [_avro_field(column, options.field_ids) for column in columns]
    records = [{c.name: avro_value(c, row.get(c.id)) for c in columns} for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        fastavro.writer(
            file,
            {"type": "record", "name": "table", "fields": fields},
            records,
            codec=AVRO_CODECS[options.compression],
            sync_interval=10 * options.row_group_size,
        )
    return path.stat().st_size


def pairs_in_a_map(column: Column) -> bool:
    """Tell whether a map is written as Avro's own kind of map, which has keys of text only."""
    return isinstance(column.type, MapOf) and column.type.key.type == "string" and column.id % 2 == 0


def _avro_field(column: Column, with_ids: bool) -> dict[str, Any]:
    field: dict[str, Any] = {"name": column.name, "type": _optional(column, with_ids)}
    return field | {"field-id": column.id} if with_ids else field


def _optional(column: Column, with_ids: bool) -> Any:
    kind = _avro_kind(column, column.type, with_ids)
    if column.required:
        return kind
    return ["null", kind] if column.id % 3 else [kind, "null"]


def _avro_kind(column: Column, kind: Kind, with_ids: bool) -> Any:
    match kind:
        case Struct(fields):
            inner = [_avro_field(field, with_ids) for field in fields]
            return {"type": "record", "name": f"r{column.id}", "fields": inner}
        case ListOf(element):
            ids = {"element-id": element.id} if with_ids else {}
            return {"type": "array", "items": _optional(element, with_ids), **ids}
        case MapOf(key, value) if pairs_in_a_map(column):
            ids = {"key-id": key.id, "value-id": value.id} if with_ids else {}
            return {"type": "map", "values": _optional(value, with_ids), **ids}
        case MapOf(key, value):
            pair = {
                "type": "record",
                "name": f"k{key.id}_v{value.id}",
                "fields": [_avro_field(key, with_ids), _avro_field(value, with_ids)],
            }
            return {"type": "array", "logicalType": "map", "items": pair}
    return avro_type(kind, f"{column.id}")


def avro_value(column: Column, value: Any) -> Any:
    """Return a plain value as fastavro takes it."""
    if value is None:
        return None
    match column.type:
        case Struct(fields):
            return {field.name: avro_value(field, value.get(field.id)) for field in fields}
        case ListOf(element):
            return [avro_value(element, item) for item in value]
        case MapOf(key, item) if pairs_in_a_map(column):
            return {k: avro_value(item, v) for k, v in value}
        case MapOf(key, item):
            return [{"key": avro_value(key, k), "value": avro_value(item, v)} for k, v in value]
        case "uuid":
            return uuid.UUID(value).bytes
    return value
