"""Columns of an ORC delete file, in batches.

Takes an open file and the leaves of the wanted fields; yields batches of Arrow arrays. `formats.orc` decodes a stripe at
once; this module selects the leaves, and cuts the stripe's arrays to batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twostage.deletes.files.wanted_fields import leaf_arrays, leaves_of
from twostage.formats.orc.schema import arrow_schema, meanings
from twostage.formats.orc.stripe import StripeReader
from twostage.formats.orc.tail import read_stripe_footer, read_tail

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from twostage.deletes.files.wanted_fields import LeafBatch
    from twostage.formats.file_schema import FileField
    from twostage.schema import Schema


class OrcColumns:
    """Decodes columns of one file.

    Args:
        file: The open file.
        size: Its size in bytes.
        table: The table's schema, which tells what some ORC types stand for.
        batch_rows: Rows of a batch.
        limit: Bytes that one array may take.

    Attributes:
        schema: The file's columns, in which fields are found.
    """

    def __init__(self, file: pa.NativeFile, size: int, table: Schema, batch_rows: int, limit: int) -> None:
        self._file = file
        self._tail = read_tail(file, size)
        self._table = table
        self._batch_rows = batch_rows
        self._limit = limit
        self.schema: pa.Schema = arrow_schema(self._tail.schema)

    def read(self, fields: Sequence[FileField], sources: Sequence[FileField | None]) -> Iterator[LeafBatch]:
        """Yield batches: the number of rows, and the arrays of the wanted fields by leaf."""
        leaves, tail = leaves_of(sources), self._tail
        for stripe in tail.stripes:
            if not leaves:
                yield stripe.num_rows, {}
                continue
            reader = StripeReader(
                self._file,
                tail,
                stripe,
                read_stripe_footer(self._file, tail, stripe),
                meanings=dict(meanings(tail.schema.children, fields, self._table)),
                limit=self._limit,
            )
            columns = reader.read(fields, set(leaves))
            arrays = dict(zip(leaves, (leaf for c in columns for leaf in leaf_arrays(c)), strict=True))
            for start in range(0, stripe.num_rows, self._batch_rows):
                rows = min(self._batch_rows, stripe.num_rows - start)
                yield rows, {leaf: array.slice(start, rows) for leaf, array in arrays.items()}
