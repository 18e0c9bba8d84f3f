"""Variable-length numbers, as Protocol Buffers, Thrift's compact protocol and Avro write them."""

from __future__ import annotations

_MAX_VARINT_BYTES = 10


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return an unsigned 64-bit varint and the position behind it."""
    value = shift = 0
    for index in range(position, min(position + _MAX_VARINT_BYTES, len(data))):
        byte = data[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (2**64 - 1), index + 1
        shift += 7
    raise ValueError("a number is cut off or too long")


def zigzag(value: int) -> int:
    """Return the signed number that a zigzag code stands for."""
    return (value >> 1) ^ -(value & 1)
