"""Decompresses the blocks of Avro containers.

Takes a block's bytes and the file's codec; returns the decompressed bytes. The rule: nothing decompresses
without bound, whatever the block claims.
Source: Apache Avro 1.11 specification, "Required Codecs" and "Optional Codecs".
"""

from __future__ import annotations

import bz2
import lzma
import zlib

import pyarrow as pa

from twostage.formats.varint import read_varint

CODECS = ("null", "deflate", "bzip2", "xz", "zstandard", "snappy")


def unpack(codec: str, packed: bytes, limit: int) -> bytes:
    """Return a block's bytes; if there are more than `limit`, at least one more than that.

    The caller compares the length with its limit.

    Raises:
        ValueError: An unknown codec, or a wrong checksum.
        EOFError: The block is cut off.
        zlib.error, OSError, lzma.LZMAError, pa.ArrowException: The bytes are not of this codec.
    """
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
    """Return the content of a Snappy block, which is followed by the CRC-32 of its content."""
    length, _ = read_varint(packed[:5], 0)
    if length > limit:
        return bytes(limit + 1)
    block = pa.Codec("snappy").decompress(packed[:-4], decompressed_size=length, asbytes=True)
    if zlib.crc32(block) != int.from_bytes(packed[-4:], "big"):
        raise ValueError("a block's checksum does not match")
    return bytes(block)
