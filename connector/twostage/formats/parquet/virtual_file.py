"""A Parquet file in memory that holds only some pages of another file.

Takes a file's footer and, for some leaves of one row group, the pages that were read; returns the bytes of a
small file for pyarrow to decode: the pages as they are, checksums included, and a footer written here. Each
leaf is a column of its own, nested as in the original file, because pages of two leaves rarely begin at the
same row; columns therefore have different lengths, and are read one by one. The rule: a column's reader
compares its length with that of the pages, because pyarrow stops silently at the number of rows in the
footer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from twostage.formats.parquet.file_metadata import MAGIC
from twostage.formats.parquet.thrift import struct_spans
from twostage.formats.varint import write_varint, write_zigzag

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from twostage.formats.parquet.file_metadata import ColumnChunk, Footer
    from twostage.formats.parquet.schema_tree import Leaf, SchemaNode


_LIST = 3
"""ConvertedType of a list. A single leaf of a map is declared as a list, too: pyarrow refuses a map without values."""
_REPETITIONS = {"required": 0, "optional": 1, "repeated": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualColumn:
    """The pages of one leaf.

    `parts` are bytes in file order, of which the first `dictionary_size` are the dictionary page (0 without one).
    `num_values` counts values as the page headers do, NULLs included.
    """

    leaf: Leaf
    chunk: ColumnChunk
    num_values: int
    num_rows: int
    dictionary_size: int
    parts: Sequence[memoryview | bytes]


@dataclass(frozen=True, slots=True, eq=False)
class VirtualSchema:
    """What the virtual files of one footer share: for each leaf, the groups above it and its encoded schema element."""

    created_by: str | None
    groups: tuple[tuple[SchemaNode, ...], ...]
    elements: tuple[bytes, ...]
    stand_alone: tuple[bool, ...]
    """Whether a file in which this leaf is its column's only one has the same meaning."""
    leaves: tuple[Leaf, ...]
    _types: list[pa.DataType | None] = field(default_factory=list)

    def arrow_types(self) -> Sequence[pa.DataType | None]:
        """Return the type that pyarrow gives each leaf of a virtual file; None for nested leaves."""
        if not self._types:
            flat = [leaf for leaf in self.leaves if len(leaf.path) == 1]
            file = pq.ParquetFile(
                pa.BufferReader(
                    _file([], self.created_by, [self.elements[leaf.index] for leaf in flat], len(flat))
                ),
                coerce_int96_timestamp_unit="us",
                arrow_extensions_enabled=False,
            )
            types = dict(zip((leaf.index for leaf in flat), file.schema_arrow.types, strict=True))
            # In one step: another thread may do the same, or read the list meanwhile.
            self._types[:] = [types.get(leaf.index) for leaf in self.leaves]
        return self._types

    @staticmethod
    def of(footer: Footer) -> VirtualSchema:
        """Return the schema of a footer's virtual files."""
        raw = footer.raw
        spans = iter(struct_spans(raw, 2))
        groups: list[tuple[SchemaNode, ...]] = []
        elements: list[bytes] = []

        def walk(node: SchemaNode, above: tuple[SchemaNode, ...]) -> None:
            start, end = next(spans)
            if node.leaf is not None:
                groups.append(above[1:])
                elements.append(raw[start:end])
            for child in node.children:
                walk(child, (*above, node))

        walk(footer.schema, ())
        return VirtualSchema(
            footer.created_by,
            tuple(groups),
            tuple(elements),
            tuple(_stands_alone(above) for above in groups),
            footer.leaves,
        )


def build(schema: VirtualSchema, columns: Sequence[VirtualColumn]) -> pa.Buffer:
    """Return the file: column ``i`` holds the pages of ``columns[i]``, in one row group."""
    elements: list[bytes] = []
    chunks: list[bytes] = []
    parts: list[memoryview | bytes] = []
    position = len(MAGIC)
    for number, column in enumerate(columns):
        leaf = column.leaf
        path = [str(number).encode()] if len(leaf.path) > 1 else []
        path += [name.encode() for name in leaf.path[len(path) :]]
        for name, group in zip(path, schema.groups[leaf.index], strict=False):
            elements.append(_group(name, group))
        elements.append(schema.elements[leaf.index])
        size = sum(len(part) for part in column.parts)
        first = position + column.dictionary_size
        chunks.append(_chunk(column, path, size, first, position if column.dictionary_size else None))
        parts.extend(column.parts)
        position += size
    num_rows = max((column.num_rows for column in columns), default=0)
    row_group = (
        b"\x19" + _list(12, chunks) + b"\x16" + write_zigzag(0) + b"\x16" + write_zigzag(num_rows) + b"\x00"
    )
    return _file(parts, schema.created_by, elements, len(columns), num_rows, [row_group])


def is_accepted(element: bytes) -> bool:
    """Tell whether Arrow accepts a leaf's encoded schema element."""
    try:
        pq.read_schema(pa.BufferReader(_file([], None, [element], 1)))
    except (pa.ArrowException, OSError):
        return False
    return True


def schema_element(fields: Mapping[int, int | bytes]) -> bytes:
    """Encode a schema element without a logical type.

    Args:
        fields: Numbers and the name, by their fields in parquet.thrift.
    """
    out, last = [], 0
    for number in sorted(fields):
        value = fields[number]
        kind, data = (8, _text(value)) if isinstance(value, bytes) else (5, write_zigzag(value))
        out.append(bytes(((number - last) << 4 | kind,)) + data)
        last = number
    return b"".join(out) + b"\x00"


def _file(
    parts: Sequence[memoryview | bytes],
    created_by: str | None,
    elements: Sequence[bytes],
    num_columns: int,
    num_rows: int = 0,
    row_groups: Sequence[bytes] = (),
) -> pa.Buffer:
    """Return a file of pages and a footer."""
    root = b"\x48" + _text(b"schema") + b"\x15" + write_zigzag(num_columns) + b"\x00"
    tail = b"".join(
        (
            b"\x15" + write_zigzag(1),
            b"\x19" + _list(12, [root, *elements]),
            b"\x16" + write_zigzag(num_rows),
            b"\x19" + _list(12, row_groups),
            b"\x28" + _text(created_by.encode()) if created_by else b"",
            b"\x00",
        )
    )
    return pa.py_buffer(b"".join([MAGIC, *parts, tail, len(tail).to_bytes(4, "little"), MAGIC]))


def _is_map(node: SchemaNode) -> bool:
    return node.logical is not None and node.logical.name in ("map", "map_key_value")


def _stands_alone(groups: Sequence[SchemaNode]) -> bool:
    """Tell whether the groups above a leaf keep their meaning when each has only one child.

    In an old two-level list, a repeated group of several fields is the element itself; with one field it
    would be taken for the middle level of a three-level list. So would a group of one field that is the
    element because it is named after the list (``la_tuple`` of ``la``, as Thrift's writers do): a virtual
    file numbers its columns.
    """
    for place, (above, node) in enumerate(zip((None, *groups), groups, strict=False)):
        if node.repetition != "repeated" or (above is not None and _is_map(above)):
            continue
        if len(node.children) > 1 or (place == 1 and node.name.endswith("_tuple")):
            return False
    return True


def _group(name: bytes, node: SchemaNode) -> bytes:
    """Encode the schema element of a group with one child."""
    logical = node.logical.name if node.logical is not None else ""
    is_list = node.repetition != "repeated" and logical in ("list", "map", "map_key_value")
    return b"".join(
        (
            b"\x35" + write_zigzag(_REPETITIONS[node.repetition]),
            b"\x18" + _text(name),
            b"\x15" + write_zigzag(1),
            b"\x15" + write_zigzag(_LIST) if is_list else b"",
            b"\x00",
        )
    )


def _chunk(
    column: VirtualColumn, path: list[bytes], size: int, data_page: int, dictionary_page: int | None
) -> bytes:
    chunk = column.chunk
    meta = b"".join(
        (
            b"\x15" + write_zigzag(column.leaf.physical),
            b"\x19" + _list(5, [write_zigzag(encoding) for encoding in chunk.encodings]),
            b"\x19" + _list(8, [_text(name) for name in path]),
            b"\x15" + write_zigzag(chunk.codec),
            b"\x16" + write_zigzag(column.num_values),
            b"\x16" + write_zigzag(chunk.uncompressed_size),
            b"\x16" + write_zigzag(size),
            b"\x26" + write_zigzag(data_page),
            b"" if dictionary_page is None else b"\x26" + write_zigzag(dictionary_page),
            b"\x00",
        )
    )
    return b"\x26" + write_zigzag(0) + b"\x1c" + meta + b"\x00"


# --- Thrift's compact protocol, written: a field's header is (id delta << 4 | type) ----------------------


def _text(value: bytes) -> bytes:
    return write_varint(len(value)) + value


def _list(kind: int, items: Sequence[bytes]) -> bytes:
    head = (
        bytes(((len(items) << 4) | kind,))
        if len(items) < 15
        else bytes((0xF0 | kind,)) + write_varint(len(items))
    )
    return head + b"".join(items)
