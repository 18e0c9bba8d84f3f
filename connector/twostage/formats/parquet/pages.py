"""Where the data pages of a column chunk are, and which rows each holds.

Takes the chunk's OffsetIndex or, if the writer left none, its page headers; returns a `PageTable`. The
rule: a table is consistent (pages follow each other without a gap from the first data page to the chunk's
end, the first row is 0, rows ascend) or there is none, and the chunk is read whole: the index is optional,
and none of its bytes has a checksum.
Source: parquet-format, PageIndex.md and parquet.thrift.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twostage.formats.parquet.thrift import ThriftError, read_struct
from twostage.formats.varint import read_zigzag

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from twostage.formats.parquet.file_metadata import ColumnChunk
    from twostage.formats.parquet.schema_tree import Leaf

DATA_PAGE, DATA_PAGE_V2 = 0, 3
HEADER_READ = 512
"""Bytes read of a page for its header. Statistics of long strings make it longer, which takes a second read."""
MAX_HEADER_BYTES = 2**20
MAX_HEADER_NUMBER = 2**31 - 1
"""The numbers of a page header are signed, of 32 bits."""
MAX_PAGES_WALKED = 100_000
"""Pages of a chunk whose headers are followed; a chunk with more is read whole."""


@dataclass(frozen=True, slots=True, eq=False)
class PageTable:
    """The data pages of a chunk. Arrays are int64, one value for each page, in file order.

    `offsets` and `sizes` are bytes of the file, headers included; `first_rows` are rows of the row group,
    `row_counts` the rows of each page. `dictionary` is the place (offset, length) of what precedes the first
    data page; None if nothing does.
    """

    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]
    first_rows: NDArray[np.int64]
    row_counts: NDArray[np.int64]
    dictionary: tuple[int, int] | None

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def num_bytes(self) -> int:
        """The bytes of all pages, which are contiguous."""
        return self.offsets.item(-1) + self.sizes.item(-1) - self.offsets.item(0)

    def share(self, numbers: Sequence[int]) -> float:
        """Return the share of the chunk's bytes that some pages take."""
        return sum(map(self.sizes.item, numbers)) / self.num_bytes

    def holding(self, rows: NDArray[np.int64]) -> KeptPages:
        """Return the pages that hold at least one of `rows` (int64, ascending, within the row group)."""
        starts = np.searchsorted(rows, self.first_rows)
        counts = np.diff(starts, append=len(rows))
        kept = np.flatnonzero(counts)
        return KeptPages(kept, counts[kept], self.first_rows[kept], self.row_counts[kept], rows)


class KeptPages:
    """The pages of a chunk that hold wanted rows. Chunks whose pages begin at the same rows share one object.

    Arrays are int64, one value for each kept page: `numbers` (ascending), `wanted_counts` (wanted rows), `row_counts`
    (all rows) and `first_rows` (within the row group). `num_rows` and `num_wanted` are sums over the kept pages; `runs`
    are the first and last page of each run of neighbours.
    """

    def __init__(
        self,
        numbers: NDArray[np.int64],
        wanted_counts: NDArray[np.int64],
        first_rows: NDArray[np.int64],
        row_counts: NDArray[np.int64],
        rows: NDArray[np.int64],
    ) -> None:
        self.numbers, self.wanted_counts, self.row_counts = numbers, wanted_counts, row_counts
        self.num_rows, self.num_wanted = int(row_counts.sum()), len(rows)
        self.runs = _runs(numbers)
        self.first_rows = first_rows
        self._rows = rows

    @functools.cached_property
    def numbers_list(self) -> list[int]:
        """`numbers` as Python's integers."""
        found: list[int] = self.numbers.tolist()
        return found

    @functools.cached_property
    def row_counts_list(self) -> list[int]:
        """`row_counts` as Python's integers."""
        counts: list[int] = self.row_counts.tolist()
        return counts

    @functools.cached_property
    def rows(self) -> list[NDArray[np.int64]]:
        """The wanted rows of each page (int64, ascending, from the page's first row)."""
        ends = np.cumsum(self.wanted_counts).tolist()
        starts = [0, *ends]
        firsts = self.first_rows.tolist()
        return [
            self._rows[start:end] - first for first, start, end in zip(firsts, starts, ends, strict=False)
        ]


def _runs(kept: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return runs of neighbouring pages: (first, last).

    >>> _runs(np.array([0, 1, 4]))
    [(0, 1), (4, 4)]
    """
    runs: list[tuple[int, int]] = []
    for page in kept.tolist():  # mostly few pages: 20 times faster than NumPy calls
        if runs and runs[-1][1] + 1 == page:
            runs[-1] = (runs[-1][0], page)
        else:
            runs.append((page, page))
    return runs


def pages_of_index(raw: bytes, leaf: Leaf, chunk: ColumnChunk, num_rows: int) -> PageTable | None:
    """Return the page table of an OffsetIndex; None if it contradicts the chunk or itself."""
    try:
        fields, _ = read_struct(raw)  # 1 µs a page
        locations = np.array([(page[1], page[2], page[3]) for page in fields[1]], np.int64).reshape(-1, 3)
    except (ThriftError, LookupError, TypeError, ValueError, OverflowError):
        return None
    return _checked(locations, leaf, chunk, num_rows)


def pages_of_headers(
    read_at: Callable[[int, int], bytes], leaf: Leaf, chunk: ColumnChunk, num_rows: int
) -> PageTable | None:
    """Return a chunk's page table from its page headers; None if they do not lead to every page and row.

    Args:
        read_at: Takes an offset of the file and a number of bytes; returns at most that many.
        leaf: The column.
        chunk: Its column chunk.
        num_rows: Rows of the row group.
    """
    if leaf.max_repetition:
        return None  # a header counts values, and a list may have any number of them
    end = chunk.start + chunk.compressed_size
    at, row = chunk.start, 0
    locations: list[tuple[int, int, int]] = []
    while at < end:
        header = _header(read_at, at, end)
        if header is None or len(locations) >= MAX_PAGES_WALKED:
            return None
        kind, length, size, values = header
        if kind in (DATA_PAGE, DATA_PAGE_V2):
            locations.append((at, length + size, row))
            row += values
        elif locations:
            return None  # a dictionary page after data pages, or a page of an unknown type
        at += length + size
    if at != end or row != num_rows:
        return None
    return _checked(np.array(locations, np.int64).reshape(-1, 3), leaf, chunk, num_rows)


class PageHeader(NamedTuple):
    """A data page's header; sizes are in bytes."""

    num_values: int
    """NULLs included."""
    encoding: int
    length: int
    """Of the header itself; the body follows."""
    decoded_size: int
    checksum: int | None
    """CRC-32 of the body, signed or not."""
    level_encoding: int | None
    """Of the definition levels, in version 1; None in version 2, which knows only one encoding."""
    level_sizes: tuple[int, int]
    """Of the repetition and definition levels, which version 2 stores before the compressed part; (0, 0) in version 1."""
    is_compressed: bool


_NUMBER = rb"\x15([\x80-\xff]{0,4}[\x00-\x7f])"
_USUAL_HEADER = re.compile(
    rb"\x15\x00" + _NUMBER * 2 + b"(?:" + _NUMBER + rb"\x1c|\x2c)" + _NUMBER * 4 + rb"\x00\x00", re.DOTALL
)
"""A header of version 1 without statistics: type, two sizes, perhaps the checksum, and the four numbers of DataPageHeader."""


def data_page_header(page: memoryview | bytes) -> PageHeader | None:
    """Return a data page's header; None if it is malformed or contradicts the page's size.

    Args:
        page: The whole page, header and body.
    """
    usual = _USUAL_HEADER.match(page)
    if usual is not None:  # a third of the time of `read_struct`, which handles all others
        decoded, size, checksum, *of_data = usual.groups()
        values, encoding, level_encoding, _ = map(_zigzag, of_data)
        decoded_size = _zigzag(decoded)
        if _zigzag(size) != len(page) - usual.end():
            return None
        if not (
            0 <= decoded_size <= MAX_HEADER_NUMBER
            and 0 <= values <= MAX_HEADER_NUMBER
            and 0 <= encoding <= MAX_HEADER_NUMBER
        ):
            return None
        of_body = None if checksum is None else _zigzag(checksum)
        return PageHeader(values, encoding, usual.end(), decoded_size, of_body, level_encoding, (0, 0), True)
    for length in (HEADER_READ, MAX_HEADER_BYTES):
        try:
            header, used = read_struct(bytes(page[:length]))
        except ThriftError:
            continue
        version1, version2 = header.get(5), header.get(8)
        details = version1 or version2
        if not isinstance(details, dict) or header.get(3) != len(page) - used:
            return None
        numbers: tuple[Any, ...] = (details.get(1), details.get(2 if version1 else 4), header.get(2))
        numbers += (0, 0) if version1 else (details.get(6), details.get(5))
        if not all(type(number) is int and 0 <= number <= MAX_HEADER_NUMBER for number in numbers):
            return None
        checksum = header.get(4)
        return PageHeader(
            num_values=numbers[0],
            encoding=numbers[1],
            length=used,
            decoded_size=numbers[2],
            checksum=checksum if type(checksum) is int else None,
            level_encoding=details.get(3) if version1 else None,
            level_sizes=numbers[3:],
            is_compressed=bool(version1) or details.get(7) is not False,
        )
    return None


@functools.lru_cache(maxsize=4096)
def _zigzag(varint: bytes) -> int:
    """Return the number of a zigzag varint; the headers of a file repeat few numbers, so they are kept."""
    return read_zigzag(varint, 0)[0]


def _header(
    read_at: Callable[[int, int], bytes], at: int, end: int
) -> tuple[int | None, int, int, int] | None:
    """Return a page's type, its header's length, its body's length and its number of values."""
    for length in (HEADER_READ, MAX_HEADER_BYTES):
        raw = read_at(at, min(length, end - at))
        try:
            header, used = read_struct(raw)
        except ThriftError:
            continue
        kind, size = header.get(1), header.get(3)
        details = header.get(5) or header.get(8) or {}
        values = details.get(1, 0) if isinstance(details, dict) else None
        if type(size) is not int or size < 0 or type(values) is not int or values < 0:
            return None
        return kind, used, size, values
    return None


def _checked(locations: NDArray[np.int64], leaf: Leaf, chunk: ColumnChunk, num_rows: int) -> PageTable | None:
    """Return the table of pages (offset, size, first row: one row each); None if they are inconsistent."""
    if not len(locations):
        return None
    offsets, sizes, first_rows = (np.ascontiguousarray(locations[:, i]) for i in range(3))
    ends = offsets + sizes
    start, end = chunk.start, chunk.start + chunk.compressed_size
    sound = (
        first_rows[0] == 0
        and first_rows[-1] < num_rows
        and start <= offsets[0]
        and ends[-1] == end
        and bool((sizes > 0).all())
        and bool((ends[:-1] == offsets[1:]).all())
        and bool((np.diff(first_rows) > 0).all())
    )
    if not sound or (leaf.max_repetition == 0 and chunk.num_values != num_rows):
        return None
    before = int(offsets[0]) - start
    row_counts = np.diff(first_rows, append=num_rows)
    return PageTable(offsets, sizes, first_rows, row_counts, (start, before) if before else None)
