"""Records of manifest lists and manifests as plain values.

Takes the Avro bytes of one file; returns `ManifestFile`s or `ContentFile`s, with inherited sequence numbers and row ids
filled in and bounds left as raw bytes by field id. Avro fields are matched by ``field-id``, because writers sanitize
and vary names; by name only if the file has no ids. An entry is read as the spec defines it, or the scan ends in a
`CorruptFileError`: no file is dropped, and none gets a sequence number that it does not have.
Source: Iceberg table spec, "Manifests", "Manifest Lists" and "Sequence Number Inheritance".
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from twostage.formats.avro.container import AvroFile, iterate_records, open_avro, read_records
from twostage.table.entry_values import pairs_reader, partition_readers
from twostage.table.fixed_partitions import choose_reading, fixed_sizes, with_lengths
from twostage.table.manifest_entry import (
    ADDED,
    DATA,
    DELETED,
    EQUALITY_DELETES,
    ContentFile,
    ManifestFile,
    PartitionSummary,
)
from twostage.table.manifest_fields import (
    DATA_FILE,
    ENTRY_IDS,
    LIST_IDS,
    MAP_IDS,
    named_by_id,
    record_of,
    without_fields,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from twostage.table.metadata import PartitionSpec

_CODE = "CORRUPT_MANIFEST"


def parse_manifest_list(data: bytes, *, path: str) -> tuple[ManifestFile, ...]:
    """Return the entries of a manifest list's bytes, in its order.

    Raises:
        CorruptFileError: The bytes are not a valid manifest list.
    """
    file = open_avro(data, path=path, code=_CODE)
    records = read_records(file, _convert(file, file.schema, lambda schema: named_by_id(schema, LIST_IDS)))
    return tuple(_convert(file, record, _manifest_file) for record in records)


def parse_manifest(
    data: bytes, manifest: ManifestFile, specs: Mapping[int, PartitionSpec], *, deleted: bool = False
) -> tuple[ContentFile, ...]:
    """Return the entries of a manifest's bytes; see `iterate_manifest`."""
    return tuple(iterate_manifest(data, manifest, specs, deleted=deleted))


def iterate_manifest(
    data: bytes,
    manifest: ManifestFile,
    specs: Mapping[int, PartitionSpec],
    *,
    deleted: bool = False,
    without: frozenset[int] = frozenset(),
) -> Iterator[ContentFile]:
    """Yield the entries of a manifest's bytes, block by block.

    Args:
        data: The manifest.
        manifest: Its entry in the manifest list, from which entries inherit sequence numbers and row ids.
        specs: The table's partition specs by id.
        deleted: Yield entries with status DELETED too.
        without: Ids of fields to skip while decoding; the entries have no values for them.

    Raises:
        CorruptFileError: The bytes are not a valid manifest, or an entry lacks a required value.
    """
    file = open_avro(data, path=manifest.path, code=_CODE)
    spec_id = manifest.spec_id
    if spec_id is None:
        text = file.metadata.get("partition-spec-id", "0")
        spec_id = int(text) if text.isdecimal() else -1
    if spec_id not in specs:
        raise file.corrupt(f"Manifest has a partition spec that the table lacks: {spec_id}")
    spec = specs[spec_id]
    schema = _convert(file, file.schema, lambda schema: named_by_id(schema, ENTRY_IDS, spec))
    sizes: dict[str, int] = _convert(file, schema, fixed_sizes)

    def read(schema: Any, wanted: Any = None) -> Iterator[ContentFile]:
        reader = _convert(
            file, schema, lambda schema: _EntryReader(file, schema, manifest, spec, deleted=deleted)
        )
        for records in iterate_records(file, schema, wanted):
            for record in records:
                entry = _convert(file, record, reader.read)
                if entry is not None:
                    yield entry

    if sizes:
        schemas = schema, with_lengths(schema)
        yield from choose_reading(file, manifest, spec, sizes, [partial(list, read(one)) for one in schemas])
    else:
        wanted = _convert(file, schema, lambda schema: without_fields(schema, without)) if without else None
        yield from read(schema, wanted)


class _EntryReader:
    """Converts the records of one manifest to content files; call `read` in their order, because row ids count up."""

    def __init__(
        self, file: AvroFile, schema: Any, manifest: ManifestFile, spec: PartitionSpec, *, deleted: bool
    ) -> None:
        self._manifest = manifest
        self._keeps_deleted = deleted
        self._spec_id = spec.spec_id
        self._next_row_id = manifest.first_row_id
        self._is_version_1 = file.metadata.get("format-version", "1") == "1"
        entry = {part["name"]: part["type"] for part in record_of(schema)["fields"]}
        kinds = {part["name"]: part["type"] for part in record_of(entry[f"_{DATA_FILE}"])["fields"]}
        self._partition = partition_readers(kinds, {part.field_id for part in spec.fields})
        self._pairs = {id_: pairs_reader(kinds.get(f"_{id_}", "null")) for id_ in MAP_IDS}

    def read(self, record: dict[str, Any]) -> ContentFile | None:
        """Return an entry's file; None for one with status DELETED, unless these are kept."""
        status, raw = record["_0"], record["_2"]
        if status not in (0, ADDED, DELETED):
            raise ValueError(f"entry has an unknown status {status}")
        if status == DELETED and not self._keeps_deleted:
            return None
        content = raw.get("_134") or DATA
        if (content != DATA) != self._manifest.is_deletes or content not in (0, 1, 2):
            raise ValueError(f"entry has content {content}, which its manifest does not hold")
        values = raw["_102"]
        snapshot_id = record.get("_1")
        entry = ContentFile(
            status=status,
            snapshot_id=self._manifest.snapshot_id if snapshot_id is None else snapshot_id,
            sequence_number=self._sequence_number(status, record.get("_3")),
            file_sequence_number=self._file_sequence_number(status, record.get("_4")),
            spec_id=self._spec_id,
            content=content,
            path=_text(raw["_100"]),
            format=_text(raw["_101"]).lower(),
            partition={id_: read(values[name]) for id_, name, read in self._partition},
            record_count=_row_count(raw["_103"], content),
            file_size=_count(raw["_104"]),
            column_sizes=self._pairs[108](raw.get("_108")),
            value_counts=self._pairs[109](raw.get("_109")),
            null_counts=self._pairs[110](raw.get("_110")),
            nan_counts=self._pairs[137](raw.get("_137")),
            lower_bounds=self._pairs[125](raw.get("_125")),
            upper_bounds=self._pairs[128](raw.get("_128")),
            split_offsets=tuple(raw.get("_132") or ()),
            equality_ids=tuple(raw.get("_135") or ()),
            sort_order_id=raw.get("_140"),
            key_metadata=raw.get("_131"),
            referenced_data_file=raw.get("_143"),
            content_offset=raw.get("_144"),
            content_size=raw.get("_145"),
            first_row_id=self._first_row_id(status, content, raw.get("_142"), raw["_103"]),
        )
        if content == EQUALITY_DELETES and not entry.equality_ids:
            raise ValueError(f"equality delete file has no equality ids: {entry.path}")
        return entry

    def _sequence_number(self, status: int, own: int | None) -> int:
        """Return the data sequence number: added files inherit the manifest's, and it is 0 in format version 1."""
        if own is not None:
            return _count(own)
        if status == ADDED or self._manifest.sequence_number == 0:
            return self._manifest.sequence_number
        if self._is_version_1:
            return 0
        raise ValueError("entry of an existing file has no sequence number")

    def _file_sequence_number(self, status: int, own: int | None) -> int | None:
        """Return the file sequence number; None for existing files if an old writer did not store it."""
        inherits = own is None and (status == ADDED or self._manifest.sequence_number == 0)
        return self._manifest.sequence_number if inherits else own

    def _first_row_id(self, status: int, content: int, own: int | None, record_count: int) -> int | None:
        if own is not None or content != DATA or self._next_row_id is None or status == DELETED:
            return own
        first = self._next_row_id
        # After a file with an unknown record count, row ids are unknown; the rows are read all the same.
        self._next_row_id = first + record_count if record_count >= 0 else None
        return first


def _manifest_file(record: dict[str, Any]) -> ManifestFile:
    content = record.get("_517") or 0
    if content not in (0, 1):
        raise ValueError(f"manifest has an unknown content {content}")
    return ManifestFile(
        path=_text(record["_500"]),
        spec_id=record["_502"],
        is_deletes=content == 1,
        sequence_number=_count(record.get("_515") or 0),
        snapshot_id=record.get("_503"),
        partitions=tuple(map(_summary, record.get("_507") or ())),
        length=record.get("_501"),
        added_files=record.get("_504"),
        existing_files=record.get("_505"),
        deleted_files=record.get("_506"),
        added_rows=record.get("_512"),
        existing_rows=record.get("_513"),
        first_row_id=record.get("_520"),
        key_metadata=record.get("_519"),
    )


def _summary(item: dict[str, Any] | None) -> PartitionSummary:
    if item is None:
        return PartitionSummary()
    return PartitionSummary(
        contains_null=item.get("_509") is not False,
        contains_nan=item.get("_518"),
        lower=item.get("_510"),
        upper=item.get("_511"),
    )


def _convert(file: AvroFile, record: dict[str, Any], read: Callable[[dict[str, Any]], Any]) -> Any:
    """Apply `read`; raise what a record of the wrong shape makes it raise as the file's `CorruptFileError`."""
    try:
        return read(record)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise file.corrupt(f"Manifest entry is malformed: {error!r}") from error


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"not a text: {value!r}")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise TypeError(f"not a count: {value!r}")
    return value


def _row_count(value: Any, content: int) -> int:
    """Return a file's record count; -1 (unknown) is valid for data files only."""
    return -1 if content == DATA and value == -1 else _count(value)
