"""Manifests whose partition values of Avro's type fixed can be read in two ways.

Takes both readings of a manifest; gives the entries of the one that is right. Iceberg's Java library (1.12, issue
17501 of apache/iceberg) announces ``fixed`` for them and writes ``bytes``, a length before each value; the value's last
byte then stands where the record count does, and one value in four still leaves an entry that looks sound. The rule: a
reading is right only if every block holds exactly its entries and each is sound; of two such readings, if
nothing that the manifest list says of rows and partitions contradicts one of them alone. Else the manifest is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twostage.errors import CorruptFileError
from twostage.table.manifest_fields import DATA_FILE, PARTITION, change_field, record_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from twostage.formats.avro.container import AvroFile
    from twostage.table.manifest_entry import ContentFile, ManifestFile
    from twostage.table.metadata import PartitionSpec

_FORMATS = frozenset(("parquet", "orc", "avro", "puffin"))
_EXISTING, _ADDED = 0, 1


def fixed_sizes(schema: Any) -> dict[str, int]:
    """Return the sizes of the fixed partition values that a manifest announces, by the fields' names.

    Decimals and UUIDs are fixed as well, with a logical type; those are written as announced.
    """
    entry = {part["name"]: part["type"] for part in record_of(schema)["fields"]}
    file_fields = {part["name"]: part["type"] for part in record_of(entry[f"_{DATA_FILE}"])["fields"]}
    sizes: dict[str, int] = {}
    if f"_{PARTITION}" not in file_fields:
        return sizes
    for part in record_of(file_fields[f"_{PARTITION}"])["fields"]:
        for kind in part["type"] if isinstance(part["type"], list) else [part["type"]]:
            if _is_fixed(kind):
                sizes[part["name"]] = kind["size"]
    return sizes


def with_lengths(schema: Any) -> Any:
    """Return the schema with ``bytes`` for the fixed partition values."""

    def bare(kind: Any) -> Any:
        if isinstance(kind, list):
            return [bare(part) for part in kind]
        return "bytes" if _is_fixed(kind) else kind

    def partition(kind: Any) -> Any:
        for part in record_of(kind)["fields"]:
            kind = change_field(kind, part["name"], bare)
        return kind

    return change_field(schema, f"_{DATA_FILE}", lambda kind: change_field(kind, f"_{PARTITION}", partition))


def _is_fixed(kind: Any) -> bool:
    return isinstance(kind, dict) and kind["type"] == "fixed" and "logicalType" not in kind


def choose_reading(
    file: AvroFile,
    manifest: ManifestFile,
    spec: PartitionSpec,
    sizes: Mapping[str, int],
    readings: Sequence[Callable[[], list[ContentFile]]],
) -> list[ContentFile]:
    """Return the live entries of a manifest with fixed partition values.

    Args:
        file: The manifest, for errors.
        manifest: What its list says of it.
        spec: Its partition spec.
        sizes: What `fixed_sizes` found.
        readings: As announced, and with lengths; each raises a CorruptFileError where it makes no sense.

    Raises:
        CorruptFileError: Neither makes sense, or both do and the list does not tell which is meant.
    """
    lengths = {int(name[1:]): size for name, size in sizes.items() if name.startswith("_")}
    found: list[list[ContentFile]] = []
    errors: list[CorruptFileError] = []
    for read in readings:
        try:
            entries = read()
        except CorruptFileError as error:
            errors.append(error)
            continue
        if all(_fits(entry, lengths) for entry in entries):
            found.append(entries)
        else:
            errors.append(file.corrupt("Manifest has a partition value that is not as long as announced"))
    if not found:
        raise errors[0]
    if all(entries == found[0] for entries in found[1:]):
        return found[0]
    left = [entries for entries in found if _agrees(entries, manifest, spec, lengths)]
    if len(left) != 1:
        raise file.corrupt(
            "Manifest can be read in two ways, its fixed partition values with or without lengths before them, "
            "and its manifest list does not tell which is meant"
        )
    return left[0]


def _fits(entry: ContentFile, lengths: Mapping[int, int]) -> bool:
    """Tell whether the fixed values are as long as announced."""
    values = ((entry.partition.get(field_id), size) for field_id, size in lengths.items())
    return all(value is None or len(value) == size for value, size in values)


def _agrees(
    entries: Sequence[ContentFile], manifest: ManifestFile, spec: PartitionSpec, ids: Mapping[int, int]
) -> bool:
    """Tell whether these are entries that a writer writes, and nothing that the manifest list says contradicts them."""
    if any(entry.format not in _FORMATS for entry in entries):
        return False
    for status, rows in ((_ADDED, manifest.added_rows), (_EXISTING, manifest.existing_rows)):
        if rows is not None and rows != sum(one.record_count for one in entries if one.status == status):
            return False
    for part, summary in zip(spec.fields, manifest.partitions, strict=False):
        for value in (one.partition.get(part.field_id) for one in entries) if part.field_id in ids else ():
            if value is None:
                outside = not summary.contains_null
            else:
                outside = (summary.lower is not None and value < summary.lower) or (
                    summary.upper is not None and value > summary.upper
                )
            if outside:
                return False
    return True
