"""Metadata columns such as ``_file``, ``_pos``, ``_partition`` and ``_deleted``.

Takes a table and manifest entries; returns the columns as fields, and their values or bounds for a file. Predicates and
projections treat them as ordinary columns. They are not part of ``SELECT *``, and a table's own column of the same name
hides them.
Source: Iceberg table spec, "Reserved Field IDs" and "Row Lineage".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twostage.data_files.computed_columns import DELETED, LAST_UPDATED, POSITION, ROW_ID
from twostage.predicates import predicate as tree
from twostage.predicates.bounds import Bounds
from twostage.schema import Field, Primitive, Schema, Struct, children
from twostage.table.partition_values import partition_type, partition_values
from twostage.table.transforms import Transform, value_bounds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from twostage.predicates.predicate import Predicate
    from twostage.table.manifest_entry import ContentFile
    from twostage.table.metadata import TableMetadata
    from twostage.table.pinned import PinnedTable

FILE, SPEC_ID, PARTITION = 2_147_483_646, 2_147_483_643, 2_147_483_642
IDS = frozenset((FILE, POSITION, DELETED, SPEC_ID, PARTITION, ROW_ID, LAST_UPDATED))
_IDENTITY = Transform("identity")


def metadata_fields(metadata: TableMetadata) -> tuple[Field, ...]:
    """Return a table's metadata columns; without row lineage, the lineage columns are NULL."""
    string, long = Primitive("string"), Primitive("long")
    return (
        Field(id=FILE, name="_file", type=string, required=True),
        Field(id=POSITION, name="_pos", type=long, required=True),
        Field(id=SPEC_ID, name="_spec_id", type=Primitive("int"), required=True),
        Field(id=PARTITION, name="_partition", type=partition_type(metadata)),
        Field(id=DELETED, name="_deleted", type=Primitive("boolean"), required=True),
        Field(id=ROW_ID, name="_row_id", type=long),
        Field(id=LAST_UPDATED, name="_last_updated_sequence_number", type=long),
    )


def hidden_fields(table: PinnedTable) -> tuple[Field, ...]:
    """Return the metadata columns that are not hidden by a column of the table."""
    if table.metadata_table is not None:
        return ()
    schema = table.schema
    names = {field.name.lower() for field in schema.fields}
    return tuple(
        field
        for field in metadata_fields(table.metadata)
        if field.name not in names and not any(f.id in schema for f in (field, *children(field.type)))
    )


def scan_schema(table: PinnedTable) -> Schema:
    """Return the columns that a query may name: the table's, followed by its metadata columns."""
    fields = (*table.schema.fields, *hidden_fields(table))
    return Schema(schema_id=table.schema.schema_id, fields=fields)


def used_columns(projection: Iterable[Field], *predicates: Predicate) -> frozenset[int]:
    """Return the ids of the metadata columns that a scan uses; a field of `_partition` counts as `_partition`."""
    found = {field.id for field in projection}
    found.update(column.field_id for predicate in predicates for column in tree.columns(predicate))
    if any(field_id < 0 for field_id in found):
        found.add(PARTITION)
    return IDS & found


@dataclass(frozen=True, slots=True)
class MetadataColumnValues:
    """Values and bounds of a scan's metadata columns, per file.

    Attributes:
        used: Ids of the metadata columns that the scan uses.
        partition: The type of `_partition`.
    """

    used: frozenset[int]
    partition: Struct

    def constants(self, file: ContentFile, *, has_deletes: bool) -> dict[int, Any]:
        """Return the used columns that are constant over the file, by field id."""
        values: dict[int, Any] = {}
        if FILE in self.used:
            values[FILE] = file.path
        if SPEC_ID in self.used:
            values[SPEC_ID] = file.spec_id
        if PARTITION in self.used:
            parts = partition_values(self.partition, file)
            values.update(parts)
            values[PARTITION] = parts or None  # as in Iceberg: NULL for an unpartitioned table
        if DELETED in self.used and not has_deletes:
            values[DELETED] = False
        return values

    def owns(self, field_id: int) -> bool:
        """Return whether this is a metadata column or a field of `_partition`."""
        return field_id in IDS or field_id < 0

    def bounds(self, file: ContentFile, field_id: int) -> Bounds | None:
        """Return the bounds of a metadata column or a field of `_partition` in a file; None if unknown.

        The metrics of a stored `_row_id` column are not used: rows in which it is NULL have an inherited id.
        """
        rows = file.num_rows
        if field_id == POSITION:
            upper = None if rows is None else rows - 1
            return Bounds(lower=0, upper=upper, null_count=0, value_count=rows)
        if field_id == FILE:
            return value_bounds(_IDENTITY, Primitive("string"), file.path, rows)
        if field_id == SPEC_ID:
            return value_bounds(_IDENTITY, Primitive("int"), file.spec_id, rows)
        field = next((field for field in self.partition.fields if field.id == field_id), None)
        if field is None:
            return None
        assert isinstance(field.type, Primitive)
        return value_bounds(_IDENTITY, field.type, partition_values(self.partition, file)[field_id], rows)
