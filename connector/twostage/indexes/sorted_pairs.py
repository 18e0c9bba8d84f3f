"""Sorted (key, number) pairs in blocks: numbers found by key with one or two reads of a few kilobytes.

Takes any number of pairs of a key (a hash of at most 40 bits) and a number (a row's position, a data file's ordinal), in any
order; gives blobs, and from these the numbers of some keys. The rule: every pair that was added is found, and no
other; memory stays within a budget (pairs beyond it are spilled to files by the upper bits of their keys, and sorted one
file after the other; a file that the budget does not hold, perhaps of one key, is split by the next bits, those of numbers included).

Blocks have `PAIRS_PER_BLOCK` pairs: keys (`twostage_native.sorted_keys`), then numbers, bit-packed, then a CRC-32. Pages list the first
keys, lengths and widths of `BLOCKS_PER_PAGE` blocks, and the directory lists the pages. About 2.5 bits a pair beyond those of its number
and of the mean distance between keys.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from twostage.indexes.answer import LookupCost
from twostage.indexes.keys import distinct
from twostage.indexes.puffin import BadIndexError, checked
from twostage_native.bit_packing import pack, packed_bytes, unpack
from twostage_native.sorted_keys import pack_ascending, unpack_ascending

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from twostage.indexes.puffin import BlobReader, IndexWriter

    Words = NDArray[np.uint64]

PAIRS_PER_BLOCK = 1024
BLOCKS_PER_PAGE = 512
"""7 kB."""
MAX_KEY_BITS = 40
MAX_NUMBER_BITS = 32
_HEAD = struct.Struct("<QBBI")
_ENTRY = np.dtype([("first", "<u8"), ("length", "<u4"), ("width", "u1")])
_PAGE_ENTRY = np.dtype([("first", "<u8"), ("start", "<u8"), ("crc", "<u4")])
_CRC = struct.Struct("<I")
_MAX_PARTS = 4096
_CUT_BITS = 6
"""Bits by which a file of pairs that is too large is split."""
_BLOCKS_AT_ONCE = 32
"""Blocks that are packed at once: their pairs and what is made of them stay in a core's cache."""


class PairSorter:
    """Collects pairs, and gives them back in order.

    Args:
        key_bits: Of a key.
        number_bits: Of a number; together at most 64 with those of a key.
        folder: For what exceeds the budget.
        budget: Bytes of memory.
        expected: About how many pairs will come; a wrong number costs time or memory, nothing else.
    """

    def __init__(self, key_bits: int, number_bits: int, folder: Path, budget: int, expected: int) -> None:
        if key_bits > MAX_KEY_BITS or number_bits > MAX_NUMBER_BITS or key_bits + number_bits > 64:
            raise ValueError(f"pairs of {key_bits} and {number_bits} bits")
        self.key_bits, self.number_bits = key_bits, number_bits
        self.count = 0
        self._folder = folder
        self._budget = max(budget, 2**16)
        # Sorting takes as much again, and so do the blocks made of them.
        parts = -(-expected * 8 * 4 // self._budget)
        self._part_bits = min(max(parts - 1, 0).bit_length(), _MAX_PARTS.bit_length() - 1, key_bits)
        self._held: list[Words] = []
        self._held_bytes = 0
        self._spilled = False

    def add(self, keys: Words, numbers: Words) -> None:
        """Add pairs: uint64 each."""
        self.count += len(keys)
        self._held.append((keys << np.uint64(self.number_bits)) | numbers)
        self._held_bytes += 8 * len(keys)
        if self._held_bytes * 4 > self._budget:
            self._spill()

    def _spill(self) -> None:
        joined = np.sort(np.concatenate(self._held)) if self._held else np.zeros(0, np.uint64)
        self._held, self._held_bytes, self._spilled = [], 0, True
        shift = self.key_bits + self.number_bits - self._part_bits
        bounds = np.arange(1, 1 << self._part_bits, dtype=np.uint64) << np.uint64(shift)
        for number, part in enumerate(np.split(joined, np.searchsorted(joined, bounds))):
            if len(part):
                _append(self._path(number), part)

    def _path(self, part: int) -> Path:
        return self._folder / f"pairs-{id(self):x}-{part}"

    def sorted_parts(self) -> Iterator[Words]:
        """Yield all pairs in order, once: uint64, the key in the upper bits."""
        if not self._spilled:
            yield np.sort(np.concatenate(self._held)) if self._held else np.zeros(0, np.uint64)
            return
        self._spill()
        bits = self.key_bits + self.number_bits - self._part_bits
        for number in range(1 << self._part_bits):
            yield from self._sorted_file(self._path(number), bits)

    def _sorted_file(self, path: Path, bits: int) -> Iterator[Words]:
        """Yield the pairs of a file in order, and remove it; they differ in their lowest `bits` bits."""
        if not path.exists():
            return
        if path.stat().st_size * 4 <= self._budget:
            part = np.fromfile(path, np.uint64)
            path.unlink()
            part.sort()
            yield part
            return
        cut = min(bits, _CUT_BITS)
        steps = self._steps(path)
        if not cut:  # one pair, repeated
            yield from steps
        else:
            shift = np.uint64(bits - cut)
            first = np.uint64((1 << cut) - 1)
            for step in steps:
                step.sort()
                places = (step >> shift) & first
                for number in distinct(places).tolist():
                    low, high = np.searchsorted(places, (number, number + 1))
                    _append(path.with_name(f"{path.name}.{number}"), step[low:high])
            for number in range(1 << cut):
                yield from self._sorted_file(path.with_name(f"{path.name}.{number}"), bits - cut)
        path.unlink()

    def _steps(self, path: Path) -> Iterator[Words]:
        """Yield the pairs of a file in the file's order, as many at once as the budget holds."""
        with path.open("rb") as file:
            while len(step := np.fromfile(file, np.uint64, self._budget // 32)):
                yield step


def _append(path: Path, pairs: Words) -> None:
    with path.open("ab") as file:
        file.write(pairs.data)


def write_pairs(
    writer: IndexWriter, field_id: int, kind: str, parts: Iterator[Words], key_bits: int, number_bits: int
) -> int:
    """Write sorted pairs (uint64, the key above `number_bits`) as three blobs; return how many there were."""
    entries: list[tuple[int, int, int]] = []
    total = 0

    def blocks() -> Iterator[bytes]:
        nonlocal total
        rest = np.zeros(0, np.uint64)
        for part in parts:
            pairs = np.concatenate([rest, part]) if len(rest) else part
            total += len(part)
            end = len(pairs) // PAIRS_PER_BLOCK * PAIRS_PER_BLOCK
            for start in range(0, end, PAIRS_PER_BLOCK * _BLOCKS_AT_ONCE):
                yield packed(
                    pairs[start : min(start + PAIRS_PER_BLOCK * _BLOCKS_AT_ONCE, end)].reshape(
                        -1, PAIRS_PER_BLOCK
                    )
                )
            rest = pairs[end:]
        if len(rest):
            yield packed(rest.reshape(1, -1))

    def packed(pairs: Words) -> bytes:
        keys = pairs >> np.uint64(number_bits)
        numbers = pack((pairs & np.uint64((1 << number_bits) - 1)).reshape(-1), number_bits)
        bodies: list[bytes] = []
        each = zip(keys[:, 0].tolist(), *pack_ascending(keys), numbers.reshape(len(pairs), -1), strict=True)
        for first, ascending, width, own in each:
            body = ascending + own.tobytes()
            entries.append((first, len(body) + _CRC.size, width))
            bodies += (body, _CRC.pack(zlib.crc32(body)))
        return b"".join(bodies)

    writer.add(field_id, kind, "blocks", blocks())
    table = np.array(entries, _ENTRY)
    starts = np.concatenate([[0], np.cumsum(table["length"], dtype=np.uint64)]) if entries else np.zeros(1)
    pages, listed = [], []
    for start in range(0, len(table), BLOCKS_PER_PAGE):
        page = table[start : start + BLOCKS_PER_PAGE].tobytes()
        pages.append(page)
        listed.append((table["first"][start], starts[start], zlib.crc32(page)))
    head = _HEAD.pack(total, key_bits, number_bits, len(table))
    writer.add(field_id, kind, "pages", b"".join(pages), at_end=True)
    directory = head + np.array(listed, _PAGE_ENTRY).tobytes()
    writer.add(field_id, kind, "directory", directory, at_end=True)
    return total


class _Block(NamedTuple):
    first: int
    start: int
    length: int
    width: int
    pairs: int


@dataclass(frozen=True, slots=True, eq=False)
class _Page:
    """Blocks: their first keys, places in the blob, lengths in bytes, lower bits of a key, and pairs."""

    firsts: Words
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    widths: NDArray[np.uint8]
    counts: NDArray[np.int64]

    def block(self, place: int) -> _Block:
        return _Block(
            int(self.firsts[place]),
            int(self.starts[place]),
            int(self.lengths[place]),
            int(self.widths[place]),
            int(self.counts[place]),
        )

    def blocks(self) -> list[_Block]:
        return [self.block(place) for place in range(len(self.firsts))]


class SortedPairs:
    """Finds numbers by key in an open file.

    Args:
        field_id: The column of the blobs.
        kind: Their kind.
        reader: Of the file; the directory is read at once.

    Raises:
        BadIndexError: The directory is malformed.
    """

    def __init__(self, field_id: int, kind: str, reader: BlobReader) -> None:
        self._blocks = reader.blob(field_id, kind, "blocks")
        self._pages = reader.blob(field_id, kind, "pages")
        data = reader.whole(reader.blob(field_id, kind, "directory"))
        if len(data) < _HEAD.size or (len(data) - _HEAD.size) % _PAGE_ENTRY.itemsize:
            raise BadIndexError("a directory of another length")
        self.count, self.key_bits, self.number_bits, self._num_blocks = _HEAD.unpack_from(data)
        self._listed = np.frombuffer(data, _PAGE_ENTRY, offset=_HEAD.size)
        fits = (
            0 < self.key_bits <= MAX_KEY_BITS
            and 0 < self.number_bits <= MAX_NUMBER_BITS
            and self._num_blocks == -(-self.count // PAIRS_PER_BLOCK)
            and len(self._listed) == -(-self._num_blocks // BLOCKS_PER_PAGE)
            and self._pages.length == self._num_blocks * _ENTRY.itemsize
        )
        if not fits:
            raise BadIndexError("an inconsistent directory")
        self._firsts = self._listed["first"].astype(np.uint64)
        self._kept: dict[int, _Page] = {}

    def cost(self, num_keys: int, reader: BlobReader, share: float = 0.0) -> LookupCost:
        """Return what a look-up of this many keys, or of ranges that hold a share of all pairs, reads at most, on average."""
        if not self.count:
            return LookupCost()
        within = int(share * self._num_blocks)
        requests = min(num_keys + max(1, num_keys // 8), self._num_blocks)
        blocks = min(requests + within, self._num_blocks)
        num_pages = min(num_keys + int(share * len(self._listed)), len(self._listed))
        pages = 0 if reader.is_at_hand(self._pages) else num_pages
        size = self._blocks.length // max(1, self._num_blocks) + 1
        return LookupCost(
            requests=requests + pages,
            nbytes=blocks * size + pages * min(BLOCKS_PER_PAGE, self._num_blocks) * _ENTRY.itemsize,
        )

    def min_count(self, keys: Words, reader: BlobReader) -> int:
        """Return how many pairs some keys have at least: those of blocks that begin with one, by the directory alone.

        If the pages did not come with the footer: those of pages that begin with one.
        """
        firsts, pairs = self._firsts, BLOCKS_PER_PAGE * PAIRS_PER_BLOCK
        if reader.is_at_hand(self._pages):
            pages = [self._page(number, reader).firsts for number in range(len(self._listed))]
            firsts, pairs = np.concatenate([np.zeros(0, np.uint64), *pages]), PAIRS_PER_BLOCK
        begun = np.searchsorted(firsts, keys, "right") - np.searchsorted(firsts, keys, "left")
        return int(np.maximum(begun - 1, 0).sum()) * pairs

    def find(self, keys: Words, reader: BlobReader) -> tuple[Words, Words]:
        """Return the pairs of some keys (uint64): their keys and their numbers, in the order of the keys."""
        keys = distinct(np.sort(keys))
        return self.find_between(keys, keys, reader)

    def find_between(self, lows: Words, highs: Words, reader: BlobReader) -> tuple[Words, Words]:
        """Return the pairs whose keys lie in ranges: their keys and their numbers, in the order of the keys.

        Args:
            lows: The ranges' least keys, ascending, uint64.
            highs: Their greatest keys, ascending; a range may begin where the one before it ends.
            reader: Of the file.
        """
        if not len(lows) or not self.count:
            return np.zeros(0, np.uint64), np.zeros(0, np.uint64)
        wanted = self._candidates(lows, highs, reader)
        found_keys, found_numbers = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
        ranges = [(block.start, block.length) for block in wanted]
        for block, data in zip(wanted, reader.read_ranges(self._blocks, ranges), strict=True):
            block_keys, numbers = self._decode(block, data)
            places = np.searchsorted(lows, block_keys, "right") - 1
            hits = (places >= 0) & (block_keys <= highs[np.maximum(places, 0)])
            found_keys.append(block_keys[hits])
            found_numbers.append(numbers[hits])
        return np.concatenate(found_keys), np.concatenate(found_numbers)

    def ends(self, count: int, reader: BlobReader, *, last: bool) -> Words:
        """Return the keys of the first (the `last`) `count` pairs, ascending: uint64; of all if there are fewer."""
        if not self.count:
            return np.zeros(0, np.uint64)
        num_blocks = min(
            self._num_blocks, -(-count // PAIRS_PER_BLOCK) + 1
        )  # the last block may have one pair
        first = self._num_blocks - num_blocks if last else 0
        blocks = [
            self._page(number // BLOCKS_PER_PAGE, reader).block(number % BLOCKS_PER_PAGE)
            for number in range(first, first + num_blocks)
        ]
        read = reader.read_ranges(self._blocks, [(block.start, block.length) for block in blocks])
        keys = np.concatenate(
            [self._decode(block, data)[0] for block, data in zip(blocks, read, strict=True)]
        )
        return keys[-count:] if last else keys[:count]

    def parts(self, reader: BlobReader) -> Iterator[Words]:
        """Yield all pairs in order: uint64, the key above `number_bits`."""
        for page in range(len(self._listed)):
            blocks = self._page(page, reader).blocks()
            start, end = blocks[0].start, blocks[-1].start + blocks[-1].length
            data = reader.read(self._blocks, start, end - start)
            pairs = []
            for block in blocks:
                at = block.start - start
                keys, numbers = self._decode(block, data[at : at + block.length])
                pairs.append((keys << np.uint64(self.number_bits)) | numbers)
            yield np.concatenate(pairs)

    def _candidates(self, lows: Words, highs: Words, reader: BlobReader) -> list[_Block]:
        """Return the blocks that may hold a key of one of the ascending ranges, in order."""
        # The block before the first one that begins with a key may end with it.
        low = np.maximum(np.searchsorted(self._firsts, lows, "left") - 1, 0)
        high = np.maximum(np.searchsorted(self._firsts, highs, "right") - 1, low)
        touched = {
            number for a, b in zip(low.tolist(), high.tolist(), strict=True) for number in range(a, b + 1)
        }
        found: list[_Block] = []
        for number in sorted(touched):
            page = self._page(number, reader)
            own = (low <= number) & (number <= high)
            start = np.maximum(np.searchsorted(page.firsts, lows[own], "left") - 1, 0)
            end = np.searchsorted(page.firsts, highs[own], "right")
            places = {
                place for a, b in zip(start.tolist(), end.tolist(), strict=True) for place in range(a, b)
            }
            found.extend(page.block(place) for place in sorted(places))
        return found

    def _page(self, number: int, reader: BlobReader) -> _Page:
        if number not in self._kept:
            first = number * BLOCKS_PER_PAGE
            count = min(BLOCKS_PER_PAGE, self._num_blocks - first)
            entry = self._listed[number]
            size = _ENTRY.itemsize
            data = checked(reader.read(self._pages, first * size, count * size), int(entry["crc"]))
            table = np.frombuffer(data, _ENTRY)
            lengths = table["length"].astype(np.int64)
            starts = int(entry["start"]) + np.cumsum(lengths) - lengths
            counts = np.minimum(
                PAIRS_PER_BLOCK, self.count - PAIRS_PER_BLOCK * np.arange(first, first + count)
            )
            self._kept[number] = _Page(
                table["first"].astype(np.uint64), starts, lengths, table["width"].copy(), counts
            )
        return self._kept[number]

    def _decode(self, block: _Block, data: bytes | memoryview) -> tuple[Words, Words]:
        body, crc = data[: -_CRC.size], data[-_CRC.size :]
        lower = packed_bytes(block.pairs, block.width)
        split = len(body) - packed_bytes(block.pairs, self.number_bits)
        if block.width > MAX_KEY_BITS or not lower < split <= lower + block.pairs // 2 + 1:
            raise BadIndexError("a block of another length")
        checked(memoryview(body), _CRC.unpack(crc)[0])
        raw = np.frombuffer(body, np.uint8)
        keys = unpack_ascending(raw[:split], block.pairs, block.width) + np.uint64(block.first)
        return keys, unpack(raw[split:], block.pairs, self.number_bits)
