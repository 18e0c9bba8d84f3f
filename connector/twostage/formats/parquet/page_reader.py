"""Reads given rows of a row group by fetching only the pages that hold them.

Takes the page tables of an open file and, for some leaves, the wanted rows; returns one Arrow array for each
leaf with exactly those rows. pyarrow decodes the pages, from a virtual file, except where rows are taken out
of them one by one (`few_rows`). The rule: right rows or None, upon which the caller reads whole column
chunks: if pages contradict their page table, if a leaf cannot be read alone, or if most pages would be read
anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from twostage.formats.parquet import few_rows, page_search, pages, virtual_file
from twostage.formats.parquet.dictionary import is_all_dictionary
from twostage.formats.parquet.dictionary_arrays import checked_codes, decode_if_small, is_text
from twostage.formats.parquet.few_rows import WantedPage
from twostage.formats.parquet.virtual_file import VirtualColumn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set as AbstractSet

    from numpy.typing import NDArray

    from twostage.formats.parquet.file_metadata import Footer, RowGroupMetadata
    from twostage.formats.parquet.page_tables import PageTables
    from twostage.formats.parquet.pages import KeptPages, PageHeader, PageTable
    from twostage.formats.parquet.virtual_file import VirtualSchema

WHOLE_SHARE = 0.7
"""Share of a chunk's bytes above which reading it whole is faster: it is copied once less, and streamed."""
DICTIONARY_ENCODINGS = (2, 8)
MIN_ROWS_READ_PER_TEXT = 4
"""With at least as many rows in the pages read for each wanted one, text is decoded as dictionary codes, and
only the wanted codes are looked up."""


@dataclass(frozen=True, slots=True, eq=False)
class PageChoice:
    """Which pages of which leaves hold the wanted rows, and their share of the bytes."""

    tables: Mapping[int, PageTable]
    kept: Mapping[int, KeptPages]
    """By leaf: the pages that hold wanted rows, and the rows of each."""
    rows: NDArray[np.int64]
    """The wanted rows, ascending, within the row group."""
    shares: Mapping[int, float]
    """By leaf: the share of its chunk's bytes."""

    def without(self, leaves: AbstractSet[int]) -> PageChoice:
        """Return the choice without some leaves."""
        tables = {leaf: table for leaf, table in self.tables.items() if leaf not in leaves}
        return PageChoice(tables, self.kept, self.rows, {leaf: self.shares[leaf] for leaf in tables})


def peak_bytes(footer: Footer, row_group: int, wanted: AbstractSet[int], choice: PageChoice) -> float:
    """Estimate the peak bytes of a read by pages: the pages twice, one column decoded, and the rows taken."""
    group = footer.row_groups[row_group]
    chunks = group.columns
    shares = {leaf: choice.shares.get(leaf, 1.0) for leaf in wanted}
    rows = len(choice.rows) / max(1, group.num_rows)

    def decoded(leaf: int) -> int:
        """Return the bytes of all values; for few rows of text, those of its codes."""
        is_few = rows * MIN_ROWS_READ_PER_TEXT <= shares[leaf] and is_text(footer.leaves[leaf])
        as_codes = is_few and is_all_dictionary(chunks[leaf])
        return chunks[leaf].uncompressed_size if as_codes else chunks[leaf].decoded_size

    return (
        2 * sum(chunks[leaf].compressed_size * share for leaf, share in shares.items())
        + max(decoded(leaf) * share for leaf, share in shares.items())
        + sum(chunks[leaf].decoded_size for leaf in wanted) * rows
    )


@dataclass(slots=True)
class PageReader:
    """Reads pages of one open file."""

    tables: PageTables
    schema: VirtualSchema
    verify_checksums: bool
    few_rows: str = "auto"
    """Whether rows are taken out of their pages one by one, see `few_rows`: ``auto``, ``always`` or ``never``."""

    def choose(self, group: RowGroupMetadata, leaves: Sequence[int], rows: NDArray[np.int64]) -> PageChoice:
        """Return the pages that hold `rows` (ascending, within the row group), of the leaves that have a page table."""
        tables = self.tables.of(group, [leaf for leaf in leaves if self.schema.stand_alone[leaf]])
        # Writers that cut pages by rows begin those of all columns at the same rows: one object serves them all.
        of_layout: dict[bytes, KeptPages] = {}
        kept: dict[int, KeptPages] = {}
        shares: dict[int, float] = {}
        for leaf, table in tables.items():
            layout = table.first_rows.tobytes()
            if layout not in of_layout:
                of_layout[layout] = table.holding(rows)
            kept[leaf] = of_layout[layout]
            shares[leaf] = table.share(kept[leaf].numbers_list)
        return PageChoice(tables, kept, rows, shares)

    def search_pages(
        self, group: RowGroupMetadata, leaf: int, rows: NDArray[np.int64], texts: Sequence[bytes]
    ) -> NDArray[np.bool_] | None:
        """Tell for each row of the row group whether its page may hold one of the texts; None if unknown.

        Only pages with some of `rows` (ascending) are searched; the others are reported as True.
        """
        table = self.tables.of(group, [leaf]).get(leaf)
        if table is None or len(table) < 2 or self.tables.cost.parallel > 1:  # hits would be requested twice
            return None
        kept = table.holding(rows)
        places = [
            (
                table.offsets.item(first),
                table.offsets.item(last) + table.sizes.item(last) - table.offsets.item(first),
            )
            for first, last in kept.runs
        ]
        found, num_bytes = self.tables.read(places)
        self.tables.metrics.add_read("filter", num_bytes)
        own_pages = self._pages_of(table, kept, found, has_dictionary=True)
        if [page.num_values for page, _ in own_pages] != kept.row_counts_list:
            return None
        self.tables.metrics.add("pages.searched", len(own_pages))
        codec = group.columns[leaf].codec_name
        verify = self.verify_checksums
        may_hold = np.ones(len(table), np.bool_)
        may_hold[kept.numbers] = [
            page_search.may_hold(page, body, codec, texts, verify=verify) for page, body in own_pages
        ]
        return np.repeat(may_hold, table.row_counts)

    def places(self, group: RowGroupMetadata, choice: PageChoice) -> list[tuple[int, int]]:
        """Return what `read` reads: offset and length of runs of pages, and of dictionaries."""
        return [place for leaf in choice.tables for place in self._places_of(group, choice, leaf)[0]]

    def _places_of(
        self, group: RowGroupMetadata, choice: PageChoice, leaf: int
    ) -> tuple[list[tuple[int, int]], bool]:
        """Return where a leaf's chosen pages and, if needed, its dictionary are; and whether it is needed."""
        table, kept = choice.tables[leaf], choice.kept[leaf]
        dictionary = table.dictionary if self._needs_dictionary(group, leaf, table, kept.numbers) else None
        places = [] if dictionary is None else [dictionary]
        offsets, sizes = table.offsets, table.sizes
        for first, last in kept.runs:
            start = offsets.item(first)
            places.append((start, offsets.item(last) + sizes.item(last) - start))
        return places, dictionary is not None

    def read(
        self, group: RowGroupMetadata, choice: PageChoice, stage: str, *, as_codes: bool = False
    ) -> dict[int, pa.Array] | None:
        """Return the chosen rows of each leaf, nested as if the leaf were its column's only one.

        Few rows of a flat column are taken out of their pages one by one; pyarrow decodes the pages of the others.

        Args:
            group: The row group.
            choice: Its pages.
            stage: ``filter`` or ``fetch``, for the counters.
            as_codes: Return dictionary arrays; the leaves are text, and all their pages hold codes.

        Returns:
            Arrays by leaf; None if a page contradicts its page table. Then the index or the page is wrong,
            and reading the whole chunk reports which.
        """
        leaves = list(choice.tables)
        of_leaves = [self._places_of(group, choice, leaf) for leaf in leaves]
        places = [place for own, _ in of_leaves for place in own]
        counts = [
            (has_dictionary, len(choice.kept[leaf].runs))
            for leaf, (_, has_dictionary) in zip(leaves, of_leaves, strict=True)
        ]
        found, num_bytes = self.tables.read(places)
        self.tables.metrics.add_read(stage, num_bytes)
        self.tables.metrics.add("pages.considered", sum(map(len, choice.tables.values())))
        self.tables.metrics.add("pages.read", sum(len(choice.kept[leaf].numbers) for leaf in leaves))
        columns, codes = [], set(leaves) if as_codes else set()
        arrays: dict[int, pa.Array] = {}
        types = self.schema.arrow_types()
        at = 0
        for leaf, (has_dictionary, num_runs) in zip(leaves, counts, strict=True):
            table, kept = choice.tables[leaf], choice.kept[leaf]
            parts = found[at : at + has_dictionary + num_runs]
            at += len(parts)
            own_pages = self._pages_of(table, kept, parts[has_dictionary:], has_dictionary=has_dictionary)
            num_values = [page.num_values for page, _ in own_pages]
            of_column = self.tables.footer.leaves[leaf]
            is_flat = of_column.max_repetition == 0
            if not own_pages or (is_flat and num_values != kept.row_counts_list):
                self.tables.metrics.add("page_indexes.ignored")
                return None
            takes = self.few_rows == "always" or (
                self.few_rows == "auto"
                and kept.num_wanted * few_rows.MIN_ROWS_READ_PER_ROW_TAKEN <= kept.num_rows
            )
            if takes and not as_codes:
                array = few_rows.take_rows(
                    of_column,
                    group.columns[leaf],
                    parts[0] if has_dictionary else None,
                    list(map(WantedPage, *zip(*own_pages, strict=True), kept.rows)),
                    types[leaf],
                    verify_checksums=self.verify_checksums,
                    always=self.few_rows == "always",
                )
                if array is not None:
                    arrays[leaf] = array
                    continue
            all_codes = all(page.encoding in DICTIONARY_ENCODINGS for page, _ in own_pages)
            is_few = kept.num_wanted * MIN_ROWS_READ_PER_TEXT <= kept.num_rows
            if all_codes and is_few and len(of_column.path) == 1 and is_text(of_column):
                codes.add(leaf)
                self.tables.metrics.add("columns.fetched_as_codes", not as_codes)
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
        self.tables.metrics.add("columns.taken_by_row", len(arrays))
        decoded = self._decode(columns, choice, codes, as_codes=as_codes) if columns else {}
        return None if decoded is None else arrays | decoded

    def _decode(
        self, columns: Sequence[VirtualColumn], choice: PageChoice, codes: AbstractSet[int], *, as_codes: bool
    ) -> dict[int, pa.Array] | None:
        """Decode columns and take their rows.

        The leaves in `codes` are decoded as dictionary arrays, of which only the taken rows are looked up;
        with `as_codes`, none are.
        """
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
                return None  # text beyond 2 GiB: whole chunks are streamed in batches that stay below it
            if len(array) != column.num_rows:
                self.tables.metrics.add("page_indexes.ignored")
                return None
            kept = choice.kept[leaf]
            before = np.cumsum(kept.row_counts) - kept.row_counts
            indices = choice.rows - np.repeat(kept.first_rows - before, kept.wanted_counts)
            if len(indices) < len(array) or array.offset:
                array = array.take(pa.array(indices))
            if leaf in codes and not as_codes:
                array = decode_if_small(array)
                if array is None:
                    return None
            arrays[leaf] = array
        return arrays

    def _needs_dictionary(
        self, group: RowGroupMetadata, leaf: int, table: PageTable, kept: NDArray[np.int64]
    ) -> bool:
        """Tell whether a kept page may be dictionary-encoded: a dictionary once given up is not resumed."""
        stats = group.columns[leaf].encoding_stats
        if not stats:
            return True
        num_pages = num_encoded = 0
        for kind, encoding, count in stats:
            if kind in (pages.DATA_PAGE, pages.DATA_PAGE_V2):
                num_pages += count
                num_encoded += count if encoding in DICTIONARY_ENCODINGS else 0
        return not (num_pages == len(table) and kept[0] >= num_encoded)

    @staticmethod
    def _pages_of(
        table: PageTable, kept: KeptPages, parts: Sequence[memoryview], *, has_dictionary: bool
    ) -> list[tuple[PageHeader, memoryview]]:
        """Return each kept page's header and body; an empty list if one of them cannot be decoded alone."""
        own_pages = []
        offsets, sizes = table.offsets, table.sizes
        for (first, last), data in zip(kept.runs, parts, strict=True):
            start = offsets.item(first)
            for page in range(first, last + 1):
                at = offsets.item(page) - start
                raw = data[at : at + sizes.item(page)]
                header = pages.data_page_header(raw)
                if header is None or (header.encoding in DICTIONARY_ENCODINGS and not has_dictionary):
                    return []
                own_pages.append((header, raw[header.length :]))
        return own_pages
