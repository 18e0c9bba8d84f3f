"""Variable-length integers, as Avro, Thrift's compact protocol, Protocol Buffers, ORC and Snappy write them.

A varint has seven bits of the number in each byte, the lowest first; the high bit says that another byte follows.
Zigzag maps signed numbers to unsigned ones, so that small negative numbers stay short: 0, -1, 1, -2 → 0, 1, 2, 3.

This is the only place in Python that encodes or decodes them. Two loops are inlined elsewhere because a call for each
number is too slow: the integer fields of `parquet.thrift`, and the numba kernels in `native/` (`avro_walk`,
`page_values`), which cannot call Python.

Sources: Avro 1.11 specification, "Binary Encoding"; thrift-compact-protocol.md; protobuf.dev, "Encoding"; ORC
specification v1, "Base 128 Varint".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_VARINT_BYTES = 10
"""Maximum bytes of a 64-bit number."""
MAX_WIDE_VARINT_BYTES = 19
"""Maximum bytes of a 128-bit number."""
_MASK_64 = 2**64 - 1
_ONE = np.uint64(1)


def read_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Return the unsigned number at `position`, cut to 64 bits, and the position after it.

    Raises:
        ValueError: The bytes end within the number, or it has more than ten bytes.

    >>> read_varint(bytes([0x96, 0x01]), 0)
    (150, 2)
    """
    value = shift = 0
    try:
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & _MASK_64, position
            shift += 7
            if shift > 63:
                raise ValueError("a number has more than ten bytes")
    except IndexError:
        raise ValueError("a number is cut off") from None


def read_zigzag(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Return the signed 64-bit number at `position`, and the position after it.

    Raises:
        ValueError: As for `read_varint`.

    >>> read_zigzag(bytes([0x03]), 0)
    (-2, 1)
    """
    value, position = read_varint(data, position)
    return (value >> 1) ^ -(value & 1), position


def decode_zigzag(value: int) -> int:
    """Return the signed number that a zigzag code stands for.

    >>> [decode_zigzag(code) for code in range(4)]
    [0, -1, 1, -2]
    """
    return (value >> 1) ^ -(value & 1)


def write_varint(number: int) -> bytes:
    """Return an unsigned number as a varint.

    >>> write_varint(150).hex()
    '9601'
    """
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def write_zigzag(number: int) -> bytes:
    """Return a signed number as the varint of its zigzag code.

    >>> write_zigzag(-2).hex()
    '03'
    """
    return write_varint(number << 1 if number >= 0 else (-number << 1) - 1)


def decode_zigzags(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the signed numbers that zigzag codes stand for, as the same 64 bits (two's complement)."""
    result: NDArray[np.uint64] = (values >> _ONE) ^ (~(values & _ONE) + _ONE)
    return result


def read_wide_zigzags(data: bytes, count: int) -> NDArray[np.uint64]:
    """Return `count` signed numbers of up to 128 bits that fill `data` exactly.

    Returns:
        Shape ``(count, 2)``: the low and the high 64 bits of each number (two's complement).

    Raises:
        ValueError: The bytes hold a different number of varints, or one of more than 19 bytes.
    """
    raw = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(raw < 128) + 1
    if len(ends) != count or (count and ends[-1] != len(raw)):
        raise ValueError(f"a stream does not hold exactly {count} decimals")
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]]) if count else ends
    lengths = ends - starts
    longest = int(lengths.max()) if count else 0
    if longest > MAX_WIDE_VARINT_BYTES:
        raise ValueError(f"a decimal of {longest} bytes")
    low, high = np.zeros(count, np.uint64), np.zeros(count, np.uint64)
    for index in range(longest):
        rows = slice(None) if index == 0 else np.flatnonzero(lengths > index)
        digits = (raw[starts[rows] + index] & 127).astype(np.uint64)
        shift = 7 * index
        if shift < 64:
            low[rows] |= digits << np.uint64(shift)
        if shift >= 64:
            high[rows] |= digits << np.uint64(shift - 64)
        elif shift > 57:
            high[rows] |= digits >> np.uint64(64 - shift)
    sign = ~(low & _ONE) + _ONE
    low, high = ((low >> _ONE) | (high << np.uint64(63))) ^ sign, (high >> _ONE) ^ sign
    return np.stack([low, high], axis=1)
