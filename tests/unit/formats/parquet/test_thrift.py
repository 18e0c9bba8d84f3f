"""The compact protocol: round trips against a writer of the tests, and bytes that are wrong."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import pytest

import thrift_writer
from twostage.formats.parquet.thrift import MAX_DEPTH, ThriftError, read_struct


def random_struct(rng: random.Random, depth: int) -> tuple[dict[int, tuple[str, Any]], dict[int, Any]]:
    fields: dict[int, tuple[str, Any]] = {}
    plain: dict[int, Any] = {}
    for number in rng.sample(range(1, 60), rng.randrange(0, 8)):
        match rng.randrange(6 if depth else 4):
            case 0:
                value: Any = rng.randrange(-(2**63), 2**63) >> rng.randrange(0, 60)
                fields[number] = ("i64", value)
            case 1:
                value = rng.random() < 0.5
                fields[number] = ("bool", value)
            case 2:
                value = rng.randbytes(rng.choice([0, 3, 127, 128, 300]))
                fields[number] = ("binary", value)
            case 3:
                value = [rng.randrange(-200, 200) for _ in range(rng.choice([0, 3, 14, 15, 40]))]
                fields[number] = ("list:i32", value)
            case 4:
                inner, value = random_struct(rng, depth - 1)
                fields[number] = ("struct", inner)
            case _:
                pairs = [random_struct(rng, depth - 1) for _ in range(rng.choice([0, 2, 16]))]
                fields[number] = ("list:struct", [pair[0] for pair in pairs])
                value = [pair[1] for pair in pairs]
        plain[number] = value
    return fields, plain


@pytest.mark.parametrize("seed", range(5))
def test_round_trip_and_every_truncation(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(100):
        fields, plain = random_struct(rng, 2)
        raw = thrift_writer.struct(fields)
        assert read_struct(b"xx" + raw + b"tail", 2) == (plain, 2 + len(raw))
        for end in rng.sample(range(len(raw)), min(len(raw), 20)):
            with pytest.raises(ThriftError):
                read_struct(raw[:end])


def test_other_types_are_read() -> None:
    raw = (
        bytes([0x13, 0x80])  # 1: byte -128
        + bytes([0x14, 0x03])  # 2: i16 -2
        + bytes([0x17]) + b"\x00\x00\x00\x00\x00\x00\xf8\x3f"  # 3: double 1.5
        + bytes([0x1B, 0x01, 0x58, 0x02, 0x01, 0x61])  # 4: map {1: "a"}
        + bytes([0x1A, 0x21, 0x01, 0x02])  # 5: set of booleans
        + bytes([0x1D]) + bytes(range(16))  # 6: uuid
        + b"\x00"
    )  # fmt: skip
    fields, end = read_struct(raw)
    assert fields == {1: -128, 2: -2, 3: 1.5, 4: [(1, b"a")], 5: [True, False], 6: bytes(range(16))}
    assert end == len(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x15",
        b"\x15" + b"\xff" * 20,  # endless varint
        b"\x18\xff\xff\xff\xff\x0f",  # 4 GiB of bytes
        b"\x19\xfc\xff\xff\xff\xff\x0f",  # four billion structs
        b"\x1b\xff\xff\xff\xff\x0f\x55",
        b"\x1f",  # no such type
        b"\x1c" * 100_000,  # structs in structs
        b"\x19\x1a" + b"\x1a" * 100_000,  # lists in lists
        b"\x1b\x01\xbb" + b"\x01\xbb" * 10_000,
    ],
)
def test_wrong_bytes_are_an_error(raw: bytes) -> None:
    with pytest.raises(ThriftError):
        read_struct(raw)


def test_depth_limit_is_beyond_what_parquet_needs() -> None:
    assert read_struct(b"\x1c" * 20 + b"\x00" * 21)[1] == 41
    with pytest.raises(ThriftError):
        read_struct(b"\x1c" * (MAX_DEPTH + 1) + b"\x00" * (MAX_DEPTH + 2))


def test_memory_is_bounded_for_cheap_structs() -> None:
    raw = b"\x19\xfc" + thrift_writer.varint(9_000_000) + b"\x00" * 9_000_001
    tracemalloc.start()
    with pytest.raises(ThriftError, match="too many parts"):
        read_struct(b"\x19\xf9" + thrift_writer.varint(9_000_000) + b"\x05" * 9_000_001)
    tracemalloc.stop()
    assert len(raw) > 9_000_000


@pytest.mark.parametrize("seed", range(3))
def test_random_bytes_give_a_value_or_the_error(seed: int) -> None:
    rng = random.Random(seed)
    outcomes = set()
    for _ in range(5_000):
        try:
            read_struct(rng.randbytes(rng.randrange(1, 60)))
            outcomes.add("value")
        except ThriftError:
            outcomes.add("error")
    assert outcomes == {"value", "error"}
