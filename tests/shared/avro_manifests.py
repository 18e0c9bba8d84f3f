"""Writes manifest lists and manifests with fastavro, as Iceberg's writers do and as odd ones did."""

from __future__ import annotations

import copy
import io
import json
from typing import Any

import fastavro


def optional(kind: Any) -> list[Any]:
    return ["null", kind]


def pairs(key: int, value: int, kind: str) -> dict[str, Any]:
    fields = [
        {"name": "key", "type": "int", "field-id": key},
        {"name": "value", "type": kind, "field-id": value},
    ]
    return {
        "type": "array",
        "logicalType": "map",
        "items": {"type": "record", "name": f"k{key}_v{value}", "fields": fields},
    }


def field(name: str, field_id: int, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "field-id": field_id}


def entry_schema(partition: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a version 3 manifest's Avro schema; `partition` are the fields of the partition struct."""
    data_file = [
        field("content", 134, "int"),
        field("file_path", 100, "string"),
        field("file_format", 101, "string"),
        field("partition", 102, {"type": "record", "name": "r102", "fields": partition}),
        field("record_count", 103, "long"),
        field("file_size_in_bytes", 104, "long"),
        field("column_sizes", 108, optional(pairs(117, 118, "long"))),
        field("value_counts", 109, optional(pairs(119, 120, "long"))),
        field("null_value_counts", 110, optional(pairs(121, 122, "long"))),
        field("nan_value_counts", 137, optional(pairs(138, 139, "long"))),
        field("lower_bounds", 125, optional(pairs(126, 127, "bytes"))),
        field("upper_bounds", 128, optional(pairs(129, 130, "bytes"))),
        field("key_metadata", 131, optional("bytes")),
        field("split_offsets", 132, optional({"type": "array", "items": "long", "element-id": 133})),
        field("equality_ids", 135, optional({"type": "array", "items": "int", "element-id": 136})),
        field("sort_order_id", 140, optional("int")),
        field("first_row_id", 142, optional("long")),
        field("referenced_data_file", 143, optional("string")),
        field("content_offset", 144, optional("long")),
        field("content_size_in_bytes", 145, optional("long")),
    ]
    return {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            field("status", 0, "int"),
            field("snapshot_id", 1, optional("long")),
            field("sequence_number", 3, optional("long")),
            field("file_sequence_number", 4, optional("long")),
            field("data_file", 2, {"type": "record", "name": "r2", "fields": data_file}),
        ],
    }


LIST_SCHEMA = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        field("manifest_path", 500, "string"),
        field("manifest_length", 501, "long"),
        field("partition_spec_id", 502, "int"),
        field("content", 517, "int"),
        field("sequence_number", 515, "long"),
        field("min_sequence_number", 516, "long"),
        field("added_snapshot_id", 503, "long"),
        field("added_files_count", 504, "int"),
        field("existing_files_count", 505, "int"),
        field("deleted_files_count", 506, "int"),
        field("added_rows_count", 512, "long"),
        field("existing_rows_count", 513, "long"),
        field("deleted_rows_count", 514, "long"),
        field(
            "partitions",
            507,
            optional(
                {
                    "type": "array",
                    "element-id": 508,
                    "items": {
                        "type": "record",
                        "name": "r508",
                        "fields": [
                            field("contains_null", 509, "boolean"),
                            field("contains_nan", 518, optional("boolean")),
                            field("lower_bound", 510, optional("bytes")),
                            field("upper_bound", 511, optional("bytes")),
                        ],
                    },
                }
            ),
        ),
        field("first_row_id", 520, optional("long")),
    ],
}


def entry(
    path: str = "s3://lake/t/f.parquet", *, status: int = 1, sequence: int | None = None, **file: Any
) -> dict[str, Any]:
    """Return one manifest entry; `file` are fields of its data file by name."""
    data_file = {
        "content": 0, "file_path": path, "file_format": "PARQUET", "partition": {},
        "record_count": 10, "file_size_in_bytes": 1000, **file,
    }  # fmt: skip
    for name in (
        "column_sizes",
        "value_counts",
        "null_value_counts",
        "nan_value_counts",
        "lower_bounds",
        "upper_bounds",
    ):
        if isinstance(data_file.get(name), dict):
            data_file[name] = [{"key": key, "value": value} for key, value in data_file[name].items()]
    return {"status": status, "sequence_number": sequence, "data_file": data_file}


def write(
    schema: dict[str, Any], records: list[dict[str, Any]], *, codec: str = "deflate", **metadata: str
) -> bytes:
    stream = io.BytesIO()
    given = {key.replace("_", "-"): value for key, value in metadata.items()}
    fastavro.writer(
        stream, fastavro.parse_schema(copy.deepcopy(schema)), records, codec=codec, metadata=given
    )
    return stream.getvalue()


def manifest(
    entries: list[dict[str, Any]],
    *,
    partition: list[dict[str, Any]] | None = None,
    codec: str = "deflate",
    version: int = 2,
) -> bytes:
    return write(
        entry_schema(partition or []),
        entries,
        codec=codec,
        format_version=str(version),
        partition_spec_id="0",
    )


def listed(path: str, **changes: Any) -> dict[str, Any]:
    """Return one entry of a manifest list."""
    return {
        "manifest_path": path, "manifest_length": 1, "partition_spec_id": 0, "content": 0, "sequence_number": 1,
        "min_sequence_number": 1, "added_snapshot_id": 1, "added_files_count": 1, "existing_files_count": 0,
        "deleted_files_count": 0, "added_rows_count": 1, "existing_rows_count": 0, "deleted_rows_count": 0, **changes,
    }  # fmt: skip


def without_ids(schema: Any) -> Any:
    """Return the schema as a writer without field ids leaves it."""
    return json.loads(
        json.dumps(schema), object_hook=lambda node: {k: v for k, v in node.items() if k != "field-id"}
    )


def without_fields(schema: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return the schema without some fields, at any depth."""

    def hook(node: dict[str, Any]) -> dict[str, Any]:
        if isinstance(node.get("fields"), list):
            node["fields"] = [part for part in node["fields"] if part["name"] not in names]
        return node

    return json.loads(json.dumps(schema), object_hook=hook)
