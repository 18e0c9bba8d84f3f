"""Parquet data files.

The footer is checked by our own strict reader before pyarrow sees the file, because pyarrow ends the
process on some malformed ones. Footers are kept per worker process, FOOTER_CACHE_BYTES of them. The rule:
what statistics, Bloom filters and dictionaries say may only prune.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cachetools
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from twostage import ranges, storage
from twostage.errors import CorruptFileError
from twostage.files import file_schema
from twostage.files.datafile import DataFile, PageBounds, RowGroup, one_array
from twostage.location import parse_location
from twostage.parquet import assemble, filters
from twostage.parquet.footer import Footer, Leaf, read_footer, row_group_bounds
from twostage.parquet.page_reader import WHOLE_SHARE, PageChoice, PageReader
from twostage.parquet.virtual_file import VirtualSchema
from twostage.reading.selection import Selection
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence, Set as AbstractSet

    from numpy.typing import NDArray

    from twostage.predicates.bounds import Bounds
    from twostage.predicates.predicate import Predicate
    from twostage.schema import Field

BATCH_BYTES = 64 * 2**20
"""Of one step of a stream, about: 65,536 rows of 40 kB would be 2.6 GB."""
LEAST_BATCH_ROWS = 64
FOOTER_CACHE_BYTES = 64 * 2**20
"""Footers of some 500 wide files; a footer is re-read in one or two requests when it was dropped."""

_footers: cachetools.LRUCache[tuple[str, int, int | bytes], tuple[Footer, Any, VirtualSchema]] = (
    cachetools.LRUCache(
        # A parsed footer takes some eight times its bytes in the file, ours and pyarrow's together.
        FOOTER_CACHE_BYTES,
        getsizeof=lambda entry: 8 * (entry[0].file_size - entry[0].offset),
    )
)


class ParquetDataFile(DataFile):
    """An open Parquet data file of a task."""

    def _open(self) -> None:
        size = self._file.size()
        key = (self.task.path, size, self._version or storage.modified(self.task.path))
        found = _footers.get(key)
        if found is None:
            footer = read_footer(self._file, size, self.task.path)
            found = (footer, pq.read_metadata(self._file), VirtualSchema.of(footer))
            _footers[key] = found
        self._footer, metadata, virtual_schema = found
        self._pages = PageReader(
            self._file,
            self._footer,
            virtual_schema,
            key,
            ranges.LOCAL if parse_location(self.task.path).is_local else ranges.REMOTE,
            self.context.settings.verify_checksums,
            self._metrics,
        )
        self._reader = pq.ParquetFile(
            self._file,
            metadata=metadata,
            coerce_int96_timestamp_unit="us",
            arrow_extensions_enabled=False,
            page_checksum_verification=self.context.settings.verify_checksums,
        )
        self._fields = file_schema.identify(
            self._reader.schema_arrow, self.context.name_mapping, self.context.schema, self.task.path
        )
        if (self._fields[-1].end_leaf if self._fields else 0) != len(self._footer.leaves):
            raise CorruptFileError(
                "CORRUPT_PARQUET", "Columns do not match the footer's", path=self.task.path, stage="open"
            )

    def row_groups(self) -> Iterator[RowGroup]:
        """Yield the row groups whose first byte lies in the task's range."""
        for group in self._footer.row_groups:
            if self.is_in_range(group.start):
                yield RowGroup(
                    index=group.index,
                    first_row=group.first_row,
                    num_rows=group.num_rows,
                    num_bytes=group.compressed_bytes,
                )

    def num_rows(self) -> int:
        """Return the rows of the whole file."""
        return sum(group.num_rows for group in self._footer.row_groups)

    def bounds(self, row_group: RowGroup, field_id: int) -> Bounds | None:
        """Return what is known of a leaf's values in a row group; None if nothing is."""
        found = self._leaf(field_id)
        if found is None:
            return None
        leaf, kind = found
        return row_group_bounds(self._footer, self._footer.row_groups[row_group.index], leaf, kind)

    def decoded_bytes(self, row_group: RowGroup, field_ids: AbstractSet[int]) -> int:
        """Return the bytes that these fields of a row group take at least, decoded."""
        sources = [source[-1] for field_id in field_ids if (source := self._find_deep(field_id)) is not None]
        leaves = {leaf for source in sources for leaf in range(source.first_leaf, source.end_leaf)}
        chunks = self._footer.row_groups[row_group.index].columns
        # Encoded by dictionary or by runs, a column is smaller in the file: its values take four bytes or more.
        return sum(max(chunks[leaf].uncompressed_size, 4 * chunks[leaf].num_values) for leaf in leaves)

    def page_bounds(self, row_group: RowGroup, field_id: int) -> PageBounds | None:
        """Return what is known of each page of a leaf in a row group; None if nothing is."""
        found = self._leaf(field_id)
        if found is None:
            return None
        leaf, kind = found
        with storage.translate_errors(self.task.path, "prune", storage=self.context.storage):
            pages = self._pages.bounds(self._footer.row_groups[row_group.index], leaf, kind)
        return None if pages is None else PageBounds(*pages)

    def _leaf(self, field_id: int) -> tuple[Leaf, Primitive] | None:
        """Return the file leaf that holds a primitive field outside lists and maps, and its scan type."""
        if field_id in self.task.constants or field_id not in self.context.schema:
            return None
        kind = self.context.schema.field(field_id).type
        source = self._find_deep(field_id)
        if source is None or source[-1].children or not isinstance(kind, Primitive):
            return None
        return self._footer.leaves[source[-1].first_leaf], kind

    def cannot_match(
        self, row_group: RowGroup, predicate: Predicate, *, ask_dictionaries: bool
    ) -> str | None:
        """Ask dictionaries and Bloom filters; return which proved that no row matches, or None."""
        group = self._footer.row_groups[row_group.index]
        arguments = (self._file, self._footer, group, predicate, self._leaf, self.task.path)
        with storage.translate_errors(self.task.path, "prune", storage=self.context.storage):
            if self.context.settings.bloom_filter and filters.prune_by_bloom(*arguments):
                return "bloom"
            if ask_dictionaries and filters.prune_by_dictionary(*arguments):
                return "dictionary"
        return None

    def _decode(self, row_group: RowGroup, wanted: AbstractSet[int], stage: str) -> list[pa.Array]:
        self._count_bytes(row_group, wanted, stage)
        table = self._reader.reader.read_row_group(
            row_group.index, column_indices=sorted(wanted), use_threads=False
        )
        # pyarrow stops silently where a page says fewer values than the footer: the caller counts rows.
        return [one_array(column) for column in table.columns]

    def _decode_rows(
        self, row_group: RowGroup, wanted: AbstractSet[int], rows: Selection, stage: str
    ) -> list[pa.Array]:
        choice = self._choose_pages(row_group, wanted, rows.indices())
        arrays = None if choice is None else self._read_pages(row_group, wanted, choice, stage)
        return super()._decode_rows(row_group, wanted, rows, stage) if arrays is None else arrays

    def select(
        self, row_group: RowGroup, targets: Sequence[Field], rows: Selection, batch_size: int
    ) -> Iterator[list[pa.Array]]:
        """Decode columns of some rows of a row group, in steps of at most `batch_size` rows."""
        wanted = file_schema.wanted_leaves(self._fields, targets, self.task.constants.keys())
        parts = [rows.indices()]
        with storage.translate_errors(self.task.path, "fetch", storage=self.context.storage):
            choice = self._choose_pages(row_group, wanted, parts[0])
        if choice is None:
            yield from super().select(row_group, targets, rows, batch_size)
            return
        chunks = self._footer.row_groups[row_group.index].columns
        size = sum(chunks[leaf].uncompressed_size * choice.shares.get(leaf, 1.0) for leaf in wanted)
        if size > BATCH_BYTES:
            parts = np.array_split(parts[0], min(len(parts[0]), 1 + int(size / BATCH_BYTES)))
        for number, part in enumerate(parts):
            with storage.translate_errors(self.task.path, "fetch", storage=self.context.storage):
                if len(parts) > 1:  # whole chunks, decoded again for each part, would cost more than a stream
                    choice = self._choose_pages(row_group, wanted, part)
                    choice = choice if choice is not None and len(choice.tables) == len(wanted) else None
                arrays = None if choice is None else self._read_pages(row_group, wanted, choice, "fetch")
            if arrays is None:
                left = np.zeros(row_group.num_rows, np.bool_)
                left[np.concatenate(parts[number:])] = True
                yield from super().select(row_group, targets, Selection.of(left), batch_size)
                return
            built = self._build(arrays, wanted, targets, row_group, part)
            for start in range(0, len(part), batch_size):
                yield [array.slice(start, batch_size) for array in built]

    def _choose_pages(
        self, row_group: RowGroup, wanted: AbstractSet[int], rows: NDArray[np.int64]
    ) -> PageChoice | None:
        """Return the pages that hold the rows; None where whole chunks are to be read."""
        when = self.context.settings.read_pages
        if when == "never" or not wanted or len(rows) == 0:
            return None
        if when == "auto" and len(rows) > row_group.num_rows * WHOLE_SHARE:
            return None
        group = self._footer.row_groups[row_group.index]
        choice = self._pages.choose(group, sorted(wanted), rows)
        for field, column, leaves in self._columns(wanted):
            if not assemble.can_assemble(field, column, leaves) or not leaves <= choice.tables.keys():
                choice = choice.without(leaves)  # a column's leaves are read in one way
        sizes = {leaf: group.columns[leaf].compressed_size for leaf in wanted}
        read = sum(size * choice.shares.get(leaf, 1.0) for leaf, size in sizes.items())
        if not choice.tables or (when == "auto" and read > WHOLE_SHARE * sum(sizes.values())):
            return None
        return choice

    def _read_pages(
        self, row_group: RowGroup, wanted: AbstractSet[int], choice: PageChoice, stage: str
    ) -> list[pa.Array] | None:
        """Decode the chosen rows: one array for each field of ``file_schema.cut(…)``; None: read chunks."""
        found = self._pages.read(self._footer.row_groups[row_group.index], choice, stage)
        if found is None:
            return None
        arrays: list[pa.Array] = []
        indices = pa.array(choice.rows)
        for field, column, leaves in self._columns(wanted):
            if leaves <= found.keys():
                arrays.append(
                    assemble.assemble(field, column, {leaf: found[leaf] for leaf in sorted(leaves)})
                )
                continue
            (whole,) = self._decode(row_group, leaves, stage)
            self._check_rows(len(whole), row_group)
            arrays.append(whole.take(indices))
        return arrays

    def _columns(
        self, wanted: AbstractSet[int]
    ) -> Iterator[tuple[file_schema.FileField, pa.DataType, frozenset[int]]]:
        """Yield the columns that hold wanted leaves, with their types and those leaves."""
        for field, column in zip(self._fields, self._reader.schema_arrow, strict=True):
            leaves = frozenset(leaf for leaf in range(field.first_leaf, field.end_leaf) if leaf in wanted)
            if leaves:
                yield field, column.type, leaves

    def _iterate(
        self, row_group: RowGroup, wanted: AbstractSet[int], batch_size: int
    ) -> Iterator[Sequence[pa.Array]]:
        self._count_bytes(row_group, wanted, "fetch")
        chunks = self._footer.row_groups[row_group.index].columns
        width = sum(chunks[leaf].uncompressed_size for leaf in wanted) // max(1, row_group.num_rows)
        batches = self._reader.reader.iter_batches(
            min(batch_size, max(LEAST_BATCH_ROWS, BATCH_BYTES // max(1, width))),
            [row_group.index],
            sorted(wanted),
            use_threads=False,
        )
        for batch in batches:
            yield batch.columns

    def _count_bytes(self, row_group: RowGroup, wanted: AbstractSet[int], stage: str) -> None:
        chunks = self._footer.row_groups[row_group.index].columns
        size = sum(chunks[leaf].compressed_size for leaf in wanted)
        self._metrics.add(f"bytes.{stage}", size)
        self._metrics.add("bytes.read", size)
