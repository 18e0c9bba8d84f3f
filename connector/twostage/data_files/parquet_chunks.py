"""Column chunks of a remote Parquet file, as ranges that are asked for together.

Takes a checked footer and some leaves of a row group; gives the range of each chunk that pyarrow reads, and has their bytes
in memory while pyarrow decodes them. The rule: pyarrow waits for nothing within a block of `held`, because other files of
the task are read meanwhile, by the turns that it would then hold up.
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
"""Bytes behind a chunk that pyarrow reads too of files by old versions of parquet-mr, which state too few (PARQUET-816)."""


EXPECTED_DIVISOR = 16
"""Of the task's memory: columns of a row group that take more are not asked for before they are needed."""


PAGE_BYTES = 256 * 2**20
"""Of one read by pages; rows are read in parts where it would be more."""
BATCH_BYTES = 32 * 2**20
"""Of one step of a stream, about: 65,536 rows of 40 kB would be 2.6 GB."""
BUFFER_BYTES = 64 * 2**20
"""Of a stream's chunks, compressed, that are in memory at once."""
REMOTE_SHARE = 4
"""Of a buffer, that a remote chunk is read by: the buffer itself is one part, and what is on its way to it the others."""
MAX_FILTER_BYTES = 256 * 2**10
"""Of a filter column's chunk that is read whole instead of its dictionary alone."""
MAX_FILTERS = 16
"""Row groups whose filter columns are kept: those that are read at the same time, and those just read."""


class RemoteChunks:
    """The column chunks of one open file; of a local one there is nothing to do.

    Args:
        remote: The file, None if it is local.
        footer: Its footer.
    """

    def __init__(self, remote: RemoteFile | None, footer: Footer) -> None:
        self._remote = remote
        self._footer = footer
        self._expected: dict[int, list[PendingRanges]] = {}
        """By row group: what was asked for of columns that are still to be read."""
        self._filters: list[PendingRanges] = []

    @contextlib.contextmanager
    def held(self, row_group: int, leaves: Collection[int]) -> Iterator[None]:
        """Have chunks in memory within the block."""
        if self._remote is None:
            yield
            return
        with self._remote.held(chunk_ranges(self._footer, self._footer.row_groups[row_group], leaves)):
            yield

    def ranges(self, row_group: int, leaves: Collection[int]) -> list[tuple[int, int]]:
        """Return offset and length of a remote file's chunks; of a local one there are none to ask for."""
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
        """Ask for chunks, and places of pages, that will be read, unless they are large; returns at once.

        `forget` lets go of them.
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
        """Return the bytes that are held, or on their way, of what `expect` asked for."""
        return sum(pending.size for pending in self._expected.get(row_group, ()))

    def expect_filter(self, row_group: int, leaves: Iterable[int]) -> None:
        """Ask for small chunks of filter columns whose dictionaries are read first; returns at once.

        A dictionary takes as long as all of such a chunk, which is needed next where the dictionary rules nothing out.
        """
        if self._remote is None:
            return
        group = self._footer.row_groups[row_group]
        small = [leaf for leaf in leaves if group.columns[leaf].compressed_size <= MAX_FILTER_BYTES]
        if small:
            self._filters.append(self._remote.keep(chunk_ranges(self._footer, group, small)))
        if len(self._filters) > MAX_FILTERS:
            self._remote.forget(self._filters.pop(0))

    def forget(self, row_group: int) -> None:
        """Let go of what was expected of a row group."""
        for pending in self._expected.pop(row_group, ()):
            if self._remote is not None:
                self._remote.forget(pending)


def buffer_of(chunks: Collection[ColumnChunk], gap: int, remote: RemoteFile | None) -> int:
    """Return the bytes of the buffer by which chunks are read that are too large to be held whole; 0: they are not.

    A chunk is held whole while its values are decoded, unless it is read through a buffer.

    Args:
        chunks: Of one row group, read at the same time.
        gap: What may be read in the time of a request.
        remote: Their file, None if it is local.
    """
    size = max(BUFFER_BYTES // len(chunks), gap)
    if sum(chunk.compressed_size for chunk in chunks) <= 2 * size * len(chunks):
        return 0
    return size if remote is None else max(size // REMOTE_SHARE, gap)


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
    """Return about how many bytes a footer and its page indexes take, where no file beside it has told.

    Files of Iceberg's and Arrow's writers have 120 to 250 bytes for a chunk in the footer, 40 to 120 in the indexes.
    """
    num_leaves = sum(1 for field in schema.fields for _ in leaves(field))
    return 8192 + 320 * num_leaves * (1 + file_size // ROW_GROUP_BYTES)
