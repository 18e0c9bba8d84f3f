"""The metadata tables about the table's history: snapshots, history, refs, metadata_log_entries.

Takes a pinned table; returns metadata tables whose items the table's metadata file already holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twostage.metadata_tables.table import (
    BOOLEAN,
    INT,
    LONG,
    STRING,
    TIMESTAMPTZ,
    MetadataTable,
    column,
    map_of,
)

if TYPE_CHECKING:
    from twostage.table.metadata import Snapshot, TableMetadata
    from twostage.table.pinned import PinnedTable

_OPERATION = "operation"


def snapshots_table(table: PinnedTable) -> MetadataTable:
    """Return ``snapshots``."""

    def summary(snapshot: Snapshot) -> list[tuple[str, str]] | None:
        return [(key, value) for key, value in snapshot.summary.items() if key != _OPERATION] or None

    return MetadataTable.of(
        (
            column("committed_at", TIMESTAMPTZ, lambda item: item.timestamp_ms * 1000, required=True),
            column("snapshot_id", LONG, lambda item: item.snapshot_id, required=True),
            column("parent_id", LONG, lambda item: item.parent_id),
            column("operation", STRING, lambda item: item.summary.get(_OPERATION)),
            column("manifest_list", STRING, lambda item: item.manifest_list),
            column("summary", map_of(STRING, STRING), summary),
        ),
        lambda: tuple(table.metadata.snapshots.values()),
    )


def history_table(table: PinnedTable) -> MetadataTable:
    """Return ``history``: which snapshot became current when, and whether it is an ancestor of the current one."""
    metadata = table.metadata
    ancestors: set[int] = set()
    snapshot = metadata.current_snapshot
    while snapshot is not None and snapshot.snapshot_id not in ancestors:
        ancestors.add(snapshot.snapshot_id)
        snapshot = None if snapshot.parent_id is None else metadata.snapshots.get(snapshot.parent_id)

    def parent(item: tuple[int, int]) -> int | None:
        found = metadata.snapshots.get(item[1])  # expired snapshots stay in the log
        return None if found is None else found.parent_id

    return MetadataTable.of(
        (
            column("made_current_at", TIMESTAMPTZ, lambda item: item[0] * 1000, required=True),
            column("snapshot_id", LONG, lambda item: item[1], required=True),
            column("parent_id", LONG, parent),
            column("is_current_ancestor", BOOLEAN, lambda item: item[1] in ancestors, required=True),
        ),
        lambda: metadata.snapshot_log,
    )


def refs_table(table: PinnedTable) -> MetadataTable:
    """Return ``refs``, the branches and tags."""
    return MetadataTable.of(
        (
            column("name", STRING, lambda item: item[0], required=True),
            column("type", STRING, lambda item: item[1].kind.upper(), required=True),
            column("snapshot_id", LONG, lambda item: item[1].snapshot_id, required=True),
            column("max_reference_age_in_ms", LONG, lambda item: item[1].max_reference_age_ms),
            column("min_snapshots_to_keep", INT, lambda item: item[1].min_snapshots_to_keep),
            column("max_snapshot_age_in_ms", LONG, lambda item: item[1].max_snapshot_age_ms),
        ),
        lambda: tuple(table.metadata.refs.items()),
    )


def metadata_log_table(table: PinnedTable) -> MetadataTable:
    """Return ``metadata_log_entries``: the metadata files, the current one last, and the snapshot current at each."""
    metadata = table.metadata
    current = (metadata.last_updated_ms or 0, metadata.metadata_location)

    def latest(item: tuple[int, str]) -> Snapshot | None:
        return _snapshot_at(metadata, item[0])

    return MetadataTable.of(
        (
            column("timestamp", TIMESTAMPTZ, lambda item: item[0] * 1000, required=True),
            column("file", STRING, lambda item: item[1], required=True),
            column("latest_snapshot_id", LONG, lambda item: _snapshot_id_at(metadata, item[0])),
            column("latest_schema_id", INT, lambda item: (s := latest(item)) and s.schema_id),
            column("latest_sequence_number", LONG, lambda item: (s := latest(item)) and s.sequence_number),
        ),
        lambda: (*metadata.metadata_log, current),
    )


def _snapshot_id_at(metadata: TableMetadata, milliseconds: int) -> int | None:
    """Return the snapshot that was current at a time (milliseconds since 1970)."""
    return next((i for moment, i in reversed(metadata.snapshot_log) if moment <= milliseconds), None)


def _snapshot_at(metadata: TableMetadata, milliseconds: int) -> Snapshot | None:
    snapshot_id = _snapshot_id_at(metadata, milliseconds)
    return None if snapshot_id is None else metadata.snapshots.get(snapshot_id)
