"""Which manifests and data files cannot hold a matching row, and which hold only such.

Takes the predicate and what manifests say of partitions and columns; gives a verdict per manifest or file.
May keep too much; must never drop a file that holds a matching row. Everything goes through the one engine
of `prune.py`; only bucket numbers, which bound no value, are worked into the predicate instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twostage.errors import CorruptFileError, mask
from twostage.predicates.bounds import Bounds, decode_bound
from twostage.predicates.predicate import TRUE, Predicate, both, is_exact
from twostage.predicates.prune import Match, match
from twostage.schema import Primitive
from twostage.table.bucket_transform import bucket_of, narrow
from twostage.table.column_metrics import (
    as_stored,
    metrics_bounds,
)
from twostage.table.transforms import Transform, summary_bounds, tighter, value_bounds

if TYPE_CHECKING:
    from collections.abc import Callable

    from twostage.schema import Schema
    from twostage.table.manifest_entry import ContentFile, ManifestFile, PartitionSummary
    from twostage.table.metadata import PartitionField, PartitionSpec, TableMetadata
    from twostage.table.metadata_columns import FileColumns

_INT = Primitive("int")


@dataclass(frozen=True, slots=True)
class Verdict:
    """`pruned_by` is ``partition`` or ``bounds``, or None for a file to read.

    `all_match`: the predicate is true for every row, which needs no filtering then.
    """

    pruned_by: str | None
    all_match: bool = False


@dataclass(frozen=True, slots=True)
class _PartitionColumn:
    """A partition field whose source column the scan's schema has."""

    field: PartitionField
    place: int
    transform: Transform
    kind: Primitive
    was_int: bool


class FilePruner:
    """Judges manifests and files of one scan.

    Args:
        metadata: The table's.
        schema: The scan's schema: the types of the predicate's columns.
        predicate: What rows must meet; taken over from Spark.
        hint: What they must meet too, evaluated by Spark later.
        metadata_columns: What the scan uses of them.
    """

    def __init__(
        self,
        metadata: TableMetadata,
        schema: Schema,
        predicate: Predicate,
        hint: Predicate = TRUE,
        metadata_columns: FileColumns | None = None,
    ) -> None:
        self._schema = schema
        self._metadata_columns = metadata_columns
        self._predicate = predicate
        self._both = both(predicate, hint)
        self._is_exact = is_exact(predicate)
        self._columns = {
            spec_id: _partition_columns(spec, schema, metadata) for spec_id, spec in metadata.specs.items()
        }
        self._narrowed: dict[Any, tuple[Predicate, Predicate]] = {}
        self._buckets: dict[Any, int | None] = {}

    def manifest_may_match(self, manifest: ManifestFile) -> bool:
        """Return False only if no file of the manifest can hold a matching row, by its partitions alone."""
        columns = self._columns.get(-1 if manifest.spec_id is None else manifest.spec_id, ())
        if self._both == TRUE or not columns or not manifest.partitions:
            return True
        known: dict[int, Bounds | None] = {}
        predicate = self._both
        for column in columns:
            if column.place >= len(manifest.partitions):
                continue
            summary = manifest.partitions[column.place]
            bounds = summary_bounds(column.transform, column.kind, summary, was_int=column.was_int)
            bounds = as_stored(column.kind, bounds)  # what formats its files have is not known yet
            source = column.field.source_id
            known[source] = tighter(column.kind, known.get(source), bounds)
            if column.transform.name == "bucket":
                predicate = self._narrow_to_range(predicate, column, summary)
        return match(predicate, known.get) is not Match.NONE

    def judge(self, file: ContentFile) -> Verdict:
        """Return what is known of a data file."""
        if self._both == TRUE:  # a file that is said to be empty is read, as Iceberg does: it may not be
            return Verdict(None, all_match=True)
        if file.record_count == 0:
            return Verdict("bounds")
        columns = self._columns[file.spec_id]
        combined, predicate = self._narrow(file, columns)
        by_partition = _bounds_by_partition(columns, file)
        if columns and match(combined, by_partition.get, file.num_rows) is Match.NONE:
            return Verdict("partition")
        bounds_of = self._bounds_of(file, by_partition)
        if match(combined, bounds_of, file.num_rows) is Match.NONE:
            return Verdict("bounds")
        proven = self._is_exact and match(predicate, bounds_of, file.num_rows) is Match.ALL
        return Verdict(None, all_match=proven)

    def bounds(self, file: ContentFile, field_id: int) -> Bounds | None:
        """Return what is known of a column in a data file."""
        return self._bounds_of(file, _bounds_by_partition(self._columns[file.spec_id], file))(field_id)

    def _bounds_of(
        self, file: ContentFile, by_partition: dict[int, Bounds | None]
    ) -> Callable[[int], Bounds | None]:
        known: dict[int, Bounds | None] = {}

        def bounds_of(field_id: int) -> Bounds | None:
            if field_id not in known:
                kind = self._schema.field(field_id).type if field_id in self._schema else None
                if self._metadata_columns is not None and self._metadata_columns.owns(field_id):
                    known[field_id] = self._metadata_columns.bounds(file, field_id)
                elif isinstance(kind, Primitive):
                    partition = by_partition.get(field_id)
                    known[field_id] = tighter(kind, partition, metrics_bounds(kind, file, field_id))
                else:
                    known[field_id] = None
            return known[field_id]

        return bounds_of

    def _narrow(
        self, file: ContentFile, columns: tuple[_PartitionColumn, ...]
    ) -> tuple[Predicate, Predicate]:
        """Return both predicates as the file's buckets leave them."""
        buckets = tuple(
            (column, file.partition.get(column.field.field_id))
            for column in columns
            if column.transform.name == "bucket"
        )
        if not buckets:
            return self._both, self._predicate
        key = (file.spec_id, tuple(number for _, number in buckets))
        if key not in self._narrowed:
            combined, predicate = self._both, self._predicate
            for column, number in buckets:
                if isinstance(number, int):
                    decide = self._decide(column.transform.width, number, number)
                    combined = narrow(combined, column.field.source_id, decide)
                    predicate = narrow(predicate, column.field.source_id, decide)
            self._narrowed[key] = combined, predicate
        return self._narrowed[key]

    def _narrow_to_range(
        self, predicate: Predicate, column: _PartitionColumn, summary: PartitionSummary
    ) -> Predicate:
        """Return the predicate as a manifest's buckets leave it.

        With NULLs in the manifest a leaf that becomes FALSE may be NULL for some rows; both are not TRUE,
        and under NOT this only keeps more.
        """
        lowest = None if summary.lower is None else decode_bound(_INT, summary.lower)
        highest = None if summary.upper is None else decode_bound(_INT, summary.upper)
        if lowest is None or highest is None:
            return predicate
        decide = self._decide(column.transform.width, lowest, highest)
        return narrow(predicate, column.field.source_id, decide)

    def _decide(self, width: int, lowest: int, highest: int) -> Callable[[Primitive, Any], bool | None]:
        def decide(kind: Primitive, value: Any) -> bool | None:
            key = (kind, value, width)
            if key not in self._buckets:
                self._buckets[key] = bucket_of(kind, value, width)
            number = self._buckets[key]
            return None if number is None else lowest <= number <= highest

        return decide


def _bounds_by_partition(
    columns: tuple[_PartitionColumn, ...], file: ContentFile
) -> dict[int, Bounds | None]:
    """Return what a file's partition tells of the columns that it was made from."""
    known: dict[int, Bounds | None] = {}
    for column in columns:
        if column.field.field_id in file.partition:
            source = column.field.source_id
            known[source] = tighter(column.kind, known.get(source), _bounds_of_value(column, file))
    return known


def _bounds_of_value(column: _PartitionColumn, file: ContentFile) -> Bounds | None:
    value = file.partition[column.field.field_id]
    try:
        known = value_bounds(column.transform, column.kind, value, file.num_rows, was_int=column.was_int)
        return as_stored(column.kind, known) if file.format == "orc" else known
    except CorruptFileError as error:
        error.path = mask(file.path)
        raise


def _partition_columns(
    spec: PartitionSpec, schema: Schema, metadata: TableMetadata
) -> tuple[_PartitionColumn, ...]:
    found = []
    for place, field in enumerate(spec.fields):
        transform = Transform.of(field)
        kind = schema.field(field.source_id).type if field.source_id in schema else None
        if transform.keeps_null and isinstance(kind, Primitive):
            found.append(_PartitionColumn(field, place, transform, kind, _was_int(metadata, field.source_id)))
    return tuple(found)


def _was_int(metadata: TableMetadata, field_id: int) -> bool:
    return any(
        field_id in schema and schema.field(field_id).type == _INT for schema in metadata.schemas.values()
    )
