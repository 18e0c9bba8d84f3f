"""The fields of manifest lists and manifests by id, whatever their writer called them.

Takes Avro schemas; gives them with each field named ``_<field id>``, or some left out. Fields without ids are
matched by name.
Source: Iceberg table spec, "Manifests" and "Manifest Lists".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.table.metadata import PartitionSpec

PARTITION = 102
UNMEASURED = frozenset((108, 109, 110, 125, 128, 132, 137))
"""Fields of an entry that tell of columns, or how to divide the reading. Skipping them halves the time, skipping
but one of them gains nothing."""
LIST_IDS = {
    "manifest_path": 500,
    "manifest_length": 501,
    "partition_spec_id": 502,
    "content": 517,
    "sequence_number": 515,
    "added_snapshot_id": 503,
    "partitions": 507,
    "first_row_id": 520,
    "contains_null": 509,
    "contains_nan": 518,
    "key_metadata": 519,
    "lower_bound": 510,
    "upper_bound": 511,
    "added_files_count": 504,
    "existing_files_count": 505,
    "deleted_files_count": 506,
    "added_rows_count": 512,
    "existing_rows_count": 513,
}
ENTRY_IDS = {
    "status": 0,
    "snapshot_id": 1,
    "sequence_number": 3,
    "file_sequence_number": 4,
    "data_file": 2,
    "content": 134,
    "file_path": 100,
    "file_format": 101,
    "partition": PARTITION,
    "record_count": 103,
    "file_size_in_bytes": 104,
    "column_sizes": 108,
    "value_counts": 109,
    "null_value_counts": 110,
    "nan_value_counts": 137,
    "lower_bounds": 125,
    "upper_bounds": 128,
    "key_metadata": 131,
    "split_offsets": 132,
    "equality_ids": 135,
    "sort_order_id": 140,
    "first_row_id": 142,
    "referenced_data_file": 143,
    "content_offset": 144,
    "content_size_in_bytes": 145,
}


def named_by_id(schema: Any, names: Mapping[str, int], spec: PartitionSpec | None = None) -> Any:
    """Return the Avro schema with each record field named ``_<field id>``."""
    if isinstance(schema, list):
        return [named_by_id(item, names, spec) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") != "record":
        return {
            key: named_by_id(part, names, spec) if key in ("type", "items", "values") else part
            for key, part in schema.items()
        }
    renamed = []
    for part in schema["fields"]:
        field_id = part.get("field-id", names.get(part["name"]))
        if field_id == PARTITION and spec is not None:
            kind = named_by_id(part["type"], _partition_names(part["type"], spec))
        else:
            kind = named_by_id(part["type"], names, spec)
        name = part["name"] if field_id is None else f"_{field_id}"
        renamed.append({**part, "name": name, "type": kind})
    return {**schema, "fields": renamed}


def leave_out(schema: dict[str, Any], without: frozenset[int]) -> dict[str, Any]:
    """Return the schema of an entry without these fields of its file."""
    names = {f"_{field_id}" for field_id in without}
    fields = []
    for part in schema["fields"]:
        kind = part["type"]
        if part["name"] == "_2":
            kind = {**kind, "fields": [inner for inner in kind["fields"] if inner["name"] not in names]}
        fields.append({**part, "type": kind})
    return {**schema, "fields": fields}


def _partition_names(kind: Any, spec: PartitionSpec) -> dict[str, int]:
    """Match partition values without field ids to the spec: by name, else by place if all are there."""
    names = {part.name: part.field_id for part in spec.fields}
    written = [part["name"] for part in kind["fields"]] if isinstance(kind, dict) and "fields" in kind else []
    if not set(written) <= set(names) and len(written) == len(spec.fields):
        names = {name: part.field_id for name, part in zip(written, spec.fields, strict=True)}
    return names
