"""The table's name mapping, and the fields whose metrics it makes unreliable.

Takes the table metadata; returns the parsed ``schema.name-mapping.default``, which assigns field ids to the columns of
files without ids (spec, "Column Projection"), and the fields whose metrics in manifests must not be used.
When files are imported, their metrics are stored under the ids that the names have at that time. If a column
is later renamed and another one is added under the old name, Iceberg moves the name in the mapping to the new
column: the files' column is now read as the new column, but its metrics are still stored under the old
column's id.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from twostage.errors import CorruptFileError
from twostage.schema import children

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from twostage.schema import Field
    from twostage.table.manifest_entry import ContentFile
    from twostage.table.metadata import TableMetadata

NAME_MAPPING_PROPERTY = "schema.name-mapping.default"


def parse_name_mapping(metadata: TableMetadata) -> tuple[Any, ...] | None:
    """Return the parsed ``schema.name-mapping.default``; None if the table has none.

    Raises:
        CorruptFileError: The property is not a JSON list of objects.
    """
    text = metadata.properties.get(NAME_MAPPING_PROPERTY)
    if text is None:
        return None
    try:
        mapping = json.loads(text)
    except (ValueError, RecursionError):
        mapping = None
    if not isinstance(mapping, list) or not all(isinstance(item, dict) for item in mapping):
        raise CorruptFileError(
            "CORRUPT_METADATA",
            f"Property {NAME_MAPPING_PROPERTY} is not a name mapping",
            path=metadata.metadata_location,
            stage="plan",
        )
    return tuple(mapping)


def fields_with_stale_metrics(metadata: TableMetadata) -> frozenset[int]:
    """Return the ids of fields that had, in some schema, a name that the mapping no longer maps to them."""
    mapping = parse_name_mapping(metadata)
    if mapping is None:
        return frozenset()
    mapped = set(_mapped(mapping))
    return frozenset(
        field.id
        for schema in metadata.schemas.values()
        for field in _all_fields(schema.fields)
        if (field.id, field.name) not in mapped
    )


def without_metrics(file: ContentFile, stale: frozenset[int]) -> ContentFile:
    """Return the manifest entry without the metrics of these fields."""
    if not stale:
        return file
    maps = ("value_counts", "null_counts", "nan_counts", "lower_bounds", "upper_bounds")
    kept: dict[str, Any] = {
        name: {key: value for key, value in getattr(file, name).items() if key not in stale} for name in maps
    }
    return replace(file, **kept)


def _mapped(mapping: Sequence[Any]) -> Iterator[tuple[int, str]]:
    """Yield (field id, name) at every depth; skip malformed entries, which the reader refuses."""
    for entry in mapping:
        if not isinstance(entry, dict):
            continue
        field_id, names, inner = entry.get("field-id"), entry.get("names"), entry.get("fields")
        if isinstance(field_id, int) and isinstance(names, list):
            yield from ((field_id, name) for name in names if isinstance(name, str))
        if isinstance(inner, list):
            yield from _mapped(inner)


def _all_fields(fields: Sequence[Field]) -> Iterator[Field]:
    for field in fields:
        yield field
        yield from _all_fields(children(field.type))
