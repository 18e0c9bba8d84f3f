"""ORC's compressed chunks: what libraries compress comes back, and no chunk grows beyond what it may."""

from __future__ import annotations

import random
import zlib

import pyarrow as pa
import pytest

from twostage.errors import ResourceLimitError, UnsupportedFeatureError
from twostage.formats.orc.compression import codec_of, unpack

BLOCK, LIMIT = 4096, 10**6
CODECS = ("zlib", "snappy", "lz4", "zstd", "brotli")
TEXT = b"".join(b"row %d " % (i % 97) for i in range(400))
NOISE = random.Random(1).randbytes(1000)


def compress(data: bytes, codec: str) -> bytes:
    if codec == "zlib":
        deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
        return deflater.compress(data) + deflater.flush()
    return bytes(pa.Codec("lz4_raw" if codec == "lz4" else codec).compress(data, asbytes=True))


def chunk(data: bytes, codec: str | None) -> bytes:
    """Return data behind a header of three bytes; without a codec it is stored as it is."""
    body = data if codec is None else compress(data, codec)
    return (len(body) << 1 | (codec is None)).to_bytes(3, "little") + body


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [TEXT[:BLOCK], NOISE, b"x" * BLOCK, b"a", b"ab" * 2000], ids=range(5))
def test_chunks_come_back(codec: str, data: bytes) -> None:
    stream = chunk(data, codec) + chunk(NOISE, None) + chunk(data, codec)
    assert unpack(stream, codec, BLOCK, LIMIT) == data + NOISE + data


def test_what_is_not_compressed_is_as_it_is() -> None:
    assert unpack(TEXT, "none", BLOCK, LIMIT) == TEXT
    assert unpack(b"", "zlib", BLOCK, LIMIT) == b""


@pytest.mark.parametrize("codec", [*CODECS, None])
def test_a_chunk_longer_than_a_block_is_refused(codec: str | None) -> None:
    with pytest.raises((ValueError, OSError)):
        unpack(chunk(b"x" * (BLOCK + 1), codec), codec or "zlib", BLOCK, LIMIT)


@pytest.mark.parametrize("codec", CODECS)
def test_a_stream_that_grows_beyond_its_limit_is_refused(codec: str) -> None:
    with pytest.raises(ResourceLimitError, match=r"STREAM_TOO_LARGE.*task-memory"):
        unpack(chunk(b"x" * BLOCK, codec) * 3, codec, BLOCK, 2 * BLOCK)


@pytest.mark.parametrize("codec", CODECS)
def test_chunks_that_are_cut_off(codec: str) -> None:
    whole = chunk(TEXT[:3000], codec)
    for cut in (1, 2, 10, len(whole) // 2, len(whole) - 1):
        with pytest.raises((ValueError, OSError, IndexError, zlib.error)):
            unpack(whole[:cut], codec, BLOCK, LIMIT)
        shortened = (len(whole[3:]) - 1 << 1).to_bytes(3, "little") + whole[3:-1]
        try:
            found = unpack(shortened, codec, BLOCK, LIMIT)
        except (ValueError, OSError, IndexError, zlib.error):
            continue
        assert len(found) <= BLOCK


@pytest.mark.parametrize("codec", CODECS)
def test_damaged_chunks_end(codec: str) -> None:
    """Rows' checksums are the codec's affair; here nothing may crash or grow."""
    whole, pick = chunk(TEXT[:3000], codec), random.Random(2)
    for _ in range(200):
        damaged = bytearray(whole)
        damaged[pick.randrange(3, len(whole))] ^= 1 << pick.randrange(8)
        try:
            assert len(unpack(bytes(damaged), codec, BLOCK, LIMIT)) <= BLOCK
        except (ValueError, OSError, IndexError, zlib.error):
            pass


def test_codecs_by_number() -> None:
    assert [codec_of(number) for number in (0, 1, 2, 4, 5, 6)] == [
        "none",
        "zlib",
        "snappy",
        "lz4",
        "zstd",
        "brotli",
    ]
    for number, name in ((3, "lzo"), (9, "number 9")):
        with pytest.raises(UnsupportedFeatureError, match=f"UNSUPPORTED_COMPRESSION.*{name}"):
            codec_of(number)
