"""The unified partition struct of a table: the partition fields of all specs.

Takes table metadata; returns the struct type and, for a manifest entry, its values. As in Iceberg, a field of any spec
is included under its latest name if its source column still exists, and is NULL for files of specs without it. A field
with an unknown transform has no result type and is left out.
Source: Iceberg's ``Partitioning.partitionType``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twostage.errors import CorruptFileError, mask
from twostage.schema import Field, Primitive, Struct
from twostage.table.transforms import Transform, partition_value

if TYPE_CHECKING:
    from twostage.table.manifest_entry import ContentFile
    from twostage.table.metadata import PartitionField, TableMetadata


def partition_type(metadata: TableMetadata) -> Struct:
    """Return the partition struct of all specs.

    A field's id is its partition field id, negated: column ids may exceed 1000 as well, and no file has negative ids.
    """
    names: dict[int, str] = {}
    types: dict[int, Primitive] = {}
    is_void: dict[int, bool] = {}
    for spec_id in sorted(metadata.specs, reverse=True):  # the newest spec's names win
        for field in metadata.specs[spec_id].fields:
            kind = _type_of(field, metadata)
            if kind is None:
                continue
            taken = field.field_id not in names and field.name in names.values()
            names.setdefault(field.field_id, f"{field.name}_{field.field_id}" if taken else field.name)
            if is_void.get(field.field_id, True):  # version 1 replaces a dropped field's transform by void
                types[field.field_id] = kind
                is_void[field.field_id] = field.transform == "void"
    return Struct(
        tuple(Field(id=-field_id, name=names[field_id], type=types[field_id]) for field_id in sorted(names))
    )


def _type_of(field: PartitionField, metadata: TableMetadata) -> Primitive | None:
    transform = Transform.of(field)
    source = metadata.schema.field(field.source_id).type if field.source_id in metadata.schema else None
    if not isinstance(source, Primitive):
        return None
    if transform.name == "void":
        return source
    return Primitive("date") if transform.name == "day" else transform.result_type(source)


def partition_values(struct: Struct, file: ContentFile) -> dict[int, Any]:
    """Return a file's partition as values of `partition_type`, by field id.

    Raises:
        CorruptFileError: The manifest has a value of another type.
    """
    values: dict[int, Any] = {}
    for field in struct.fields:
        assert isinstance(field.type, Primitive)
        try:
            values[field.id] = partition_value(field.type, file.partition.get(-field.id))
        except CorruptFileError as error:
            error.path = mask(file.path)
            raise
    return values
