"""Write Thrift's compact protocol, for tests that need a footer that no writer makes.

A struct is ``{field id: (kind, value)}`` with kinds ``i32 i64 bool binary struct list:<kind>``.
"""

from __future__ import annotations

from typing import Any

_CODES = {"i32": 5, "i64": 6, "binary": 8, "list": 9, "struct": 12}


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value: int) -> bytes:
    return varint(value * 2 if value >= 0 else -value * 2 - 1)


def struct(fields: dict[int, tuple[str, Any]]) -> bytes:
    out = bytearray()
    last = 0
    for number in sorted(fields):
        kind, value = fields[number]
        code = (1 if value else 2) if kind == "bool" else _CODES[kind.partition(":")[0]]
        if 0 < number - last < 16:
            out.append((number - last) << 4 | code)
        else:
            out.append(code)
            out += zigzag(number)
        last = number
        if kind != "bool":
            out += _value(kind, value)
    return bytes(out) + b"\x00"


def _value(kind: str, value: Any) -> bytes:
    if kind in ("i32", "i64"):
        return zigzag(value)
    if kind == "binary":
        return varint(len(value)) + value
    if kind == "struct":
        return struct(value)
    inner = kind.partition(":")[2]
    head = (
        bytes([len(value) << 4 | _CODES[inner]])
        if len(value) < 15
        else bytes([0xF0 | _CODES[inner]]) + varint(len(value))
    )
    return head + b"".join(_value(inner, item) for item in value)
