"""Table metadata as plain, picklable values.

Takes the JSON of a ``metadata.json`` of format version 1, 2 or 3; returns a `TableMetadata`. Fields that a scan depends
on are read exactly as the spec says, with its defaults for those that old writers left out; anything else raises a
typed error.
Source: Iceberg table spec, "Table Metadata" and appendix C.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from twostage.errors import CorruptFileError, ResourceLimitError, UnsupportedFeatureError
from twostage.schema import Schema, parse_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_T = TypeVar("_T")
SUPPORTED_VERSIONS = (1, 2, 3)
MAX_METADATA_BYTES = 256 * 2**20
"""Uncompressed size: the largest real files are about 100 MB, and a gzip bomb is stopped here."""
_FIRST_PARTITION_FIELD_ID = 1000
_GZIP_MAGIC = b"\x1f\x8b"
_MALFORMED = (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionField:
    """One field of a partition spec; `transform` is the metadata's text, such as ``bucket[16]``.

    `source_ids` has several ids for a multi-argument transform; `source_id` is the first.
    """

    source_id: int
    field_id: int
    name: str
    transform: str
    source_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSpec:
    """A partition spec.

    >>> PartitionSpec(spec_id=0).is_unpartitioned
    True
    """

    spec_id: int
    fields: tuple[PartitionField, ...] = ()

    @property
    def is_unpartitioned(self) -> bool:
        """Whether the spec has no fields, or only void ones."""
        return all(field.transform == "void" for field in self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A snapshot. Version 1 may list its `manifests` here instead of in a `manifest_list` file."""

    snapshot_id: int
    parent_id: int | None = None
    sequence_number: int = 0
    timestamp_ms: int = 0
    manifest_list: str | None = None
    manifests: tuple[str, ...] = ()
    schema_id: int | None = None
    summary: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A branch or tag (`kind`) with its retention settings; None if the metadata has none."""

    snapshot_id: int
    kind: str
    max_reference_age_ms: int | None = None
    min_snapshots_to_keep: int | None = None
    max_snapshot_age_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMetadata:
    """One version of a table: `location` is the table's folder, `metadata_location` the path of this metadata file.

    Invariants: `current_schema_id` is in `schemas`; `current_snapshot_id`, if any, is in `snapshots`.
    """

    format_version: int
    table_uuid: str | None
    location: str
    schemas: Mapping[int, Schema]
    current_schema_id: int
    specs: Mapping[int, PartitionSpec]
    snapshots: Mapping[int, Snapshot]
    current_snapshot_id: int | None
    refs: Mapping[str, Reference]
    snapshot_log: tuple[tuple[int, int], ...]
    """Milliseconds since the epoch, and the id of the snapshot that became current then."""
    properties: Mapping[str, str] = field(repr=False)
    metadata_location: str
    metadata_log: tuple[tuple[int, str], ...] = ()
    """Milliseconds since the epoch, and the path of a former metadata file."""
    last_updated_ms: int | None = None
    default_spec_id: int | None = None
    sorted_by: tuple[int, ...] = ()
    """Source ids of the columns that the default sort order begins with, untransformed."""

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return self.schemas[self.current_schema_id]

    @property
    def current_snapshot(self) -> Snapshot | None:
        """The current snapshot; None for a table without data."""
        return None if self.current_snapshot_id is None else self.snapshots[self.current_snapshot_id]

    def schema_of(self, snapshot: Snapshot) -> Schema:
        """Return the schema that `snapshot` was written with; the current one if it does not name any."""
        if snapshot.schema_id is None:
            return self.schema
        return self.schemas.get(snapshot.schema_id, self.schema)


def parse_metadata_bytes(data: bytes, *, location: str) -> TableMetadata:
    """Parse the bytes of a metadata file; gzip is recognized by its magic bytes, not by the file's name.

    Raises:
        CorruptFileError: Invalid JSON, a damaged gzip stream, or malformed metadata.
        ResourceLimitError: The uncompressed size exceeds `MAX_METADATA_BYTES`.
        UnsupportedFeatureError: An unknown format version, or a view.
    """
    if data[:2] == _GZIP_MAGIC:
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
                data = stream.read(MAX_METADATA_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise _corrupt(f"Metadata is not readable gzip: {error}", location) from error
    if len(data) > MAX_METADATA_BYTES:
        raise ResourceLimitError(
            "METADATA_TOO_LARGE",
            f"Metadata is larger than the limit, bytes: {MAX_METADATA_BYTES}",
            path=location,
            stage="catalog",
            hint="Expire old snapshots of the table.",
        )
    try:
        raw = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _corrupt(f"Metadata is not JSON: {error}", location) from error
    return parse_metadata(raw, location=location)


def parse_metadata(raw: Mapping[str, Any], *, location: str) -> TableMetadata:
    """Parse the JSON object of a metadata file that was read from `location`.

    Raises:
        CorruptFileError: The metadata is malformed or inconsistent.
        UnsupportedFeatureError: An unknown format version, or a view.
    """
    if not hasattr(raw, "get"):
        raise _corrupt("Metadata is not a JSON object", location)
    if "view-uuid" in raw or ("current-version-id" in raw and "versions" in raw):
        raise UnsupportedFeatureError(
            "UNSUPPORTED_VIEW",
            "This is the metadata of a view, not of a table",
            path=location,
            stage="catalog",
            hint="Load the tables that the view's SQL names.",
        )
    version = raw.get("format-version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise _corrupt(f"Metadata has no format version, it says: {version!r}", location)
    if version not in SUPPORTED_VERSIONS:
        raise UnsupportedFeatureError(
            "UNSUPPORTED_FORMAT_VERSION",
            f"Table has a format version that is not supported: {version}",
            path=location,
            stage="catalog",
            hint="Versions 1, 2 and 3 are.",
        )
    try:
        return _parse(raw, version, location)
    except CorruptFileError as error:
        if error.path is not None:
            raise
        raise _corrupt(error.message, location) from error
    except _MALFORMED as error:
        raise _corrupt(f"Metadata is malformed: {error!r}", location) from error


def _parse(raw: Mapping[str, Any], version: int, location: str) -> TableMetadata:
    schemas = _parse_schemas(raw)
    current_schema_id = _integer(raw.get("current-schema-id", next(iter(schemas))))
    if current_schema_id not in schemas:
        raise ValueError(f"no schema has the current schema's id {current_schema_id}")
    specs = _parse_specs(raw)
    snapshots = _unique(
        (_parse_snapshot(item) for item in raw.get("snapshots") or ()),
        lambda item: item.snapshot_id,
        "snapshot",
    )
    current = raw.get("current-snapshot-id")
    current_snapshot_id = None if current is None or _integer(current) == -1 else _integer(current)
    if current_snapshot_id is not None and current_snapshot_id not in snapshots:
        raise ValueError(f"no snapshot has the current snapshot's id {current_snapshot_id}")
    return TableMetadata(
        format_version=version,
        table_uuid=raw.get("table-uuid"),
        location=str(raw["location"]).rstrip("/"),
        schemas=schemas,
        current_schema_id=current_schema_id,
        specs=specs,
        snapshots=snapshots,
        current_snapshot_id=current_snapshot_id,
        refs=_parse_refs(raw, current_snapshot_id),
        snapshot_log=tuple(
            (_integer(item["timestamp-ms"]), _integer(item["snapshot-id"]))
            for item in raw.get("snapshot-log") or ()
        ),
        properties={str(key): str(value) for key, value in (raw.get("properties") or {}).items()},
        metadata_location=location,
        metadata_log=tuple(
            (_integer(item["timestamp-ms"]), str(item["metadata-file"]))
            for item in raw.get("metadata-log") or ()
        ),
        last_updated_ms=raw.get("last-updated-ms"),
        default_spec_id=_spec_id(raw.get("default-spec-id"), specs),
        sorted_by=_parse_sorted_by(raw),
    )


def _spec_id(given: Any, specs: Mapping[int, PartitionSpec]) -> int | None:
    return given if isinstance(given, int) and given in specs else next(iter(specs), None)


def _parse_sorted_by(raw: Mapping[str, Any]) -> tuple[int, ...]:
    """Return `TableMetadata.sorted_by`; empty for a malformed order, because reads do not need it."""
    orders, wanted = raw.get("sort-orders"), raw.get("default-sort-order-id")
    known = (one for one in (orders if isinstance(orders, list) else ()) if isinstance(one, dict))
    fields = next((one.get("fields") for one in known if one.get("order-id") == wanted), None)
    found = []
    for field_ in fields if isinstance(fields, list) else ():
        source = field_.get("source-id") if isinstance(field_, dict) else None
        if not isinstance(source, int) or field_.get("transform") != "identity":
            break
        found.append(source)
    return tuple(found)


def _parse_schemas(raw: Mapping[str, Any]) -> dict[int, Schema]:
    """Parse ``schemas``, or version 1's single ``schema``."""
    items = raw.get("schemas") or [raw["schema"]]
    return _unique((parse_schema(item) for item in items), lambda item: item.schema_id, "schema")


def _parse_specs(raw: Mapping[str, Any]) -> dict[int, PartitionSpec]:
    """Parse ``partition-specs``, or version 1's ``partition-spec``: the fields of spec 0."""
    items = raw.get("partition-specs") or [{"spec-id": 0, "fields": raw.get("partition-spec") or ()}]
    specs = (
        PartitionSpec(
            spec_id=_integer(item["spec-id"]),
            fields=tuple(_parse_partition_field(part, place) for place, part in enumerate(item["fields"])),
        )
        for item in items
    )
    return _unique(specs, lambda item: item.spec_id, "partition spec")


def _parse_partition_field(raw: Mapping[str, Any], place: int) -> PartitionField:
    sources = tuple(_integer(item) for item in raw.get("source-ids") or (raw["source-id"],))
    return PartitionField(
        source_id=sources[0],
        # Version 1 did not store partition field ids: they are assigned from 1000, in the order of the fields.
        field_id=_integer(raw.get("field-id", _FIRST_PARTITION_FIELD_ID + place)),
        name=str(raw["name"]),
        transform=str(raw["transform"]).strip().lower(),
        source_ids=sources,
    )


def _parse_snapshot(raw: Mapping[str, Any]) -> Snapshot:
    parent, schema_id = raw.get("parent-snapshot-id"), raw.get("schema-id")
    manifest_list = raw.get("manifest-list")
    return Snapshot(
        snapshot_id=_integer(raw["snapshot-id"]),
        parent_id=None if parent is None else _integer(parent),
        sequence_number=_integer(raw.get("sequence-number", 0)),
        timestamp_ms=_integer(raw["timestamp-ms"]),
        manifest_list=None if manifest_list is None else str(manifest_list),
        manifests=tuple(str(path) for path in raw.get("manifests") or ()),
        schema_id=None if schema_id is None else _integer(schema_id),
        summary={str(key): str(value) for key, value in (raw.get("summary") or {}).items()},
    )


def _parse_refs(raw: Mapping[str, Any], current_snapshot_id: int | None) -> dict[str, Reference]:
    """Parse ``refs``; ``main`` defaults to the current snapshot."""
    refs = {
        str(name): Reference(
            snapshot_id=_integer(item["snapshot-id"]),
            kind=str(item["type"]).lower(),
            max_reference_age_ms=item.get("max-ref-age-ms"),
            min_snapshots_to_keep=item.get("min-snapshots-to-keep"),
            max_snapshot_age_ms=item.get("max-snapshot-age-ms"),
        )
        for name, item in (raw.get("refs") or {}).items()
    }
    if current_snapshot_id is not None:
        refs.setdefault("main", Reference(snapshot_id=current_snapshot_id, kind="branch"))
    return refs


def _unique(items: Iterable[_T], key: Callable[[_T], int], what: str) -> dict[int, _T]:
    found: dict[int, _T] = {}
    for item in items:
        if found.setdefault(key(item), item) != item:
            raise ValueError(f"two different entries for {what} {key(item)}")
    if not found and what != "snapshot":
        raise ValueError(f"no {what}")
    return found


def _integer(raw: Any) -> int:
    """Return a JSON integer; raise for a string, a fraction or a boolean."""
    if isinstance(raw, bool) or not isinstance(raw, int):
        raise TypeError(f"not an integer: {raw!r}")
    return raw


def _corrupt(message: str, location: str) -> CorruptFileError:
    return CorruptFileError("CORRUPT_METADATA", message, path=location, stage="catalog")
