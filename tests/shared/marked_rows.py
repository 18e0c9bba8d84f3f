"""All rows of a declared table with their metadata columns, including deleted ones, in plain Python.

Row ids come from the manifests as fastavro reads them, by the spec. Uses no code of the product.
"""

from __future__ import annotations

import json
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro

import oracle
from declared.content import EqualityDelete

if TYPE_CHECKING:
    from declared.content import Content

FILE, POSITION, DELETED, SPEC_ID, PARTITION = (2147483647 - place for place in range(1, 6))
ROW_ID, LAST_UPDATED = 2147483540, 2147483539


def local(written: str, root: Path = Path("/")) -> Path:
    """Where a file of a declared table is; `root` is the folder served as its bucket, if it has one."""
    return root / urllib.parse.urlsplit(written).path.lstrip("/")


def avro_records(written: str, root: Path = Path("/")) -> list[dict[str, Any]]:
    with local(written, root).open("rb") as file:
        return list(fastavro.reader(file))


def metadata_of(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def snapshot_of(metadata: dict[str, Any], snapshot_id: int | None) -> dict[str, Any] | None:
    return next((s for s in metadata.get("snapshots", ()) if s["snapshot-id"] == snapshot_id), None)


def first_row_ids(
    metadata: dict[str, Any], snapshot_id: int | None, root: Path = Path("/")
) -> dict[str, int | None]:
    """The first row id of each live data file: its own, or counted up from its manifest's."""
    snapshot = snapshot_of(metadata, snapshot_id)
    found: dict[str, int | None] = {}
    for manifest in avro_records(snapshot["manifest-list"], root) if snapshot else ():
        if manifest.get("content"):
            continue
        following = manifest.get("first_row_id")
        for entry in avro_records(manifest["manifest_path"], root):
            if entry["status"] == 2:
                continue
            file = entry["data_file"]
            own = file.get("first_row_id")
            if own is None and following is not None:
                own, following = following, following + file["record_count"]
            found[file["file_path"]] = own
    return found


def marked_rows(content: Content, metadata: dict[str, Any], root: Path = Path("/")) -> list[dict[int, Any]]:
    """Every row by field id, including metadata columns and fields of `_partition` (by negative id)."""
    firsts = first_row_ids(metadata, content.snapshot_id, root)
    parts = {part.id for spec in content.specs.values() for part in spec}
    rows = []
    for file in content.data:
        positions = oracle._deleted_positions(content, file)
        equality = [
            d for d in content.deletes if isinstance(d, EqualityDelete) and oracle._in_scope(content, d, file)
        ]
        keys = [(d, {oracle._key(oracle._stored_key(content, d, row)) for row in d.rows}) for d in equality]
        own = {-p.id: v for p, v in zip(content.specs[file.spec_id], file.partition, strict=True)}
        partition = {-part: own.get(-part) for part in parts}
        first, resolve = firsts[file.path], oracle.resolver(content, file)
        for position, stored in enumerate(file.rows):
            row = resolve(stored)
            deleted = position in positions or any(
                oracle._key(tuple(row.get(i) for i in d.ids)) in known for d, known in keys
            )
            rows.append(
                {
                    **row,
                    **partition,
                    FILE: file.path,
                    POSITION: position,
                    DELETED: deleted,
                    SPEC_ID: file.spec_id,
                    PARTITION: partition or None,
                    ROW_ID: None if first is None else first + position,
                    LAST_UPDATED: None if first is None else file.sequence,
                }
            )
    return rows
