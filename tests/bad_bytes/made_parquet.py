"""Parquet files written by hand, byte by byte, so that any part of them can be wrong.

Takes columns with their pages, and what the footer is to say of them; gives the file's bytes. By default all of
it is right: `made()` is a file of the columns ``id`` (long, field 1) and ``text`` (string, field 2), three rows.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import Any

from thrift_writer import struct as thrift, varint

INT32, INT64, BYTE_ARRAY = 1, 2, 6
PLAIN, RLE, RLE_DICTIONARY = 0, 3, 8
NONE, ZSTD = 0, 6
ROWS = [(1, "a"), (2, "b"), (3, "c")]


def longs(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)


def texts(*values: bytes) -> bytes:
    return b"".join(struct.pack("<I", len(value)) + value for value in values)


def page(body: bytes, count: int, *, encoding: int = PLAIN, dictionary: bool = False, **header: int) -> bytes:
    """Return a page with its header; `header` are ``packed``, ``unpacked`` (sizes) and ``crc`` to say otherwise."""
    details = {1: ("i32", count), 2: ("i32", encoding)}
    if not dictionary:
        details |= {3: ("i32", RLE), 4: ("i32", RLE)}
    crc = header.get("crc", zlib.crc32(body))
    head: dict[int, tuple[str, Any]] = {
        1: ("i32", 2 if dictionary else 0),
        2: ("i32", header.get("unpacked", len(body))),
        3: ("i32", header.get("packed", len(body))),
        4: ("i32", crc - 2**32 if crc >= 2**31 else crc),
        7 if dictionary else 5: ("struct", details),
    }
    return thrift(head) + body


def indices(*values: int, width: int) -> bytes:
    """Return dictionary indices as the body of a data page: one run each."""
    return bytes([width]) + b"".join(varint(1 << 1) + bytes([value]) for value in values)


@dataclass
class Column:
    """A leaf of the schema and its pages; what is None is derived from them."""

    name: bytes
    field_id: int | None
    physical: int
    pages: bytes
    dictionary: bytes = b""
    values: int = 3
    codec: int = NONE
    text: bool = False
    repetition: int = 0
    said: dict[int, tuple[str, Any]] = field(default_factory=dict)
    """Fields of the chunk's metadata in the footer that replace the right ones."""
    chunk: dict[int, tuple[str, Any]] = field(default_factory=dict)
    """Fields of the chunk around it."""


def id_column(pages: bytes | None = None, **more: Any) -> Column:
    column = {"name": b"id", "field_id": 1, "physical": INT64}
    return Column(pages=page(longs(1, 2, 3), 3) if pages is None else pages, **(column | more))


def text_column(pages: bytes | None = None, **more: Any) -> Column:
    column = {"name": b"text", "field_id": 2, "physical": BYTE_ARRAY, "text": True}
    return Column(pages=page(texts(b"a", b"b", b"c"), 3) if pages is None else pages, **(column | more))


def made(
    *columns: Column,
    rows: int = 3,
    group_rows: int | None = None,
    schema: list[Any] | None = None,
    chunks: int | None = None,
    footer_length: int | None = None,
    more: dict[int, tuple[str, Any]] | None = None,
) -> bytes:
    """Return a file's bytes.

    Args:
        columns: By default ``id`` and ``text``.
        rows: What the footer says, and by default its row group.
        group_rows: What the row group says.
        schema: Elements instead of the columns' own.
        chunks: The row group holds only so many of the columns' chunks.
        footer_length: Written at the end instead of the right one.
        more: Fields of the footer that are added or replaced.
    """
    columns = columns or (id_column(), text_column())
    content = bytearray(b"PAR1")
    metadata = []
    for column in columns:
        start = len(content)
        content += column.dictionary + column.pages
        meta: dict[int, tuple[str, Any]] = {
            1: ("i32", column.physical),
            2: ("list:i32", [PLAIN, RLE, RLE_DICTIONARY]),
            3: ("list:binary", [column.name]),
            4: ("i32", column.codec),
            5: ("i64", column.values),
            6: ("i64", len(content) - start),
            7: ("i64", len(content) - start),
            9: ("i64", start + len(column.dictionary)),
        }
        if column.dictionary:
            meta[11] = ("i64", start)
        metadata.append({2: ("i64", 0), 3: ("struct", meta | column.said), **column.chunk})
    group = {
        1: ("list:struct", metadata[:chunks]),
        2: ("i64", len(content)),
        3: ("i64", rows if group_rows is None else group_rows),
    }
    footer = thrift(
        {
            1: ("i32", 2),
            2: ("list:struct", schema or [element(b"root", children=len(columns)), *map(leaf, columns)]),
            3: ("i64", rows),
            4: ("list:struct", [group]),
            **(more or {}),
        }
    )
    length = len(footer) if footer_length is None else footer_length
    return bytes(content) + footer + struct.pack("<I", length & 0xFFFFFFFF) + b"PAR1"


def element(name: bytes, *, children: int | None = None, repetition: int | None = None) -> dict[int, Any]:
    """Return a group of the schema."""
    found: dict[int, tuple[str, Any]] = {4: ("binary", name)}
    if repetition is not None:
        found[3] = ("i32", repetition)
    if children is not None:
        found[5] = ("i32", children)
    return found


def leaf(column: Column) -> dict[int, Any]:
    """Return a column's element of the schema."""
    found: dict[int, tuple[str, Any]] = {
        1: ("i32", column.physical),
        3: ("i32", column.repetition),
        4: ("binary", column.name),
    }
    if column.text:
        found[6] = ("i32", 0)
    if column.field_id is not None:
        found[9] = ("i32", column.field_id)
    return found
