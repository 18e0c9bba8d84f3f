"""ORC's encodings of numbers: the specification's examples, and streams that lie."""

from __future__ import annotations

import random
from decimal import Decimal

import numpy as np
import pytest

from twostage.formats.orc import run_length
from twostage.formats.orc.decimals import read_decimals

SPECIFIED = [  # ORC specification v1, "Integer Run Length Encoding, version 1" and "version 2"
    (1, False, "610007", [7] * 100),
    (1, False, "61ff64", list(range(100, 0, -1))),
    (1, False, "fb020304070b", [2, 3, 4, 7, 11]),
    (2, False, "0a2710", [10000] * 5),
    (2, False, "5e035ca1ab1edeadbeef", [23713, 43806, 57005, 48879]),
    (2, False, "c609020222424246", [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]),
]


@pytest.mark.parametrize(("version", "signed", "encoded", "values"), SPECIFIED)
def test_the_specifications_examples(version, signed, encoded, values):
    data = bytes.fromhex(encoded)
    assert run_length.integers(data, len(values), signed=signed, version=version).tolist() == values
    for count in (len(values) - 1, len(values) + 1, 0):
        with pytest.raises(ValueError):
            run_length.integers(data, count, signed=signed, version=version)
    for end in range(1, len(data)):
        with pytest.raises((ValueError, IndexError)):
            run_length.integers(data[:end], len(values), signed=signed, version=version)


def test_the_specifications_patched_base():
    values = [2030, 2000, 2020, 1000000, *range(2040, 2200, 10)]
    data = bytes.fromhex("8e132b2107d01e00147028323c46505a646e78828c96a0aab4befce8")
    assert run_length.integers(data, 20, signed=False, version=2).tolist() == values


def test_bytes_and_booleans_of_the_specification():
    assert run_length.byte_values(bytes.fromhex("6100"), 100).tolist() == [0] * 100
    assert run_length.byte_values(bytes.fromhex("fe4445"), 2).tolist() == [0x44, 0x45]
    assert run_length.booleans(bytes.fromhex("ff80"), 8).tolist() == [True] + [False] * 7
    with pytest.raises(ValueError):
        run_length.booleans(bytes.fromhex("ff80"), 9)


def pack(values, width):
    bits = "".join(format(value, f"0{width}b") for value in values)
    bits += "0" * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8, "big")


def zigzag(value):
    return value << 1 ^ value >> 63


@pytest.mark.parametrize("seed", range(40))
def test_direct_runs_of_every_width_and_sign(seed):
    pick = random.Random(seed)
    widths = [*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64]
    data, expected = b"", []
    for _ in range(pick.randint(1, 30)):
        code = pick.randrange(32)
        length = pick.randint(1, 512)
        encoded = [pick.getrandbits(widths[code]) for _ in range(length)]
        data += bytes([0x40 | code << 1 | (length - 1) >> 8, (length - 1) & 255]) + pack(
            encoded, widths[code]
        )
        expected += [value >> 1 ^ -(value & 1) for value in encoded]
        if pick.random() < 0.5:
            value, count = pick.getrandbits(64) - 2**63, pick.randint(3, 10)
            data += bytes([7 << 3 | count - 3]) + zigzag(value).to_bytes(8, "big")
            expected += [value] * count
    assert run_length.integers(data, len(expected), signed=True, version=2).tolist() == expected


def varint(value):
    result = bytearray()
    while value > 127:
        result.append(value & 127 | 128)
        value >>= 7
    return bytes([*result, value])


@pytest.mark.parametrize("seed", range(20))
def test_decimals_of_any_length_and_scale(seed):
    pick = random.Random(seed)
    numbers = [pick.randint(-(10 ** pick.randint(1, 30)), 10 ** pick.randint(1, 30)) for _ in range(200)]
    numbers += [10**30 - 1, -(10**30) + 1, 0, -1]
    scales = [pick.choice((0, 2, 5)) if seed % 2 else 5 for _ in numbers]
    data = b"".join(varint(n << 1 if n >= 0 else (-n << 1) - 1) for n in numbers)
    array = read_decimals(data, np.array(scales, np.int64), 38, 5)
    assert array.to_pylist() == [Decimal(f"{n}E-{s}") for n, s in zip(numbers, scales, strict=True)]
    with pytest.raises(ValueError):
        read_decimals(data[:-1], np.array(scales, np.int64), 38, 5)
    with pytest.raises(ValueError):
        read_decimals(data, np.array(scales, np.int64), 20, 5)


def test_a_stream_cannot_ask_for_more_memory_than_its_count():
    run = bytes([0xC1, 0xFF, 0x00, 0x00])  # 512 zeros in four bytes
    with pytest.raises(ValueError, match="more than 100 values"):
        run_length.integers(run * 1_000_000, 100, signed=False, version=2)
    with pytest.raises(ValueError, match="exactly"):
        run_length.byte_values(b"\x7f\x00" * 1_000_000, 100)
