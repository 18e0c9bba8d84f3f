"""Protocol Buffers messages, read strictly and without a schema.

Takes the bytes of a message; returns its fields by number. The rule: bytes that are not a message raise
`ValueError`; nothing is allocated beyond the size of the message.
Source: protobuf.dev, "Encoding".
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from twostage.formats.varint import read_varint

_LENGTHS = {1: 8, 5: 4}
"""Bytes of a value, by wire types of fixed length."""


@dataclass(frozen=True, slots=True)
class Message:
    """The fields of a message by number, each with all its occurrences: integers or bytes.

    Its methods raise `ValueError` for a field of the other kind.
    """

    fields: dict[int, list[int | bytes]] = field(default_factory=dict)

    def number(self, tag: int, default: int = 0) -> int:
        """Return an integer field; the last occurrence counts."""
        found = self.fields.get(tag)
        if not found:
            return default
        last = found[-1]
        if isinstance(last, int):
            return last
        raise ValueError(f"field {tag} is not a number")

    def numbers(self, tag: int) -> list[int]:
        """Return a repeated integer field, packed or not."""
        result: list[int] = []
        for item in self.fields.get(tag, ()):
            if isinstance(item, int):
                result.append(item)
                continue
            position = 0
            while position < len(item):
                value, position = read_varint(item, position)
                result.append(value)
        return result

    def blobs(self, tag: int) -> list[bytes]:
        """Return a repeated field of bytes."""
        result = []
        for item in self.fields.get(tag, ()):
            if isinstance(item, int):
                raise ValueError(f"field {tag} is a number")  # noqa: TRY004
            result.append(item)
        return result

    def blob(self, tag: int) -> bytes | None:
        """Return a field of bytes; the last occurrence counts, None if there is none."""
        found = self.blobs(tag)
        return found[-1] if found else None

    def texts(self, tag: int) -> list[str]:
        """Return a repeated field of text."""
        return [item.decode() for item in self.blobs(tag)]

    def __contains__(self, tag: int) -> bool:
        return tag in self.fields


def parse(data: bytes) -> Message:
    """Parse a message.

    Raises:
        ValueError: The bytes are not a message.

    >>> parse(bytes([0x08, 0x96, 0x01])).number(1)
    150
    """
    fields: defaultdict[int, list[int | bytes]] = defaultdict(list)
    position, end = 0, len(data)
    while position < end:
        key, position = read_varint(data, position)
        tag, wire = key >> 3, key & 7
        value: int | bytes
        if tag == 0:
            raise ValueError("a field has number 0")
        if wire == 0:
            value, position = read_varint(data, position)
        else:
            if wire == 2:
                length, position = read_varint(data, position)
            elif wire in _LENGTHS:
                length = _LENGTHS[wire]
            else:
                raise ValueError(f"a field has wire type {wire}")
            if length > end - position:
                raise ValueError("a field is cut off")
            value = data[position : position + length]
            position += length
        fields[tag].append(value)
    return Message(dict(fields))
