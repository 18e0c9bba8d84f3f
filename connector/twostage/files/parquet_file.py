"""Parquet data files.

The footer is checked by our own strict reader before pyarrow sees the file, because pyarrow ends the
process on some malformed ones. Footers are kept per worker process, FOOTER_CACHE_BYTES of them. The rule:
what statistics, Bloom filters and dictionaries say may only prune.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cachetools
import pyarrow.parquet as pq

from twostage import storage
from twostage.errors import CorruptFileError
from twostage.files import file_schema
from twostage.files.datafile import DataFile, RowGroup, one_array
from twostage.parquet import filters
from twostage.parquet.footer import Footer, Leaf, read_footer, row_group_bounds
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence, Set as AbstractSet

    import pyarrow as pa

    from twostage.predicates.bounds import Bounds
    from twostage.predicates.predicate import Predicate

BATCH_BYTES = 64 * 2**20
"""Of one step of a stream, about: 65,536 rows of 40 kB would be 2.6 GB."""
LEAST_BATCH_ROWS = 64
FOOTER_CACHE_BYTES = 64 * 2**20
"""Footers of some 500 wide files; a footer is re-read in one or two requests when it was dropped."""

_footers: cachetools.LRUCache[tuple[str, int, int], tuple[Footer, Any]] = cachetools.LRUCache(
    # A parsed footer takes some eight times its bytes in the file, ours and pyarrow's together.
    FOOTER_CACHE_BYTES,
    getsizeof=lambda entry: 8 * (entry[0].file_size - entry[0].offset),
)


class ParquetDataFile(DataFile):
    """An open Parquet data file of a task."""

    def _open(self) -> None:
        size = self._file.size()
        key = (self.task.path, size, storage.modified(self.task.path))
        found = _footers.get(key)
        if found is None:
            footer = read_footer(self._file, size, self.task.path)
            found = (footer, pq.read_metadata(self._file))
            _footers[key] = found
        self._footer, metadata = found
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

    def bounds(self, row_group: RowGroup, field_id: int) -> Bounds | None:
        """Return what is known of a leaf's values in a row group; None if nothing is."""
        found = self._leaf(field_id)
        if found is None:
            return None
        leaf, kind = found
        return row_group_bounds(self._footer, self._footer.row_groups[row_group.index], leaf, kind)

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
