"""Decompresses what ORC compresses: streams, footers and metadata, in chunks with three-byte headers.

Takes compressed bytes, the codec and the file's block size; returns the decompressed bytes. The rule: no
chunk decompresses to more than the block size, and no stream to more than its limit, whatever it claims.
Source: ORC specification v1, "Compression".
"""

from __future__ import annotations

import zlib

import pyarrow as pa

from twostage.errors import ResourceLimitError, UnsupportedFeatureError
from twostage.formats.varint import read_varint

CODECS = {0: "none", 1: "zlib", 2: "snappy", 3: "lzo", 4: "lz4", 5: "zstd", 6: "brotli"}
_READABLE = ("none", "zlib", "snappy", "lz4", "zstd", "brotli")
MAX_BLOCK_SIZE = 1 << 23
"""Bytes: the length of a chunk has 23 bits."""
DEFAULT_BLOCK_SIZE = 1 << 18


def codec_of(kind: int) -> str:
    """Return the codec of a PostScript's compression kind.

    Raises:
        UnsupportedFeatureError: No library here decompresses it.
    """
    name = CODECS.get(kind, f"number {kind}")
    if name not in _READABLE:
        raise UnsupportedFeatureError(
            "UNSUPPORTED_COMPRESSION", f"ORC file's compression is not supported: {name}", stage="open"
        )
    return name


def unpack(data: bytes, codec: str, block_size: int, limit: int) -> bytes:
    """Return the decompressed bytes of a stream.

    Raises:
        ValueError: The chunks are malformed (also as OSError, zlib.error or `pa.ArrowException`).
        ResourceLimitError: They decompress to more than `limit` bytes.
    """
    if codec == "none":
        return data
    parts: list[bytes] = []
    size = position = 0
    while position < len(data):
        if len(data) - position < 3:
            raise ValueError("a chunk's header is cut off")
        header = int.from_bytes(data[position : position + 3], "little")
        position += 3
        length = header >> 1
        if length > len(data) - position:
            raise ValueError("a chunk is cut off")
        part = data[position : position + length]
        position += length
        if not header & 1:
            part = _unpack_chunk(part, codec, block_size)
        elif length > block_size:
            raise ValueError("a chunk is longer than the block size")
        size += len(part)
        if size > limit:
            raise ResourceLimitError(
                "STREAM_TOO_LARGE",
                f"A stream unpacks to more than the task's budget, bytes: {limit}",
                stage="fetch",
                hint="Raise the option 'task-memory'.",
            )
        parts.append(part)
    return b"".join(parts)


def _unpack_chunk(part: bytes, codec: str, block_size: int) -> bytes:
    if codec == "zlib":
        inflater = zlib.decompressobj(-15)
        block = inflater.decompress(part, block_size + 1)
        if len(block) > block_size or not inflater.eof:
            raise ValueError("a zlib chunk is cut off or longer than the block size")
        return block
    if codec == "snappy":
        length, _ = read_varint(part[:5], 0)
        if length > block_size:
            raise ValueError("a snappy chunk is longer than the block size")
        return bytes(pa.Codec("snappy").decompress(part, decompressed_size=length, asbytes=True))
    if codec == "lz4":
        return _unpack_lz4(part, block_size)
    with pa.input_stream(pa.py_buffer(part), compression=codec) as stream:
        block = bytes(stream.read(block_size + 1))
    if len(block) > block_size:
        raise ValueError(f"a {codec} chunk is longer than the block size")
    return block


def _unpack_lz4(part: bytes, block_size: int) -> bytes:
    """Decompress a raw LZ4 block.

    pyarrow needs the decompressed size, which such a block does not state: the lengths of its sequences are
    added up first.
    """
    size = position = 0
    end = len(part)
    while position < end:
        token = part[position]
        position += 1
        literals = token >> 4
        if literals == 15:
            literals, position = _lz4_length(part, position, literals)
        position += literals
        size += literals
        if position == end:
            break
        position += 2  # offset of the match
        match = (token & 15) + 4
        if token & 15 == 15:
            match, position = _lz4_length(part, position, match)
        size += match
        if position > end or size > block_size:
            break
    if position != end or size > block_size:
        raise ValueError("an LZ4 chunk is cut off or longer than the block size")
    return bytes(pa.Codec("lz4_raw").decompress(part, decompressed_size=size, asbytes=True))


def _lz4_length(part: bytes, position: int, length: int) -> tuple[int, int]:
    while True:
        byte = part[position]
        position += 1
        length += byte
        if byte != 255:
            return length, position
