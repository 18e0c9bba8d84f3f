"""The shape of an ORC file's columns, and which Iceberg types its plain types stand for.

Takes the types of a file's tail, and the table's schema; returns an Arrow schema to find fields in, and what
columns mean beyond their ORC type. The rule: what the writer declared takes precedence over what the table
declares.
Source: Iceberg table spec, appendix A, "ORC".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from twostage.schema import Primitive, Schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from twostage.formats.file_schema import FileField
    from twostage.formats.orc.tail import OrcType


def arrow_schema(root: OrcType) -> pa.Schema:
    """Return the shape of a file's columns, type attributes as field metadata; every leaf is declared as binary.

    Only shape, names and ids are meaningful: it is what `file_schema.identify` looks for fields in.
    """
    return pa.schema([_arrow_field(*pair) for pair in zip(root.names, root.children, strict=True)])


def _arrow_field(name: str, kind: OrcType) -> pa.Field:
    target: pa.DataType = pa.binary()
    if kind.kind == "struct":
        target = pa.struct([_arrow_field(*pair) for pair in zip(kind.names, kind.children, strict=True)])
    elif kind.kind == "list":
        target = pa.list_(_arrow_field("element", kind.children[0]))
    elif kind.kind == "map":
        key = _arrow_field("key", kind.children[0]).with_nullable(False)
        target = pa.map_(key, _arrow_field("value", kind.children[1]))
    return pa.field(name, target, metadata=kind.attributes or None)


def meanings(
    kinds: Sequence[OrcType], fields: Sequence[FileField], schema: Schema
) -> Iterator[tuple[int, str]]:
    """Yield columns and their meanings, from their attributes or the table's type; see `StripeReader`."""
    for kind, field in zip(kinds, fields, strict=True):
        if field.children:
            yield from meanings(kind.children, field.children, schema)
            continue
        target = schema.field(field.id).type if field.id is not None and field.id in schema else None
        name = target.name if isinstance(target, Primitive) else ""
        if kind.kind == "binary" and kind.attributes.get("iceberg.binary-type", name).lower() == "uuid":
            yield kind.column, "uuid"
        elif kind.kind == "long" and kind.attributes.get("iceberg.long-type", name).lower() == "time":
            yield kind.column, "time"
        elif kind.attributes.get("spark.sql.catalyst.type") == "timestamp_ntz" and name == "timestamp":
            yield kind.column, "micros"
        elif kind.kind == "timestamp" and name in ("timestamptz", "timestamptz_ns"):
            yield kind.column, "instant"
