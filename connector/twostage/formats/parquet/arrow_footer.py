"""pyarrow's view of a footer, and the footers that pyarrow refuses although other engines read them.

Takes a footer; returns pyarrow's view of it, and the footer that goes with that view. Arrow refuses a whole
file because of one unexpected annotation: the null type that old writers put on the groups inside maps, or a
map with optional keys. Spark and DuckDB read such files. For these files, and no others, the annotations that
Arrow refuses are removed. The rule: levels, physical types, names and ids stay, and therefore so do the
values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from twostage.errors import UnsupportedFeatureError
from twostage.formats.parquet import virtual_file
from twostage.formats.parquet.schema_tree import read_schema
from twostage.formats.parquet.thrift import read_struct, struct_spans

if TYPE_CHECKING:
    from collections.abc import Iterator

    from twostage.formats.parquet.file_metadata import Footer
    from twostage.formats.parquet.schema_tree import SchemaNode

_SCHEMA, _KEY_VALUES = 2, 5
"""Fields of FileMetaData in parquet.thrift."""
_PLAIN = (1, 2, 3, 4, 5, 9)
"""Fields of a schema element that stay: physical type, length, repetition, name, number of children, id."""
_CONVERTED = 6
_MAP, _LIST = 1, 3
"""Values of ConvertedType."""
_ARROW_SCHEMA = b"ARROW:schema"
_REFUSED = (pa.ArrowException, OSError)


def arrow_footer(footer: Footer, path: str) -> tuple[Footer, pq.FileMetaData]:
    """Return a footer that Arrow accepts, the given one wherever possible, and pyarrow's view of it.

    Raises:
        UnsupportedFeatureError: Arrow refuses both.
    """
    try:
        return footer, _view(footer)
    except _REFUSED as error:
        text = str(error)
    repaired = _repair(footer)
    try:
        return repaired, _view(repaired)
    except _REFUSED:
        pass
    lines = text.splitlines() or [""]
    raise UnsupportedFeatureError(
        "UNREADABLE_BY_ARROW",
        f"Arrow, which decodes Parquet here, cannot read the file's schema: {lines[0][:200]}",
        path=path,
        stage="open",
        hint="Other engines may: let one of them write the file anew.",
    )


def _view(footer: Footer) -> pq.FileMetaData:
    metadata = pq.read_metadata(pa.BufferReader(footer.alone()))
    metadata.schema.to_arrow_schema()  # raises here what each reader of the file would raise
    return metadata


def _repair(footer: Footer) -> Footer:
    """Return the footer without the annotations that Arrow refuses; maps with optional keys become lists of pairs."""
    raw = footer.raw
    spans = struct_spans(raw, _SCHEMA)
    elements: list[bytes] = []
    loose: list[tuple[int, int]] = []
    for (start, end), node in zip(spans, _nodes(footer.schema), strict=True):
        element = raw[start:end]
        if node.leaf is not None:
            is_accepted = virtual_file.is_accepted(element)
            elements.append(element if is_accepted else _annotated(element, None))
            continue
        kind = _kind_of(node)
        if kind == _MAP and node.children[0].children[0].repetition != "required":
            kind = _LIST
            if len(node.children[0].children) > 1:
                leaves = [leaf.leaf.index for leaf in _nodes(node) if leaf.leaf is not None]
                loose.append((leaves[0], leaves[-1] + 1))
        elements.append(_annotated(element, kind))
    raw = _without_arrow_schema(raw[: spans[0][0]] + b"".join(elements) + raw[spans[-1][1] :])
    schema, leaves_of = read_schema([read_struct(element)[0] for element in elements])
    return replace(footer, raw=raw, schema=schema, leaves=leaves_of, maps_as_lists=frozenset(loose))


def _nodes(node: SchemaNode) -> Iterator[SchemaNode]:
    """Yield a node and those below it, depth first, as a footer lists them."""
    yield node
    for child in node.children:
        yield from _nodes(child)


def _kind_of(group: SchemaNode) -> int | None:
    """Return the converted type of a list or map, if the group has the shape of one."""
    name = "" if group.logical is None else group.logical.name
    if (
        group.repetition == "repeated"
        or len(group.children) != 1
        or group.children[0].repetition != "repeated"
    ):
        return None
    if name == "list":
        return _LIST
    is_map = name in ("map", "map_key_value") and len(group.children[0].children) in (1, 2)
    return _MAP if is_map else None


def _annotated(element: bytes, converted: int | None) -> bytes:
    """Return a schema element with this converted type (None: without one) and no other annotation."""
    fields = {
        number: value
        for number, value in read_struct(element)[0].items()
        if number in _PLAIN and isinstance(value, int | bytes)
    }
    if converted is not None:
        fields[_CONVERTED] = converted
    return virtual_file.schema_element(fields)


def _without_arrow_schema(raw: bytes) -> bytes:
    """Rename the key of the Arrow schema that a writer stored: it may not match the repaired one."""
    if _ARROW_SCHEMA in raw:
        for start, end in struct_spans(raw, _KEY_VALUES):
            if read_struct(raw[start:end])[0][1] == _ARROW_SCHEMA:
                pair = raw[start:end].replace(_ARROW_SCHEMA, _ARROW_SCHEMA.lower(), 1)
                raw = raw[:start] + pair + raw[end:]
    return raw


def with_maps(schema: pa.Schema, ranges: frozenset[tuple[int, int]]) -> pa.Schema:
    """Return a schema in which lists of pairs are maps again.

    Args:
        schema: The Arrow schema of a repaired footer.
        ranges: Leaf ranges of the maps (`Footer.maps_as_lists`).
    """
    if not ranges:
        return schema
    fields, leaf = [], 0
    for field in schema:
        made, leaf = _with_maps(field, leaf, ranges)
        fields.append(made)
    return pa.schema(fields)


def _with_maps(field: pa.Field, first: int, ranges: frozenset[tuple[int, int]]) -> tuple[pa.Field, int]:
    kind, types = field.type, pa.types
    if types.is_struct(kind):
        parts, end = [], first
        for child in kind:
            part, end = _with_maps(child, end, ranges)
            parts.append(part)
        return field.with_type(pa.struct(parts)), end
    if types.is_map(kind):
        key, middle = _with_maps(kind.key_field, first, ranges)
        item, end = _with_maps(kind.item_field, middle, ranges)
        return field.with_type(pa.map_(key, item)), end
    if types.is_list(kind):
        inner, end = _with_maps(kind.value_field, first, ranges)
        # A list around the map has the same leaves, but its element is not a struct of two fields.
        if (first, end) in ranges and types.is_struct(inner.type) and inner.type.num_fields == 2:
            return field.with_type(
                pa.map_(inner.type.field(0).with_nullable(False), inner.type.field(1))
            ), end
        return field.with_type(pa.list_(inner)), end
    return field, first + 1
