"""Sorted values in blocks, each value with its number of rows and their bitmap's place; found by fences between the blocks.

Takes runs of values with their bitmaps; writes three blobs (blocks, bitmaps, directory), and gives from an open file the
blocks that may hold some keys. The rules: fences never rule out a block that holds a wanted key; every block and bitmap
is compared with its checksum, and is decompressed to no more than its directory says.
"""

from __future__ import annotations

import itertools
import struct
import tempfile
import zlib
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import zstandard

from twostage.indexes.keys import order_keys
from twostage.indexes.puffin import BadIndexError, checked
from twostage.predicates.lanes import Text, Wide, read_lane

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from twostage.indexes.puffin import BlobReader, IndexWriter
    from twostage.indexes.value_runs import ValueRun
    from twostage.indexes.wanted import Interval

BLOCK_VALUES = 512
BLOCK_BYTES = 32 * 2**10
"""Bytes of values in a block; a longer value has a block of its own."""
MAX_BLOCK_BYTES = 2**28
"""Decompressed; a larger block is not read."""
_COPIED_BYTES = 2**20
_HEAD = struct.Struct("<QIBQ")
_ENTRY = np.dtype(
    [
        ("start", "<u8"),
        ("length", "<u4"),
        ("raw", "<u4"),
        ("crc", "<u4"),
        ("count", "<u4"),
        ("bitmaps", "<u8"),
    ]
)
_BIAS = 2**127
_SCHEMA = (("rows", pa.uint32()), ("length", pa.uint32()), ("crc", pa.uint32()))


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Values in order; for each its number of rows, and its bitmap's offset in the blob, length in bytes and CRC-32."""

    values: pa.Array
    rows: NDArray[np.int64]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    crcs: NDArray[np.int64]


def write_dictionary(
    writer: IndexWriter, field_id: int, kind: str, runs: Iterable[ValueRun], counts: Any, folder: Path
) -> int:
    """Write runs of sorted values; return how many values there were.

    Args:
        writer: Of the index file.
        field_id: The column.
        kind: The kind of index.
        runs: In order; no value is in two of them.
        counts: Returns the number of rows of a serialized bitmap.
        folder: For the blocks while the bitmaps are written.
    """
    entries: list[tuple[int, ...]] = []
    fences: list[bytes] | list[int] = []
    place = total = 0
    last: bytes | None = None
    compressor = zstandard.ZstdCompressor(level=3)

    def bodies() -> Iterator[bytes]:
        nonlocal place, total, last
        at = 0
        for run in runs:
            for start, end in _steps(run.values):
                values = run.values.slice(start, end - start)
                own = run.bitmaps.slice(start, end - start).to_pylist()
                raw = _encoded(values, [(counts(data), len(data), zlib.crc32(data)) for data in own])
                packed = compressor.compress(raw)
                body = packed if len(packed) < len(raw) else raw
                blocks.write(body)
                entries.append((place, len(body), len(raw), zlib.crc32(body), len(values), at))
                keys = fence_keys(values.slice(0, 1))
                fences.append(_separator(last, keys[0]))  # type: ignore[arg-type]
                (tail,) = fence_keys(values.slice(len(values) - 1, 1))
                last = tail if isinstance(tail, bytes) else None
                place += len(body)
                total += len(values)
                at += sum(map(len, own))
                yield from own

    with tempfile.TemporaryFile(dir=folder) as blocks:
        writer.add(field_id, kind, "bitmaps", bodies())
        blocks.seek(0)
        writer.add(field_id, kind, "blocks", iter(lambda: blocks.read(_COPIED_BYTES), b""))
    is_text = bool(fences) and isinstance(fences[0], bytes)
    written = _packed_texts(fences) if is_text else np.array(fences, np.int64).tobytes()  # type: ignore[arg-type]
    head = _HEAD.pack(total, len(entries), is_text, len(written))
    writer.add(field_id, kind, "directory", head + np.array(entries, _ENTRY).tobytes() + written, at_end=True)
    return total


class Dictionary:
    """The blocks of one column in an open file.

    Raises:
        BadIndexError: The directory is malformed.
    """

    def __init__(self, field_id: int, kind: str, num_rows: int, reader: BlobReader) -> None:
        self._blocks = reader.blob(field_id, kind, "blocks")
        self.bitmaps = reader.blob(field_id, kind, "bitmaps")
        self._num_rows = num_rows
        data = reader.whole(reader.blob(field_id, kind, "directory"))
        if len(data) < _HEAD.size:
            raise BadIndexError("a dictionary without a directory")
        self.num_values, count, is_text, fence_bytes = _HEAD.unpack_from(data)
        start = _HEAD.size + count * _ENTRY.itemsize
        if len(data) != start + fence_bytes:
            raise BadIndexError("an inconsistent dictionary")
        self._entries = np.frombuffer(data, _ENTRY, count, _HEAD.size)
        if int(self._entries["count"].sum()) != self.num_values:
            raise BadIndexError("a dictionary of another number of values")
        self._fences: list[Any] = (
            _unpacked_texts(data[start:], count)
            if is_text
            else _exactly(np.frombuffer(data[start:], np.int64), count).tolist()
        )

    @property
    def num_blocks(self) -> int:
        """How many blocks there are."""
        return len(self._entries)

    def candidates(self, intervals: tuple[Interval, ...] | None) -> list[int]:
        """Return the blocks that may hold a key of one of the intervals; all for None."""
        if intervals is None or not self._fences:
            return list(range(self.num_blocks))
        found: set[int] = set()
        for interval in intervals:
            low, high = self._limit(interval.low), self._limit(interval.high)
            start = max(bisect_right(self._fences, low) - 1, 0)
            if high is None:
                end = self.num_blocks
            elif isinstance(interval.high, bytes):
                end = bisect_left(self._fences, high)
            else:
                end = bisect_right(self._fences, high)
            found.update(range(start, end))
        return sorted(found)

    def _limit(self, key: int | bytes | None) -> Any:
        """Return an interval's limit in the form of the fences, where numbers beyond 64 bits are bytes."""
        if isinstance(key, int) and self._fences and isinstance(self._fences[0], bytes):
            return _wide_key(key)
        return key

    def nbytes(self, blocks: list[int]) -> tuple[int, int]:
        """Return the bytes of some blocks, and of their values' bitmaps."""
        ends = np.append(self._entries["bitmaps"][1:], np.uint64(self.bitmaps.length))
        sizes = ends - self._entries["bitmaps"]
        return int(self._entries["length"][blocks].sum()), int(sizes[blocks].sum())

    def read(self, numbers: list[int], reader: BlobReader) -> Iterator[Block]:
        """Yield some blocks.

        Raises:
            BadIndexError: One is damaged.
        """
        ranges = [(int(self._entries[n]["start"]), int(self._entries[n]["length"])) for n in numbers]
        for number, data in zip(numbers, reader.read_ranges(self._blocks, ranges), strict=True):
            yield self._decode(number, data)

    def _decode(self, number: int, data: memoryview) -> Block:
        entry = self._entries[number]
        checked(data, int(entry["crc"]))
        raw_bytes = int(entry["raw"])
        if raw_bytes > MAX_BLOCK_BYTES:
            raise BadIndexError(f"a block of values of {raw_bytes} bytes")
        try:
            raw: bytes | memoryview = data
            if len(data) != raw_bytes:
                if zstandard.frame_content_size(data) != raw_bytes:
                    raise BadIndexError("a block of values of another size")
                raw = zstandard.ZstdDecompressor().decompress(data)
            batch = pa.ipc.open_stream(raw).read_next_batch()
            batch.validate(full=True)
        except (pa.ArrowException, zstandard.ZstdError, StopIteration, OSError, ValueError) as error:
            raise BadIndexError(f"a block of values is malformed: {error}") from None
        expected = [pa.uint32(), pa.uint32(), pa.uint32()]
        if (
            batch.schema.types[1:] != expected
            or batch.num_rows != entry["count"]
            or batch.column(0).null_count
        ):
            raise BadIndexError("a block of values of another form")
        rows, lengths, crcs = (batch.column(i).to_numpy().astype(np.int64) for i in (1, 2, 3))
        starts = int(entry["bitmaps"]) + np.cumsum(lengths) - lengths
        return Block(batch.column(0), rows, starts, lengths, crcs)


def fence_keys(array: pa.Array) -> list[int] | list[bytes]:
    """Return sortable keys of values: numbers, or bytes for text and for decimals.

    Decimals are bytes whatever their size, so that all blocks' fences compare.
    """
    lane = read_lane(array)
    if isinstance(lane, Wide):
        return [_wide_key((high << 64) | (low % 2**64)) for low, high in lane.words.tolist()]
    if isinstance(lane, Text):
        offsets = lane.offsets.tolist()
        return [lane.data[a:b].tobytes() for a, b in itertools.pairwise(offsets)]
    keys = order_keys(array)
    assert keys is not None
    found: list[int] = keys.tolist()
    return found


def _wide_key(number: int) -> bytes:
    return min(max(number + _BIAS, 0), 2**128 - 1).to_bytes(16, "big")


def _separator(last: bytes | None, first: int | bytes) -> int | bytes:
    """Return the shortest text after `last` that is not after `first`; numbers stay as they are."""
    if isinstance(first, int) or last is None:
        return first if isinstance(first, int) else b""
    for place, byte in enumerate(first):
        if place >= len(last) or last[place] != byte:
            return first[: place + 1]
    return first


def _steps(values: pa.Array) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each block."""
    lane = read_lane(values)
    if not isinstance(lane, Text):
        for start in range(0, len(values), BLOCK_VALUES):
            yield start, min(start + BLOCK_VALUES, len(values))
        return
    offsets, start = lane.offsets, 0
    while start < len(values):
        end = int(np.searchsorted(offsets, offsets[start] + BLOCK_BYTES, "right")) - 1
        end = max(min(end, start + BLOCK_VALUES, len(values)), start + 1)
        yield start, end
        start = end


def _encoded(values: pa.Array, described: list[tuple[int, int, int]]) -> bytes:
    """Return a block's bytes: an Arrow IPC stream of one batch."""
    columns = [
        pa.array(numbers, kind)
        for numbers, (_, kind) in zip(zip(*described, strict=True), _SCHEMA, strict=True)
    ]
    fields = [("value", values.type), *_SCHEMA]
    batch = pa.record_batch([pa.concat_arrays([values]), *columns], schema=pa.schema(fields))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


def _packed_texts(texts: list[bytes]) -> bytes:
    return np.array([len(text) for text in texts], np.uint32).tobytes() + b"".join(texts)


def _unpacked_texts(data: bytes, count: int) -> list[bytes]:
    if len(data) < 4 * count:
        raise BadIndexError("fences that end early")
    ends = 4 * count + np.cumsum(np.frombuffer(data, np.uint32, count), dtype=np.int64)
    if count and ends[-1] != len(data):
        raise BadIndexError("fences of another length")
    starts = [4 * count, *ends[:-1].tolist()]
    return [data[a:b] for a, b in zip(starts, ends.tolist(), strict=True)]


def _exactly(values: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    if len(values) != count:
        raise BadIndexError("fences of another number")
    return values
