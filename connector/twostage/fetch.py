"""Stage two: the select columns, for the rows that live.

Takes an open data file, a row group and its surviving rows; gives record batches of the scan's Arrow
schema, each at most `batch_size` rows. What stage one decoded is not read again. The rule: rows come out
in file order, each survivor exactly once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from twostage.columns import arrow_schema
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from twostage.datafile import DataFile, RowGroup
    from twostage.selection import Selection


def fetch_columns(
    data_file: DataFile,
    row_group: RowGroup,
    selection: Selection,
    decoded: Mapping[int, pa.Array],
) -> Iterator[pa.RecordBatch]:
    """Yield the projection of the live rows.

    Args:
        decoded: Whole-row-group arrays by field id that stage one left; columns among them are reused.
    """
    context = data_file.context
    projection, batch_size = context.projection, context.settings.batch_size
    schema = arrow_schema(projection)
    if not projection:
        yield from without_columns(selection.count, batch_size)
        return
    # Only leaves: stage one cuts a struct down to what its test needs.
    reused = {f.id for f in projection if f.id in decoded and isinstance(f.type, Primitive)}
    missing = [field for field in projection if field.id not in reused]
    batches = data_file.stream(row_group, missing, batch_size) if missing else None

    def survivors() -> Iterator[pa.RecordBatch]:
        for start in range(0, row_group.num_rows, batch_size):
            # A row group streams all of its columns in the same steps of `batch_size` rows.
            fetched = iter(next(batches) if batches else ())
            length = min(batch_size, row_group.num_rows - start)
            alive = selection.slice(start, length)
            arrays = [
                decoded[field.id].slice(start, length) if field.id in reused else next(fetched)
                for field in projection
            ]
            if alive.count:
                yield only(pa.RecordBatch.from_arrays(arrays, schema=schema), alive)
        if batches is not None:
            for _ in batches:  # lets the reader check that it decoded every row
                pass

    yield from joined(survivors(), batch_size)


def only(batch: pa.RecordBatch, alive: Selection) -> pa.RecordBatch:
    """Return the live rows of a batch."""
    return batch if alive.mask is None else batch.filter(pa.array(alive.mask))


def joined(batches: Iterator[pa.RecordBatch], batch_size: int) -> Iterator[pa.RecordBatch]:
    """Join small batches: Spark pays per batch, and a needle leaves a few rows in each."""
    pending: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if pending and rows + batch.num_rows > batch_size:
            yield pa.concat_batches(pending)
            pending, rows = [], 0
        pending.append(batch)
        rows += batch.num_rows
    if pending:
        yield pending[0] if len(pending) == 1 else pa.concat_batches(pending)


def without_columns(num_rows: int, batch_size: int) -> Iterator[pa.RecordBatch]:
    """Yield batches that have rows and no column: all that ``count(*)`` needs."""
    while num_rows > 0:
        count = min(num_rows, batch_size)
        empty = pa.Array.from_buffers(pa.struct([]), count, [None])
        yield pa.RecordBatch.from_struct_array(empty)
        num_rows -= count
