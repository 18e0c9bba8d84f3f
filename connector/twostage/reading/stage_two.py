"""Stage two: fetches the select columns of the live rows.

Takes an open data file, a row group and its live rows; yields record batches of the scan's Arrow schema, of
at most `batch_size` rows each. Columns that stage one decoded are not read again. The rule: rows are returned
in file order, each live row exactly once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from twostage.columns import arrow_schema, arrow_type, without_columns
from twostage.formats.promotion import MAX_TEXT_BYTES
from twostage.reading.aligned_columns import longest_text, plain
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from twostage.data_files.data_file import DataFile
    from twostage.data_files.row_group import RowGroup
    from twostage.reading.aligned_columns import LiveColumns
    from twostage.selection import Selection


MAX_JOINED_BYTES = 32 * 2**20
"""Of joined batches: without this limit, rows of 1 MB would pile up in memory until there are 65,536."""


def fetch_columns(data_file: DataFile, row_group: RowGroup, columns: LiveColumns) -> Iterator[pa.RecordBatch]:
    """Yield the projection of the live rows; columns that stage one read are not read again."""
    context = data_file.context
    projection, batch_size = context.projection, context.settings.batch_size
    if (
        context.limit is not None
    ):  # more would be fetched for nothing: `show()` of a row group of 1 M rows needs 21
        columns.keep_first(context.limit)
    schema = arrow_schema(projection)
    if not projection:
        yield from without_columns(columns.live.count, batch_size)
        return
    read = columns.read_columns()
    # Only leaves: stage one prunes a struct to the fields that it tests. Text beyond 2 GiB has other offsets.
    reused = {
        f.id
        for f in projection
        if isinstance(f.type, Primitive)
        and f.id in read
        and _serves(read[f.id], arrow_type(f.type), batch_size)
    }
    columns.forget_all_but(reused)
    columns.condense(force=True)
    kept, selection = columns.read_columns(), columns.selection()
    missing = [field for field in projection if field.id not in reused]
    width = sum(_bytes_of_a_row(array) for array in kept.values())
    max_rows = min(batch_size, max(1, MAX_JOINED_BYTES // width)) if width else batch_size
    steps: Iterator[list[pa.Array]] = (
        data_file.select(row_group, missing, selection, max_rows)
        if missing
        else ([] for _ in range(0, selection.count, max_rows))
    )

    def survivors() -> Iterator[pa.RecordBatch]:
        start = 0
        for arrays in steps:
            length = len(arrays[0]) if arrays else min(max_rows, selection.count - start)
            fetched = iter(arrays)
            parts = [
                plain(kept[field.id].slice(start, length)) if field.id in reused else next(fetched)
                for field in projection
            ]
            start += length
            yield pa.RecordBatch.from_arrays(parts, schema=schema)

    yield from joined(survivors(), batch_size)


def _bytes_of_a_row(array: pa.Array) -> int:
    """Estimate the bytes that a value takes in a batch: the average, or the maximum if it is dictionary-encoded."""
    if isinstance(array, pa.DictionaryArray):
        return longest_text(array)
    return int(array.nbytes) // max(1, len(array))


def _serves(array: pa.Array, kind: pa.DataType, batch_size: int) -> bool:
    """Tell whether batches of an array, once dictionaries are decoded, have this type."""
    if not isinstance(array, pa.DictionaryArray):
        return bool(array.type == kind)
    fits = longest_text(array) * min(batch_size, len(array)) <= MAX_TEXT_BYTES
    return bool(array.type.value_type == kind and fits)


def only(batch: pa.RecordBatch, live: Selection) -> pa.RecordBatch:
    """Return the live rows of a batch."""
    return batch if live.mask is None else batch.filter(pa.array(live.mask))


def joined(batches: Iterator[pa.RecordBatch], batch_size: int) -> Iterator[pa.RecordBatch]:
    """Join small batches: Spark has a cost per batch, and a selective filter leaves few rows in each."""
    pending: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if pending:
            size += pending[-1].nbytes  # only if another batch follows: with 120 columns this takes 0.2 ms
            if rows + batch.num_rows > batch_size or size + batch.nbytes > MAX_JOINED_BYTES:
                yield pa.concat_batches(pending)
                pending, rows, size = [], 0, 0
        pending.append(batch)
        rows += batch.num_rows
    if pending:
        yield pending[0] if len(pending) == 1 else pa.concat_batches(pending)
