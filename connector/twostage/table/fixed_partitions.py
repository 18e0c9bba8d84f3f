"""A manifest's records where partition values are of Avro's type fixed.

Takes an opened manifest and its schema; gives its records. Iceberg's Java library (1.12) announces ``fixed`` for them
and writes ``bytes``, a length before each value. The rule: what the header announces is tried first; else every
block must hold exactly its records the other way, and each value have the announced length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twostage.errors import CorruptFileError
from twostage.table.avro import iterate_records, read_records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from twostage.table.avro import AvroFile


def iterate_entries(
    file: AvroFile, schema: dict[str, Any], projection: dict[str, Any] | None = None
) -> Iterator[list[dict[str, Any]]]:
    """Yield the records of a manifest block by block, fixed partition values written either way.

    Args:
        file: The manifest.
        schema: Its schema, each field named ``_<field id>``.
        projection: The part of it to decode; where there are fixed partition values all is decoded.

    Raises:
        CorruptFileError: The blocks do not hold the records that they announce.
        ResourceLimitError: They unpack to too many bytes.
    """
    sizes: dict[str, int] = {}
    try:
        other = _with_lengths(schema, sizes)
    except (LookupError, TypeError):
        sizes.clear()  # no manifest's schema: reading it tells what is wrong
    if not sizes:
        yield from iterate_records(file, schema, projection)
        return
    try:
        yield read_records(file, schema)
    except CorruptFileError as error:
        try:
            records = read_records(file, other)
        except CorruptFileError:
            raise error from None
        for record in records:
            values = record["_2"]["_102"]
            if any(values[name] is not None and len(values[name]) != size for name, size in sizes.items()):
                raise
        yield records


def _with_lengths(schema: dict[str, Any], sizes: dict[str, int]) -> dict[str, Any]:
    """Return the schema with ``bytes`` for fixed partition values, whose announced sizes go into `sizes`."""

    def inside(record: dict[str, Any], name: str, change: Any) -> dict[str, Any]:
        fields = [
            {**part, "type": change(part["type"])} if part["name"] == name else part
            for part in record["fields"]
        ]
        return {**record, "fields": fields}

    return inside(
        schema, "_2", lambda data_file: inside(data_file, "_102", lambda kind: _values(kind, sizes))
    )


def _values(partition: dict[str, Any], sizes: dict[str, int]) -> dict[str, Any]:
    """Replace the types of the partition's fields."""
    named: dict[str, int] = {}
    fields = []
    for part in partition["fields"]:
        kinds = part["type"] if isinstance(part["type"], list) else [part["type"]]
        for kind in kinds:
            # A decimal or a UUID is fixed as well, with a logical type; those are written as announced.
            if isinstance(kind, dict) and kind.get("type") == "fixed" and "logicalType" not in kind:
                name, size = kind.get("name"), kind.get("size")
                if isinstance(name, str) and isinstance(size, int):
                    named[name] = size
        found = [_fixed(kind, named) for kind in kinds]
        if any(size is not None for size in found):
            sizes[part["name"]] = next(size for size in found if size is not None)
            kinds = ["bytes" if size is not None else kind for kind, size in zip(kinds, found, strict=True)]
            part = {**part, "type": kinds if isinstance(part["type"], list) else kinds[0]}  # noqa: PLW2901
        fields.append(part)
    return {**partition, "fields": fields}


def _fixed(kind: Any, named: dict[str, int]) -> int | None:
    """Return the size of a fixed type, which may be told by its name alone."""
    name = kind.get("name") if isinstance(kind, dict) else kind
    return named.get(name) if isinstance(name, str) else None
