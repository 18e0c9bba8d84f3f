"""Work around manifests whose partition values of type ``fixed`` are encoded as ``bytes``.

Iceberg's Java library (1.12, apache/iceberg issue 17501) declares ``fixed`` in the schema of a manifest but writes
``bytes``, with a length before each value. Decoded as declared, the value's last byte is taken for the record count,
and a quarter of such entries still looks valid. So the manifest is decoded both ways. A reading is accepted if every
block contains exactly its entries and each is valid; of two such readings, the one that agrees with the rows and
partitions in the manifest list. If that does not decide either, the manifest is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twostage.errors import CorruptFileError
from twostage.table.manifest_entry import ADDED, EXISTING
from twostage.table.manifest_fields import DATA_FILE, PARTITION, change_field, record_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from twostage.formats.avro.container import AvroFile
    from twostage.table.manifest_entry import ContentFile, ManifestFile
    from twostage.table.metadata import PartitionSpec

_FORMATS = frozenset(("parquet", "orc", "avro", "puffin"))


def fixed_sizes(schema: Any) -> dict[str, int]:
    """Return the declared sizes in bytes of the ``fixed`` partition values, by field name.

    Decimals and UUIDs are ``fixed`` with a logical type; those are encoded as declared.
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
        manifest: Its entry in the manifest list.
        spec: Its partition spec.
        sizes: The result of `fixed_sizes`.
        readings: Decode as declared, and with lengths; each raises a `CorruptFileError` if it fails.

    Raises:
        CorruptFileError: Neither reading is valid, or both are and the manifest list does not decide.
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
    consistent = [entries for entries in found if _agrees(entries, manifest, spec, lengths)]
    if len(consistent) != 1:
        raise file.corrupt(
            "Manifest can be read in two ways, its fixed partition values with or without lengths before them, "
            "and its manifest list does not say which is meant"
        )
    return consistent[0]


def _fits(entry: ContentFile, lengths: Mapping[int, int]) -> bool:
    """Return whether the fixed values have their declared sizes."""
    values = ((entry.partition.get(field_id), size) for field_id, size in lengths.items())
    return all(value is None or len(value) == size for value, size in values)


def _agrees(
    entries: Sequence[ContentFile], manifest: ManifestFile, spec: PartitionSpec, ids: Mapping[int, int]
) -> bool:
    """Return whether the entries have known file formats and agree with the manifest list."""
    if any(entry.format not in _FORMATS for entry in entries):
        return False
    for status, rows in ((ADDED, manifest.added_rows), (EXISTING, manifest.existing_rows)):
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
