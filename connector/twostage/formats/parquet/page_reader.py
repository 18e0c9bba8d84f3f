"""Reads given rows of a row group by fetching only the pages that hold them.

Takes an open file, its footer and, for some leaves, the rows wanted; gives one Arrow array for each leaf with
exactly those rows. pyarrow decodes, from a virtual file. The rule: right rows or None, which sends the caller
to the whole chunks: where the pages' places are not known or contradict the pages' own headers, where a leaf
can't be read alone, and where most pages would be read anyway.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cachetools
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from twostage.formats.parquet import few_rows, page_search, pages, statistics, virtual_file
from twostage.formats.parquet.column_index import page_bounds
from twostage.formats.parquet.few_rows import WantedPage
from twostage.formats.parquet.schema_tree import BYTE_ARRAY
from twostage.formats.parquet.virtual_file import VirtualColumn, VirtualSchema
from twostage.storage import ranges

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set as AbstractSet

    from numpy.typing import NDArray

    from twostage.formats.parquet.footer import Footer, Leaf, RowGroup
    from twostage.formats.parquet.pages import KeptPages, PageHeader, PageTable
    from twostage.metrics import Metrics
    from twostage.predicates.bounds import Bounds
    from twostage.schema import Primitive

WHOLE_SHARE = 0.7
"""Of the pages' bytes: above it whole chunks are faster; they are copied once less and stream."""
DICTIONARY_ENCODINGS = (2, 8)
MAX_TEXT_BYTES = 2**31 - 1
FEW = 4
"""Below one wanted row in FEW of the pages read, text is decoded as codes, of which only the wanted are looked up."""
TABLE_CACHE_BYTES = 32 * 2**20
"""Page tables of some 20,000 column chunks."""
_lock = threading.Lock()
_tables: cachetools.LRUCache[tuple[object, ...], PageTable | None] = cachetools.LRUCache(
    TABLE_CACHE_BYTES, getsizeof=lambda table: 400 + (24 * len(table) if table is not None else 0)
)


@dataclass(frozen=True, slots=True, eq=False)
class PageChoice:
    """Which pages of which leaves hold the wanted rows, and what share of the bytes they are."""

    tables: Mapping[int, PageTable]
    kept: Mapping[int, KeptPages]
    """By leaf: the pages, and which of the rows each holds."""
    rows: NDArray[np.int64]
    shares: Mapping[int, float]
    """By leaf: the share of its chunk's bytes."""

    def without(self, leaves: AbstractSet[int]) -> PageChoice:
        """Return the choice less some leaves."""
        tables = {leaf: table for leaf, table in self.tables.items() if leaf not in leaves}
        return PageChoice(tables, self.kept, self.rows, {leaf: self.shares[leaf] for leaf in tables})


@dataclass(slots=True)
class PageReader:
    """Pages of one open file. `identity` tells the file from others under the same name."""

    file: pa.NativeFile
    footer: Footer
    schema: VirtualSchema
    identity: tuple[object, ...]
    cost: ranges.RequestCost
    verify_checksums: bool
    metrics: Metrics
    tail: tuple[int, bytes] | None = None
    """The file's end, as far as it was read with the footer: offset, bytes."""
    few_rows: str = "auto"
    """Whether rows are taken out of their pages one by one, see `few_rows`: ``auto``, ``always`` or ``never``."""

    def choose(self, group: RowGroup, leaves: Sequence[int], rows: NDArray[np.int64]) -> PageChoice:
        """Return the pages that hold `rows` (ascending, within the row group), of leaves where they are known."""
        tables = self.tables(group, [leaf for leaf in leaves if self.schema.stand_alone[leaf]])
        # Writers that cut pages by rows begin those of all columns at the same ones.
        of_layout: dict[bytes, KeptPages] = {}
        kept: dict[int, KeptPages] = {}
        shares: dict[int, float] = {}
        for leaf, table in tables.items():
            layout = table.first_rows.tobytes()
            if layout not in of_layout:
                of_layout[layout] = table.holding(rows)
            kept[leaf] = of_layout[layout]
            shares[leaf] = table.share(kept[leaf].listed)
        return PageChoice(tables, kept, rows, shares)

    def tables(self, group: RowGroup, leaves: Sequence[int]) -> dict[int, PageTable]:
        """Return the page tables of those chunks that have a sound one."""
        known = self._known(group, leaves)
        missing = [leaf for leaf in leaves if leaf not in known]
        indexed = [leaf for leaf in missing if group.columns[leaf].offset_index is not None]
        places = [place for leaf in indexed if (place := group.columns[leaf].offset_index) is not None]
        found, _ = self._read(places)
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

    def _known(self, group: RowGroup, leaves: Sequence[int]) -> dict[int, PageTable | None]:
        """Return the page tables that this process has seen."""
        keys = {leaf: (*self.identity, group.index, leaf) for leaf in leaves}
        with _lock:
            return {leaf: _tables[key] for leaf, key in keys.items() if key in _tables}

    def bounds(
        self, group: RowGroup, leaf: Leaf, kind: Primitive
    ) -> tuple[NDArray[np.int64], list[Bounds]] | None:
        """Return the pages' first rows and bounds, for a leaf read as `kind`; None if nothing is known."""
        place = group.columns[leaf.index].column_index
        if (
            place is None
            or group.columns[leaf.index].offset_index is None
            or not statistics.may_read(leaf, kind)
        ):
            return None
        table = self.tables(group, [leaf.index]).get(leaf.index)
        if table is None or len(table) < 2:
            return None
        (raw,), _ = self._read([place])
        found = page_bounds(bytes(raw), self.footer, leaf, kind, table)
        return None if found is None else (table.first_rows, found)

    def holding(
        self, group: RowGroup, leaf: int, rows: NDArray[np.int64], texts: Sequence[bytes]
    ) -> NDArray[np.bool_] | None:
        """Tell of each row (bool, in the row group) whether its page may hold one of some bytes; None if not known.

        Pages with none of `rows` (ascending) are not looked at, and may.
        """
        table = self.tables(group, [leaf]).get(leaf)
        if table is None or len(table) < 2 or self.cost.parallel > 1:  # what is found is read again
            return None
        kept = table.holding(rows)
        places = [
            (
                table.offsets.item(first),
                table.offsets.item(last) + table.sizes.item(last) - table.offsets.item(first),
            )
            for first, last in kept.runs
        ]
        found, num_bytes = self._read(places)
        self.metrics.add("bytes.filter", num_bytes)
        self.metrics.add("bytes.read", num_bytes)
        held = self._pages_of(table, kept, found, has_dictionary=True)
        if [page.num_values for page, _ in held] != kept.held_by_page:
            return None
        self.metrics.add("pages.searched", len(held))
        codec = group.columns[leaf].codec_name
        verify = self.verify_checksums
        may_hold = np.ones(len(table), np.bool_)
        may_hold[kept.numbers] = [
            page_search.may_hold(page, body, codec, texts, verify=verify) for page, body in held
        ]
        return np.repeat(may_hold, table.row_counts)

    def read(
        self, group: RowGroup, choice: PageChoice, stage: str, *, as_codes: bool = False
    ) -> dict[int, pa.Array] | None:
        """Return the chosen rows of each leaf, nested as if the leaf were its column's only one.

        Few rows of a flat column are taken out of their pages one by one; pyarrow decodes the others' pages.

        With `as_codes` the leaves are text of which every page holds codes, and come as dictionary arrays.

        None where a page's header contradicts its place: then the index is wrong, or the page is, and
        reading the whole chunk tells which.
        """
        leaves = list(choice.tables)
        places: list[tuple[int, int]] = []
        counts: list[tuple[bool, int]] = []
        for leaf in leaves:
            table, kept = choice.tables[leaf], choice.kept[leaf]
            dictionary = (
                table.dictionary if self._needs_dictionary(group, leaf, table, kept.numbers) else None
            )
            if dictionary is not None:
                places.append(dictionary)
            offsets, sizes = table.offsets, table.sizes
            for first, last in kept.runs:
                start = offsets.item(first)
                places.append((start, offsets.item(last) + sizes.item(last) - start))
            counts.append((dictionary is not None, len(kept.runs)))
        found, num_bytes = self._read(places)
        self.metrics.add(f"bytes.{stage}", num_bytes)
        self.metrics.add("bytes.read", num_bytes)
        self.metrics.add("pages.considered", sum(map(len, choice.tables.values())))
        self.metrics.add("pages.read", sum(len(choice.kept[leaf].numbers) for leaf in leaves))
        columns, codes = [], set(leaves) if as_codes else set()
        arrays: dict[int, pa.Array] = {}
        types = self.schema.arrow_types()
        at = 0
        for leaf, (has_dictionary, num_runs) in zip(leaves, counts, strict=True):
            table, kept = choice.tables[leaf], choice.kept[leaf]
            parts = found[at : at + has_dictionary + num_runs]
            at += len(parts)
            held = self._pages_of(table, kept, parts[has_dictionary:], has_dictionary=has_dictionary)
            num_values = [page.num_values for page, _ in held]
            of_column = self.footer.leaves[leaf]
            is_flat = of_column.max_repetition == 0
            if not held or (is_flat and num_values != kept.held_by_page):
                self.metrics.add("page_indexes.ignored")
                return None
            takes = self.few_rows == "always" or (
                self.few_rows == "auto" and kept.num_wanted * few_rows.FEW <= kept.num_rows
            )
            if takes and not as_codes:
                array = few_rows.take_rows(
                    of_column,
                    group.columns[leaf],
                    parts[0] if has_dictionary else None,
                    list(map(WantedPage, *zip(*held, strict=True), kept.rows)),
                    types[leaf],
                    verify_checksums=self.verify_checksums,
                    always=self.few_rows == "always",
                )
                if array is not None:
                    arrays[leaf] = array
                    continue
            all_codes = all(page.encoding in DICTIONARY_ENCODINGS for page, _ in held)
            is_few = kept.num_wanted * FEW <= kept.num_rows
            if all_codes and is_few and len(of_column.path) == 1 and is_text(of_column):
                codes.add(leaf)
                self.metrics.add("columns.fetched_as_codes", not as_codes)
            columns.append(
                VirtualColumn(
                    leaf=of_column,
                    chunk=group.columns[leaf],
                    num_values=sum(num_values),
                    num_rows=kept.num_rows,
                    dictionary_size=len(parts[0]) if has_dictionary else 0,
                    parts=parts,
                )
            )
        self.metrics.add("columns.taken_by_row", len(arrays))
        decoded = self._decode(columns, choice, codes, as_codes=as_codes) if columns else {}
        return None if decoded is None else arrays | decoded

    def _decode(
        self, columns: Sequence[VirtualColumn], choice: PageChoice, codes: AbstractSet[int], *, as_codes: bool
    ) -> dict[int, pa.Array] | None:
        """Decode columns and take their rows; those of `codes` as codes, looked up for the rows unless `as_codes`."""
        reader = pq.ParquetFile(
            pa.BufferReader(virtual_file.build(self.schema, columns)),
            read_dictionary=[number for number, column in enumerate(columns) if column.leaf.index in codes],
            coerce_int96_timestamp_unit="us",
            arrow_extensions_enabled=False,
            page_checksum_verification=self.verify_checksums,
        ).reader
        arrays = {}
        for number, column in enumerate(columns):
            leaf = column.leaf.index
            decoded = reader.read_column(number)
            if leaf in codes:
                array = checked_codes(decoded)
            else:
                array = decoded.chunk(0) if decoded.num_chunks == 1 else decoded.combine_chunks()
            if array is None or isinstance(array, pa.ChunkedArray):
                return None  # text beyond 2 GiB: streams of whole chunks are cut before that
            if len(array) != column.num_rows:
                self.metrics.add("page_indexes.ignored")
                return None
            kept = choice.kept[leaf]
            before = np.cumsum(kept.held) - kept.held
            indices = choice.rows - np.repeat(kept.first_rows - before, kept.wanted)
            if len(indices) < len(array) or array.offset:
                array = array.take(pa.array(indices))
            if leaf in codes and not as_codes:
                array = _looked_up(array)
                if array is None:
                    return None
            arrays[leaf] = array
        return arrays

    def _needs_dictionary(
        self, group: RowGroup, leaf: int, table: PageTable, kept: NDArray[np.int64]
    ) -> bool:
        """Tell whether a kept page may be dictionary-encoded: a writer that gave up on it never returns to it."""
        stats = group.columns[leaf].encoding_stats
        if not stats:
            return True
        told = encoded = 0
        for kind, encoding, count in stats:
            if kind in (pages.DATA_PAGE, pages.DATA_PAGE_V2):
                told += count
                encoded += count if encoding in DICTIONARY_ENCODINGS else 0
        return not (told == len(table) and kept[0] >= encoded)

    @staticmethod
    def _pages_of(
        table: PageTable, kept: KeptPages, parts: Sequence[memoryview], *, has_dictionary: bool
    ) -> list[tuple[PageHeader, memoryview]]:
        """Return each kept page's header and body; nothing if a page can't be decoded alone."""
        held = []
        offsets, sizes = table.offsets, table.sizes
        for (first, last), data in zip(kept.runs, parts, strict=True):
            start = offsets.item(first)
            for page in range(first, last + 1):
                at = offsets.item(page) - start
                raw = data[at : at + sizes.item(page)]
                header = pages.data_page_header(raw)
                if header is None or (header.encoding in DICTIONARY_ENCODINGS and not has_dictionary):
                    return []
                held.append((header, raw[header.length :]))
        return held

    def _walk(self, group: RowGroup, leaf: int) -> PageTable | None:
        if self.cost.parallel > 1:
            return None  # a request for each page of an object costs more than the chunk

        def read_at(offset: int, length: int) -> bytes:
            return bytes(self.file.read_at(length, offset))

        return pages.pages_of_headers(read_at, self.footer.leaves[leaf], group.columns[leaf], group.num_rows)

    def _read(self, places: Sequence[tuple[int, int]]) -> tuple[list[memoryview], int]:
        if self.tail is not None and places and all(offset >= self.tail[0] for offset, _ in places):
            view = memoryview(self.tail[1])
            starts = [(offset - self.tail[0], length) for offset, length in places]
            return [view[start : start + length] for start, length in starts], 0
        requests = ranges.merge(places, self.cost)
        self.metrics.add("requests", len(requests))
        return ranges.read_ranges(self.file, places, requests, self.cost, self.footer.path)


def is_text(leaf: Leaf) -> bool:
    """Tell whether pyarrow can give a leaf as dictionary arrays that stand alone: strings and byte strings."""
    is_number = leaf.logical is not None and leaf.logical.name == "decimal"
    return leaf.physical == BYTE_ARRAY and leaf.max_repetition == 0 and not is_number


def _looked_up(array: pa.Array) -> pa.Array | None:
    """Return a dictionary array's values; None where they exceed what 32-bit offsets reach."""
    size = pc.sum(pc.binary_length(array.dictionary).take(array.indices)).as_py() or 0
    return array.dictionary_decode() if size <= MAX_TEXT_BYTES else None


def checked_codes(column: pa.ChunkedArray) -> pa.Array | None:
    """Return dictionary arrays as one; None if a code lies outside its dictionary, or text is no UTF-8.

    pyarrow hands codes over as the file has them, and whoever looks them up would read foreign memory.
    """
    try:
        for chunk in column.chunks:
            if isinstance(chunk, pa.DictionaryArray):
                chunk.dictionary.validate(full=True)
            if not _is_within(chunk):
                chunk.validate(full=True)
    except pa.ArrowInvalid:
        return None
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _is_within(array: pa.Array) -> bool:
    """Tell whether all codes, those of NULLs too, lie in their dictionary: a sixth of the time of `validate`."""
    if not isinstance(array, pa.DictionaryArray) or array.indices.type != pa.int32():
        return False
    codes = np.frombuffer(array.indices.buffers()[1] or b"", np.uint32)[array.offset :][: len(array)]
    return len(codes) == len(array) and int(codes.max(initial=0)) < len(array.dictionary)
