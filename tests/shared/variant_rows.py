"""Rows of shredded variants, from bytes written out by hand, and what was read from them.

Takes a column of shredded variants; returns each row's value in Python's types. The decoder shares no code
with the product's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from core_scan import open_table, scan
from shredded_tables import table_of
from twostage.columns import project_names

if TYPE_CHECKING:
    from pathlib import Path

EMPTY = b"\x01\x00\x00"
NULL = b"\x00"


def metadata_of(*names: str) -> bytes:
    """Return metadata with these names, of less than 256 bytes."""
    ends = [sum(len(name.encode()) for name in names[:i]) for i in range(len(names) + 1)]
    return bytes([1, len(names), *ends]) + "".join(names).encode()


def small_object(ids: list[int], values: list[bytes]) -> bytes:
    starts = [sum(map(len, values[:i])) for i in range(len(values) + 1)]
    return bytes([2, len(ids), *ids, *starts]) + b"".join(values)


def text(value: str) -> bytes:
    data = value.encode()
    return bytes([len(data) << 2 | 1]) + data


def decoded(metadata: bytes, value: bytes) -> Any:
    """Return a variant as Python values; non-JSON types as a pair of type number and bytes."""
    width = (metadata[0] >> 6) + 1
    ends = [
        int.from_bytes(metadata[i : i + width], "little")
        for i in range(1 + width, 1 + width * (2 + int.from_bytes(metadata[1 : 1 + width], "little")), width)
    ]
    rest = metadata[1 + width * (1 + len(ends)) :]
    return _decoded([rest[a:b].decode() for a, b in zip(ends, ends[1:], strict=False)], value)


def _decoded(names: list[str], data: bytes) -> Any:
    basic, kind = data[0] & 3, data[0] >> 2
    if basic == 0:
        if kind in (15, 16):
            body = data[5 : 5 + int.from_bytes(data[1:5], "little")]
            return body if kind == 15 else body.decode()
        return {0: None, 1: True, 2: False}[kind] if kind < 3 else (kind, data[1:])
    if basic == 1:
        return data[1 : 1 + kind].decode()
    is_object = basic == 2
    wide = kind >> 4 & 1 if is_object else kind >> 2 & 1
    id_width, width = (kind >> 2 & 3) + 1 if is_object else 0, (kind & 3) + 1
    at = 5 if wide else 2
    count = int.from_bytes(data[1:at], "little")
    ids = [int.from_bytes(data[at + i * id_width :][:id_width], "little") for i in range(count)]
    at += count * id_width
    starts = [int.from_bytes(data[at + i * width :][:width], "little") for i in range(count + 1)]
    at += (count + 1) * width
    values = [_decoded(names, data[at + a : at + b]) for a, b in zip(starts, starts[1:], strict=False)]
    return {names[i]: one for i, one in zip(ids, values, strict=True)} if is_object else values


def shredded(kind: pa.DataType | None, *, value: bool = True, metadata: bool = False) -> pa.DataType:
    fields = [pa.field("metadata", pa.binary())] if metadata else []
    fields += [pa.field("value", pa.binary())] if value else []
    return pa.struct(fields + ([] if kind is None else [pa.field("typed_value", kind)]))


def read_table(folder: Path, column: pa.Array, **options: str) -> dict[int, Any]:
    """Return the decoded variants of a column by row number; row 3 is deleted."""
    file = folder / "shredded.parquet"
    rows = pa.table({"id": pa.array(range(len(column)), pa.int64()), "v": column})
    pq.write_table(rows, file, row_group_size=7, data_page_size=64, write_page_index=True)
    return read_file(folder, file, len(column), **options)


def read_file(folder: Path, file: Path, count: int, **options: str) -> dict[int, Any]:
    opened = open_table(table_of(folder / "table", file, count, {"v": "variant"}), **options)
    found: dict[int, Any] = {}
    for row in scan(opened, project_names(opened.table.schema, None)).rows:
        parts = None if row[1] is None else [part[1] for part in row[1][1]]
        found[row[0][1]] = "NULL" if parts is None else decoded(parts[1], parts[0])
    return found
