"""What the metadata of a data file proves about its live, matching rows: their number, and bounds of columns.

Takes a manifest entry, the result of pruning and the deletes that apply; returns a `FileProof`, or the reason why the
file must be read. A proof equals the result of reading the file, provided that the metrics are right, which pruning
relies on too. Unknown is None, never a guess.

A proof needs a Parquet or ORC file with a known record count, and a predicate that metrics or partition values prove
for all rows or for none. The only deletes permitted are one deletion vector, whose cardinality is the number of deleted
rows, or position delete files, whose rows the caller counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twostage.planning.name_mapping import NAME_MAPPING_PROPERTY, fields_with_stale_metrics
from twostage.predicates.bounds import decode_bound
from twostage.predicates.value_range import order_key
from twostage.schema import Field, Primitive
from twostage.table.column_metrics import may_count_other_units
from twostage.table.transforms import Transform, partition_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.planning.prune_files import PruneResult
    from twostage.table.manifest_entry import ContentFile
    from twostage.table.pinned import PinnedTable
    from twostage.task import DeleteFile

COUNTED = frozenset(
    "boolean int long float double decimal string binary fixed uuid date time timestamp timestamptz".split()
)
"""Types whose values can be counted; the others are refused when they are read."""
COMPARED = frozenset("boolean int long float double decimal date timestamp timestamptz".split())
"""Types whose bounds are values of the column: bounds of text and bytes may be truncated without a mark."""
COMPARED_IN_ORC = frozenset(("int", "long"))
"""The same in ORC files: its statistics have timestamps in milliseconds, and writers differ in other types."""
GROUPED = frozenset("boolean int long decimal string date timestamp timestamptz".split())
"""Types to group by; not float and double, in which 0.0 and -0.0 are one group but two partitions."""
_FORMATS = ("parquet", "orc")
"""Formats with a row count of their own; in Avro files, a wrong count in the manifest would go unnoticed."""
_SHIFTED = ("timestamp", "timestamptz")
"""Types whose values may be one second too late in ORC files, see `column_metrics.as_stored`."""


@dataclass(frozen=True, slots=True)
class ColumnProof:
    """One column over the live rows of a file: the number of NULLs, and the least and greatest other value.

    None is unknown.
    """

    nulls: int | None
    lower: Any = None
    upper: Any = None

    def of_part(self, num_rows: int, part: int) -> ColumnProof:
        """Return what still holds for `part` of the file's `num_rows` rows, whichever they are."""
        if part == num_rows:
            return self
        if self.nulls == num_rows:
            return ColumnProof(part)
        if self.nulls != 0:
            return ColumnProof(None)
        is_single = self.lower is not None and self.lower == self.upper
        return ColumnProof(0, self.lower, self.upper) if is_single else ColumnProof(0)


class FileProof:
    """What is proven about one file; columns are computed on demand."""

    __slots__ = ("_file", "_proofs", "group", "rows")

    def __init__(self, proofs: FileProofs, file: ContentFile, group: tuple[Any, ...], rows: int) -> None:
        self._proofs = proofs
        self._file = file
        self.group = group
        self.rows = rows
        """Live rows; all of them match."""

    def column(self, field: Field) -> ColumnProof | str:
        """Return what is proven about a column over the live rows, or why the file must be read."""
        return self._proofs.column(self._file, field, self.rows)


class FileProofs:
    """Makes the proofs of a table's files.

    Args:
        table: The pinned table.
        groups: The columns to group by.
    """

    def __init__(self, table: PinnedTable, groups: tuple[Field, ...]) -> None:
        self._metadata = table.metadata
        self._groups = groups
        self._stale_metrics = fields_with_stale_metrics(table.metadata)
        self._is_mapped = NAME_MAPPING_PROPERTY in table.metadata.properties
        self._identity = {
            spec_id: {
                part.source_id: part.field_id for part in spec.fields if Transform.of(part).name == "identity"
            }
            for spec_id, spec in table.metadata.specs.items()
        }
        self._were_dates = frozenset(
            field.id
            for schema in table.metadata.schemas.values()
            for field in schema.fields
            if field.type == Primitive("date")
        )
        self._last_ids: dict[int, int] = {}

    def of(
        self, file: ContentFile, pruning: PruneResult, deletes: tuple[DeleteFile, ...], num_deleted: int = 0
    ) -> FileProof | str:
        """Return what is proven about a file, or why it must be read.

        Args:
            file: Its manifest entry.
            pruning: The pruner's result.
            deletes: The delete files that apply, except those whose rows the caller counted.
            num_deleted: How many rows those delete.
        """
        if file.format not in _FORMATS:
            return f"a data file has the format {file.format}"
        if file.record_count <= 0:
            return "a file's rows were not counted"
        if not pruning.all_match:
            return "the filter splits the rows of a file"
        rows = file.record_count - num_deleted
        if deletes:
            (delete, *others) = deletes
            if others or delete.content != "vector":
                return "a file has equality deletes"
            rows -= delete.record_count
            if rows < 0:
                return "a deletion vector deletes more rows than there are"
        group = []
        for field in self._groups:
            value = self.constant_of(file, field)
            if value is ...:
                return f"a file's partition does not determine {field.name}"
            group.append(value)
        return FileProof(self, file, tuple(group), rows)

    def constant_of(self, file: ContentFile, field: Field) -> Any:
        """Return the value of an identity-partition column in all rows of a file; ``...`` if it is unknown."""
        kind = field.type
        part = self._identity.get(file.spec_id, {}).get(field.id)
        if part is None or part not in file.partition or not isinstance(kind, Primitive):
            return ...
        if field.id in self._stale_metrics or (file.format == "orc" and kind.name in _SHIFTED):
            return ...
        if field.id in self._were_dates and kind.name in _SHIFTED:
            return ...  # may be days or microseconds
        return partition_value(kind, file.partition[part])

    def column(self, file: ContentFile, field: Field, rows: int) -> ColumnProof | str:
        """Return what is proven about a column over the `rows` live rows of a file."""
        found = self.whole_column(file, field)
        return found if isinstance(found, str) else found.of_part(file.record_count, rows)

    def whole_column(self, file: ContentFile, field: Field) -> ColumnProof | str:
        """Return what is proven about a column over all rows of a file, deleted ones included."""
        kind = field.type
        assert isinstance(kind, Primitive)
        if field.id in self._stale_metrics:
            return f"a name mapping moved {field.name}"
        measured = self._measured(file, field, kind)
        known = self.constant_of(file, field) if kind.name in GROUPED else ...
        if known is ... and field.id not in file.value_counts and self._lacks(file, field):
            if field.required and field.initial_default is None:
                return f"{field.name} is required and a file lacks it"
            known = field.initial_default
            if known is not None and order_key(kind, known) is None:
                return f"the default of {field.name} is of another type"
            if isinstance(known, float) and math.isnan(known):
                return f"the default of {field.name} is NaN"
        if known is not ...:
            column = ColumnProof(file.record_count) if known is None else ColumnProof(0, known, known)
            if measured is not None and measured.nulls != column.nulls:
                return f"the metrics of {field.name} contradict the partition"
        elif measured is None:
            return f"a file has no metrics of {field.name}"
        else:
            column = measured
        return column

    def _measured(self, file: ContentFile, field: Field, kind: Primitive) -> ColumnProof | None:
        """Return what the column metrics prove; None without a count of NULLs."""
        values, nulls = file.value_counts.get(field.id), file.null_counts.get(field.id)
        if values != file.record_count or nulls is None or not 0 <= nulls <= values:
            return None
        if nulls == values:
            has_bound = field.id in file.lower_bounds or field.id in file.upper_bounds
            return None if has_bound else ColumnProof(nulls)
        if kind.name not in COMPARED or (file.format == "orc" and kind.name not in COMPARED_IN_ORC):
            return ColumnProof(nulls)
        lower, upper = (
            self._bound(file.lower_bounds, field, kind),
            self._bound(file.upper_bounds, field, kind),
        )
        if kind.name in ("float", "double"):
            # Bounds ignore NaN, and have -0.0 or 0.0 by a convention, whichever the rows have.
            if file.nan_counts.get(field.id) != 0:
                return ColumnProof(nulls)
            lower, upper = lower or None, upper or None
        if lower is not None and upper is not None and lower > upper:
            return ColumnProof(nulls)
        if file.format == "parquet" and may_count_other_units(kind, lower, upper):
            return ColumnProof(nulls)
        return ColumnProof(nulls, lower, upper)

    @staticmethod
    def _bound(bounds: Mapping[int, bytes], field: Field, kind: Primitive) -> Any:
        raw = bounds.get(field.id)
        return None if raw is None else decode_bound(kind, raw)

    def _lacks(self, file: ContentFile, field: Field) -> bool:
        """Return whether a file is older than the column, and so cannot have it.

        Field ids are assigned in ascending order: an id above all those of the schema that the file was added under,
        and of earlier schemas, was assigned later. With a name mapping, a file without ids may have the column anyway.
        """
        if self._is_mapped or file.snapshot_id is None:
            return False
        snapshot = self._metadata.snapshots.get(file.snapshot_id)
        if snapshot is None or snapshot.schema_id not in self._metadata.schemas:
            return False
        schema_id = snapshot.schema_id
        assert schema_id is not None
        if schema_id not in self._last_ids:
            self._last_ids[schema_id] = max(
                (
                    field_id
                    for number, schema in self._metadata.schemas.items()
                    if number <= schema_id
                    for field_id in schema.field_ids()
                ),
                default=0,
            )
        return field.id > self._last_ids[schema_id]
