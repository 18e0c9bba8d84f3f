"""Fields by id, in any schema that the table has ever had.

Equality deletes and partition specs may refer to columns that have since been dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twostage.errors import CorruptFileError
from twostage.schema import Primitive

if TYPE_CHECKING:
    from twostage.schema import Field, Schema
    from twostage.table.pinned import PinnedTable


def newest_schema(table: PinnedTable, field_id: int) -> Schema | None:
    """Return the newest schema with this field, the scan's own and the current one first; None if no schema has it."""
    metadata = table.metadata
    older = (metadata.schemas[number] for number in sorted(metadata.schemas, reverse=True))
    return next((schema for schema in (table.schema, metadata.schema, *older) if field_id in schema), None)


def key_field(table: PinnedTable, field_id: int) -> tuple[Field, bool]:
    """Return the field of an equality-delete key, and whether it is a top-level column.

    Raises:
        CorruptFileError: No schema has the field, or it is inside a list or map.
    """
    schema = newest_schema(table, field_id)
    path = () if schema is None else schema.path(field_id)
    if schema is not None and schema.find(path) is not None:  # names do not lead into lists and maps
        return schema.field(field_id), len(path) == 1
    raise CorruptFileError(
        "CORRUPT_MANIFEST",
        f"Equality delete names a field that no schema has, or one in a list or map: {field_id}",
        path=table.metadata.metadata_location,
        stage="plan",
    )


def key_column(table: PinnedTable, field_id: int) -> Field:
    """Return the top-level column of an equality-delete key, its structs pruned to the key's field."""
    schema = newest_schema(table, field_id)
    assert schema is not None, "whoever asks has the field by `key_field`"
    return schema.cut_to(field_id)


def partition_source_types(table: PinnedTable) -> dict[int, Primitive]:
    """Return the types of all partition fields' source columns by field id.

    Dropped columns are included: an equality delete may refer to one, and an imported file may lack it.
    """
    return {
        field.source_id: kind
        for spec in table.metadata.specs.values()
        for field in spec.fields
        if (schema := newest_schema(table, field.source_id)) is not None
        and isinstance(kind := schema.field(field.source_id).type, Primitive)
    }
