"""Converters for the values of a manifest's entries: partition values and the maps of metrics.

Takes the types of a manifest's schema, with fields named by id; returns functions from decoded Avro values to the
values of a `ContentFile`. Every encoding that writers use is accepted, and a missing map differs from an empty one.
Source: Iceberg table spec, "Manifests" and appendix A, "Avro".
"""

from __future__ import annotations

from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import UUID

from twostage.table.manifest_fields import PARTITION, record_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Set as AbstractSet

ABSENT: Mapping[int, Any] = MappingProxyType({})
"""A map that the entry does not have: metadata tables show it as NULL, and an empty map as empty."""


def partition_readers(
    file_fields: Mapping[str, Any], ids: AbstractSet[int]
) -> list[tuple[int, str, Callable[[Any], Any]]]:
    """Return field id, name and converter of each partition value with one of these ids.

    Args:
        file_fields: The types of the ``data_file`` record's fields by name.
        ids: The partition field ids of the spec; a writer may have added others.
    """
    return [
        (int(part["name"][1:]), part["name"], _value_reader(part["type"]))
        for part in record_of(file_fields[f"_{PARTITION}"])["fields"]
        if part["name"].startswith("_") and int(part["name"][1:]) in ids
    ]


def pairs_reader(kind: Any) -> Callable[[Any], Mapping[int, Any]]:
    """Return the converter of a map of metrics to a dictionary: from an Avro map or an array of records.

    Raises:
        ValueError: The type is neither.
    """
    kinds = [part for part in (kind if isinstance(kind, list) else [kind]) if part != "null"]
    if not kinds:
        return _pairs
    (kind,) = kinds
    if isinstance(kind, dict) and kind["type"] == "map":
        return _mapped
    item = kind["items"] if isinstance(kind, dict) and kind["type"] == "array" else None
    fields = record_of(item)["fields"]
    plain = [part["name"] for part in fields] == ["key", "value"]
    if plain and not isinstance(item, list) and not any(isinstance(part["type"], list) for part in fields):
        return _pairs
    return _pairs_by_name


def _pairs(items: Iterable[dict[str, Any]] | None) -> Mapping[int, Any]:
    """Convert an array of records that have exactly key and value, in this order."""
    if items is None:
        return ABSENT
    pairs: Any = map(dict.values, items)  # takes half the time of a loop, and there are millions of pairs
    return dict(pairs)


def _pairs_by_name(items: Iterable[dict[str, Any]] | None) -> Mapping[int, Any]:
    """Convert an array of records that have key, value and perhaps other fields; NULLs are skipped."""
    if items is None:
        return ABSENT
    found = ((item["key"], item["value"]) for item in items if item is not None)
    return {key: value for key, value in found if key is not None and value is not None}


def _mapped(items: Mapping[str, Any] | None) -> Mapping[int, Any]:
    """Convert an Avro map, whose keys are strings."""
    if items is None:
        return ABSENT
    return {int(key): value for key, value in items.items() if value is not None}


def _value_reader(kind: Any) -> Callable[[Any], Any]:
    """Return the converter of an Avro value, decoded without its logical type, to the internal form."""
    if isinstance(kind, list):
        kind = next((item for item in kind if item != "null"), "null")
    logical = kind.get("logicalType") if isinstance(kind, dict) else None
    match logical:
        case "decimal":
            return _decimal_reader(int(kind.get("scale", 0)))
        case "uuid":
            return lambda value: (
                None if value is None else str(UUID(bytes=value) if len(value) == 16 else UUID(value))
            )
        case "timestamp-millis" | "local-timestamp-millis" | "time-millis":
            return lambda value: None if value is None else value * 1000
    return lambda value: value


def _decimal_reader(scale: int) -> Callable[[bytes | None], Decimal | None]:
    def read(value: bytes | None) -> Decimal | None:
        if value is None:
            return None
        return Decimal(f"{int.from_bytes(value, 'big', signed=True)}E-{scale}")

    return read
