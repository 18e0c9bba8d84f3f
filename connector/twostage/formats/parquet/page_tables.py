"""The page tables and page bounds of one open file.

Takes an open file and its footer; returns, for column chunks, where their pages are and which rows each holds
(`pages.PageTable`), from the OffsetIndex or from the page headers, and what the ColumnIndex says about the
values of each. Tables are kept by the process, up to TABLE_CACHE_BYTES. The rule: a chunk without a sound
table has none, and is read whole.
Source: parquet-format, PageIndex.md.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cachetools

from twostage.formats.parquet import pages, statistics
from twostage.formats.parquet.column_index import page_bounds
from twostage.storage import ranges

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from twostage.formats.parquet.file_metadata import Footer, RowGroupMetadata
    from twostage.formats.parquet.pages import PageTable
    from twostage.formats.parquet.schema_tree import Leaf
    from twostage.metrics import Metrics
    from twostage.predicates.bounds import Bounds
    from twostage.schema import Primitive

TABLE_CACHE_BYTES = 32 * 2**20
"""Enough for the page tables of some 20,000 column chunks."""
_lock = threading.Lock()
_tables: cachetools.LRUCache[tuple[object, ...], PageTable | None] = cachetools.LRUCache(
    TABLE_CACHE_BYTES, getsizeof=lambda table: 400 + (24 * len(table) if table is not None else 0)
)


@dataclass(slots=True)
class PageTables:
    """Page tables of one open file.

    `identity` distinguishes the file from others of the same name; it is the file's key in the process's
    caches.
    """

    file: Any
    """The open file: pyarrow's, or a remote one that reads several places at once by its own `views`."""
    footer: Footer
    identity: tuple[object, ...]
    cost: ranges.RequestCost
    metrics: Metrics
    tail: tuple[int, bytes] | None = None
    """The end of the file, or the page indexes at it, as far as they were read with the footer: offset, bytes."""

    def of(self, group: RowGroupMetadata, leaves: Sequence[int]) -> dict[int, PageTable]:
        """Return the page tables of the leaves whose chunks have a sound one."""
        known = self._known(group, leaves)
        missing = [leaf for leaf in leaves if leaf not in known]
        indexed = [leaf for leaf in missing if group.columns[leaf].offset_index is not None]
        places = [place for leaf in indexed if (place := group.columns[leaf].offset_index) is not None]
        found, _ = self.read(places)
        for leaf, raw in zip(indexed, found, strict=True):
            table = pages.pages_of_index(
                bytes(raw), self.footer.leaves[leaf], group.columns[leaf], group.num_rows
            )
            self.metrics.add("page_indexes.ignored", table is None)
            known[leaf] = table
        for leaf in missing:
            if group.columns[leaf].offset_index is None:
                known[leaf] = self._walk(group, leaf)
        with _lock:
            _tables.update({(*self.identity, group.index, leaf): known[leaf] for leaf in missing})
        return {leaf: table for leaf in leaves if (table := known[leaf]) is not None}

    def _known(self, group: RowGroupMetadata, leaves: Sequence[int]) -> dict[int, PageTable | None]:
        """Return the page tables that this process keeps; None for a chunk known to have none."""
        keys = {leaf: (*self.identity, group.index, leaf) for leaf in leaves}
        with _lock:
            return {leaf: _tables[key] for leaf, key in keys.items() if key in _tables}

    def bounds(
        self, group: RowGroupMetadata, leaf: Leaf, kind: Primitive
    ) -> tuple[NDArray[np.int64], list[Bounds]] | None:
        """Return the bounds of a leaf's pages; None if nothing is known.

        Args:
            group: The row group.
            leaf: Outside lists and maps.
            kind: The type that the scan reads it as.

        Returns:
            The pages' first rows (int64, ascending, within the row group), and the bounds of each page.
        """
        place = group.columns[leaf.index].column_index
        if (
            place is None
            or group.columns[leaf.index].offset_index is None
            or not statistics.may_read(leaf, kind)
        ):
            return None
        table = self.of(group, [leaf.index]).get(leaf.index)
        if table is None or len(table) < 2:
            return None
        (raw,), _ = self.read([place])
        found = page_bounds(bytes(raw), self.footer, leaf, kind, table)
        return None if found is None else (table.first_rows, found)

    def _walk(self, group: RowGroupMetadata, leaf: int) -> PageTable | None:
        """Return the page table that the page headers give; local files only."""
        if self.cost.parallel > 1:
            return None  # one request a page: more than the whole chunk costs

        def read_at(offset: int, length: int) -> bytes:
            return bytes(self.file.read_at(length, offset))

        return pages.pages_of_headers(read_at, self.footer.leaves[leaf], group.columns[leaf], group.num_rows)

    def read(self, places: Sequence[tuple[int, int]]) -> tuple[list[memoryview], int]:
        """Return the bytes of places (offset, length), and how many bytes were read from storage."""
        if self.tail is not None and places and self._are_in_tail(places):
            view = memoryview(self.tail[1])
            starts = [(offset - self.tail[0], length) for offset, length in places]
            return [view[start : start + length] for start, length in starts], 0
        requests = ranges.merge(places, self.cost)
        self.metrics.add("requests", len(requests))
        if (views := getattr(self.file, "views", None)) is not None:
            return views(places), sum(request.end - request.start for request in requests)
        return ranges.read_ranges(self.file, places, requests, self.cost, self.footer.path)

    def _are_in_tail(self, places: Sequence[tuple[int, int]]) -> bool:
        if self.tail is None:
            return False
        start, end = self.tail[0], self.tail[0] + len(self.tail[1])
        return all(start <= offset and offset + length <= end for offset, length in places)
