"""Reads a real table's metadata, manifests, data and delete files by independent code into the oracle's form.

Takes a metadata file in a copied table; returns `declared.content.Content`. It uses json, fastavro, pyarrow
and pyroaring directly, prunes nothing, and uses no code of the product. The rule: whatever it does not
understand raises; it never guesses.
"""

from __future__ import annotations

import gzip
import json
import struct
import urllib.parse
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from declared.content import (
    Content,
    ContentFile,
    DataFile,
    EqualityDelete,
    PartitionField,
    PositionDelete,
    VectorDelete,
)
from declared.types import Column, Kind, ListOf, MapOf, Struct, plain, walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_CONTENT = {0: "data", 1: "position", 2: "equality"}


def parse_kind(raw: Any) -> Kind:
    """Parse a type in the metadata's JSON."""
    if isinstance(raw, str):
        return raw.replace(", ", ",")
    match raw["type"]:
        case "struct":
            return Struct(tuple(parse_column(field) for field in raw["fields"]))
        case "list":
            return ListOf(
                Column(raw["element-id"], "element", parse_kind(raw["element"]), raw["element-required"])
            )
        case "map":
            return MapOf(
                Column(raw["key-id"], "key", parse_kind(raw["key"]), required=True),
                Column(raw["value-id"], "value", parse_kind(raw["value"]), raw["value-required"]),
            )
    raise ValueError(raw)


def parse_column(raw: Mapping[str, Any]) -> Column:
    """Parse a field in the metadata's JSON, including its initial default."""
    kind = parse_kind(raw["type"])
    return Column(raw["id"], raw["name"], kind, raw["required"], _default(kind, raw.get("initial-default")))


def _default(kind: Kind, raw: Any) -> Any:
    if raw is None or isinstance(kind, Struct | MapOf):
        return raw
    if isinstance(kind, ListOf):
        return [_default(kind.element.type, item) for item in raw]
    import datetime

    match kind:
        case "binary":
            return bytes.fromhex(raw)
        case "date":
            return plain(kind, datetime.date.fromisoformat(raw))
        case "timestamp" | "timestamptz":
            return plain(kind, datetime.datetime.fromisoformat(raw))
    return plain(kind, raw)


class RealTable:
    """A table in a folder, whatever location its metadata names.

    Args:
        metadata: Path of the metadata file; its folder is in the table's folder.
        others: More folders with files of the table.
    """

    def __init__(self, metadata: Path, others: Sequence[Path] = ()) -> None:
        raw = metadata.read_bytes()
        self.raw = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
        self.folders = (metadata.parent.parent, *others)
        schemas = self.raw.get("schemas") or [{**self.raw["schema"], "schema-id": 0}]
        self.schemas = {
            s.get("schema-id", 0): tuple(parse_column(field) for field in s["fields"]) for s in schemas
        }
        self.current = self.schemas[self.raw.get("current-schema-id", 0)]
        specs = self.raw.get("partition-specs") or [{"spec-id": 0, "fields": self.raw["partition-spec"]}]
        self.specs = {
            spec["spec-id"]: tuple(
                PartitionField(p.get("field-id", 1000 + i), p["name"], p["transform"], p["source-id"])
                for i, p in enumerate(spec["fields"])
            )
            for spec in specs
        }
        self.all_columns = {c.id: c for columns in self.schemas.values() for c, _ in walk(columns)}
        self.all_columns |= {c.id: c for c, _ in walk(self.current)}
        mapping = self.raw.get("properties", {}).get("schema.name-mapping.default")
        self.mapping = json.loads(mapping) if mapping else None

    def local(self, written: str) -> Path:
        """Return where a file is: by the longest suffix of its path that exists in one of the folders."""
        parts = urllib.parse.urlsplit(written).path.strip("/").split("/")
        for start in range(len(parts)):
            for folder in self.folders:
                path = folder.joinpath(*parts[start:])
                if path.is_file():
                    return path
        raise FileNotFoundError(written)

    def content(self, snapshot_id: int | None = None, columns: Sequence[Column] | None = None) -> Content:
        """Return a snapshot's content, by default the current one's."""
        wanted = snapshot_id if snapshot_id is not None else self.raw.get("current-snapshot-id", -1)
        snapshot = next((s for s in self.raw.get("snapshots", ()) if s["snapshot-id"] == wanted), None)
        files = list(self._files(snapshot)) if snapshot else []
        at = self.schemas.get(snapshot.get("schema-id")) if snapshot else None
        return Content(
            snapshot_id=wanted if snapshot else None,
            columns=tuple(columns or self.current),
            snapshot_columns=at or self.current,
            all_columns=self.all_columns,
            specs=self.specs,
            data=tuple(file for file in files if isinstance(file, DataFile)),
            deletes=tuple(file for file in files if not isinstance(file, DataFile)),
        )

    def _files(self, snapshot: Mapping[str, Any]) -> Iterable[ContentFile]:
        if "manifest-list" in snapshot:
            manifests = _avro(self.local(snapshot["manifest-list"]))
        else:
            manifests = [{"manifest_path": path} for path in snapshot["manifests"]]
        for manifest in manifests:
            for entry in _avro(self.local(manifest["manifest_path"])):
                if entry["status"] != 2:
                    yield self._file(manifest, entry)

    def _file(self, manifest: Mapping[str, Any], entry: Mapping[str, Any]) -> ContentFile:
        raw = entry["data_file"]
        sequence = entry.get("sequence_number")
        spec_id = manifest.get("partition_spec_id", 0)
        partition = raw["partition"]
        place: dict[str, Any] = {
            "path": raw["file_path"],
            "spec_id": spec_id,
            "partition": tuple(
                self._partition_value(part, partition.get(part.name)) for part in self.specs[spec_id]
            ),
            "sequence": sequence if sequence is not None else manifest.get("sequence_number") or 0,
            "size": raw["file_size_in_bytes"],
            "entry": raw,
        }
        path = self.local(raw["file_path"])
        kind = _CONTENT[raw.get("content") or 0]
        if kind == "data":
            columns, rows = self._rows(path, raw["file_format"])
            return DataFile(**place, columns=columns, rows=tuple(rows))
        if kind == "equality":
            columns, rows = self._rows(path, raw["file_format"])
            return EqualityDelete(**place, columns=columns, rows=tuple(rows), ids=tuple(raw["equality_ids"]))
        if raw["file_format"].lower() == "puffin":
            positions = _vector(path, raw["content_offset"], raw["content_size_in_bytes"])
            return VectorDelete(**place, data_file=raw["referenced_data_file"], positions=positions)
        table = pq.read_table(path, columns=["file_path", "pos"])
        pairs = zip(table["file_path"].to_pylist(), table["pos"].to_pylist(), strict=True)
        return PositionDelete(**place, positions=tuple(pairs))

    def _partition_value(self, part: PartitionField, value: Any) -> Any:
        import datetime

        if isinstance(value, datetime.datetime | datetime.date | uuid.UUID) and value is not None:
            kind = self.all_columns[part.source].type
            if isinstance(value, uuid.UUID):
                return str(value)
            if isinstance(value, datetime.datetime):
                return plain("timestamp", value.astimezone(datetime.UTC) if value.tzinfo else value)
            return plain("date" if kind != "date" else kind, value)
        if isinstance(value, datetime.time):
            return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
        if isinstance(value, bytes) and self.all_columns.get(part.source, Column(0, "", "")).type == "uuid":
            return str(uuid.UUID(bytes=value))
        return value

    def _rows(self, path: Path, file_format: str) -> tuple[tuple[Column, ...], list[dict[int, Any]]]:
        match file_format.lower():
            case "parquet":
                table = pq.ParquetFile(path).read()
                key = b"PARQUET:field_id"
            case "orc":
                table = pa.orc.ORCFile(str(path)).read()
                key = b"iceberg.id"
            case "avro":  # flat columns only
                with path.open("rb") as file:
                    reader = fastavro.reader(file)
                    records: list[Any] = list(reader)
                fields = reader.writer_schema["fields"]
                arrays = [pa.array([record[field["name"]] for record in records]) for field in fields]
                named = [
                    pa.field(field["name"], array.type, metadata={"field-id": str(field["field-id"])})
                    for field, array in zip(fields, arrays, strict=True)
                ]
                table = pa.Table.from_arrays(arrays, schema=pa.schema(named))
                key = b"field-id"
            case _:
                raise NotImplementedError(file_format)
        has_ids = any(key in (field.metadata or {}) for field in table.schema)
        rows: list[dict[int, Any]] = [{} for _ in range(table.num_rows)]
        columns = []
        for name, array in zip(table.schema, table.columns, strict=True):
            column = self._column_of(name, key if has_ids else None, self.mapping or ())
            if column is None:
                continue
            columns.append(column)
            for row, value in zip(rows, _values(array.combine_chunks(), column), strict=True):
                row[column.id] = value
        return tuple(columns), rows

    def _column_of(
        self, field: pa.Field, key: bytes | None, mapping: Sequence[Mapping[str, Any]]
    ) -> Column | None:
        """Return the column for a file's field, by its id in the file or the name mapping."""
        inside: Sequence[Mapping[str, Any]] = ()
        if key is not None:
            if key not in (field.metadata or {}):
                return None
            field_id = int(field.metadata[key])
        else:
            entry = next((m for m in mapping if field.name in m["names"]), None)
            if entry is None or "field-id" not in entry:
                return None
            field_id, inside = entry["field-id"], entry.get("fields", ())
        known = self.all_columns.get(field_id)
        if known is None:
            return None
        kind = field.type
        if pa.types.is_struct(kind):
            parts = tuple(
                c for i in range(kind.num_fields) if (c := self._column_of(kind.field(i), key, inside))
            )
            return Column(field_id, field.name, Struct(parts))
        if pa.types.is_map(kind):
            key_column = self._column_of(kind.key_field, key, inside)
            value_column = self._column_of(kind.item_field, key, inside)
            if key_column is None or value_column is None:
                return None
            return Column(field_id, field.name, MapOf(key_column, value_column))
        if pa.types.is_list(kind):
            element = self._column_of(kind.value_field.with_name("element"), key, inside)
            if (
                element is None
                and isinstance(known.type, ListOf)
                and isinstance(known.type.element.type, str)
            ):
                element = (
                    known.type.element
                )  # a writer numbered elements differently: a list has only one element field
            return Column(field_id, field.name, ListOf(element)) if element else None
        return Column(field_id, field.name, known.type)


def _values(array: pa.Array, column: Column) -> list[Any]:
    """Return plain values; sub-fields that the column lacks are left out."""
    valid = array.is_valid().to_pylist()
    match column.type:
        case Struct(fields):
            parts = {f.id: _values(array.field(array.type.get_field_index(f.name)), f) for f in fields}
            return [
                {i: values[n] for i, values in parts.items()} if ok else None for n, ok in enumerate(valid)
            ]
        case ListOf(element):
            items, offsets = _values(array.values, element), array.offsets.to_pylist()
            return [items[offsets[n] : offsets[n + 1]] if ok else None for n, ok in enumerate(valid)]
        case MapOf(key, value):
            pairs = list(zip(_values(array.keys, key), _values(array.items, value), strict=True))
            offsets = array.offsets.to_pylist()
            return [pairs[offsets[n] : offsets[n + 1]] if ok else None for n, ok in enumerate(valid)]
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        array = array.storage
    if pa.types.is_timestamp(kind):
        array = array.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    elif pa.types.is_time64(kind):
        array = array.cast(pa.int64())
    elif pa.types.is_date32(kind):
        array = array.cast(pa.int32())
    values = array.to_pylist()
    if column.type == "uuid":
        return [str(uuid.UUID(bytes=v)) if isinstance(v, bytes) else v for v in values]
    return values


def _vector(path: Path, offset: int, size: int) -> frozenset[int]:
    blob = path.read_bytes()[offset : offset + size]
    (length,) = struct.unpack(">I", blob[:4])
    assert blob[4:8] == b"\xd1\xd3\x39\x64"
    return frozenset(BitMap64.deserialize(blob[8 : 4 + length]))


def _avro(path: Path) -> list[dict[str, Any]]:
    with path.open("rb") as file:
        return list(fastavro.reader(file))  # type: ignore[arg-type]
