"""Thrift's compact protocol, as Parquet footers, page headers and indexes use it.

Takes bytes and a position; returns a struct as ``{field id: value}`` with ``int``, ``bool``, ``float``,
``bytes``, ``list`` and ``dict`` values, and the position after it. The rule: any input ends in a value or a
`ThriftError`, in time and memory proportional to its length; nesting and the number of parts are limited.
Source: apache/thrift, doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

import struct
from typing import Any

from twostage.formats.varint import read_varint, read_zigzag

MAX_DEPTH = 40
"""Parquet's own structs nest six deep; the rest is for future fields."""
MAX_PARTS = 8_000_000
"""Structs and list elements in one input: an empty struct is one byte of input and 64 bytes of memory."""

_DOUBLE = struct.Struct("<d")


class ThriftError(ValueError):
    """The bytes are not a struct of the compact protocol."""


def read_struct(data: bytes, position: int = 0) -> tuple[dict[int, Any], int]:
    """Read the struct at `position`; return its fields by id and the position after it.

    Raises:
        ThriftError: It is truncated, malformed, nested too deep or has too many parts.

    >>> read_struct(bytes([0x15, 0x0E, 0x18, 0x02, 0x68, 0x69, 0x00]))
    ({1: 7, 2: b'hi'}, 7)
    """
    if position < 0:
        raise ThriftError("negative position")
    try:
        return _struct(data, position, 0, [MAX_PARTS])
    except (ValueError, IndexError) as error:
        raise _malformed(error) from None


def struct_spans(data: bytes, field_id: int) -> list[tuple[int, int]]:
    """Return where each struct of a list begins and ends; the list is a field of the struct at 0.

    Raises:
        ThriftError: As for `read_struct`; also if the field is missing, or not a list of structs.
    """
    budget = [MAX_PARTS]
    at = found = 0
    try:
        while header := data[at]:
            at += 1
            if header > 0x0F:
                found += header >> 4
            else:
                found, at = read_zigzag(data, at)
            kind = header & 0x0F
            if found != field_id:
                if kind not in (1, 2):
                    _, at = _value(data, at, kind, 1, budget)
                continue
            if kind != 9 or data[at] & 0x0F != 12:
                break
            count, at = data[at] >> 4, at + 1
            if count == 15:
                count, at = read_varint(data, at)
            spans = []
            for _ in range(count):
                start = at
                _, at = _struct(data, at, 2, budget)
                spans.append((start, at))
            return spans
    except (ValueError, IndexError) as error:
        raise _malformed(error) from None
    raise ThriftError("no such list")


def _malformed(error: ValueError | IndexError) -> ThriftError:
    """Return the error for bytes that end too early (an IndexError), or of `read_varint`."""
    if isinstance(error, ThriftError):
        return error
    return ThriftError("truncated" if isinstance(error, IndexError) else str(error))


def _struct(data: bytes, at: int, depth: int, budget: list[int]) -> tuple[dict[int, Any], int]:
    """Read fields up to the stop byte.

    The varints of integers and the lengths of short binaries are inlined, because they are most of a footer: with calls
    of `read_zigzag`, `read_footer` of 120 columns in eight row groups takes 23 ms of CPU instead of 20. The
    `needles` of `make bench` read such footers.
    """
    if depth > MAX_DEPTH:
        raise ThriftError("nested too deep")
    budget[0] -= 1
    if budget[0] < 0:
        raise ThriftError("too many parts")
    fields: dict[int, Any] = {}
    field_id = 0
    while True:
        header = data[at]
        at += 1
        if not header:
            return fields, at
        kind = header & 0x0F
        if header > 0x0F:
            field_id += header >> 4
        else:
            field_id, at = read_zigzag(data, at)
        if kind in (5, 6):  # i32, i64
            value = data[at]
            at += 1
            if value > 0x7F:
                value &= 0x7F
                shift = 7
                while True:
                    byte = data[at]
                    at += 1
                    value |= (byte & 0x7F) << shift
                    if byte < 0x80:
                        break
                    shift += 7
                    if shift > 63:
                        raise ThriftError("varint too long")
            fields[field_id] = (value >> 1) ^ -(value & 1)
        elif kind == 8:  # binary
            length = data[at]
            at += 1
            if length > 0x7F:
                length, at = read_varint(data, at - 1)
            end = at + length
            if end > len(data):
                raise ThriftError("truncated")
            fields[field_id] = data[at:end]
            at = end
        elif kind == 12:
            fields[field_id], at = _struct(data, at, depth + 1, budget)
        elif kind in (1, 2):
            fields[field_id] = kind == 1
        else:
            fields[field_id], at = _value(data, at, kind, depth + 1, budget)


def _value(data: bytes, at: int, kind: int, depth: int, budget: list[int]) -> tuple[Any, int]:
    """Read a value that is not a field's own boolean."""
    match kind:
        case 1 | 2:  # boolean in a list or map
            return data[at] == 1, at + 1
        case 3:
            return data[at] - ((data[at] & 0x80) << 1), at + 1
        case 4 | 5 | 6:
            return read_zigzag(data, at)
        case 7:
            if at + 8 > len(data):
                raise ThriftError("truncated")
            return _DOUBLE.unpack_from(data, at)[0], at + 8
        case 8:
            length, at = read_varint(data, at)
            if at + length > len(data):
                raise ThriftError("truncated")
            return data[at : at + length], at + length
        case 9 | 10:
            return _list(data, at, depth, budget)
        case 11:
            return _map(data, at, depth, budget)
        case 12:
            return _struct(data, at, depth, budget)
        case 13:
            if at + 16 > len(data):
                raise ThriftError("truncated")
            return data[at : at + 16], at + 16
    raise ThriftError("unknown type")


def _list(data: bytes, at: int, depth: int, budget: list[int]) -> tuple[list[Any], int]:
    if depth > MAX_DEPTH:
        raise ThriftError("nested too deep")
    header = data[at]
    at += 1
    count, kind = header >> 4, header & 0x0F
    if count == 15:
        count, at = read_varint(data, at)
    if count > len(data) - at:  # each element is at least a byte
        raise ThriftError("list longer than its bytes")
    _spend(budget, 1 if kind == 12 else count + 1)
    items: list[Any] = []
    add = items.append
    if kind == 12:
        for _ in range(count):
            item, at = _struct(data, at, depth + 1, budget)
            add(item)
    else:
        for _ in range(count):
            byte = data[at]
            if byte < 0x80 and kind in (5, 8):  # encodings and short names: most of a footer's lists
                at += 1
                if kind == 5:
                    add((byte >> 1) ^ -(byte & 1))
                    continue
                if at + byte > len(data):
                    raise ThriftError("truncated")
                add(data[at : at + byte])
                at += byte
                continue
            item, at = _value(data, at, kind, depth + 1, budget)
            add(item)
    return items, at


def _map(data: bytes, at: int, depth: int, budget: list[int]) -> tuple[list[tuple[Any, Any]], int]:
    """Read a map as a list of pairs, because keys may be lists or structs."""
    if depth > MAX_DEPTH:
        raise ThriftError("nested too deep")
    count, at = read_varint(data, at)
    if not count:
        return [], at
    if count * 2 > len(data) - at:
        raise ThriftError("map longer than its bytes")
    _spend(budget, count * 2)
    kinds = data[at]
    at += 1
    pairs: list[tuple[Any, Any]] = []
    for _ in range(count):
        key, at = _value(data, at, kinds >> 4, depth + 1, budget)
        value, at = _value(data, at, kinds & 0x0F, depth + 1, budget)
        pairs.append((key, value))
    return pairs, at


def _spend(budget: list[int], parts: int) -> None:
    budget[0] -= parts
    if budget[0] < 0:
        raise ThriftError("too many parts")
