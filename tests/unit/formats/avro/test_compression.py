"""Blocks of Avro containers: what Python's and Arrow's own compressors made comes back, and never without bound."""

from __future__ import annotations

import bz2
import lzma
import random
import zlib

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from twostage.formats.avro.compression import CODECS, unpack

DAMAGED = (ValueError, EOFError, OSError, zlib.error, lzma.LZMAError, pa.ArrowException)
"""What the docstring of `unpack` announces."""
LIMIT = 100_000


def pack(codec: str, data: bytes) -> bytes:
    match codec:
        case "deflate":
            packer = zlib.compressobj(wbits=-15)
            return packer.compress(data) + packer.flush()
        case "bzip2":
            return bz2.compress(data)
        case "xz":
            return lzma.compress(data)
        case "zstandard":
            return pa.compress(data, "zstd", asbytes=True)
        case "snappy":
            return pa.compress(data, "snappy", asbytes=True) + zlib.crc32(data).to_bytes(4, "big")
    return data


@pytest.mark.parametrize("codec", CODECS)
@settings(deadline=None, max_examples=30)
@given(data=st.binary(max_size=200), times=st.integers(1, 300))
def test_blocks_come_back(codec: str, data: bytes, times: int) -> None:
    assert unpack(codec, pack(codec, data * times), LIMIT) == data * times


@pytest.mark.parametrize("codec", CODECS)
def test_exactly_the_limit_and_more(codec: str) -> None:
    """Of more than the limit at least one byte more is returned, which tells; and of a codec not much more."""
    for size in (LIMIT - 1, LIMIT):
        assert len(unpack(codec, pack(codec, bytes(size)), LIMIT)) == size
    for size in (LIMIT + 1, 50 * LIMIT):
        found = unpack(codec, pack(codec, bytes(size)), LIMIT)
        assert len(found) == (size if codec == "null" else LIMIT + 1)


@pytest.mark.parametrize("codec", ["deflate", "snappy", "zstandard"])
def test_a_block_that_is_cut_off(codec: str) -> None:
    whole = pack(codec, random.Random(1).randbytes(5_000))
    for length in (1, 100, len(whole) // 2, len(whole) - 1):
        with pytest.raises(DAMAGED):
            unpack(codec, whole[:length], LIMIT)


@pytest.mark.parametrize("codec", ["bzip2", "xz"])
def test_a_block_that_is_cut_off_is_too_short(codec: str) -> None:
    """The container then does not hold its records."""
    whole = pack(codec, random.Random(1).randbytes(5_000))
    for length in (0, 1, 100, len(whole) // 2):
        assert len(unpack(codec, whole[:length], LIMIT)) < 5_000


def test_the_checksum_of_snappy() -> None:
    packed = pack("snappy", b"one two three")
    with pytest.raises(ValueError, match="checksum"):
        unpack("snappy", packed[:-1] + bytes([packed[-1] ^ 1]), LIMIT)


def test_an_unknown_codec() -> None:
    with pytest.raises(ValueError, match="unknown codec 'lz4'"):
        unpack("lz4", b"", LIMIT)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_any_bytes_are_a_block_or_an_error(codec: str) -> None:
    pick = random.Random(2)
    whole = pack(codec, pick.randbytes(300) * 3)
    wrong = 0
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(pick.randint(1, 3)):
            data[pick.randrange(len(data))] = pick.randrange(256)
        try:
            assert len(unpack(codec, bytes(data), LIMIT)) <= LIMIT + 1
        except DAMAGED:
            wrong += 1
    assert wrong > 10
