"""The metadata tables about files: files, data_files, delete_files, entries, and the all_… form of each.

Takes a pinned table; returns metadata tables whose items are manifest entries (`ContentFile`). Those without
``all_`` read the manifests of the pinned snapshot, the others those of every snapshot, each manifest once.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from twostage.metadata_tables.table import (
    BINARY,
    INT,
    LONG,
    STRING,
    MetadataTable,
    TableColumn,
    column,
    list_of,
    map_of,
    pairs,
    struct_of,
)
from twostage.predicates.bounds import decode_bound
from twostage.schema import Primitive
from twostage.table.manifest import read_manifest_list, read_manifests
from twostage.table.partition_values import partition_type, partition_values

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from twostage.schema import Schema
    from twostage.table.manifest_entry import ContentFile, ManifestFile
    from twostage.table.pinned import PinnedTable

_DATA_FILE_IDS, _COLUMNS_IDS, _METRICS_IDS = 20_000, 100_000, 1_000_000
_NOT_SHOWN = frozenset(("timestamp_ns", "timestamptz_ns", "variant", "geometry", "geography", "unknown"))
"""Types whose bounds stay bytes, because Spark has no type for them."""


def files_table(table: PinnedTable, name: str) -> MetadataTable:
    """Return ``files``, ``data_files`` or ``delete_files``, or its ``all_…`` form."""
    wanted = {"data_files": (False,), "delete_files": (True,)}.get(name.removeprefix("all_"), (False, True))

    def load() -> list[ContentFile]:
        manifests = [one for one in manifests_of(table, name) if one.is_deletes in wanted]
        return entries_of(table, manifests, deleted=False)

    return MetadataTable.of((*_file_columns(table), _readable_metrics(table.metadata.schema)), load)


def entries_table(table: PinnedTable, name: str) -> MetadataTable:
    """Return ``entries`` or ``all_entries``, which include entries that record the removal of a file."""
    kind, read = struct_of(_file_columns(table), first_id=_DATA_FILE_IDS)
    columns = (
        column("status", INT, lambda item: item.status, required=True),
        column("snapshot_id", LONG, lambda item: item.snapshot_id),
        column("sequence_number", LONG, lambda item: item.sequence_number),
        column("file_sequence_number", LONG, lambda item: item.file_sequence_number),
        column("data_file", kind, read, required=True),
        _readable_metrics(table.metadata.schema),
    )
    return MetadataTable.of(columns, lambda: entries_of(table, manifests_of(table, name), deleted=True))


def manifests_of(table: PinnedTable, name: str) -> list[ManifestFile]:
    """Return the manifests of the pinned snapshot, or, for a name with ``all_``, those of all snapshots, each once."""
    pinned = () if table.snapshot is None else (table.snapshot,)
    snapshots = table.metadata.snapshots.values() if name.startswith("all_") else pinned
    found = {
        manifest.path: manifest
        for snapshot in snapshots
        for manifest in read_manifest_list(table.storage, snapshot)
    }
    return list(found.values())


def entries_of(table: PinnedTable, manifests: Sequence[ManifestFile], *, deleted: bool) -> list[ContentFile]:
    """Return the live entries of manifests; with `deleted` also those that record the removal of a file."""
    read = read_manifests(table.storage, manifests, table.metadata.specs, deleted=deleted)
    return list(itertools.chain.from_iterable(read))


def partition_column(table: PinnedTable) -> tuple[TableColumn, ...]:
    """Return the column ``partition``; no column for a table that was never partitioned, as in Iceberg."""
    struct = partition_type(table.metadata)
    if not struct.fields:
        return ()
    return (column("partition", struct, lambda item: partition_values(struct, item), required=True),)


def _file_columns(table: PinnedTable) -> tuple[TableColumn, ...]:
    return (
        column("content", INT, lambda item: item.content),
        column("file_path", STRING, lambda item: item.path, required=True),
        column("file_format", STRING, lambda item: item.format.upper(), required=True),
        column("spec_id", INT, lambda item: item.spec_id),
        *partition_column(table),
        column("record_count", LONG, lambda item: item.record_count, required=True),
        column("file_size_in_bytes", LONG, lambda item: item.file_size, required=True),
        column("column_sizes", map_of(INT, LONG), lambda item: pairs(item.column_sizes)),
        column("value_counts", map_of(INT, LONG), lambda item: pairs(item.value_counts)),
        column("null_value_counts", map_of(INT, LONG), lambda item: pairs(item.null_counts)),
        column("nan_value_counts", map_of(INT, LONG), lambda item: pairs(item.nan_counts)),
        column("lower_bounds", map_of(INT, BINARY), lambda item: pairs(item.lower_bounds)),
        column("upper_bounds", map_of(INT, BINARY), lambda item: pairs(item.upper_bounds)),
        column("key_metadata", BINARY, lambda item: item.key_metadata),
        column("split_offsets", list_of(LONG), lambda item: item.split_offsets or None),
        column("equality_ids", list_of(INT), lambda item: item.equality_ids or None),
        column("sort_order_id", INT, lambda item: item.sort_order_id),
        column("first_row_id", LONG, lambda item: item.first_row_id),
        column("referenced_data_file", STRING, lambda item: item.referenced_data_file),
        column("content_offset", LONG, lambda item: item.content_offset),
        column("content_size_in_bytes", LONG, lambda item: item.content_size),
    )


def _readable_metrics(schema: Schema) -> TableColumn:
    """Return the column ``readable_metrics``: by column name, in their order, the metrics with bounds decoded."""
    leaves = {
        ".".join(schema.path(field_id)): (field_id, kind)
        for field_id in schema.field_ids()
        # A variant is not among them: to Iceberg it is a nested type.
        if isinstance(kind := schema.field(field_id).type, Primitive) and kind.name != "variant"
    }
    columns = []
    for place, name in enumerate(sorted(leaves)):
        kind, read = struct_of(_metrics_of(*leaves[name]), first_id=_METRICS_IDS + 10 * place)
        columns.append(column(name, kind, read))
    kind, read = struct_of(columns, first_id=_COLUMNS_IDS)
    return column("readable_metrics", kind, read)


def _metrics_of(field_id: int, kind: Primitive) -> tuple[TableColumn, ...]:
    shown = BINARY if kind.name in _NOT_SHOWN else kind

    def bound(name: str) -> Callable[[Any], Any]:
        def read(item: ContentFile) -> Any:
            raw = getattr(item, name).get(field_id)
            return raw if raw is None or shown is not kind else decode_bound(kind, raw)

        return read

    return (
        column("column_size", LONG, lambda item: item.column_sizes.get(field_id)),
        column("value_count", LONG, lambda item: item.value_counts.get(field_id)),
        column("null_value_count", LONG, lambda item: item.null_counts.get(field_id)),
        column("nan_value_count", LONG, lambda item: item.nan_counts.get(field_id)),
        column("lower_bound", shown, bound("lower_bounds")),
        column("upper_bound", shown, bound("upper_bounds")),
    )
