"""Columns of Avro delete files as Arrow arrays, values as stored.

Takes an open file and the fields wanted of it; gives batches of arrays whose Arrow types follow the logical
types of the file's schema. The rule: schemas are understood as those of data files are (`formats.avro.columns`), so
that whatever a writer says of columns that nobody wants is skipped. Records pass through Python dictionaries, one
block at a time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from twostage.deletes.files.wanted_fields import leaf_arrays, resolve
from twostage.errors import ResourceLimitError
from twostage.formats import file_schema
from twostage.formats.avro.columns import arrow_schema, parse_schema, read_schema, to_arrow
from twostage.formats.avro.container import MALFORMED, open_avro, read_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from twostage.deletes.files.wanted_fields import WantedField
    from twostage.task import DeleteFile, ScanContext


def read_avro(
    file: pa.NativeFile,
    size: int,
    context: ScanContext,
    delete: DeleteFile,
    wanted: Sequence[WantedField],
    batch_rows: int,
) -> Iterator[tuple[int, list[pa.Array | None]]]:
    """Yield batches: the number of rows, and an array (or None) for each wanted field.

    Raises:
        CorruptFileError: Not a whole Avro file, or a field appears twice.
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
    fields = file_schema.identify(shape, context.name_mapping or (), path=delete.path)
    sources = resolve(shape, context, delete, wanted)
    leaves = sorted({source.first_leaf for source in sources if source is not None})
    for block in avro.blocks:
        # Without a wanted field, too: a block must hold the records that it announces.
        projection = read_schema(root, fields, set(leaves)) if leaves else None
        whole = replace(avro, blocks=(block,))
        records = read_records(whole, read_schema(root, fields), projection, limit=limit)
        try:
            columns = to_arrow(root, fields, set(leaves), records)
            arrays = dict(
                zip(leaves, (leaf for column in columns for leaf in leaf_arrays(column)), strict=True)
            )
        except MALFORMED as error:
            raise avro.corrupt(f"Avro file is malformed: {error!r}") from error
        for start in range(0, len(records), batch_rows):
            parts = [source and arrays[source.first_leaf].slice(start, batch_rows) for source in sources]
            yield min(batch_rows, len(records) - start), parts
