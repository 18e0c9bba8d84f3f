"""Every real table opens where it was copied to, and each of its live files is found there."""

from __future__ import annotations

import io
import json
import os
import pickle
from pathlib import Path
from typing import Any

import fastavro
import pytest

from twostage.catalog.load_table import load_table
from twostage.errors import ForbiddenLocationError, MissingFileError
from twostage.options import parse_options
from twostage.storage.files import canonical_for, exists, locate, read_all
from twostage.table.pinned import PinnedTable

ROOT = os.environ.get("TWOSTAGE_TABLES")
TABLES: list[dict[str, Any]] = json.loads(Path(ROOT, "tables.json").read_text()) if ROOT else []
INCOMPLETE = ("dremio/dac/metastore_table/", "materialized_view_expired_snapshots/source_table/")
"""Copies that lack manifests of their current snapshot."""
SCATTERED = (
    "partitioned_table_with_missing_spec/",
    "partitioned_table_with_multiple_spec/",
    "partitioned_table_with_void_transform/",
    "v_20240913/",
)
"""Copies whose files lie in a folder beside the table's."""

pytestmark = pytest.mark.skipif(not ROOT, reason="TWOSTAGE_TABLES names no folder")


def load(metadata: str, **options: str) -> PinnedTable:
    path = str(Path(ROOT or "", metadata))
    return load_table(parse_options({"path": path, "allow-moved-paths": "true", **options}))


def avro(table: PinnedTable, written_path: str) -> list[dict[str, Any]]:
    data = read_all(table.storage, locate(table.storage, written_path))
    return list(fastavro.reader(io.BytesIO(data)))  # type: ignore[arg-type]


def live_files(table: PinnedTable) -> list[str]:
    """Return the written paths of the snapshot's data and delete files, by fastavro alone."""
    snapshot = table.snapshot
    if snapshot is None:
        return []
    manifests = list(snapshot.manifests)
    if snapshot.manifest_list:
        manifests = [entry["manifest_path"] for entry in avro(table, snapshot.manifest_list)]
    entries = [entry for manifest in manifests for entry in avro(table, manifest)]
    return [entry["data_file"]["file_path"] for entry in entries if entry["status"] != 2]


@pytest.mark.parametrize("entry", TABLES, ids=lambda entry: entry["metadata"].partition("/metadata/")[0])
def test_every_live_file_is_found(entry: dict[str, Any]) -> None:
    metadata: str = entry["metadata"]
    table = load(metadata)
    assert table.metadata.format_version == entry["format_version"]
    assert table.metadata.location == entry["location"].rstrip("/")
    assert len(table.metadata.schemas) == entry["schemas"]
    assert pickle.loads(pickle.dumps(table)) == table
    if any(name in metadata for name in (*INCOMPLETE, *SCATTERED)):
        with pytest.raises(MissingFileError):
            live_files(table)
            [locate(table.storage, path) for path in live_files(table)]
        if any(name in metadata for name in INCOMPLETE):
            return
        beside = Path(ROOT or "", metadata).parents[2]
        table = load(metadata, **{"allowed-locations": str(beside)})
    files = live_files(table)
    found = [locate(table.storage, path) for path in files]
    assert all(exists(table.storage, path) for path in found)
    same = canonical_for(table.storage)
    assert len({same(path) for path in files}) == len(set(found))
    if entry["data_rows"]:
        assert files


@pytest.mark.parametrize("entry", TABLES[:10], ids=lambda entry: entry["metadata"].partition("/metadata/")[0])
def test_the_folder_alone_names_the_table(entry: dict[str, Any]) -> None:
    folder = entry["metadata"].partition("/metadata/")[0]
    assert load(folder).metadata.table_uuid == load(entry["metadata"]).metadata.table_uuid


def test_a_copied_remote_table_needs_the_option() -> None:
    entry = next(entry for entry in TABLES if entry["location"].startswith("s3") and entry["snapshots"])
    table = load_table(parse_options({"path": str(Path(ROOT or "", entry["metadata"]))}))
    assert table.snapshot is not None
    assert table.snapshot.manifest_list is not None
    with pytest.raises(ForbiddenLocationError, match="allow-moved-paths"):
        locate(table.storage, table.snapshot.manifest_list)
