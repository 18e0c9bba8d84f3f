"""Columns of an Avro delete file, in batches.

Takes an open file and the leaves of the wanted fields; yields batches of Arrow arrays whose types follow the logical types
of the file's schema. `formats.avro.columns` converts Avro to Arrow arrays, for data files and delete files
alike; this module selects the leaves and how much is read at once: the whole file, decoded one block at a
time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from twostage.deletes.files.wanted_fields import leaf_arrays, leaves_of
from twostage.errors import ResourceLimitError
from twostage.formats.avro import columns
from twostage.formats.avro.container import MALFORMED, open_avro
from twostage.formats.avro.schema import arrow_schema, parse_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from twostage.deletes.files.wanted_fields import LeafBatch
    from twostage.formats.file_schema import FileField


class AvroColumns:
    """Decodes columns of one file.

    Args:
        file: The open file.
        size: Its size in bytes.
        path: Its location, for errors.
        batch_rows: Rows of a batch.
        limit: Bytes that the file, and what its blocks decompress to, may take.

    Attributes:
        schema: The file's columns, in which fields are found.

    Raises:
        CorruptFileError: Not a complete Avro file.
        ResourceLimitError: The file is larger than the task's memory.
    """

    def __init__(self, file: pa.NativeFile, size: int, path: str, batch_rows: int, limit: int) -> None:
        if size > limit:
            raise ResourceLimitError(
                "DELETE_FILE_TOO_LARGE",
                f"Avro delete file is larger than the task's budget: {size} bytes",
                path=path,
                stage="deletes",
                hint="Raise the option 'task-memory'.",
            )
        self._batch_rows = batch_rows
        self._limit = limit
        self._avro = open_avro(bytes(file.read_at(size, 0)), path=path, code="CORRUPT_DELETE_FILE")
        try:
            self._root = parse_schema(self._avro.schema)
            self.schema: pa.Schema = arrow_schema(self._root)
        except MALFORMED as error:
            raise self._avro.corrupt(f"Avro file is malformed: {error!r}") from error

    def read(self, fields: Sequence[FileField], sources: Sequence[FileField | None]) -> Iterator[LeafBatch]:
        """Yield batches: the number of rows, and the arrays of the wanted fields by leaf."""
        leaves, avro = leaves_of(sources), self._avro
        decoder = columns.AvroColumns(self._root, fields)
        for block in avro.blocks:
            try:
                decoded = decoder.decode(replace(avro, blocks=(block,)), set(leaves), limit=self._limit)
                flat = (leaf for column in decoded for leaf in leaf_arrays(column))
                arrays = dict(zip(leaves, flat, strict=True))
            except MALFORMED as error:
                raise avro.corrupt(f"Avro file is malformed: {error!r}") from error
            num_rows = block[0]
            for start in range(0, num_rows, self._batch_rows):
                rows = min(self._batch_rows, num_rows - start)
                yield rows, {leaf: array.slice(start, rows) for leaf, array in arrays.items()}
