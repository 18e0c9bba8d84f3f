"""Avro container files, strictly.

Takes a whole file's bytes; gives its metadata, the schema it was written with and its records, values as
stored (no logical types: a date stays days, a decimal stays bytes). The rule: bytes that are not exactly what
the header announces give a `CorruptFileError`: no record is lost or made up, nothing unpacks without bound.
Source: Apache Avro 1.11 specification, "Object Container Files".
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import zlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa

from twostage.errors import CorruptFileError, ResourceLimitError, UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_UNPACKED_BYTES = 256 * 2**20
"""What a manifest's blocks may unpack to, at most: they are some 8 MB, packed, and their records take more."""
_MAGIC = b"Obj\x01"
_ENCRYPTED_MAGIC = b"AGS1"
SYNC_LENGTH = 16
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
"""What decoding damaged bytes may raise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroFile:
    """An opened container. `schema` is a record's, perhaps in a union; `blocks` are pairs of record count and bytes."""

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
        sync = data[position : position + SYNC_LENGTH]
        if len(sync) != SYNC_LENGTH:
            raise EOFError("the header is cut off")
        metadata = {key: value.decode() for key, value in header.items()}
    except MALFORMED as error:
        raise CorruptFileError(code, f"Avro file is malformed: {error!r}", path=path, stage="plan") from error
    codec = metadata.get("avro.codec", "null")
    file = AvroFile(path=path, code=code, metadata=metadata, schema=schema, codec=codec, blocks=())
    return file, sync, position + SYNC_LENGTH


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
        limit: Bytes that the blocks may unpack to; MAX_UNPACKED_BYTES if not given.

    Raises:
        CorruptFileError: The blocks do not hold exactly the records that they announce.
        ResourceLimitError: They unpack to more than the limit.
    """
    limit = MAX_UNPACKED_BYTES if limit is None else limit
    budget = limit
    try:
        if fewest_bytes(schema) == 0:
            raise ValueError("records of no bytes")  # a few bytes could then announce 2**60 of them
        # A block is an Avro array without its end mark. Read as one, it takes one call of fastavro's C code
        # per block, and the position afterwards tells whether the block held the announced records exactly.
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
            encoded = _encode_long(count) + block + b"\0"
            stream = io.BytesIO(encoded)
            found: Any = fastavro.schemaless_reader(stream, array, wanted)
            if len(found) != count or stream.tell() != len(encoded):
                raise ValueError(f"a block does not hold the {count} records that it announces")
            yield found
    except MALFORMED as error:
        raise file.corrupt(f"Avro file is malformed: {error!r}") from error


def _read_header(data: bytes) -> tuple[dict[str, bytes], int]:
    """Return the metadata map and the position behind it."""
    header: dict[str, bytes] = {}
    position = len(_MAGIC)
    while True:
        count, position = _read_long(data, position)
        if count == 0:
            return header, position
        if count < 0:
            count = -count
            _, position = _read_long(data, position)
        if count > len(data):
            raise ValueError(f"the header announces {count} entries")
        for _ in range(count):
            key, position = _read_bytes(data, position)
            value, position = _read_bytes(data, position)
            header[key.decode()] = value


def _read_blocks(data: bytes, position: int, sync: bytes) -> Iterator[tuple[int, bytes]]:
    while position < len(data):
        count, position = _read_long(data, position)
        block, position = _read_bytes(data, position)
        if data[position : position + SYNC_LENGTH] != sync or len(sync) != SYNC_LENGTH:
            raise ValueError("a block does not end with the sync marker")
        position += SYNC_LENGTH
        if count:
            yield count, block


def _read_long(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
        if shift > 63:
            raise ValueError("a number has more than ten bytes")


def _read_bytes(data: bytes, position: int) -> tuple[bytes, int]:
    length, position = _read_long(data, position)
    if not 0 <= length <= len(data) - position:
        raise EOFError(f"{length} bytes announced, {len(data) - position} left")
    return data[position : position + length], position + length


def _encode_long(value: int) -> bytes:
    rest = value << 1
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def unpack(codec: str, packed: bytes, limit: int) -> bytes:
    """Return a block's bytes; more than `limit` of them only to show that there are more."""
    match codec:
        case "null":
            return packed
        case "deflate":
            inflater = zlib.decompressobj(-15)
            block = inflater.decompress(packed, limit + 1)
            if not inflater.eof and len(block) <= limit:
                raise EOFError("a packed block is cut off")
            return block
        case "bzip2":
            return bz2.BZ2Decompressor().decompress(packed, limit + 1)
        case "xz":
            return lzma.LZMADecompressor().decompress(packed, limit + 1)
        case "zstandard":
            with pa.input_stream(pa.py_buffer(packed), compression="zstd") as stream:
                return bytes(stream.read(limit + 1))
        case "snappy":
            return _unpack_snappy(packed, limit)
    raise ValueError(f"unknown codec {codec!r}")


def _unpack_snappy(packed: bytes, limit: int) -> bytes:
    length = shift = 0
    for byte in packed[:5]:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if length > limit:
        return bytes(limit + 1)
    block = pa.Codec("snappy").decompress(packed[:-4], decompressed_size=length, asbytes=True)
    if zlib.crc32(block) != int.from_bytes(packed[-4:], "big"):
        raise ValueError("a block's checksum does not match")
    return bytes(block)


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logical_types(item) for item in schema]
    if isinstance(schema, dict):
        return {key: _without_logical_types(item) for key, item in schema.items() if key != "logicalType"}
    return schema


def fewest_bytes(schema: Any) -> int:
    """Return the fewest bytes (0 or 1) that a value takes; ValueError for arrays of items of no bytes."""
    if isinstance(schema, list):
        return min(1, *(1 + fewest_bytes(item) for item in schema))
    if not isinstance(schema, dict):
        return 0 if schema == "null" else 1
    if schema["type"] == "record":
        return max((fewest_bytes(part["type"]) for part in schema["fields"]), default=0)
    if schema["type"] in ("array", "map"):
        if schema["type"] == "array" and fewest_bytes(schema["items"]) == 0:
            raise ValueError("an array of items of no bytes")
        return 1
    return fewest_bytes(schema["type"]) if schema["type"] != "fixed" else min(1, schema["size"])
