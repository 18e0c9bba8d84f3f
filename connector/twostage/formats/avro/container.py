"""Avro container files, strictly.

Takes a file's bytes; returns its metadata, the schema it was written with, its blocks, and their records as
dictionaries, values as stored (no logical types: a date stays days, a decimal stays bytes). fastavro decodes the records
of manifest lists, manifests, data files and delete files here. The rule: bytes that are not exactly what the header
announces give a `CorruptFileError`; no record is lost or made up, and nothing decompresses without bound.

Containers are taken apart here because fastavro's own reader decompresses without bound and accepts a block of more
bytes than its records take.
Source: Apache Avro 1.11 specification, "Object Container Files".
"""

from __future__ import annotations

import io
import json
import lzma
import zlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa

from twostage.errors import CorruptFileError, ResourceLimitError, UnsupportedFeatureError
from twostage.formats.avro.compression import unpack
from twostage.formats.varint import read_zigzag, write_zigzag

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_UNPACKED_BYTES = 256 * 2**20
"""Of a manifest's blocks, decompressed. Writers aim at 8 MB compressed; the records then take several times as much."""
_MAGIC = b"Obj\x01"
_ENCRYPTED_MAGIC = b"AGS1"
SYNC_BYTES = 16
"""Length of the marker that ends the header and each block."""
MALFORMED = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    EOFError,
    OSError,
    ArithmeticError,
    RecursionError,
    MemoryError,
    zlib.error,
    lzma.LZMAError,
    fastavro.schema.SchemaParseException,
    pa.ArrowException,
)
"""The exceptions that decoding damaged bytes may raise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroFile:
    """An opened container.

    `code` is the code of its errors, such as ``CORRUPT_MANIFEST``. `schema` is JSON, a record, perhaps in a union with
    NULL. `blocks` are pairs: the number of records, and the compressed bytes.
    """

    path: str
    code: str
    metadata: dict[str, str]
    schema: Any
    codec: str
    blocks: tuple[tuple[int, bytes], ...] = field(repr=False)

    def corrupt(self, message: str) -> CorruptFileError:
        """Return the error for this file."""
        return CorruptFileError(self.code, message, path=self.path, stage="plan")


def open_avro(data: bytes, *, path: str, code: str) -> AvroFile:
    """Read the header and find the blocks of a container.

    Args:
        data: The whole file.
        path: Its name, for errors.
        code: The code of the errors, such as ``CORRUPT_MANIFEST``.

    Raises:
        CorruptFileError: Not an Avro file, or cut off.
        UnsupportedFeatureError: Encrypted.
    """
    file, sync, position = open_header(data, path=path, code=code)
    try:
        return replace(file, blocks=tuple(_read_blocks(data, position, sync)))
    except MALFORMED as error:
        raise file.corrupt(f"Avro file is malformed: {error!r}") from error


def open_header(data: bytes, *, path: str, code: str) -> tuple[AvroFile, bytes, int]:
    """Read the header of a container from the beginning of its bytes.

    Returns:
        The container without blocks, its sync marker, and where its first block begins.

    Raises:
        CorruptFileError: Not an Avro file, or cut off within the header.
        UnsupportedFeatureError: Encrypted.
    """
    if data[:4] == _ENCRYPTED_MAGIC:
        raise UnsupportedFeatureError(
            "UNSUPPORTED_ENCRYPTION", "Table encryption is not supported", path=path, stage="plan"
        )
    if data[:4] != _MAGIC:
        raise CorruptFileError(
            code, f"Not an Avro file, it starts with: {data[:4]!r}", path=path, stage="plan"
        )
    try:
        header, position = _read_header(data)
        schema = json.loads(header["avro.schema"])
        kinds = [part for part in schema if part != "null"] if isinstance(schema, list) else [schema]
        if len(kinds) != 1 or not isinstance(kinds[0], dict) or kinds[0].get("type") != "record":
            raise ValueError("the schema is not a record")
        sync = data[position : position + SYNC_BYTES]
        if len(sync) != SYNC_BYTES:
            raise EOFError("the header is cut off")
        metadata = {key: value.decode() for key, value in header.items()}
    except MALFORMED as error:
        raise CorruptFileError(code, f"Avro file is malformed: {error!r}", path=path, stage="plan") from error
    codec = metadata.get("avro.codec", "null")
    file = AvroFile(path=path, code=code, metadata=metadata, schema=schema, codec=codec, blocks=())
    return file, sync, position + SYNC_BYTES


def read_records(
    file: AvroFile,
    schema: Any,
    projection: Any = None,
    *,
    limit: int | None = None,
) -> list[dict[str, Any]]:
    """Read all records, as dictionaries; see `iterate_records`."""
    return [record for block in iterate_records(file, schema, projection, limit=limit) for record in block]


def iterate_records(
    file: AvroFile,
    schema: Any,
    projection: Any = None,
    *,
    limit: int | None = None,
) -> Iterator[list[dict[str, Any]]]:
    """Yield the records of each block, as dictionaries.

    Args:
        file: What `open_avro` returned.
        schema: The file's schema, perhaps with other field names; logical types in it are ignored.
        projection: `schema` with some fields left out, which are skipped.
        limit: Bytes that the blocks may decompress to; MAX_UNPACKED_BYTES if not given.

    Raises:
        CorruptFileError: The blocks do not hold exactly the records that they announce.
        ResourceLimitError: They decompress to more than the limit.
    """
    limit = MAX_UNPACKED_BYTES if limit is None else limit
    budget = limit
    try:
        if min_bytes(schema) == 0:
            raise ValueError("records of no bytes")  # a block of ten bytes could then announce 2**60 of them
        # A block is encoded as an Avro array without the final zero. Read as an array it takes one call of
        # fastavro's C code, and the position afterwards tells whether it held exactly the announced records.
        array = fastavro.parse_schema({"type": "array", "items": _without_logical_types(schema)})
        wanted = None
        if projection is not None:
            wanted = fastavro.parse_schema({"type": "array", "items": _without_logical_types(projection)})
        for count, packed in file.blocks:
            block = unpack(file.codec, packed, budget)
            if len(block) > budget:
                raise ResourceLimitError(
                    "AVRO_TOO_LARGE",
                    f"Avro file unpacks to more than the limit, bytes: {limit}",
                    path=file.path,
                    stage="plan",
                )
            budget -= len(block)
            if not 0 < count <= len(block):
                raise ValueError(f"a block of {len(block)} bytes announces {count} records")
            encoded = write_zigzag(count) + block + b"\0"
            stream = io.BytesIO(encoded)
            found: Any = fastavro.schemaless_reader(stream, array, wanted)
            if len(found) != count or stream.tell() != len(encoded):
                raise ValueError(f"a block does not hold the {count} records that it announces")
            yield found
    except MALFORMED as error:
        raise file.corrupt(f"Avro file is malformed: {error!r}") from error


def _read_header(data: bytes) -> tuple[dict[str, bytes], int]:
    """Return the metadata map and the position after it."""
    header: dict[str, bytes] = {}
    position = len(_MAGIC)
    while True:
        count, position = read_zigzag(data, position)
        if count == 0:
            return header, position
        if count < 0:
            count = -count
            _, position = read_zigzag(data, position)
        if count > len(data):
            raise ValueError(f"the header announces {count} entries")
        for _ in range(count):
            key, position = _read_bytes(data, position)
            value, position = _read_bytes(data, position)
            header[key.decode()] = value


def _read_blocks(data: bytes, position: int, sync: bytes) -> Iterator[tuple[int, bytes]]:
    while position < len(data):
        count, position = read_zigzag(data, position)
        block, position = _read_bytes(data, position)
        if data[position : position + SYNC_BYTES] != sync or len(sync) != SYNC_BYTES:
            raise ValueError("a block does not end with the sync marker")
        position += SYNC_BYTES
        if count:
            yield count, block


def _read_bytes(data: bytes, position: int) -> tuple[bytes, int]:
    length, position = read_zigzag(data, position)
    if not 0 <= length <= len(data) - position:
        raise EOFError(f"{length} bytes announced, {len(data) - position} left")
    return data[position : position + length], position + length


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logical_types(item) for item in schema]
    if isinstance(schema, dict):
        return {key: _without_logical_types(item) for key, item in schema.items() if key != "logicalType"}
    return schema


def min_bytes(schema: Any) -> int:
    """Return the minimum number of bytes of a value, 0 or 1.

    Raises:
        ValueError: An array whose items may take no bytes.
    """
    if isinstance(schema, list):
        return min(1, *(1 + min_bytes(item) for item in schema))
    if not isinstance(schema, dict):
        return 0 if schema == "null" else 1
    if schema["type"] == "record":
        return max((min_bytes(part["type"]) for part in schema["fields"]), default=0)
    if schema["type"] in ("array", "map"):
        if schema["type"] == "array" and min_bytes(schema["items"]) == 0:
            raise ValueError("an array of items of no bytes")
        return 1
    return min_bytes(schema["type"]) if schema["type"] != "fixed" else min(1, schema["size"])
