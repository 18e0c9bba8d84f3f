"""Avro delete files: which fields to read, and batches of them.

Takes an open file and the wanted fields; yields batches of Arrow arrays whose types follow the logical types
of the file's schema. `formats.avro.columns` converts Avro to Arrow arrays, for data files and delete files
alike; this module selects the leaves and how much is read at once: the whole file, decoded one block at a
time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from twostage.deletes.files.wanted_fields import leaf_arrays, resolve
from twostage.errors import ResourceLimitError
from twostage.formats import file_schema
from twostage.formats.avro.columns import AvroColumns
from twostage.formats.avro.container import MALFORMED, open_avro
from twostage.formats.avro.schema import arrow_schema, parse_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from twostage.deletes.files.wanted_fields import WantedField
    from twostage.task import DeleteFile, TableContext


def read_avro(
    file: pa.NativeFile,
    size: int,
    context: TableContext,
    delete: DeleteFile,
    wanted: Sequence[WantedField],
    batch_rows: int,
) -> Iterator[tuple[int, list[pa.Array | None]]]:
    """Yield batches: the number of rows, and an array (or None) for each wanted field.

    Raises:
        CorruptFileError: Not a complete Avro file, or a field appears twice.
        ResourceLimitError: The file is larger than the task's memory.
    """
    limit = context.settings.memory_budget
    if size > limit:
        raise ResourceLimitError(
            "DELETE_FILE_TOO_LARGE",
            f"Avro delete file is larger than the task's budget: {size} bytes",
            path=delete.path,
            stage="deletes",
            hint="Raise the option 'task-memory'.",
        )
    avro = open_avro(bytes(file.read_at(size, 0)), path=delete.path, code="CORRUPT_DELETE_FILE")
    try:
        root = parse_schema(avro.schema)
        shape = arrow_schema(root)
    except MALFORMED as error:
        raise avro.corrupt(f"Avro file is malformed: {error!r}") from error
    columns = AvroColumns(root, file_schema.identify(shape, context.name_mapping or (), path=delete.path))
    sources = resolve(shape, context, delete, wanted)
    leaves = sorted({source.first_leaf for source in sources if source is not None})
    for block in avro.blocks:
        try:
            decoded = columns.decode(replace(avro, blocks=(block,)), set(leaves), limit=limit)
            flat = (leaf for column in decoded for leaf in leaf_arrays(column))
            arrays = dict(zip(leaves, flat, strict=True))
        except MALFORMED as error:
            raise avro.corrupt(f"Avro file is malformed: {error!r}") from error
        num_rows = block[0]
        for start in range(0, num_rows, batch_rows):
            parts = [source and arrays[source.first_leaf].slice(start, batch_rows) for source in sources]
            yield min(batch_rows, num_rows - start), parts
