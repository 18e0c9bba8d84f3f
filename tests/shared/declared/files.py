"""Writers of data files, delete files and Puffin files; no code of the product.

Takes rows by field id (a missing id means the file does not hold the column); writes the file and returns
its size. Field ids go into Parquet's ``field_id``, ORC's ``iceberg.id`` and Avro's ``field-id``.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
from pyroaring import BitMap64

from declared import orc_avro_files
from declared.types import Column, arrow_array, arrow_field, avro_field, avro_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

FILE_PATH = Column(2147483546, "file_path", "string", required=True)
POSITION = Column(2147483545, "pos", "long", required=True)
VECTOR_MAGIC = b"\xd1\xd3\x39\x64"
PUFFIN_MAGIC = b"PFA1"


@dataclass(frozen=True)
class FileOptions:
    """How a data file is laid out and what its manifest entry says of it."""

    row_group_size: int = 1_000_000
    page_size: int = 1 << 20
    compression: str = "zstd"
    dictionary: bool = True
    statistics: bool = True
    page_checksums: bool = False
    page_version: str = "1.0"
    page_index: bool = False
    field_ids: bool = True
    bloom: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    """Columns that the file does not hold (NULL, default or partition constant)."""
    metrics: str = "full"
    unmeasured: tuple[str, ...] = ()
    """Columns without metrics."""
    integer_decimals: bool = False
    format: str = "parquet"
    mixed: bool = False
    """A data file of another format than Parquet: written by `orc_avro_files`, several stripes or blocks."""


def write_rows(
    path: Path,
    columns: Sequence[Column],
    rows: Sequence[Mapping[int, Any]],
    options: FileOptions = FileOptions(),
) -> int:
    """Write rows as Parquet, ORC or Avro; return the file's size."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if options.mixed and options.format != "parquet":
        write = orc_avro_files.write_orc if options.format == "orc" else orc_avro_files.write_avro
        return write(path, columns, rows, options)
    if options.format == "avro":
        schema = {"type": "record", "name": "table", "fields": [avro_field(column) for column in columns]}
        records = [{c.name: avro_value(c.type, row.get(c.id)) for c in columns} for row in rows]
        with path.open("wb") as file:
            fastavro.writer(file, schema, records, codec="deflate")
        return path.stat().st_size
    ids = {"parquet": "PARQUET:field_id", "orc": "iceberg.id"}[options.format] if options.field_ids else None
    table = pa.Table.from_arrays(
        [arrow_array(column, [row.get(column.id) for row in rows], ids=ids) for column in columns],
        schema=pa.schema([arrow_field(column, ids=ids) for column in columns]),
    )
    if options.format == "orc":
        pyarrow.orc.write_table(table, str(path), compression="zlib")
        return path.stat().st_size
    bloom = {name: {"ndv": max(1, len(rows)), "fpp": 0.01} for name in options.bloom}
    pyarrow.parquet.write_table(
        table,
        str(path),
        row_group_size=options.row_group_size,
        data_page_size=options.page_size,
        write_batch_size=min(1024, options.page_size),
        compression=options.compression,
        use_dictionary=options.dictionary,
        write_statistics=options.statistics,
        write_page_checksum=options.page_checksums,
        data_page_version=options.page_version,
        write_page_index=options.page_index,
        store_decimal_as_integer=options.integer_decimals,
        bloom_filter_options=bloom or None,
    )
    return path.stat().st_size


def write_position_deletes(
    path: Path, rows: Sequence[tuple[str, int]], file_format: str, *, page_checksums: bool = False
) -> int:
    """Write a positional delete file of (data file, position) rows, in the order given."""
    records = [{FILE_PATH.id: name, POSITION.id: position} for name, position in rows]
    options = FileOptions(format=file_format, row_group_size=100, page_checksums=page_checksums)
    return write_rows(path, (FILE_PATH, POSITION), records, options)


def vector_blob(positions: Sequence[int]) -> bytes:
    """Return a ``deletion-vector-v1`` blob: length, magic, 64-bit Roaring bitmap, CRC."""
    bitmap = BitMap64(positions)
    bitmap.run_optimize()
    body = VECTOR_MAGIC + bitmap.serialize()
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def write_puffin(path: Path, vectors: Sequence[tuple[str, bytes, int]]) -> tuple[int, list[tuple[int, int]]]:
    """Write a Puffin file of (data file, blob, cardinality); return its size and each blob's offset and length."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = bytearray(PUFFIN_MAGIC)
    places, blobs = [], []
    for data_file, blob, cardinality in vectors:
        places.append((len(content), len(blob)))
        blobs.append(
            {
                "type": "deletion-vector-v1",
                "fields": [2147483645],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": len(content),
                "length": len(blob),
                "properties": {"referenced-data-file": data_file, "cardinality": str(cardinality)},
            }
        )
        content += blob
    footer = json.dumps({"blobs": blobs, "properties": {"created-by": "declared table"}}).encode()
    content += PUFFIN_MAGIC + footer + struct.pack("<i", len(footer)) + bytes(4) + PUFFIN_MAGIC
    path.write_bytes(bytes(content))
    return len(content), places
