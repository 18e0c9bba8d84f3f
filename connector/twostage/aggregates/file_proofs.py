"""What the metadata of one data file proves of its rows: how many live and match, and what its columns hold.

Takes a manifest entry, the pruner's verdict and the deletes that apply; gives a `FileProof`, or in words why the file
must be read. The rule: what is proven is what reading the file would give, as far as the metrics are right, which
pruning relies on too. Unknown is None, never a guess.

What proves a file: Parquet or ORC, counted rows, a predicate that its metrics or partition prove for all rows or
for none, and no deletes but one deletion vector, whose cardinality is what it takes away, or positional delete
files, whose rows the caller counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twostage.planning.name_mapping import NAME_MAPPING_PROPERTY, moved_fields
from twostage.predicates.bounds import decode_bound
from twostage.predicates.prune import order_key
from twostage.schema import Field, Primitive
from twostage.table.column_metrics import may_count_other_units
from twostage.table.transforms import Transform, partition_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.planning.prune_files import Verdict
    from twostage.table.manifest_entry import ContentFile
    from twostage.table.pinned import PinnedTable
    from twostage.task import DeleteFile

COUNTED = frozenset(
    "boolean int long float double decimal string binary fixed uuid date time timestamp timestamptz".split()
)
"""Types whose values are counted. The others are refused where they are read."""
COMPARED = frozenset("boolean int long float double decimal date timestamp timestamptz".split())
"""Types whose bounds are values of the column: bounds of text and bytes may be cut, and nothing tells."""
COMPARED_IN_ORC = frozenset(("int", "long"))
"""ORC's statistics hold milliseconds, and writers differ in the rest."""
GROUPED = frozenset("boolean int long decimal string date timestamp timestamptz".split())
"""Types of the columns to group by: not float, where 0.0 and -0.0 are one group and two partitions."""
_FORMATS = ("parquet", "orc")
"""Nobody knows how many rows an Avro file has before it is read, so that a wrong count would go unnoticed."""
_SHIFTED = ("timestamp", "timestamptz")
"""Read from ORC they may be a second later than they were meant, see `column_metrics.as_stored`."""


@dataclass(frozen=True, slots=True)
class ColumnProof:
    """One column over the rows of a file: how many are NULL, and the least and greatest of the others.

    None is unknown.
    """

    nulls: int | None
    lower: Any = None
    upper: Any = None


class FileProof:
    """What is proven of one file; the columns on demand."""

    __slots__ = ("_file", "_proofs", "group", "rows")

    def __init__(self, proofs: FileProofs, file: ContentFile, group: tuple[Any, ...], rows: int) -> None:
        self._proofs = proofs
        self._file = file
        self.group = group
        self.rows = rows
        """Live rows, all of which match."""

    def column(self, field: Field) -> ColumnProof | str:
        """Return what is known of a column over the live rows, or why the file must be read."""
        return self._proofs.column(self._file, field, self.rows)


class FileProofs:
    """What single files prove."""

    def __init__(self, table: PinnedTable, groups: tuple[Field, ...]) -> None:
        self._metadata = table.metadata
        self._groups = groups
        self._moved = moved_fields(table.metadata)
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
        self, file: ContentFile, verdict: Verdict, deletes: tuple[DeleteFile, ...], gone: int = 0
    ) -> FileProof | str:
        """Return what is known of a file, `gone` rows of which are deleted besides; or why it must be read."""
        if file.format not in _FORMATS:
            return f"a data file has the format {file.format}"
        if file.record_count <= 0:
            return "a file's rows were not counted"
        if not verdict.all_match:
            return "the filter splits the rows of a file"
        rows = file.record_count - gone
        if deletes:
            (delete, *others) = deletes
            if others or delete.content != "vector":
                return "a file has equality deletes"
            rows -= delete.record_count
            if rows < 0:
                return "a deletion vector deletes more rows than there are"
        group = []
        for field in self._groups:
            value = self._partition_value(file, field)
            if value is ...:
                return f"a file's partition does not tell {field.name}"
            group.append(value)
        return FileProof(self, file, tuple(group), rows)

    def _partition_value(self, file: ContentFile, field: Field) -> Any:
        """Return the value of an identity-partition column in all rows of a file; ``...`` where it is not told."""
        kind = field.type
        part = self._identity.get(file.spec_id, {}).get(field.id)
        if part is None or part not in file.partition or not isinstance(kind, Primitive):
            return ...
        if field.id in self._moved or (file.format == "orc" and kind.name in _SHIFTED):
            return ...
        if field.id in self._were_dates and kind.name in _SHIFTED:
            return ...  # days or microseconds, and nothing tells which
        return partition_value(kind, file.partition[part])

    def column(self, file: ContentFile, field: Field, rows: int) -> ColumnProof | str:
        """Return what is known of a column over the `rows` live rows of a file."""
        kind = field.type
        assert isinstance(kind, Primitive)
        if field.id in self._moved:
            return f"a name mapping moved {field.name}"
        measured = self._measured(file, field, kind)
        known = self._partition_value(file, field) if kind.name in GROUPED else ...
        if known is ... and field.id not in file.value_counts and self._lacks(file, field):
            if field.required and field.initial_default is None:
                return f"{field.name} is required and a file has none"
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
        if rows == file.record_count:
            return column
        # It is known how many rows are gone, and not which.
        if column.nulls == file.record_count:
            return ColumnProof(rows)
        is_single = column.lower is not None and column.lower == column.upper
        if column.nulls != 0:
            return ColumnProof(None)
        return ColumnProof(0, column.lower, column.upper) if is_single else ColumnProof(0)

    def _measured(self, file: ContentFile, field: Field, kind: Primitive) -> ColumnProof | None:
        """Return what the metrics say; None if they do not say how many values are NULL."""
        values, nulls = file.value_counts.get(field.id), file.null_counts.get(field.id)
        if values != file.record_count or nulls is None or not 0 <= nulls <= values:
            return None
        if nulls == values:
            said = field.id in file.lower_bounds or field.id in file.upper_bounds
            return None if said else ColumnProof(nulls)
        if kind.name not in COMPARED or (file.format == "orc" and kind.name not in COMPARED_IN_ORC):
            return ColumnProof(nulls)
        lower, upper = (
            self._bound(file.lower_bounds, field, kind),
            self._bound(file.upper_bounds, field, kind),
        )
        if kind.name in ("float", "double"):
            # NaN lies in no bound, and bounds may tell 0.0 from -0.0 where the rows do not.
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
        """Return whether a file is older than the column, so that it cannot have it.

        Ids count up: one above all those of the schema that the file was added under, and of the schemas before
        it, was given later. Under a name mapping a file without ids may have the column all the same.
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
