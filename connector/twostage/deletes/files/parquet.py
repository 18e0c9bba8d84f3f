"""Columns of a Parquet delete file: which row groups to read, and batches of them.

Takes an open file and the leaves of the wanted fields; yields batches of Arrow arrays. The rule: a row group is skipped only
if its bounds or Bloom filters prove that the caller needs no row of it, or if no value of the field that is read first may
match.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from twostage.deletes.files.wanted_fields import corrupt, leaf_arrays, leaves_of
from twostage.formats.parquet.arrow_footer import arrow_footer
from twostage.formats.parquet.filters import prune_by_bloom
from twostage.formats.parquet.footer import read_footer
from twostage.formats.parquet.statistics import row_group_bounds
from twostage.predicates.predicate import TRUE, columns as columns_of
from twostage.predicates.prune import Match, match
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from twostage.deletes.files.wanted_fields import LeafBatch, NeededRows, WantedField
    from twostage.formats.file_schema import FileField
    from twostage.formats.parquet.file_metadata import RowGroupMetadata
    from twostage.formats.parquet.schema_tree import Leaf
    from twostage.predicates.bounds import Bounds
    from twostage.predicates.predicate import Predicate
    from twostage.task import DeleteFile


class ParquetColumns:
    """Decodes columns of one file.

    Args:
        file: The open file.
        size: Its size in bytes.
        delete: The same file, for errors.
        wanted: The wanted fields.
        needed: Which of its rows are needed.
        batch_rows: Rows that are decoded at once.
        verify_checksums: Whether pages' checksums are verified.

    Attributes:
        schema: The file's columns, in which fields are found.
    """

    def __init__(
        self,
        file: pa.NativeFile,
        size: int,
        delete: DeleteFile,
        wanted: Sequence[WantedField],
        needed: NeededRows,
        batch_rows: int,
        *,
        verify_checksums: bool,
    ) -> None:
        self._file = file
        self._delete = delete
        self._wanted = wanted
        self._needed = needed
        self._batch_rows = batch_rows
        # Checked before pyarrow sees the file: some bad footers make it abort the process.
        self._footer, metadata = arrow_footer(read_footer(file, size, delete.path), delete.path)
        present = {leaf.path for leaf in self._footer.leaves}
        self._parquet = pq.ParquetFile(
            file,
            metadata=metadata,
            coerce_int96_timestamp_unit="us",
            read_dictionary=[
                field.names[0] for field in wanted if field.dictionary and field.names in present
            ],
            arrow_extensions_enabled=False,
            page_checksum_verification=verify_checksums,
        )
        self.schema: pa.Schema = self._parquet.schema_arrow

    def read(
        self,
        fields: Sequence[FileField],  # noqa: ARG002 - of other formats, which find columns by it
        sources: Sequence[FileField | None],
    ) -> Iterator[LeafBatch]:
        """Yield batches: the number of rows, and the arrays of the wanted fields by leaf."""
        leaves = leaves_of(sources)
        if leaves and leaves[-1] >= len(self._footer.leaves):
            raise corrupt(self._delete, "Delete file's columns do not match its footer")
        for group in self._footer.row_groups:
            if not leaves:
                yield group.num_rows, {}
            elif self._may_be_needed(group, sources):
                yield from self._decode(group, leaves)

    def _may_be_needed(self, group: RowGroupMetadata, sources: Sequence[FileField | None]) -> bool:
        needed, footer = self._needed, self._footer
        if needed.may_hold is not None and sources[0] is not None:
            leaf = footer.leaves[sources[0].first_leaf]
            if not needed.may_hold(row_group_bounds(footer, group, leaf, Primitive("string"))):
                return False
        if needed.predicate is not None and needed.predicate != TRUE:
            found = {
                field.field_id: footer.leaves[source.first_leaf]
                for field, source in zip(self._wanted, sources, strict=True)
                if source is not None
            }
            if self._cannot_hold(group, needed.predicate, found):
                return False
        first = None if needed.first is None else sources[needed.first]
        if first is None or needed.may_match is None:
            return True
        leaf_number = first.first_leaf
        return any(needed.may_match(arrays[leaf_number]) for _, arrays in self._decode(group, [leaf_number]))

    def _cannot_hold(self, group: RowGroupMetadata, predicate: Predicate, found: Mapping[int, Leaf]) -> bool:
        """Tell whether statistics or Bloom filters prove that no row of a row group makes the predicate true."""
        kinds = {column.field_id: column.type for column in columns_of(predicate)}

        def leaf_of(field_id: int) -> tuple[Leaf, Primitive] | None:
            leaf, kind = found.get(field_id), kinds.get(field_id)
            return (leaf, kind) if leaf is not None and isinstance(kind, Primitive) else None

        def bounds_of(field_id: int) -> Bounds | None:
            source = leaf_of(field_id)
            return None if source is None else row_group_bounds(self._footer, group, *source)

        if match(predicate, bounds_of, group.num_rows) is Match.NONE:
            return True
        return prune_by_bloom(self._file, self._footer, group, predicate, leaf_of, self._delete.path)

    def _decode(self, group: RowGroupMetadata, leaves: list[int]) -> Iterator[LeafBatch]:
        rows = 0
        reader = self._parquet.reader
        for batch in reader.iter_batches(self._batch_rows, [group.index], leaves, use_threads=False):
            arrays = (leaf for column in batch.columns for leaf in leaf_arrays(column))
            yield batch.num_rows, dict(zip(leaves, arrays, strict=True))
            rows += batch.num_rows
        if rows != group.num_rows:  # pyarrow stops silently if pages hold fewer values than the footer says
            raise corrupt(
                self._delete, f"Row group {group.index} holds {group.num_rows} rows, decoded {rows}"
            )
