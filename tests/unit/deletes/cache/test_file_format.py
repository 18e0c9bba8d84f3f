"""Files of the host's cache: what was written comes back, and no changed, lost or added byte goes unnoticed."""

from __future__ import annotations

import json
import random
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from twostage.deletes.cache.file_format import FORMAT, arrays_in, describe, encode, verify

ARRAYS = [
    np.arange(7, dtype=np.uint64),
    np.arange(-6, 6, dtype=np.int64).reshape(4, 3),
    np.zeros(0, np.uint16),
    np.arange(100, dtype=np.uint32)[::3],
    np.frombuffer(b"text of some length", np.uint8),
]
VALUES = {"rows": 7, "names": ["ä", "b"], "none": None}


def write(kind: str = "kind", key: str = "key", values: Any = VALUES, arrays: Any = ARRAYS) -> bytes:
    size, parts = encode(kind, key, values, arrays)
    raw = b"".join(bytes(part) for part in parts)
    assert len(raw) == size
    return raw


def read(raw: bytes) -> tuple[Any, list[np.ndarray]]:
    def read_at(place: int, count: int) -> bytes:
        return raw[place : place + count]

    description = describe(read_at, len(raw))
    verify(read_at, description)
    return description, arrays_in(raw, description)


def test_what_was_written_comes_back() -> None:
    found, arrays = read(write())
    assert (found.kind, found.key, found.values) == ("kind", "key", VALUES)
    for array, expected in zip(arrays, ARRAYS, strict=True):
        assert array.dtype == expected.dtype
        assert array.tolist() == expected.tolist()
    assert all(start % 64 == 0 for _, _, start, _ in found.arrays)


@settings(deadline=None)
@given(st.lists(st.integers(0, 500), max_size=12), st.text(max_size=200))
def test_any_number_of_arrays(sizes: list[int], key: str) -> None:
    """The description's length decides where arrays begin, and their places are written in it."""
    arrays = [np.full(size, index, np.uint64) for index, size in enumerate(sizes)]
    found, back = read(write(key=key, arrays=arrays))
    assert found.key == key
    assert [array.tolist() for array in back] == [array.tolist() for array in arrays]


def test_every_damaged_byte_is_noticed() -> None:
    raw = write()
    covered = set(range(struct.calcsize("<8sIIIQ") + 4))
    found, _ = read(raw)
    length = struct.unpack_from("<I", raw, 12)[0]
    covered |= set(range(len(covered), len(covered) + length))
    for (_, _, start, _), array in zip(found.arrays, ARRAYS, strict=True):
        covered |= set(range(start, start + array.nbytes))
    pick = random.Random(1)
    for place in covered:
        damaged = bytearray(raw)
        damaged[place] ^= 1 << pick.randrange(8)
        with pytest.raises(ValueError):  # noqa: PT011 - whichever check comes first
            read(bytes(damaged))


@pytest.mark.parametrize("cut", [0, 5, 31, 32, 60, 500, -1])
def test_lost_and_added_bytes_are_noticed(cut: int) -> None:
    raw = write()
    for damaged in (raw[:cut], raw + b"\0"):
        with pytest.raises(ValueError):  # noqa: PT011
            read(damaged)


def forged(description: Any, version: int = FORMAT, pad: int = 0) -> bytes:
    """A file whose checksums are right and whose description is not."""
    text = description if isinstance(description, bytes) else json.dumps(description).encode()
    size = 32 + len(text) + pad
    header = struct.pack("<8sIIIQ", b"\x89TWOSTG\n", version, len(text), zlib.crc32(text), size)
    return header + struct.pack("<I", zlib.crc32(header)) + text + bytes(pad)


PLAIN = {"kind": "k", "key": "k", "values": {}, "arrays": []}


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (forged(PLAIN, version=FORMAT + 1), "format version"),
        (forged(b"[]"), "malformed"),
        (forged({**PLAIN, "arrays": [["<u8"]]}), "not enough values"),
        (forged({**PLAIN, "values": 5}), "malformed"),
        (forged({"kind": "k"}), "malformed"),
        (forged(b"[" * 100_000), "malformed"),
        (forged({**PLAIN, "arrays": [["<f8", [1], 0, 0]]}, pad=64), "outside"),
        (forged({**PLAIN, "arrays": [["<u8", [1, 1, 1], 0, 0]]}, pad=64), "outside"),
        (forged({**PLAIN, "arrays": [["<u8", [-1], 0, 0]]}, pad=64), "outside"),
        (forged({**PLAIN, "arrays": [["<u8", [1], -8, 0]]}, pad=64), "outside"),
        (forged({**PLAIN, "arrays": [["<u8", [2**40], 0, 0]]}, pad=64), "outside"),
        (forged({**PLAIN, "arrays": [["|O", [1], 0, 0]]}, pad=64), "outside"),
        (forged({**PLAIN, "arrays": [["<u8", [1], 8, 5]]}, pad=64), "checksum"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_description_that_makes_no_sense_is_refused(raw: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(raw)


def test_a_file_that_shrinks_while_it_is_read() -> None:
    raw = write()
    description = describe(lambda place, count: raw[place : place + count], len(raw))
    with pytest.raises(ValueError, match="ends early"):
        verify(lambda place, count: b"", description)
