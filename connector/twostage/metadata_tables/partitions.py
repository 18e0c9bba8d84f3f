"""The metadata table partitions: files, rows and sizes of each partition.

Takes a pinned table; returns a metadata table with one item for each partition of its live files. Partitions
of different specs with equal values are one if the specs have equally many of the fields, as in Iceberg: a
NULL that a file was written with differs from a field that its spec lacks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twostage.metadata_tables.files import entries_of, manifests_of
from twostage.metadata_tables.table import INT, LONG, TIMESTAMPTZ, MetadataTable, column
from twostage.table.manifest_entry import DATA, EQUALITY_DELETES
from twostage.table.partition_values import partition_type, partition_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.table.manifest_entry import ContentFile
    from twostage.table.metadata import Snapshot
    from twostage.table.pinned import PinnedTable


@dataclass(slots=True)
class _Partition:
    """Sums over the files of one partition; sizes are in bytes."""

    values: Mapping[int, Any]
    spec_id: int
    records: int = 0
    files: int = 0
    size: int = 0
    position_records: int = 0
    position_files: int = 0
    equality_records: int = 0
    equality_files: int = 0
    updated: Snapshot | None = None

    def add(self, file: ContentFile, snapshot: Snapshot | None) -> None:
        """Count one file."""
        if snapshot is not None and (
            self.updated is None or snapshot.timestamp_ms > self.updated.timestamp_ms
        ):
            self.updated, self.spec_id = snapshot, file.spec_id
        if file.content == DATA:
            self.records += file.record_count
            self.files += 1
            self.size += file.file_size
        elif file.content == EQUALITY_DELETES:
            self.equality_records += file.record_count
            self.equality_files += 1
        else:
            self.position_records += file.record_count
            self.position_files += 1


def partitions_table(table: PinnedTable) -> MetadataTable:
    """Return ``partitions``; for an unpartitioned table one row, without the columns ``partition`` and ``spec_id``."""
    struct = partition_type(table.metadata)

    def load() -> list[_Partition]:
        found: dict[tuple[int, str], _Partition] = {}
        fields = {-field.id for field in struct.fields}
        counts = {
            spec_id: len(fields & {field.field_id for field in spec.fields})
            for spec_id, spec in table.metadata.specs.items()
        }
        for file in entries_of(table, manifests_of(table, "partitions"), deleted=False):
            values = partition_values(struct, file)
            # Compared as text: NaN equals itself, and -0.0 differs from 0.0.
            partition = found.setdefault(
                (counts[file.spec_id], repr(values)), _Partition(values, file.spec_id)
            )
            snapshot = None if file.snapshot_id is None else table.metadata.snapshots.get(file.snapshot_id)
            partition.add(file, snapshot)
        return list(found.values())

    keys = (
        column("partition", struct, lambda item: item.values, required=True),
        column("spec_id", INT, lambda item: item.spec_id, required=True),
    )
    return MetadataTable.of(
        (
            *(keys if struct.fields else ()),
            column("record_count", LONG, lambda item: item.records, required=True),
            column("file_count", INT, lambda item: item.files, required=True),
            column("total_data_file_size_in_bytes", LONG, lambda item: item.size, required=True),
            column("position_delete_record_count", LONG, lambda item: item.position_records, required=True),
            column("position_delete_file_count", INT, lambda item: item.position_files, required=True),
            column("equality_delete_record_count", LONG, lambda item: item.equality_records, required=True),
            column("equality_delete_file_count", INT, lambda item: item.equality_files, required=True),
            column("last_updated_at", TIMESTAMPTZ, lambda item: _moment(item.updated)),
            column("last_updated_snapshot_id", LONG, lambda item: item.updated and item.updated.snapshot_id),
        ),
        load,
    )


def _moment(snapshot: Snapshot | None) -> int | None:
    return None if snapshot is None else snapshot.timestamp_ms * 1000
