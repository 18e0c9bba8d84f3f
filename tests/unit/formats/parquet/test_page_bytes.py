"""Pages' bytes: exactly as many as the header says come back, or none, whatever the codec."""

from __future__ import annotations

import gzip
import random

import pyarrow as pa
import pytest
import zstandard

from twostage.formats.parquet.page_bytes import decompress, first_bytes

DATA = b"".join(b"row %d " % (i % 97) for i in range(60_000))
CODECS = ("UNCOMPRESSED", "ZSTD", "GZIP", "BROTLI", "SNAPPY", "LZ4_RAW")


def compress(codec: str, data: bytes) -> bytes:
    if codec == "UNCOMPRESSED":
        return data
    if codec == "GZIP":
        return gzip.compress(data)
    return bytes(pa.Codec(codec.lower()).compress(data, asbytes=True))


def read(codec: str, body: bytes, size: int) -> bytes | None:
    """None for an error too: whoever asks then leaves the page to pyarrow, which tells what is wrong."""
    try:
        found = decompress(codec, body, size)
    except (pa.ArrowException, OSError, ValueError):
        return None
    return None if found is None else bytes(found)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [1, 100, len(DATA)])
def test_what_was_compressed_comes_back(codec: str, size: int) -> None:
    body = compress(codec, DATA[:size])
    assert read(codec, body, size) == DATA[:size]
    assert read(codec, memoryview(body), size) == DATA[:size]


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "ZSTD"])
@pytest.mark.parametrize("difference", [-1, 1, 50])
def test_more_or_fewer_bytes_than_stated(codec: str, difference: int) -> None:
    assert read(codec, compress(codec, DATA[:1000]), 1000 + difference) is None


@pytest.mark.parametrize("difference", [-1, 1])
def test_more_or_fewer_bytes_than_stated_of_zstandard(difference: int) -> None:
    assert read("ZSTD", compress("ZSTD", DATA[:1000]), 1000 + difference) is None


@pytest.mark.parametrize("codec", ["LZO", "LZ4", ""])
def test_other_codecs_are_left_to_pyarrow(codec: str) -> None:
    assert decompress(codec, b"abc", 3) is None


@pytest.mark.parametrize("size", [1, 4096, 200_000])
@pytest.mark.parametrize("checksum", [True, False])
def test_the_first_bytes_of_zstandard(size: int, checksum: bool) -> None:
    """A frame that ends with a checksum is read in part only where the page's own was right."""
    body = zstandard.ZstdCompressor(write_checksum=checksum).compress(DATA)
    for is_verified in (True, False):
        found = first_bytes(body, size, is_verified=is_verified)
        if checksum and not is_verified:
            assert found is None
        else:
            assert found is not None
            assert bytes(found) == DATA[:size]


def test_fewer_bytes_than_wanted_and_no_frame_at_all() -> None:
    body = zstandard.ZstdCompressor(write_checksum=False).compress(DATA[:100])
    assert first_bytes(body, 101, is_verified=True) is None
    assert first_bytes(b"", 5, is_verified=False) is None
    assert first_bytes(random.Random(1).randbytes(100), 5, is_verified=True) is None


def test_a_frame_that_asks_for_too_much_memory() -> None:
    """16 MiB; Parquet's writers ask for 2 at most."""
    parameters = zstandard.ZstdCompressionParameters(window_log=24, write_content_size=False)
    writer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    body = writer.compress(DATA) + writer.flush()
    assert first_bytes(body, 10, is_verified=True) is None
