"""Decompresses pages.

Takes a page's compressed bytes; returns what was compressed. The rule: exactly as many bytes as the page's
header says, or None.
Source: parquet-format, Compression.md.
"""

from __future__ import annotations

import threading

import pyarrow as pa

from twostage.formats.varint import read_varint

MAX_WINDOW_BYTES = 8 * 2**20
"""Window that a Zstandard frame may require while it is read in part; Parquet's writers require at most 2 MiB."""
_codecs = threading.local()
"""By name, one for each thread: pyarrow does not promise that a codec is thread-safe."""


def decompress(codec: str, body: bytes | memoryview, size: int) -> memoryview | None:
    """Decompress exactly `size` bytes; None if there are more or fewer.

    Of pyarrow's one-shot decompressors only Zstandard's reports that it wrote fewer bytes than requested. So streams are
    read to their end, Snappy's own length is compared, and LZ4 must fail when one byte less is requested.

    Raises:
        ValueError, OSError, pa.ArrowException: The bytes are not of this codec.
    """
    if codec == "ZSTD":
        return memoryview(_codec("zstd").decompress(body, size, asbytes=True))
    match codec:
        case "UNCOMPRESSED":
            return memoryview(body) if len(body) == size else None
        case "GZIP" | "BROTLI":
            with pa.CompressedInputStream(pa.BufferReader(body), codec.lower()) as stream:
                plain = stream.read_buffer(size + 1)
            return _unsigned(plain) if len(plain) == size else None
        case "SNAPPY":
            if read_varint(body[:5], 0)[0] != size:
                return None
            return memoryview(_codec("snappy").decompress(body, size, asbytes=True))
        case "LZ4_RAW":
            lz4 = _codec("lz4_raw")
            try:
                lz4.decompress(body, size - 1)
            except (pa.ArrowException, OSError):
                return memoryview(lz4.decompress(body, size, asbytes=True))
    return None


def first_bytes(body: bytes | memoryview, size: int, *, is_verified: bool) -> memoryview | None:
    """Return the first `size` decompressed bytes of a Zstandard frame; None if it must be decompressed whole.

    The blocks of 128 KiB after these bytes are not decompressed: that takes a fifth of the time if one value
    of a page of numbers is wanted.

    Args:
        body: The frame.
        size: Bytes wanted.
        is_verified: Whether the page's checksum was verified. If not, a frame with a checksum of its own, which stands
            at its end, is decompressed whole.
    """
    import zstandard  # noqa: PLC0415 - 8 ms, in workers that read few rows of such files only

    if not is_verified and (len(body) < 5 or body[4] & 4):
        return None
    reader = getattr(_codecs, "first", None)
    if reader is None:
        reader = _codecs.first = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
    try:
        with reader.stream_reader(body, read_size=len(body)) as stream:
            found = stream.read(size)
    except zstandard.ZstdError:
        return None
    return memoryview(found) if len(found) == size else None


def _codec(name: str) -> pa.Codec:
    """Return this thread's codec of a name: making a new one takes a microsecond."""
    found = getattr(_codecs, name, None)
    if found is None:
        found = pa.Codec(name)
        setattr(_codecs, name, found)
    return found


def _unsigned(buffer: pa.Buffer) -> memoryview:
    """Return a view of unsigned bytes: pyarrow's buffers give signed ones."""
    return memoryview(buffer).cast("B")
