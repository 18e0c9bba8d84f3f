"""Column chunks of a remote Parquet file, as ranges that are requested together.

Takes a checked footer and some leaves of a row group; returns the range of each chunk that pyarrow reads, and
holds the bytes in memory while pyarrow decodes them. The rule: pyarrow waits for nothing within a block of
`held`, because it would hold up the task's other files, which are read in turns.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from twostage.schema import leaves

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from twostage.data_files.remote_file import RemoteFile
    from twostage.formats.parquet.file_metadata import ColumnChunk, Footer, RowGroupMetadata
    from twostage.schema import Schema
    from twostage.storage.pending_ranges import PendingRanges

ROW_GROUP_BYTES = 128 * 2**20
"""Iceberg's default for Parquet."""
OLD_PADDING = 100
"""Bytes after a chunk that pyarrow also reads in files by old versions of parquet-mr, which state too few
(PARQUET-816)."""


EXPECTED_DIVISOR = 16
"""Of the task's memory: columns of a row group that take more are not requested before they are needed."""


PAGE_BYTES = 256 * 2**20
"""Of one read by pages; if it would take more, rows are read in parts."""
BATCH_BYTES = 32 * 2**20
"""Of one step of a stream, approximately: 65,536 rows of 40 kB would be 2.6 GB."""
BUFFER_BYTES = 64 * 2**20
"""Of a stream's compressed chunks in memory at once."""
REMOTE_BUFFER_DIVISOR = 4
"""A remote chunk's buffer is smaller by this factor, because more of the chunk is in flight to it."""
MAX_FILTER_BYTES = 256 * 2**10
"""Of a filter column's chunk that is read whole instead of its dictionary alone."""
MAX_FILTERED_ROW_GROUPS = 16
"""Row groups whose filter columns are kept: those being read at the same time, and those just read."""


class RemoteChunks:
    """The column chunks of one open file; for a local one there is nothing to do.

    Args:
        remote: The file, None if it is local.
        footer: Its footer.
    """

    def __init__(self, remote: RemoteFile | None, footer: Footer) -> None:
        self._remote = remote
        self._footer = footer
        self._expected: dict[int, list[PendingRanges]] = {}
        """By row group: the requested ranges of columns still to be read."""
        self._filters: list[PendingRanges] = []

    @contextlib.contextmanager
    def held(self, row_group: int, leaves: Collection[int]) -> Iterator[None]:
        """Hold chunks in memory within the block."""
        if self._remote is None:
            yield
            return
        with self._remote.held(chunk_ranges(self._footer, self._footer.row_groups[row_group], leaves)):
            yield

    def ranges(self, row_group: int, leaves: Collection[int]) -> list[tuple[int, int]]:
        """Return offset and length of a remote file's chunks; none for a local one, which needs no request."""
        if self._remote is None:
            return []
        return chunk_ranges(self._footer, self._footer.row_groups[row_group], leaves)

    def expect(
        self,
        row_group: int,
        leaves: Collection[int],
        memory_budget: int,
        pages: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Request chunks, and places of pages, that will be read, unless they are large; returns at once.

        `forget` discards them.
        """
        if self._remote is None or not (leaves or pages):
            return
        expected = self._expected.get(row_group, [])
        known = {place for pending in expected for place in pending.ranges}
        places = [*chunk_ranges(self._footer, self._footer.row_groups[row_group], leaves), *pages]
        places = [place for place in places if place not in known]
        size = sum(length for _, length in (*known, *places))
        if places and size <= memory_budget // EXPECTED_DIVISOR:
            self._expected[row_group] = [*expected, self._remote.keep(places)]

    def expected_bytes(self, row_group: int) -> int:
        """Return the bytes that `expect` requested and that are in memory or in flight."""
        return sum(pending.size for pending in self._expected.get(row_group, ()))

    def expect_filter(self, row_group: int, leaves: Iterable[int]) -> None:
        """Request small chunks of filter columns whose dictionaries are read first; returns at once.

        A dictionary takes as long as all of such a chunk, which is needed next if the dictionary rules
        nothing out.
        """
        if self._remote is None:
            return
        group = self._footer.row_groups[row_group]
        small = [leaf for leaf in leaves if group.columns[leaf].compressed_size <= MAX_FILTER_BYTES]
        if small:
            self._filters.append(self._remote.keep(chunk_ranges(self._footer, group, small)))
        if len(self._filters) > MAX_FILTERED_ROW_GROUPS:
            self._remote.forget(self._filters.pop(0))

    def forget(self, row_group: int) -> None:
        """Discard what was expected of a row group."""
        for pending in self._expected.pop(row_group, ()):
            if self._remote is not None:
                self._remote.forget(pending)


def buffer_of(chunks: Collection[ColumnChunk], gap: int, remote: RemoteFile | None) -> int:
    """Return the bytes of the buffer for reading chunks that are too large to hold whole; 0 if they are not.

    A chunk is held whole while its values are decoded, unless it is read through a buffer.

    Args:
        chunks: Of one row group, read at the same time.
        gap: Bytes that can be read in the time of a request.
        remote: Their file, None if it is local.
    """
    size = max(BUFFER_BYTES // len(chunks), gap)
    if sum(chunk.compressed_size for chunk in chunks) <= 2 * size * len(chunks):
        return 0
    return size if remote is None else max(size // REMOTE_BUFFER_DIVISOR, gap)


def chunk_ranges(footer: Footer, group: RowGroupMetadata, chosen: Iterable[int]) -> list[tuple[int, int]]:
    """Return offset and length of the chosen leaves' chunks, in the leaves' order."""
    padding = OLD_PADDING if (footer.created_by or "").startswith("parquet-mr") else 0
    return [_range_of(group.columns[leaf], footer.offset, padding) for leaf in sorted(chosen)]


def _range_of(chunk: ColumnChunk, end_of_data: int, padding: int) -> tuple[int, int]:
    end = min(
        chunk.start + chunk.compressed_size + padding, max(end_of_data, chunk.start + chunk.compressed_size)
    )
    return chunk.start, end - chunk.start


def expected_tail(schema: Schema, file_size: int) -> int:
    """Estimate the bytes of a footer and its page indexes, if no other file of the folder is known.

    Files of Iceberg's and Arrow's writers have 120 to 250 bytes for a chunk in the footer, 40 to 120 in the indexes.
    """
    num_leaves = sum(1 for field in schema.fields for _ in leaves(field))
    return 8192 + 320 * num_leaves * (1 + file_size // ROW_GROUP_BYTES)
