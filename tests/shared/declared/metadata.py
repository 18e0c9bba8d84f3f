"""Snapshots as bytes: manifests, manifest lists and the metadata JSON of a declared table."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from declared.column_metrics import encode_single
from declared.content import ContentFile, DataFile
from declared.manifests import write_manifest, write_manifest_list
from declared.types import Column, Struct as StructKind, type_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from declared.evolution import Evolution

FIRST_TIMESTAMP = 1_700_000_000_000


@dataclass(frozen=True)
class Manifest:
    """A written manifest: its list entry, and its live files with their first snapshot."""

    record: Mapping[str, Any]
    files: tuple[tuple[ContentFile, int], ...]
    is_data: bool


@dataclass(frozen=True)
class Snapshot:
    """A snapshot: its JSON and its manifests."""

    id: int
    raw: Mapping[str, Any]
    manifests: tuple[Manifest, ...]
    schema_id: int

    @property
    def files(self) -> tuple[ContentFile, ...]:
        """All live files."""
        return tuple(file for manifest in self.manifests for file, _ in manifest.files)


def make_manifest(
    path: Path,
    location: str,
    files: Sequence[tuple[ContentFile, int, int]],
    evolution: Evolution,
    *,
    version: int,
    snapshot_id: int,
    sequence: int,
    explicit: bool,
) -> Manifest:
    """Write a manifest of (file, status, snapshot that added it), all of one spec and one content.

    Args:
        path: Where to write.
        location: How the metadata names that place.
        files: Status is 0 existing, 1 added or 2 deleted.
        evolution: The table's schemas and specs.
        version: Format version.
        snapshot_id: The snapshot that is being made.
        sequence: Its sequence number.
        explicit: Write sequence numbers of added files instead of leaving them to be inherited.
    """
    spec_id = files[0][0].spec_id
    partition = evolution.partition_columns(spec_id)
    is_data = isinstance(files[0][0], DataFile)
    entries = [
        {
            "status": status,
            "snapshot_id": snapshot if status == 0 else snapshot_id,
            "sequence_number": None
            if status == 1 and file.sequence == sequence and not explicit
            else file.sequence,
            "data_file": file.entry,
        }
        for file, status, snapshot in files
    ]
    length = write_manifest(
        path,
        entries,
        version=version,
        content="data" if is_data else "deletes",
        spec_id=spec_id,
        partition=partition,
        schema=evolution.schemas[-1],
        schema_id=len(evolution.schemas) - 1,
    )
    live = [(file, snapshot) for file, status, snapshot in files if status != 2]

    def count(status: int, *, rows: bool) -> int:
        return sum(int(f.entry["record_count"]) if rows else 1 for f, state, _ in files if state == status)

    record = {
        "manifest_path": location,
        "manifest_length": length,
        "partition_spec_id": spec_id,
        "content": 0 if is_data else 1,
        "sequence_number": sequence,
        "min_sequence_number": min((file.sequence for file, _ in live), default=sequence),
        "added_snapshot_id": snapshot_id,
        "added_files_count": count(1, rows=False),
        "existing_files_count": count(0, rows=False),
        "deleted_files_count": count(2, rows=False),
        "added_rows_count": count(1, rows=True),
        "existing_rows_count": count(0, rows=True),
        "deleted_rows_count": count(2, rows=True),
        "partitions": [
            _summary(column, [file.partition[index] for file, _, _ in files])
            for index, (column, _, _) in enumerate(partition)
        ],
        "first_row_id": None,
    }
    return Manifest(record, tuple(live), is_data)


def _summary(column: Column, values: Sequence[Any]) -> dict[str, Any]:
    present = [value for value in values if value is not None]
    ordered = [value for value in present if not (isinstance(value, float) and math.isnan(value))]
    if column.type == "string":
        ordered.sort(key=str.encode)
    elif column.type in ("float", "double"):
        ordered.sort(key=lambda value: (value, math.copysign(1, value)))
    else:
        ordered.sort()
    return {
        "contains_null": len(present) < len(values),
        "contains_nan": len(ordered) < len(present),
        "lower_bound": encode_single(column.type, ordered[0]) if ordered else None,
        "upper_bound": encode_single(column.type, ordered[-1]) if ordered else None,
    }


def make_snapshot(
    path: Path,
    location: str,
    manifests: Sequence[Manifest],
    *,
    version: int,
    snapshot_id: int,
    parent: int | None,
    sequence: int,
    schema_id: int,
    next_row_id: int,
) -> Snapshot:
    """Write a manifest list and return its snapshot."""
    records, added_rows = [], 0
    for manifest in manifests:
        record = dict(manifest.record)
        if version > 2 and manifest.is_data and record["first_row_id"] is None:
            record["first_row_id"] = next_row_id + added_rows
            added_rows += record["added_rows_count"] + record["existing_rows_count"]
        records.append(record)
    write_manifest_list(path, records, version=version)
    raw: dict[str, Any] = {
        "snapshot-id": snapshot_id,
        "timestamp-ms": FIRST_TIMESTAMP + sequence * 1000,
        "summary": {"operation": "overwrite"},
        "manifest-list": location,
        "schema-id": schema_id,
    }
    if parent is not None:
        raw["parent-snapshot-id"] = parent
    if version > 1:
        raw["sequence-number"] = sequence
    if version > 2:
        raw["first-row-id"] = next_row_id
        raw["added-rows"] = added_rows
    kept = [
        Manifest(record, manifest.files, manifest.is_data)
        for record, manifest in zip(records, manifests, strict=True)
    ]
    return Snapshot(snapshot_id, raw, tuple(kept), schema_id)


def metadata_json(
    location: str,
    evolution: Evolution,
    snapshots: Sequence[Snapshot],
    refs: Mapping[str, tuple[str, int]],
    *,
    version: int,
    sequence: int,
    next_row_id: int,
    properties: Mapping[str, str],
    last_column_id: int,
) -> str:
    """Return the text of a ``metadata.json``."""
    schemas = [
        {**type_json(StructKind(columns)), "schema-id": index}
        for index, columns in enumerate(evolution.schemas)
    ]
    specs = [
        {
            "spec-id": index,
            "fields": [
                {"name": p.name, "transform": p.transform, "source-id": p.source, "field-id": p.id}
                for p in spec
            ],
        }
        for index, spec in enumerate(evolution.specs)
    ]
    main = refs.get("main")
    last_updated = max((s.raw["timestamp-ms"] for s in snapshots), default=FIRST_TIMESTAMP)
    raw: dict[str, Any] = {
        "format-version": version,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": location,
        "last-updated-ms": last_updated,
        "last-column-id": last_column_id,
        "schemas": schemas,
        "current-schema-id": len(schemas) - 1,
        "partition-specs": specs,
        "default-spec-id": len(specs) - 1,
        "last-partition-id": max((p.id for spec in evolution.specs for p in spec), default=999),
        "properties": dict(properties),
        "current-snapshot-id": main[1] if main else -1,
        "snapshots": [snapshot.raw for snapshot in snapshots],
        "snapshot-log": [
            {"snapshot-id": s.id, "timestamp-ms": s.raw["timestamp-ms"]}
            for s in snapshots
            if s.raw.get("main", True)
        ],
        "metadata-log": [],
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
    }
    if version > 1:
        raw["last-sequence-number"] = sequence
        raw["refs"] = {
            name: {"type": kind, "snapshot-id": snapshot} for name, (kind, snapshot) in refs.items()
        }
    else:
        raw["schema"] = schemas[-1]
        raw["partition-spec"] = specs[-1]["fields"]
    if version > 2:
        raw["next-row-id"] = next_row_id
    return json.dumps(raw, indent=1)
