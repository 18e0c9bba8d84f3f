"""What a page's compressed bytes hold.

Takes bytes as they lie in the file; gives the bytes that were compressed. The rule: exactly as many as the page's
header says, or None.
"""

from __future__ import annotations

import threading

import pyarrow as pa

MOST_WINDOW = 8 * 2**20
"""Bytes that a Zstandard frame may ask to be kept while it is read in part; Parquet's writers ask for 2 MiB at most."""
_codecs = threading.local()
"""By name, a thread's own: nothing says that two may decompress with one."""


def decompress(codec: str, body: bytes | memoryview, size: int) -> memoryview | None:
    """Decompress exactly `size` bytes; None if there are more or fewer.

    Of pyarrow's one-shot decompressions only Zstandard's tells when it wrote less than asked for: streams are read to
    their end, Snappy's own length is looked at, and LZ4 is asked for a byte too few.
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
            length = shift = 0
            for byte in body[:5]:
                length |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    break
            if length != size:
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
    """Return the first `size` bytes of what Zstandard compressed; None where only all of them can be had.

    Blocks of 128 KiB behind those bytes are not decompressed: a fifth of the time where one value of a page of numbers
    is wanted.

    Args:
        is_verified: Whether the page's own checksum was right. Else a frame that ends with one is left to `decompress`.
    """
    import zstandard  # noqa: PLC0415 - 8 ms, in workers that read few rows of such files only

    if not is_verified and (len(body) < 5 or body[4] & 4):
        return None
    reader = getattr(_codecs, "first", None)
    if reader is None:
        reader = _codecs.first = zstandard.ZstdDecompressor(max_window_size=MOST_WINDOW)
    try:
        with reader.stream_reader(body, read_size=len(body)) as stream:
            found = stream.read(size)
    except zstandard.ZstdError:
        return None
    return memoryview(found) if len(found) == size else None


def _codec(name: str) -> pa.Codec:
    """Return this thread's codec of a name: making one takes a microsecond."""
    found = getattr(_codecs, name, None)
    if found is None:
        found = pa.Codec(name)
        setattr(_codecs, name, found)
    return found


def _unsigned(buffer: pa.Buffer) -> memoryview:
    """Return a view whose bytes are 0 to 255: those of pyarrow's buffers are -128 to 127."""
    return memoryview(buffer).cast("B")
