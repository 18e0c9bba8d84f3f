"""Manifests and manifest lists in Avro, by the spec's tables, for format versions 1 to 3.

Takes entries as plain dicts; writes the files. A sequence number of None is written as null, which
readers take from the manifest list.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import fastavro

from declared.transforms import result_type
from declared.types import Column, Kind, Struct as StructKind, avro_field, avro_value, type_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def _field(name: str, field_id: int, kind: Any, *, optional: bool = False) -> dict[str, Any]:
    field = {"name": name, "field-id": field_id, "type": ["null", kind] if optional else kind}
    if optional:
        field["default"] = None
    return field


def _map(key_id: int, value_id: int, value: str) -> dict[str, Any]:
    fields = [_field("key", key_id, "int"), _field("value", value_id, value)]
    return {
        "type": "array",
        "logicalType": "map",
        "items": {"type": "record", "name": f"k{key_id}_v{value_id}", "fields": fields},
    }


def entry_schema(version: int, partition: Sequence[Column]) -> dict[str, Any]:
    """Return the Avro schema of a manifest entry."""
    data_file = [
        *([_field("content", 134, "int")] if version > 1 else []),
        _field("file_path", 100, "string"),
        _field("file_format", 101, "string"),
        _field(
            "partition", 102, {"type": "record", "name": "r102", "fields": [avro_field(c) for c in partition]}
        ),
        _field("record_count", 103, "long"),
        _field("file_size_in_bytes", 104, "long"),
        *([_field("block_size_in_bytes", 105, "long")] if version == 1 else []),
        _field("value_counts", 109, _map(119, 120, "long"), optional=True),
        _field("null_value_counts", 110, _map(121, 122, "long"), optional=True),
        _field("nan_value_counts", 137, _map(138, 139, "long"), optional=True),
        _field("lower_bounds", 125, _map(126, 127, "bytes"), optional=True),
        _field("upper_bounds", 128, _map(129, 130, "bytes"), optional=True),
        _field("key_metadata", 131, "bytes", optional=True),
        _field("split_offsets", 132, {"type": "array", "items": "long", "element-id": 133}, optional=True),
    ]
    if version > 1:
        equality_ids = {"type": "array", "items": "int", "element-id": 136}
        data_file.append(_field("equality_ids", 135, equality_ids, optional=True))
        data_file.append(_field("referenced_data_file", 143, "string", optional=True))
    if version > 2:
        data_file.append(_field("first_row_id", 142, "long", optional=True))
        data_file.append(_field("content_offset", 144, "long", optional=True))
        data_file.append(_field("content_size_in_bytes", 145, "long", optional=True))
    fields = [_field("status", 0, "int"), _field("snapshot_id", 1, "long", optional=version > 1)]
    if version > 1:
        fields.append(_field("sequence_number", 3, "long", optional=True))
        fields.append(_field("file_sequence_number", 4, "long", optional=True))
    fields.append(_field("data_file", 2, {"type": "record", "name": "r2", "fields": data_file}))
    return {"type": "record", "name": "manifest_entry", "fields": fields}


def write_manifest(
    path: Path,
    entries: Sequence[Mapping[str, Any]],
    *,
    version: int,
    content: str,
    spec_id: int,
    partition: Sequence[tuple[Column, str, Kind]],
    schema: Sequence[Column],
    schema_id: int,
) -> int:
    """Write one manifest; return its size.

    Args:
        path: Where to.
        entries: ``status``, ``snapshot_id``, ``sequence_number`` and the fields of ``data_file``; its
            ``partition`` is a tuple of values, its metrics are dicts by field id.
        version: The table's format version.
        content: ``data`` or ``deletes``.
        spec_id: The partition spec of all entries.
        partition: Per partition field: its column (id, name, type of the result), transform, source id.
        schema: The table's columns when the manifest was written.
        schema_id: Their id.
    """
    columns = [column for column, _, _ in partition]
    avro = fastavro.parse_schema(entry_schema(version, columns))
    records = []
    for entry in entries:
        data_file = dict(entry["data_file"])
        values = data_file["partition"]
        data_file["partition"] = {
            c.name: avro_value(c.type, value) for c, value in zip(columns, values, strict=True)
        }
        data_file["block_size_in_bytes"] = 1 << 26
        for name in ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds"):
            counts = data_file.get(name)
            data_file[name] = [{"key": k, "value": v} for k, v in counts.items()] if counts else None
        records.append({**entry, "file_sequence_number": entry["sequence_number"], "data_file": data_file})
    spec = [
        {"name": c.name, "transform": transform, "source-id": source, "field-id": c.id}
        for c, transform, source in partition
    ]
    metadata = {
        "schema": json.dumps({**type_json(StructKind(tuple(schema))), "schema-id": schema_id}),
        "schema-id": str(schema_id),
        "partition-spec": json.dumps(spec),
        "partition-spec-id": str(spec_id),
        "format-version": str(version),
        **({"content": content} if version > 1 else {}),
    }
    with path.open("wb") as file:
        fastavro.writer(file, avro, records, codec="deflate", metadata=metadata)
    return path.stat().st_size


def write_manifest_list(path: Path, manifests: Sequence[Mapping[str, Any]], *, version: int) -> None:
    """Write a manifest list of plain dicts."""
    summary = {
        "type": "record",
        "name": "r508",
        "fields": [
            _field("contains_null", 509, "boolean"),
            _field("contains_nan", 518, "boolean", optional=True),
            _field("lower_bound", 510, "bytes", optional=True),
            _field("upper_bound", 511, "bytes", optional=True),
        ],
    }
    fields = [
        _field("manifest_path", 500, "string"),
        _field("manifest_length", 501, "long"),
        _field("partition_spec_id", 502, "int"),
    ]
    if version > 1:
        fields.append(_field("content", 517, "int"))
        fields.append(_field("sequence_number", 515, "long"))
        fields.append(_field("min_sequence_number", 516, "long"))
    fields.append(_field("added_snapshot_id", 503, "long"))
    counts = ("added_files", "existing_files", "deleted_files", "added_rows", "existing_rows", "deleted_rows")
    old_counts = ("added_data_files", "existing_data_files", "deleted_data_files", *counts[3:])
    for field_id, name in zip(
        (504, 505, 506, 512, 513, 514), old_counts if version == 1 else counts, strict=True
    ):
        kind = "int" if name.endswith("files") else "long"
        fields.append(_field(f"{name}_count", field_id, kind, optional=version == 1))
    fields.append(
        _field("partitions", 507, {"type": "array", "items": summary, "element-id": 508}, optional=True)
    )
    if version > 2:
        fields.append(_field("first_row_id", 520, "long", optional=True))
    schema = fastavro.parse_schema({"type": "record", "name": "manifest_file", "fields": fields})
    records = []
    for manifest in manifests:
        record = dict(manifest)
        record.update(
            {f"{old}_count": record[f"{new}_count"] for old, new in zip(old_counts, counts, strict=True)}
        )
        records.append(record)
    with path.open("wb") as file:
        fastavro.writer(file, schema, records, codec="deflate", metadata={"format-version": str(version)})


def partition_column(field_id: int, name: str, transform: str, source: Kind) -> Column:
    """Return the column of a partition field's results."""
    return Column(field_id, name, result_type(transform, source))
