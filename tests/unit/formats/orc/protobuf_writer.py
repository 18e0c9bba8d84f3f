"""Protocol Buffers messages by hand: a tag and what it holds in, a field's bytes out."""

from __future__ import annotations

from thrift_writer import varint


def blob(tag: int, data: bytes) -> bytes:
    return varint(tag << 3 | 2) + varint(len(data)) + data


def number(tag: int, value: int) -> bytes:
    return varint(tag << 3) + varint(value)
