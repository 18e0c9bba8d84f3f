"""Index files: Puffin, written once, read by ranges, each range with its checksum.

Takes blobs in parts; gives a file, and from a file its `PuffinFooter` and byte ranges of blobs. The rule: no byte is used before its
checksum was compared. The footer has one of its own, a blob has one over the whole (for `verify`), and a reader of
a part of a blob has the part's checksum from bytes that were checked before.

Blobs that are needed to find anything in the others (`at_end`) come just before the footer, so that one read of the tail
usually brings both.
Source: Puffin spec, "File structure" and "Footer"; the blob types are our own.
"""

from __future__ import annotations

import json
import struct
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from twostage.indexes.answer import LookupCost
from twostage.storage.ranged_object import RangedObject
from twostage.storage.ranges import cost_of, merge

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import BinaryIO

    import pyarrow as pa

Buffer = TypeVar("Buffer", bytes, memoryview)
MAGIC = b"PFA1"
FORMAT = 4
"""Version of the layout of our files: raise it when what is written changes its meaning."""
TAIL_BYTES = 64 * 2**10
"""Bytes read when a file is opened: locally this takes 15 µs, remotely as long as a request for a few bytes."""
MAX_FOOTER_BYTES = 16 * 2**20
_TYPE = "twostage-index"
_END = struct.Struct("<i4s4s")


class BadIndexError(ValueError):
    """An index file that is cut short, damaged, of another version or of something else: it is not used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """One blob: where it lies, and what it is.

    Attributes:
        field_id: The column.
        kind: The kind of index, such as ``postings``.
        part: Its part of it, such as ``directory``.
        properties: Plain values, as text.
        crc: Of all its bytes.
    """

    field_id: int
    kind: str
    part: str
    offset: int
    length: int
    crc: int
    properties: Mapping[str, str]


@dataclass(slots=True)
class IndexWriter:
    """Writes an index file to an open stream; `close` ends it.

    Attributes:
        properties: Of the file, as text: what it is an index of.
    """

    stream: BinaryIO
    properties: dict[str, str] = field(default_factory=dict)
    _offset: int = 0
    _blobs: list[dict[str, Any]] = field(default_factory=list)
    _held: list[tuple[int, str, str, bytes, dict[str, Any]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._write(MAGIC)

    def add(
        self,
        field_id: int,
        kind: str,
        part: str,
        parts: bytes | Iterable[bytes],
        *,
        at_end: bool = False,
        **properties: Any,
    ) -> None:
        """Write a blob.

        Args:
            field_id: The column.
            kind: The kind of index.
            part: Which part of it.
            parts: Its bytes; those of a blob `at_end` are kept in memory.
            at_end: Write it after all others, just before the footer.
            properties: Plain values.
        """
        if at_end:
            data = parts if isinstance(parts, bytes) else b"".join(parts)
            self._held.append((field_id, kind, part, data, properties))
            return
        start, crc = self._offset, 0
        for piece in (parts,) if isinstance(parts, bytes) else parts:
            crc = zlib.crc32(piece, crc)
            self._write(piece)
        self._blobs.append(
            {
                "type": f"{_TYPE}-{kind}-{part}-v{FORMAT}",
                "fields": [field_id],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": start,
                "length": self._offset - start,
                "properties": {
                    **{name: str(value) for name, value in properties.items()},
                    "kind": kind,
                    "part": part,
                    "crc32": str(crc),
                },
            }
        )

    def close(self) -> int:
        """Write the footer; return the file's size in bytes. The stream stays open."""
        for field_id, kind, part, data, properties in self._held:
            self.add(field_id, kind, part, data, **properties)
        properties = {**self.properties, "format": str(FORMAT)}
        plain = {"blobs": self._blobs, "properties": properties}
        properties["footer-crc32"] = str(_crc_of(plain))
        payload = _canonical(plain)
        self._write(MAGIC + payload + _END.pack(len(payload), bytes(4), MAGIC))
        return self._offset

    def _write(self, data: bytes) -> None:
        self.stream.write(data)
        self._offset += len(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class PuffinFooter:
    """What an index file says about itself, checked.

    Attributes:
        blobs: By field id, kind and part.
        properties: Of the file.
        tail: The file's last bytes, which came with the footer.
        size: Of the file, bytes.
    """

    blobs: Mapping[tuple[int, str, str], Blob]
    properties: Mapping[str, str]
    tail: bytes
    size: int


def read_footer(
    file: pa.NativeFile | RangedObject, tail_bytes: int = TAIL_BYTES
) -> tuple[PuffinFooter, LookupCost]:
    """Read a file's footer.

    Raises:
        BadIndexError: It has no usable one.
    """
    size = file.size()
    length = min(size, tail_bytes)
    tail = bytes(file.read_at(length, size - length)) if length else b""
    requests = 1
    if len(tail) != length or length < len(MAGIC) + _END.size:
        raise BadIndexError(f"it has {size} bytes")
    payload_bytes, flags, magic = _END.unpack(tail[-_END.size :])
    if magic != MAGIC or flags != bytes(4):
        raise BadIndexError("it is not a Puffin file, or truncated")
    need = payload_bytes + len(MAGIC) + _END.size
    if payload_bytes < 0 or need > min(size, MAX_FOOTER_BYTES):
        raise BadIndexError(f"its footer has {payload_bytes} bytes, the file {size}")
    if need > length:
        tail = bytes(file.read_at(need, size - need))
        requests += 1
        if len(tail) != need:
            raise BadIndexError("the file ends early")
    start = len(tail) - need
    if tail[start : start + len(MAGIC)] != MAGIC:
        raise BadIndexError("its footer does not begin where it says")
    payload = tail[start + len(MAGIC) : -_END.size]
    footer = _parse(payload, tail, size, size - need)
    return footer, LookupCost(requests=requests, nbytes=max(length, need))


def _parse(payload: bytes, tail: bytes, size: int, end: int) -> PuffinFooter:
    try:
        plain = json.loads(payload)
        properties = {str(name): str(value) for name, value in plain["properties"].items()}
        expected = properties.pop("footer-crc32")
        plain["properties"] = properties
        if expected != str(_crc_of(plain)):
            raise BadIndexError("the footer's checksum does not match")
        if properties.get("format") != str(FORMAT):
            raise BadIndexError(f"format version {properties.get('format')}")
        blobs = {}
        for raw in plain["blobs"]:
            own = {str(name): str(value) for name, value in raw["properties"].items()}
            blob = Blob(
                field_id=int(raw["fields"][0]),
                kind=own.pop("kind"),
                part=own.pop("part"),
                offset=int(raw["offset"]),
                length=int(raw["length"]),
                crc=int(own.pop("crc32")),
                properties=own,
            )
            if blob.offset < len(MAGIC) or blob.length < 0 or blob.offset + blob.length > end:
                raise BadIndexError("a blob lies outside the file")
            blobs[blob.field_id, blob.kind, blob.part] = blob
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, RecursionError) as error:
        if isinstance(error, BadIndexError):
            raise
        raise BadIndexError(f"its footer is malformed: {type(error).__name__}") from None
    return PuffinFooter(blobs=blobs, properties=properties, tail=tail, size=size)


def _canonical(plain: Mapping[str, Any]) -> bytes:
    return json.dumps(plain, separators=(",", ":"), sort_keys=True).encode()


def _crc_of(plain: Mapping[str, Any]) -> int:
    return zlib.crc32(_canonical(plain))


class BlobReader:
    """Reads ranges of an open index file's blobs, and adds up what that cost.

    Args:
        file: Open for random access.
        footer: Of this file.
        is_remote: Whether a read takes a request: then reads are fewer and larger, and some run at once.
    """

    def __init__(
        self, file: pa.NativeFile | RangedObject, footer: PuffinFooter, *, is_remote: bool = False
    ) -> None:
        self._file = file
        self.footer = footer
        self.cost = LookupCost()
        self._lock = threading.Lock()
        self.request_cost = cost_of(None, None, is_remote=is_remote)

    def blob(self, field_id: int, kind: str, part: str) -> Blob:
        """Return a blob's description.

        Raises:
            BadIndexError: There is none.
        """
        found = self.footer.blobs.get((field_id, kind, part))
        if found is None:
            raise BadIndexError(f"it has no {kind} {part}")
        return found

    def read(self, blob: Blob, start: int, length: int) -> bytes:
        """Read a range of a blob; the caller compares its checksum (`checked`)."""
        place = self._place(blob, start, length)
        first = self.footer.size - len(self.footer.tail)
        if place >= first:
            return self.footer.tail[place - first : place - first + length]
        data = bytes(self._file.read_at(length, place)) if length else b""
        with self._lock:
            self.cost += LookupCost(requests=1, nbytes=length)
        if len(data) != length:
            raise BadIndexError("the file ends early")
        return data

    def read_ranges(self, blob: Blob, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Read ranges of a blob (start, length), adjacent ones together; the caller compares their checksums."""
        found: list[memoryview] = [memoryview(b"")] * len(ranges)
        requests = merge(ranges, self.request_cost)
        places = [(request.start, request.end - request.start) for request in requests]
        if isinstance(self._file, RangedObject):
            answers = self._read_together(self._file, blob, places)
        elif self.request_cost.parallel > 1 and len(places) > 1:
            with ThreadPoolExecutor(min(self.request_cost.parallel, len(places))) as pool:
                answers = list(pool.map(lambda place: self.read(blob, *place), places))
        else:
            answers = [self.read(blob, *place) for place in places]
        for request, data in zip(requests, answers, strict=True):
            view = memoryview(data)
            for member in request.members:
                start, length = ranges[member]
                found[member] = view[start - request.start : start - request.start + length]
        return found

    def _read_together(
        self, file: RangedObject, blob: Blob, places: Sequence[tuple[int, int]]
    ) -> list[bytes | memoryview]:
        """Read ranges of a blob (start, length); those that did not come with the footer are requested together."""
        missing = [place for place in places if place[1] and not self.is_at_hand(blob, place[0])]
        read = file.read_ranges([(self._place(blob, *place), place[1]) for place in missing])
        self.cost += LookupCost(requests=len(missing), nbytes=sum(length for _, length in missing))
        found = dict(zip(missing, read, strict=True))
        return [found[place] if place in found else self.read(blob, *place) for place in places]

    @staticmethod
    def _place(blob: Blob, start: int, length: int) -> int:
        """Return where a range of a blob lies in the file."""
        if start < 0 or length < 0 or start + length > blob.length:
            raise BadIndexError(f"a range lies outside its blob: {length} bytes at {start} of {blob.length}")
        return blob.offset + start

    def whole(self, blob: Blob) -> bytes:
        """Read a blob, and compare its checksum."""
        return checked(self.read(blob, 0, blob.length), blob.crc)

    def is_at_hand(self, blob: Blob, start: int = 0) -> bool:
        """Tell whether a blob's bytes from `start` on came with the footer."""
        return blob.offset + start >= self.footer.size - len(self.footer.tail)


def checked(data: Buffer, crc: int) -> Buffer:
    """Return the bytes, if they have this checksum.

    Raises:
        BadIndexError: They do not.
    """
    if zlib.crc32(data) != crc:
        raise BadIndexError("a checksum does not match")
    return data
