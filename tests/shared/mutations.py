"""Damage: takes a file's bytes and a random generator; returns damaged bytes and how they were made."""

from __future__ import annotations

import json
import random
import re
import struct
import zlib

HOW = ("flip", "flips", "zeroed", "garbage", "cut", "inserted", "removed", "lengths")
_EDGES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1)
_NUMBERS = (b"0", b"-1", b"1", b"3", b"99", b"2147483648", b"9223372036854775808", b"1.5", b"null", b'"x"')


def damage(data: bytes, kind: str, pick: random.Random) -> tuple[bytes, str]:
    """Return bytes other than `data`, and the kind of damage drawn."""
    while True:
        how = pick.choice(HOW)
        changed = bytes(_damaged(bytearray(data), kind, how, pick))
        if changed != data:
            return changed, how


def flip(data: bytes, ranges: list[tuple[int, int]], pick: random.Random) -> bytes:
    """Return the bytes with one bit flipped inside the ranges, every byte equally likely."""
    place = pick.randrange(sum(end - start for start, end in ranges))
    for start, end in ranges:
        if place < end - start:
            changed = bytearray(data)
            changed[start + place] ^= 1 << pick.randrange(8)
            return bytes(changed)
        place -= end - start
    raise AssertionError


def reseal(data: bytes, pick: random.Random) -> bytes:
    """Return an index file with another number in its footer and a matching checksum, as from a hostile writer."""
    length = struct.unpack_from("<i", data, len(data) - 12)[0]
    start = len(data) - 12 - length
    footer = json.loads(data[start : start + length])
    places = [(blob, name) for blob in footer["blobs"] for name in ("offset", "length")]
    for holder in (footer["properties"], *(blob["properties"] for blob in footer["blobs"])):
        places += [(holder, name) for name, text in holder.items() if re.fullmatch(r"-?\d+", text)]
    places = [(holder, name) for holder, name in places if name != "footer-crc32"]
    holder, name = pick.choice(places)
    value = int(holder[name])
    other = pick.choice(
        (0, -1, 1, value + 1, value - 1, 2 * value, *_EDGES, 2**40, 2**62, 2**63, 2**64 - 1, 10**30)
    )
    holder[name] = other if isinstance(holder[name], int) else str(other)
    del footer["properties"]["footer-crc32"]
    canonical = {"separators": (",", ":"), "sort_keys": True}
    footer["properties"]["footer-crc32"] = str(zlib.crc32(json.dumps(footer, **canonical).encode()))
    payload = json.dumps(footer, **canonical).encode()
    return data[:start] + payload + struct.pack("<i4s4s", len(payload), bytes(4), b"PFA1")


def changed_places(before: bytes, after: bytes) -> list[int] | None:
    """Return which bytes differ; None if the lengths do."""
    if len(before) != len(after):
        return None
    return [place for place, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]


def _damaged(data: bytearray, kind: str, how: str, pick: random.Random) -> bytearray:
    place = _place(data, pick)
    length = min(pick.choice((1, 4, 16, 64)), len(data) - place)
    match how:
        case "flip":
            data[place] ^= 1 << pick.randrange(8)
        case "flips":
            for _ in range(pick.randint(2, 6)):
                data[_place(data, pick)] ^= 1 << pick.randrange(8)
        case "zeroed":
            data[place : place + length] = bytes(length)
        case "garbage":
            data[place : place + length] = pick.randbytes(length)
        case "cut":
            del data[pick.choice((place, len(data) - pick.randint(1, min(len(data), 20)))) :]
        case "inserted":
            data[place:place] = pick.choice((pick.randbytes(length), bytes(length), data[:length]))
        case "removed":
            del data[place : place + length]
        case "lengths":
            return _other_length(data, kind, pick)
    return data


def _place(data: bytearray, pick: random.Random) -> int:
    """Return a place; one in three is in the last 200 or first 100 bytes, where there is most to break."""
    chance = pick.random()
    if chance < 0.25:
        return len(data) - pick.randint(1, min(len(data), 200))
    return pick.randrange(min(len(data), 100)) if chance < 0.35 else pick.randrange(len(data))


def _other_length(data: bytearray, kind: str, pick: random.Random) -> bytearray:
    """Change a length or count: where the format has one, or anywhere."""
    if kind == "metadata":
        numbers = list(re.finditer(rb"(?<![\w.])-?\d+", bytes(data)))
        found = pick.choice(numbers)
        data[found.start() : found.end()] = pick.choice(_NUMBERS)
        return data
    size = len(data)
    places = [pick.randrange(size - 4)]
    if kind.startswith("parquet"):
        places += [size - 8]  # the footer's length
    elif kind.startswith("orc"):
        data[size - pick.randint(1, min(size, 30))] = (
            pick.choice(_EDGES) & 0xFF
        )  # the postscript and its length
        return data
    elif kind.startswith("index"):
        places += [size - 12]  # the footer's length
    elif kind == "puffin vector":
        places += [4, 12, 20, size - 12]  # the vector's length, its bitmaps, their keys; the footer's length
    else:  # Avro: a number is one byte to ten, the last one below 0x80
        place = pick.randrange(size)
        varint = pick.choice((b"\xff" * 9 + b"\x01", b"\xfe\xff\xff\xff\x0f", b"\x00", b"\x01", b"\x80"))
        data[place : place + 1] = varint
        return data
    order = ">" if kind == "puffin vector" and pick.random() < 0.5 else "<"
    struct.pack_into(f"{order}I", data, pick.choice(places), pick.choice(_EDGES))
    return data
