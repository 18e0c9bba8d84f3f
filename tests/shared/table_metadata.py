"""The metadata of a small table with four snapshots, two schemas, a branch and tags; and the file that holds it."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def field(number: int, name: str) -> dict[str, Any]:
    return {"id": number, "name": name, "type": "long", "required": False}


def table_metadata(location: str, **changes: Any) -> dict[str, Any]:
    """Return metadata with four snapshots: 11, 12 and 13 on main, 21 on branch ``audit``.

    Schema 0 (column a) wrote 11 and 12, schema 1 (a, b) the others and is the current one.
    """
    snapshots = [
        (11, None, 1_000, 0),
        (12, 11, 2_000, 0),
        (13, 12, 3_000, 1),
        (21, 12, 2_500, 0),
    ]
    return {
        "format-version": 2,
        "table-uuid": "f79c3e09-677c-4bbd-a479-3f349cb785e7",
        "location": location,
        "last-sequence-number": 4,
        "last-updated-ms": 3_000,
        "last-column-id": 2,
        "schemas": [
            {"type": "struct", "schema-id": 0, "fields": [field(1, "a")]},
            {"type": "struct", "schema-id": 1, "fields": [field(1, "a"), field(2, "b")]},
        ],
        "current-schema-id": 1,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {},
        "current-snapshot-id": 13,
        "snapshots": [
            {
                "snapshot-id": number,
                **({"parent-snapshot-id": above} if above else {}),
                "sequence-number": place + 1,
                "timestamp-ms": moment,
                "manifest-list": f"{location}/metadata/snap-{number}.avro",
                "summary": {"operation": "append"},
                "schema-id": schema,
            }
            for place, (number, above, moment, schema) in enumerate(snapshots)
        ],
        "snapshot-log": [
            {"timestamp-ms": moment, "snapshot-id": number} for number, _, moment, _ in snapshots[:3]
        ],
        "metadata-log": [],
        "refs": {
            "main": {"snapshot-id": 13, "type": "branch"},
            "audit": {"snapshot-id": 21, "type": "branch"},
            "v1": {"snapshot-id": 11, "type": "tag"},
            "2024": {"snapshot-id": 12, "type": "tag"},
        },
        **changes,
    }


def write_metadata(folder: Path, name: str = "v1.metadata.json", **changes: Any) -> Path:
    """Write one metadata file of a table in this folder; return its path."""
    target = folder / "metadata" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    data = json.dumps(table_metadata(changes.pop("location", str(folder)), **changes)).encode()
    target.write_bytes(gzip.compress(data) if "gz" in name else data)
    return target
