"""The metadata tables about manifests: manifests and all_manifests.

Takes a pinned table; returns metadata tables whose items are entries of manifest lists (`ManifestFile`).
Counts and the partition spec, which version 1 may leave out of the list, are then taken from the manifest
itself.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from twostage.metadata_tables.human import human
from twostage.metadata_tables.table import (
    BINARY,
    BOOLEAN,
    INT,
    LONG,
    STRING,
    MetadataTable,
    TableColumn,
    column,
    list_of,
    struct_of,
)
from twostage.predicates.bounds import decode_bound
from twostage.schema import Primitive
from twostage.table.manifest import read_manifest, read_manifest_list
from twostage.table.manifest_entry import ADDED, DELETED
from twostage.table.transforms import Transform

if TYPE_CHECKING:
    from collections.abc import Callable

    from twostage.table.manifest_entry import ManifestFile, PartitionSummary
    from twostage.table.metadata import PartitionField, TableMetadata
    from twostage.table.pinned import PinnedTable

_EXISTING = 0
_SUMMARY_IDS = 20_000
_KINDS = (("added", ADDED), ("existing", _EXISTING), ("deleted", DELETED))


def manifests_table(table: PinnedTable) -> MetadataTable:
    """Return ``manifests``, those of the pinned snapshot."""

    def load() -> list[ManifestFile]:
        return [] if table.snapshot is None else list(read_manifest_list(table.storage, table.snapshot))

    return MetadataTable.of(_manifest_columns(table, lambda item: item), load)


def all_manifests_table(table: PinnedTable) -> MetadataTable:
    """Return ``all_manifests``: those of every snapshot, once for each snapshot that refers to them."""

    def load() -> list[tuple[int, ManifestFile]]:
        return [
            (snapshot.snapshot_id, manifest)
            for snapshot in table.metadata.snapshots.values()
            for manifest in read_manifest_list(table.storage, snapshot)
        ]

    columns = (
        *_manifest_columns(table, lambda item: item[1]),
        column("reference_snapshot_id", LONG, lambda item: item[0], required=True),
        column("key_metadata", BINARY, lambda item: item[1].key_metadata),
    )
    return MetadataTable.of(columns, load)


def _manifest_columns(
    table: PinnedTable, manifest_of: Callable[[Any], ManifestFile]
) -> tuple[TableColumn, ...]:
    counts = _Counts(table)

    def count(status: str, *, deletes: bool) -> Callable[[Any], int]:
        def read(item: Any) -> int:
            manifest = manifest_of(item)
            return counts.of(manifest, status) if manifest.is_deletes == deletes else 0

        return read

    summaries, read_summaries = _summaries(table.metadata)
    return (
        column("content", INT, lambda item: int(manifest_of(item).is_deletes), required=True),
        column("path", STRING, lambda item: manifest_of(item).path, required=True),
        column("length", LONG, lambda item: manifest_of(item).length),
        column("partition_spec_id", INT, lambda item: counts.spec_id(manifest_of(item))),
        column("added_snapshot_id", LONG, lambda item: manifest_of(item).snapshot_id),
        *(
            column(
                f"{status}_{content}_files_count",
                INT,
                count(status, deletes=content == "delete"),
                required=True,
            )
            for content in ("data", "delete")
            for status, _ in _KINDS
        ),
        column(
            "partition_summaries", summaries, lambda item: read_summaries(manifest_of(item)), required=True
        ),
    )


class _Counts:
    """Counts and specs of manifests; a manifest whose counts the list lacks is read, once."""

    def __init__(self, table: PinnedTable) -> None:
        self._table = table
        self._read: dict[str, tuple[int, Counter[int]]] = {}

    def of(self, manifest: ManifestFile, status: str) -> int:
        """Return the number of entries of a status: ``added``, ``existing`` or ``deleted``."""
        listed = getattr(manifest, f"{status}_files")
        return int(listed) if listed is not None else self._entries(manifest)[1][dict(_KINDS)[status]]

    def spec_id(self, manifest: ManifestFile) -> int:
        """Return the id of the manifest's partition spec."""
        return self._entries(manifest)[0] if manifest.spec_id is None else manifest.spec_id

    def _entries(self, manifest: ManifestFile) -> tuple[int, Counter[int]]:
        if manifest.path not in self._read:
            specs = self._table.metadata.specs
            entries = read_manifest(self._table.storage, manifest, specs, deleted=True)
            spec_id = entries[0].spec_id if entries else min(specs)
            self._read[manifest.path] = spec_id, Counter(entry.status for entry in entries)
        return self._read[manifest.path]


def _summaries(metadata: TableMetadata) -> tuple[Any, Callable[[ManifestFile], list[Any]]]:
    kind, read = struct_of(
        (
            column("contains_null", BOOLEAN, lambda item: item[1].contains_null, required=True),
            column("contains_nan", BOOLEAN, lambda item: item[1].contains_nan),
            column("lower_bound", STRING, lambda item: _shown(metadata, item[0], item[1].lower)),
            column("upper_bound", STRING, lambda item: _shown(metadata, item[0], item[1].upper)),
        ),
        first_id=_SUMMARY_IDS,
    )

    def read_all(manifest: ManifestFile) -> list[Any]:
        fields = () if manifest.spec_id is None else metadata.specs[manifest.spec_id].fields
        known: list[tuple[PartitionField, PartitionSummary]] = list(
            zip(fields, manifest.partitions, strict=False)
        )
        return [read(item) for item in known]

    return list_of(kind), read_all


def _shown(metadata: TableMetadata, field: PartitionField, raw: bytes | None) -> str | None:
    """Return a bound as Iceberg shows it; NULL if it cannot be decoded."""
    transform = Transform.of(field)
    if raw is None or transform.name == "void":
        return "null"
    source = metadata.schema.field(field.source_id).type if field.source_id in metadata.schema else None
    kind = transform.result_type(source) if isinstance(source, Primitive) else None
    value = None if kind is None else decode_bound(kind, raw)
    return None if kind is None or value is None else human(transform, kind, value)
