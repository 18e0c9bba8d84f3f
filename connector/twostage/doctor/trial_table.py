"""Write a minimal Iceberg table: one snapshot, one manifest, one Parquet file of three rows.

Takes an empty folder; writes a table of format version 2 with the columns ``id`` (long, 0 to 2) and ``word`` (string).
Source: the Iceberg specification, sections Table Metadata, Snapshots and Manifests.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

WORDS = ("a", "b", "c")
_SNAPSHOT = 1
_TIME_MS = 1_700_000_000_000
_COLUMNS = (("id", "long"), ("word", "string"))


def write_trial_table(folder: Path) -> None:
    """Write the table into an empty folder."""
    (folder / "data").mkdir(parents=True)
    (folder / "metadata").mkdir()
    data, manifest = folder / "data" / "1.parquet", folder / "metadata" / "manifest.avro"
    manifests, metadata = folder / "metadata" / "snap-1.avro", folder / "metadata" / "v1.metadata.json"
    _write_rows(data)
    schema = {
        "type": "struct",
        "schema-id": 0,
        "fields": [
            {"id": number, "name": name, "required": False, "type": kind}
            for number, (name, kind) in enumerate(_COLUMNS, 1)
        ],
    }
    entry = {
        "status": 1,
        "snapshot_id": _SNAPSHOT,
        "sequence_number": None,
        "file_sequence_number": None,
        "data_file": {
            "content": 0,
            "file_path": str(data),
            "file_format": "PARQUET",
            "partition": {},
            "record_count": len(WORDS),
            "file_size_in_bytes": data.stat().st_size,
        },
    }
    about = {
        "schema": json.dumps(schema), "partition-spec": "[]", "partition-spec-id": "0", "format-version": "2", "content": "data",
    }  # fmt: skip
    _write_avro(manifest, _entry_schema(), entry, about)
    listed = {
        "manifest_path": str(manifest),
        "manifest_length": manifest.stat().st_size,
        "partition_spec_id": 0,
        "content": 0,
        "sequence_number": 1,
        "min_sequence_number": 1,
        "added_snapshot_id": _SNAPSHOT,
        "added_files_count": 1,
        "existing_files_count": 0,
        "deleted_files_count": 0,
        "added_rows_count": len(WORDS),
        "existing_rows_count": 0,
        "deleted_rows_count": 0,
    }
    _write_avro(manifests, _list_schema(), listed, {"format-version": "2"})
    metadata.write_text(json.dumps(_metadata(folder, manifests, schema)))
    (folder / "metadata" / "version-hint.text").write_text("1")


def _write_rows(path: Path) -> None:
    fields = [
        pa.field(name, pa.int64() if kind == "long" else pa.string(), metadata={"PARQUET:field_id": str(number)})
        for number, (name, kind) in enumerate(_COLUMNS, 1)
    ]  # fmt: skip
    rows = pa.Table.from_arrays(
        [pa.array(range(len(WORDS)), pa.int64()), pa.array(WORDS)], schema=pa.schema(fields)
    )
    pq.write_table(rows, path)


def _metadata(folder: Path, manifests: Path, schema: dict[str, Any]) -> dict[str, Any]:
    snapshot = {
        "snapshot-id": _SNAPSHOT,
        "sequence-number": 1,
        "timestamp-ms": _TIME_MS,
        "summary": {"operation": "append"},
        "manifest-list": str(manifests),
        "schema-id": 0,
    }
    return {
        "format-version": 2,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": str(folder),
        "last-sequence-number": 1,
        "last-updated-ms": _TIME_MS,
        "last-column-id": len(_COLUMNS),
        "current-schema-id": 0,
        "schemas": [schema],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {},
        "current-snapshot-id": _SNAPSHOT,
        "snapshots": [snapshot],
        "snapshot-log": [{"snapshot-id": _SNAPSHOT, "timestamp-ms": _TIME_MS}],
        "refs": {"main": {"snapshot-id": _SNAPSHOT, "type": "branch"}},
    }


def _entry_schema() -> dict[str, Any]:
    data_file = _record(
        "r2",
        ("content", 134, "int"),
        ("file_path", 100, "string"),
        ("file_format", 101, "string"),
        ("partition", 102, _record("r102")),
        ("record_count", 103, "long"),
        ("file_size_in_bytes", 104, "long"),
    )
    return _record(
        "manifest_entry",
        ("status", 0, "int"),
        ("snapshot_id", 1, ["null", "long"]),
        ("sequence_number", 3, ["null", "long"]),
        ("file_sequence_number", 4, ["null", "long"]),
        ("data_file", 2, data_file),
    )


def _list_schema() -> dict[str, Any]:
    return _record(
        "manifest_file",
        ("manifest_path", 500, "string"),
        ("manifest_length", 501, "long"),
        ("partition_spec_id", 502, "int"),
        ("content", 517, "int"),
        ("sequence_number", 515, "long"),
        ("min_sequence_number", 516, "long"),
        ("added_snapshot_id", 503, "long"),
        ("added_files_count", 504, "int"),
        ("existing_files_count", 505, "int"),
        ("deleted_files_count", 506, "int"),
        ("added_rows_count", 512, "long"),
        ("existing_rows_count", 513, "long"),
        ("deleted_rows_count", 514, "long"),
    )


def _record(name: str, *fields: tuple[str, int, Any]) -> dict[str, Any]:
    listed = [{"name": field, "field-id": number, "type": kind} for field, number, kind in fields]
    return {"type": "record", "name": name, "fields": listed}


def _write_avro(path: Path, schema: dict[str, Any], record: dict[str, Any], about: dict[str, str]) -> None:
    with path.open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), [record], metadata=about)
