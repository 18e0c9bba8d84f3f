"""Parquet data files.

The footer is checked by our own strict reader before pyarrow sees the file, because pyarrow crashes the
process on some malformed ones. The rule: what statistics, Bloom filters and dictionaries say may only prune.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from twostage.columns import arrow_type
from twostage.data_files.data_file import DataFile, descend, one_array
from twostage.data_files.parquet_chunks import BATCH_BYTES, PAGE_BYTES, RemoteChunks, buffer_of, expected_tail
from twostage.data_files.parquet_footers import kept_version, load_footer, load_remote_footer
from twostage.data_files.remote_file import RemoteFile
from twostage.data_files.row_group import ChunkFacts, PageBounds, RowGroup
from twostage.errors import CorruptFileError
from twostage.formats import file_schema
from twostage.formats.parquet import assemble, filters, page_search
from twostage.formats.parquet.dictionary import PLAIN, is_all_dictionary
from twostage.formats.parquet.dictionary_arrays import checked_codes, is_text
from twostage.formats.parquet.page_reader import (
    MIN_ROWS_READ_PER_TEXT,
    WHOLE_SHARE,
    PageChoice,
    PageReader,
    peak_bytes,
)
from twostage.formats.parquet.page_tables import PageTables
from twostage.formats.parquet.statistics import may_read, row_group_bounds
from twostage.predicates.predicate import columns
from twostage.schema import Primitive, Struct
from twostage.selection import Selection
from twostage.storage import files, ranges

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence, Set as AbstractSet

    from numpy.typing import NDArray

    from twostage.formats.parquet.schema_tree import Leaf
    from twostage.predicates.bounds import Bounds
    from twostage.predicates.predicate import Predicate
    from twostage.schema import Field
    from twostage.storage.task_reads import TaskReads

MAX_TIMES_DECODED = 2
"""How often, on average, the bytes of a row group may be decoded when it is read in windows."""


class ParquetDataFile(DataFile):
    """An open Parquet data file of a task."""

    reads_parts = True

    def _open_remote(self, reads: TaskReads) -> RemoteFile:
        """Open a remote file by ranges; takes no request."""
        version = kept_version(self.task.path, self.task.file_size)
        return RemoteFile(reads, self.context, self.task, version)

    def _open(self) -> None:
        settings = self.context.settings
        cost = ranges.cost_of(settings.merge_gap, settings.parallel_requests, is_remote=self.is_remote)
        self._remote = self._file if isinstance(self._file, RemoteFile) else None
        if self._remote is not None:
            expected = expected_tail(self.context.schema, self.task.file_size)
            kept, key = load_remote_footer(self._remote, self.task.path, self.task.file_size, expected)
            tail = kept.tail
        else:
            size = self._file.size()
            key = (self.task.path, size, self._version or self.stamp)
            kept, tail = load_footer(self._file, self.task.path, key, is_remote=self.is_remote)
        self._footer, self._metadata = kept.footer, kept.metadata
        # Without a version, page tables are never shared with another open file.
        identity = key if key[2] else (*key, object())
        tables = PageTables(self._file, self._footer, identity, cost, self._metrics, tail)
        self._pages = PageReader(tables, kept.virtual_schema, settings.verify_checksums, settings.few_rows)
        self._readers: dict[str, pq.ParquetFile] = {}
        self._chunks = RemoteChunks(self._remote, self._footer)
        self._schema_arrow, self._column_types, self._fields = kept.columns(
            self.context, self.task.path, lambda: self._reader_of("filter").schema_arrow
        )
        if (self._fields[-1].end_leaf if self._fields else 0) != len(self._footer.leaves):
            raise CorruptFileError(
                "CORRUPT_PARQUET", "Columns do not match the footer's", path=self.task.path, stage="open"
            )

    def _reader_of(self, stage: str) -> pq.ParquetFile:
        """Return a stage's own reader: stage one of the next row group may run while this one is fetched."""
        if stage not in self._readers:
            self._readers[stage] = self._reader()
        return self._readers[stage]

    def _reader(
        self, codes_of: Sequence[int] = (), *, buffer_size: int = 0, ahead: Sequence[tuple[int, int]] = ()
    ) -> pq.ParquetFile:
        return pq.ParquetFile(
            self._file if self._remote is None else self._remote.arrow_file(ahead, buffer_size),
            metadata=self._metadata,
            read_dictionary=codes_of,
            buffer_size=buffer_size,
            # Merges the chunks' requests and sends them together, unless `_chunks` can do so.
            pre_buffer=self.is_remote and self._remote is None and not buffer_size,
            coerce_int96_timestamp_unit="us",
            arrow_extensions_enabled=False,
            page_checksum_verification=self.context.settings.verify_checksums,
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
        """Return the bounds of a leaf in a row group; None if they are unknown."""
        found = self._leaf(field_id)
        if found is None:
            return None
        leaf, kind = found
        return row_group_bounds(self._footer, self._footer.row_groups[row_group.index], leaf, kind)

    def stored_bytes(self, row_group: RowGroup, field_ids: AbstractSet[int]) -> int:
        """Return how many bytes these fields of a row group take in the file, compressed."""
        chunks = self._footer.row_groups[row_group.index].columns
        return sum(chunks[leaf].compressed_size for leaf in self._leaves_of(field_ids))

    def chunk_facts(self, row_group: RowGroup, field_id: int) -> ChunkFacts:
        """Return how a field of a row group is stored."""
        columns = self._footer.row_groups[row_group.index].columns
        chunks = [columns[leaf] for leaf in self._leaves_of({field_id})]
        return ChunkFacts(
            dictionary_bytes=sum(one.dictionary_size for one in chunks),
            is_dictionary_encoded=bool(chunks) and all(map(is_all_dictionary, chunks)),
            has_bloom_filter=bool(chunks) and all(one.bloom_filter_offset is not None for one in chunks),
        )

    def decoded_bytes(self, row_group: RowGroup, field_ids: AbstractSet[int]) -> int:
        """Return a lower bound of the decoded bytes of these fields of a row group."""
        chunks = self._footer.row_groups[row_group.index].columns
        return sum(chunks[leaf].decoded_size for leaf in self._leaves_of(field_ids))

    def _leaves_of(self, field_ids: AbstractSet[int]) -> set[int]:
        sources = [source[-1] for field_id in field_ids if (source := self._find_deep(field_id)) is not None]
        return {leaf for source in sources for leaf in range(source.first_leaf, source.end_leaf)}

    def reads_windows(self, row_group: RowGroup, field_ids: AbstractSet[int], num_rows: int) -> bool:
        """Tell whether any `num_rows` consecutive rows of these fields are read without decoding many others."""
        leaves = self._leaves_of(field_ids)
        if self.context.settings.read_pages == "never" or not all(
            assemble.can_assemble(field, column, within) for field, column, within in self._columns(leaves)
        ):
            return False
        with files.translate_errors(self.task.path, "filter", storage=self.context.storage):
            alone = [leaf for leaf in sorted(leaves) if self._pages.schema.stand_alone[leaf]]
            tables = self._pages.tables.of(self._footer.row_groups[row_group.index], alone)
        if tables.keys() != leaves:
            return False
        # A window reads an extra page at either end; for a small column that may be all its pages each time.
        chunks = self._footer.row_groups[row_group.index].columns
        once = sum(chunks[leaf].decoded_size for leaf in leaves)
        again = sum(
            chunks[leaf].decoded_size * min(row_group.num_rows, num_rows + 2 * int(table.row_counts.max()))
            for leaf, table in tables.items()
        )
        return again <= MAX_TIMES_DECODED * once * num_rows

    def page_bounds(self, row_group: RowGroup, field_id: int) -> PageBounds | None:
        """Return the bounds of each page of a leaf in a row group; None if they are unknown."""
        found = self._leaf(field_id)
        if found is None:
            return None
        leaf, kind = found
        with files.translate_errors(self.task.path, "prune", storage=self.context.storage):
            pages = self._pages.tables.bounds(self._footer.row_groups[row_group.index], leaf, kind)
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
        self, row_group: RowGroup, predicate: Predicate, *, probe_dictionaries: bool
    ) -> str | None:
        """Return which of Bloom filter and dictionary proves that no row matches; None if neither does."""
        group = self._footer.row_groups[row_group.index]
        arguments = (self._file, self._footer, group, predicate, self._leaf, self.task.path)
        with files.translate_errors(self.task.path, "prune", storage=self.context.storage):
            if self.context.settings.bloom_filter and filters.prune_by_bloom(*arguments):
                return "bloom"
            if not probe_dictionaries:
                return None
            used = (self._leaf(column.field_id) for column in columns(predicate))
            texts = {one[0].index for one in used if one is not None}
            self._chunks.expect_filter(
                group.index, [leaf for leaf in sorted(texts) if is_all_dictionary(group.columns[leaf])]
            )
            if filters.prune_by_dictionary(*arguments):
                return "dictionary"
        return None

    def search(self, row_group: RowGroup, predicate: Predicate, rows: Selection) -> Selection | None:
        """Return those of `rows` whose pages may hold the text a predicate looks for; None if unknown."""
        settings = self.context.settings
        sought = page_search.sought(predicate)
        found = None if sought is None else self._leaf(sought[0].field_id)
        if sought is None or found is None or not settings.prune_pages or settings.read_pages == "never":
            return None
        leaf, kind = found
        group = self._footer.row_groups[row_group.index]
        chunk = group.columns[leaf.index]
        # Looking up codes is faster than decoding a dictionary's texts.
        if not is_text(leaf) or kind != sought[0].value_type or not may_read(leaf, kind):
            return None
        if is_all_dictionary(chunk) or PLAIN not in chunk.encodings:
            return None
        with files.translate_errors(self.task.path, "filter", storage=self.context.storage):
            may_hold = self._pages.search_pages(group, leaf.index, rows.indices(), sought[1])
        return None if may_hold is None else rows & Selection.of(may_hold)

    def expect(self, row_group: RowGroup, targets: Sequence[Field], rows: Selection | None = None) -> None:
        """Request columns that will be read, for some rows as `select` would; waits only for page indexes."""
        if not targets:
            self._chunks.forget(row_group.index)
        wanted = file_schema.wanted_leaves(self._fields, targets, self.task.constants.keys())
        pages: list[tuple[int, int]] = []
        if rows is not None and self._remote is not None:
            with files.translate_errors(self.task.path, "fetch", storage=self.context.storage):
                if (choice := self._choose_pages(row_group, wanted, rows.indices())) is not None:
                    pages = self._pages.places(self._footer.row_groups[row_group.index], choice)
                    wanted -= choice.tables.keys()
        self._chunks.expect(row_group.index, wanted, self.context.settings.memory_budget, pages)

    def expected_bytes(self, row_group: RowGroup) -> int:
        """Return the bytes of a row group that `expect` has requested and nothing has read yet."""
        return self._chunks.expected_bytes(row_group.index)

    def _decode(self, row_group: RowGroup, wanted: AbstractSet[int], stage: str) -> list[pa.Array]:
        self._count_bytes(row_group, wanted, stage)
        with self._chunks.held(row_group.index, wanted):
            table = self._reader_of(stage).reader.read_row_group(
                row_group.index, column_indices=sorted(wanted), use_threads=False
            )
        # pyarrow stops silently if a page states fewer values than the footer: the caller counts rows.
        return [one_array(column) for column in table.columns]

    def _decode_rows(
        self, row_group: RowGroup, wanted: AbstractSet[int], rows: Selection, stage: str
    ) -> list[pa.Array]:
        choice = self._choose_pages(row_group, wanted, rows.indices())
        arrays = None if choice is None else self._read_pages(row_group, wanted, choice, stage)
        return super()._decode_rows(row_group, wanted, rows, stage) if arrays is None else arrays

    def read_filter_column(
        self, row_group: RowGroup, field_id: int, rows: Selection | None = None
    ) -> pa.Array:
        """Decode as `read_leaf` does; text stays encoded if every page is: 10 times faster."""
        array = None
        if self.context.settings.encoded_filters and (found := self._encoded_text(row_group, field_id)):
            with files.translate_errors(self.task.path, "filter", storage=self.context.storage):
                array = self._read_codes(row_group, *found, rows)
        schema = self.context.schema  # which lacks delete keys that were dropped since
        may_hold_null = field_id not in schema or not schema.top_level(field_id).required
        if array is not None and (may_hold_null or array.null_count == 0):
            self._metrics.add("columns.filtered_encoded")
            return array
        return super().read_filter_column(row_group, field_id, rows)

    def _encoded_text(self, row_group: RowGroup, field_id: int) -> tuple[int, int] | None:
        """Return leaf and depth of a text field whose pages all hold codes, if they can replace values."""
        found, source = self._leaf(field_id), self._find_deep(field_id)
        if found is None or source is None or not is_text(found[0]):
            return None
        leaf, kind = found
        if not is_all_dictionary(self._footer.row_groups[row_group.index].columns[leaf.index]):
            return None  # pyarrow looks each plain value up in its dictionary: 3 times slower
        target, depth = self.leaf_target(field_id)
        ids = [target.id]
        while isinstance(target.type, Struct):
            target = target.type.fields[0]
            ids.append(target.id)
        in_file = self._schema_arrow.field(self._fields.index(source[0])).type
        for parent, child in pairwise(source):
            in_file = in_file.field(parent.children.index(child)).type
        in_file = in_file.value_type if pa.types.is_dictionary(in_file) else in_file
        # Whatever takes more than looking codes up (promotion, another place) is left to `convert`.
        is_same = in_file == arrow_type(kind) and ids == [field.id for field in source]
        return (leaf.index, depth) if is_same else None

    def _read_codes(
        self, row_group: RowGroup, number: int, depth: int, rows: Selection | None
    ) -> pa.Array | None:
        """Decode a leaf as dictionary arrays; None if its bytes are damaged, which `read_leaf` reports."""
        array: pa.Array | None = None
        if rows is not None and not rows.is_all:
            choice = self._choose_pages(row_group, {number}, rows.indices())
            if choice is not None:
                group = self._footer.row_groups[row_group.index]
                array = (self._pages.read(group, choice, "filter", as_codes=True) or {}).get(number)
        if array is None:
            if "codes" not in self._readers:
                texts = [leaf.index for leaf in self._footer.leaves if is_text(leaf)]
                self._readers["codes"] = self._reader(texts)
            self._count_bytes(row_group, {number}, "filter")
            with self._chunks.held(row_group.index, {number}):
                table = self._readers["codes"].reader.read_row_group(
                    row_group.index, column_indices=[number], use_threads=False
                )
            array = checked_codes(table.column(0))
            if array is None or len(array) != row_group.num_rows:
                return None
            if rows is not None and not rows.is_all:
                array = array.take(pa.array(rows.indices()))
        return descend(array, depth)

    def select(
        self, row_group: RowGroup, targets: Sequence[Field], rows: Selection, batch_size: int
    ) -> Iterator[list[pa.Array]]:
        """Decode columns of some rows of a row group, in steps of at most `batch_size` rows."""
        try:
            yield from self._select(row_group, targets, rows, batch_size)
        finally:
            self._chunks.forget(row_group.index)

    def _select(
        self, row_group: RowGroup, targets: Sequence[Field], rows: Selection, batch_size: int
    ) -> Iterator[list[pa.Array]]:
        if self.context.settings.read_pages != "always" and rows.count > row_group.num_rows * WHOLE_SHARE:
            yield from super().select(row_group, targets, rows, batch_size)  # without an index of every row
            return
        wanted = file_schema.wanted_leaves(self._fields, targets, self.task.constants.keys())
        parts = [rows.indices()]
        with files.translate_errors(self.task.path, "fetch", storage=self.context.storage):
            choice = self._choose_pages(row_group, wanted, parts[0])
        if choice is None:
            yield from super().select(row_group, targets, rows, batch_size)
            return
        size = peak_bytes(self._footer, row_group.index, wanted, choice)
        max_bytes = min(PAGE_BYTES, self.context.settings.memory_budget // 2)
        if size > max_bytes:
            parts = np.array_split(parts[0], min(len(parts[0]), 1 + int(size / max_bytes)))
        for number, part in enumerate(parts):
            with files.translate_errors(self.task.path, "fetch", storage=self.context.storage):
                if len(parts) > 1:  # whole chunks, decoded again for each part, would cost more than a stream
                    choice = self._choose_pages(row_group, wanted, part)
                    choice = choice if choice is not None and len(choice.tables) == len(wanted) else None
                arrays = None if choice is None else self._read_pages(row_group, wanted, choice, "fetch")
            if arrays is None:
                remaining = np.zeros(row_group.num_rows, np.bool_)
                remaining[np.concatenate(parts[number:])] = True
                yield from super().select(row_group, targets, Selection.of(remaining), batch_size)
                return
            built = self._build(arrays, wanted, targets, row_group, part)
            for start in range(0, len(part), batch_size):
                yield [array.slice(start, batch_size) for array in built]

    def _choose_pages(
        self, row_group: RowGroup, wanted: AbstractSet[int], rows: NDArray[np.int64]
    ) -> PageChoice | None:
        """Return the pages that hold the rows; None if whole chunks are to be read."""
        when = self.context.settings.read_pages
        if when == "never" or not wanted or len(rows) == 0:
            return None
        if when == "auto" and len(rows) > row_group.num_rows * WHOLE_SHARE:
            return None
        group = self._footer.row_groups[row_group.index]
        choice = self._pages.choose(group, sorted(wanted), rows)
        for field, column, leaves in self._columns(wanted):
            if not assemble.can_assemble(field, column, leaves) or not leaves <= choice.tables.keys():
                choice = choice.without(leaves)  # all of a column's leaves are read the same way
        sizes = {leaf: group.columns[leaf].compressed_size for leaf in wanted}
        read = sum(size * choice.shares.get(leaf, 1.0) for leaf, size in sizes.items())
        is_most = (
            read > WHOLE_SHARE * sum(sizes.values())
            and len(rows) * MIN_ROWS_READ_PER_TEXT > row_group.num_rows
        )
        if not choice.tables or (when == "auto" and is_most):
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
        for field, kind in zip(self._fields, self._column_types, strict=True):
            leaves = frozenset(leaf for leaf in range(field.first_leaf, field.end_leaf) if leaf in wanted)
            if leaves:
                yield field, kind, leaves

    def _iterate(
        self, row_group: RowGroup, wanted: AbstractSet[int], batch_size: int
    ) -> Iterator[Sequence[pa.Array]]:
        self._count_bytes(row_group, wanted, "fetch")
        chunks = self._footer.row_groups[row_group.index].columns
        width = sum(chunks[leaf].decoded_size for leaf in wanted) // max(1, row_group.num_rows)
        size = buffer_of([chunks[leaf] for leaf in wanted], self._pages.tables.cost.gap, self._remote)
        ahead = self._chunks.ranges(row_group.index, wanted) if size else ()
        reader = self._reader(buffer_size=size, ahead=ahead) if size else self._reader_of("fetch")
        with self._chunks.held(row_group.index, frozenset() if size else wanted):
            batches = reader.reader.iter_batches(
                min(batch_size, max(1, BATCH_BYTES // max(1, width))),
                [row_group.index],
                sorted(wanted),
                use_threads=False,
            )
            yield from (batch.columns for batch in batches)

    def _count_bytes(self, row_group: RowGroup, wanted: AbstractSet[int], stage: str) -> None:
        size = sum(self._footer.row_groups[row_group.index].columns[leaf].compressed_size for leaf in wanted)
        self._metrics.add_read(stage, size)
