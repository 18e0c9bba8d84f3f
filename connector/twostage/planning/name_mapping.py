"""The table property that gives field ids to files without them, and what it takes from their metrics.

Takes the metadata; gives the parsed mapping, and the fields whose metrics in manifests prove nothing. An import
stores metrics under the ids that names had then. Where a column is renamed later and another one added
under the old name, Iceberg hands that name over to the new column: the file's column is now read as the
new one, and the metrics stored under the old one's id are about rows that it no longer has.
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
    """Return the parsed ``schema.name-mapping.default``; None where the table has none."""
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


def moved_fields(metadata: TableMetadata) -> frozenset[int]:
    """Return the fields that had a name in some schema by which the mapping does not find them any more."""
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


def without_metrics(file: ContentFile, moved: frozenset[int]) -> ContentFile:
    """Return the file's entry without its metrics of these fields."""
    if not moved:
        return file
    maps = ("value_counts", "null_counts", "nan_counts", "lower_bounds", "upper_bounds")
    kept: dict[str, Any] = {
        name: {key: value for key, value in getattr(file, name).items() if key not in moved} for name in maps
    }
    return replace(file, **kept)


def _mapped(mapping: Sequence[Any]) -> Iterator[tuple[int, str]]:
    """Yield (field id, name) at every depth; what is malformed is the reader's to refuse."""
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
