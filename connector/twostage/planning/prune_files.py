"""Prune manifests and data files by partitions and column bounds.

Takes the predicate, and partition summaries, partition values and column metrics from manifests; tells whether a
manifest or file may contain a matching row, and whether all rows of a file match. It may keep too much, and must never
prune a file that contains a matching row. All proofs are `predicates/prune.py`'s; bucket numbers, which do
not bound values, are substituted into the predicate first (`table/bucket_transform.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from twostage.errors import CorruptFileError, mask
from twostage.predicates.bounds import Bounds, decode_bound
from twostage.predicates.key_set import numbers_of
from twostage.predicates.predicate import TRUE, Predicate, both, is_exact
from twostage.predicates.prune import Match, match
from twostage.schema import Primitive
from twostage.table.bucket_transform import bucket_of, buckets_of, narrow
from twostage.table.column_metrics import (
    as_stored,
    metrics_bounds,
)
from twostage.table.transforms import Transform, summary_bounds, tighter, value_bounds

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from twostage.predicates.predicate import JoinKeySet
    from twostage.schema import Schema
    from twostage.table.manifest_entry import ContentFile, ManifestFile, PartitionSummary
    from twostage.table.metadata import PartitionField, PartitionSpec, TableMetadata
    from twostage.table.metadata_columns import MetadataColumnValues

_INT = Primitive("int")


@dataclass(frozen=True, slots=True)
class PruneResult:
    """The result of pruning a data file.

    Attributes:
        pruned_by: ``partition`` or ``bounds`` if no row matches; None for a file to read.
        all_match: The predicate is true for every row, so the file needs no filtering.
    """

    pruned_by: str | None
    all_match: bool = False


@dataclass(frozen=True, slots=True)
class _PartitionColumn:
    """A partition field whose source column is in the scan's schema.

    `place` is its index in the spec, `kind` the source column's type in the scan's schema, and `was_int` whether that
    column was an int in an earlier schema: see `transforms.value_bounds`.
    """

    field: PartitionField
    place: int
    transform: Transform
    kind: Primitive
    was_int: bool


class FilePruner:
    """Prunes the manifests and files of one scan.

    Args:
        metadata: The table's metadata.
        schema: The scan's schema, with the types of the predicate's columns.
        predicate: The predicate that we evaluate.
        hint: Implied by the predicates that Spark evaluates later.
        file_columns: The metadata columns that the scan uses, such as ``_file``.
    """

    def __init__(
        self,
        metadata: TableMetadata,
        schema: Schema,
        predicate: Predicate,
        hint: Predicate = TRUE,
        file_columns: MetadataColumnValues | None = None,
    ) -> None:
        self._schema = schema
        self._file_columns = file_columns
        self._predicate = predicate
        self._both = both(predicate, hint)
        self._is_exact = is_exact(predicate)
        self._columns = {
            spec_id: _partition_columns(spec, schema, metadata) for spec_id, spec in metadata.specs.items()
        }
        self._narrowed: dict[Any, tuple[Predicate, Predicate]] = {}
        self._buckets: dict[Any, int | None] = {}
        self._held: dict[tuple[JoinKeySet, int], NDArray[np.uint32]] = {}

    def manifest_may_match(self, manifest: ManifestFile) -> bool:
        """Return False only if the partition summaries prove that no file of the manifest has a matching row."""
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
            bounds = as_stored(column.kind, bounds)  # its files may be ORC
            source = column.field.source_id
            known[source] = tighter(column.kind, known.get(source), bounds)
            if column.transform.name == "bucket":
                predicate = self._narrow_to_range(predicate, column, summary)
        return match(predicate, known.get) is not Match.NONE

    def prune(self, file: ContentFile) -> PruneResult:
        """Prune a data file by its partition values, then also by its column bounds."""
        if self._both == TRUE:  # an unfiltered scan reads files with a record count of 0, as Iceberg does
            return PruneResult(None, all_match=True)
        if file.record_count == 0:
            return PruneResult("bounds")
        columns = self._columns[file.spec_id]
        combined, predicate = self._narrow(file, columns)
        by_partition = _bounds_by_partition(columns, file)
        if columns and match(combined, by_partition.get, file.num_rows) is Match.NONE:
            return PruneResult("partition")
        bounds_of = self._bounds_of(file, by_partition)
        if match(combined, bounds_of, file.num_rows) is Match.NONE:
            return PruneResult("bounds")
        proven = self._is_exact and match(predicate, bounds_of, file.num_rows) is Match.ALL
        return PruneResult(None, all_match=proven)

    def bounds(self, file: ContentFile, field_id: int) -> Bounds | None:
        """Return the bounds of a column in a data file; None if nothing is known."""
        return self._bounds_of(file, _bounds_by_partition(self._columns[file.spec_id], file))(field_id)

    def _bounds_of(
        self, file: ContentFile, by_partition: dict[int, Bounds | None]
    ) -> Callable[[int], Bounds | None]:
        known: dict[int, Bounds | None] = {}

        def bounds_of(field_id: int) -> Bounds | None:
            if field_id not in known:
                kind = self._schema.field(field_id).type if field_id in self._schema else None
                if self._file_columns is not None and self._file_columns.owns(field_id):
                    known[field_id] = self._file_columns.bounds(file, field_id)
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
        """Return predicate AND hint, and the predicate, replacing the leaves that the file's buckets decide."""
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
                    holds = self._holds_any(column.transform.width, number, number)
                    combined = narrow(combined, column.field.source_id, decide, holds)
                    predicate = narrow(predicate, column.field.source_id, decide, holds)
            self._narrowed[key] = combined, predicate
        return self._narrowed[key]

    def _narrow_to_range(
        self, predicate: Predicate, column: _PartitionColumn, summary: PartitionSummary
    ) -> Predicate:
        """Return the predicate, replacing the leaves that a manifest's range of buckets decides.

        If the manifest has NULLs, a leaf replaced by FALSE may be NULL for some rows. Neither is TRUE, and under a NOT
        FALSE keeps more than NULL.
        """
        lowest = None if summary.lower is None else decode_bound(_INT, summary.lower)
        highest = None if summary.upper is None else decode_bound(_INT, summary.upper)
        if lowest is None or highest is None:
            return predicate
        decide = self._decide(column.transform.width, lowest, highest)
        holds = self._holds_any(column.transform.width, lowest, highest)
        return narrow(predicate, column.field.source_id, decide, holds)

    def _decide(self, width: int, lowest: int, highest: int) -> Callable[[Primitive, Any], bool | None]:
        def decide(kind: Primitive, value: Any) -> bool | None:
            key = (kind, value, width)
            if key not in self._buckets:
                self._buckets[key] = bucket_of(kind, value, width)
            number = self._buckets[key]
            return None if number is None else lowest <= number <= highest

        return decide

    def _holds_any(self, width: int, lowest: int, highest: int) -> Callable[[JoinKeySet], bool]:
        def holds_any(keys: JoinKeySet) -> bool:
            known = self._held.get((keys, width))
            if known is None:  # 2 ms for 100,000 keys
                known = self._held[keys, width] = np.unique(buckets_of(numbers_of(keys), width))
            place = int(np.searchsorted(known, max(lowest, 0)))
            return place < len(known) and int(known[place]) <= highest

        return holds_any


def _bounds_by_partition(
    columns: tuple[_PartitionColumn, ...], file: ContentFile
) -> dict[int, Bounds | None]:
    """Return the bounds that a file's partition values give for their source columns."""
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
