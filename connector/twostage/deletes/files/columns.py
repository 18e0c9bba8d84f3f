"""Columns of delete files, in Parquet, ORC or Avro, as Arrow arrays.

Takes a `DeleteFile` and the wanted fields; yields batches of arrays as the file stores them (callers widen
narrower types), None for a field that the file lacks. The rules: fields are found by id, and by name only if
the file has no ids; every row that the file declares is returned, or a typed error is raised.
Source: Iceberg table spec, "Delete Formats".
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from twostage.deletes.files.contents import MAX_WHOLE_FILE_BYTES
from twostage.deletes.files.wanted_fields import ALL_ROWS, STAGE, corrupt, resolve
from twostage.errors import TwoStageError, mask
from twostage.formats.file_schema import identify
from twostage.storage import files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from twostage.deletes.files.avro import AvroColumns
    from twostage.deletes.files.orc import OrcColumns
    from twostage.deletes.files.parquet import ParquetColumns
    from twostage.deletes.files.wanted_fields import NeededRows, WantedField
    from twostage.metrics import Metrics
    from twostage.task import DeleteFile, TableContext

BATCH_ROWS = 65_536
Columns = list["pa.Array | None"]


def read_columns(
    context: TableContext,
    delete: DeleteFile,
    wanted: Sequence[WantedField],
    metrics: Metrics,
    *,
    needed: NeededRows = ALL_ROWS,
    content: bytes | memoryview | None = None,
) -> Iterator[tuple[int, Columns]]:
    """Yield batches: the number of rows, and an array (or None) for each wanted field.

    Args:
        context: Storage, name mapping and settings.
        delete: The file.
        wanted: The wanted fields, at least one.
        metrics: Gains ``delete_files.opened``.
        needed: Which rows the caller needs: row groups of Parquet that hold none are skipped.
        content: The file's bytes, if they were fetched ahead.

    Yields:
        Rows of the batch, and one array for each wanted field.

    Raises:
        CorruptFileError: The bytes are wrong, or a field appears twice.
        MissingFileError: The file is not in storage.
        StorageError: The transport failed.
    """
    metrics.add("delete_files.opened")
    settings = context.settings
    columns: ParquetColumns | OrcColumns | AvroColumns
    with _errors_of(context, delete), _opened(context, delete, content) as (file, size):
        match delete.format.lower():  # each is imported where it is needed: that takes up to 20 ms
            case "parquet":
                from twostage.deletes.files.parquet import ParquetColumns  # noqa: PLC0415

                verify = settings.verify_checksums
                columns = ParquetColumns(
                    file, size, delete, wanted, needed, BATCH_ROWS, verify_checksums=verify
                )
            case "orc":
                from twostage.deletes.files.orc import OrcColumns  # noqa: PLC0415

                columns = OrcColumns(file, size, context.schema, BATCH_ROWS, settings.memory_budget)
            case "avro":
                from twostage.deletes.files.avro import AvroColumns  # noqa: PLC0415

                columns = AvroColumns(file, size, delete.path, BATCH_ROWS, settings.memory_budget)
            case other:
                raise corrupt(delete, f"Delete file has a format that cannot hold its content: {other}")
        fields = identify(columns.schema, context.name_mapping or (), path=delete.path)
        sources = resolve(fields, delete, wanted)
        for rows, arrays in columns.read(fields, sources):
            yield rows, [source and arrays[source.first_leaf] for source in sources]


@contextmanager
def _opened(
    context: TableContext, delete: DeleteFile, content: bytes | memoryview | None
) -> Iterator[tuple[pa.NativeFile, int]]:
    if content is not None:
        yield pa.BufferReader(pa.py_buffer(content)), len(content)
        return
    with files.open_file(context.storage, delete.path) as opened:
        size = opened.size()
        yield (pa.BufferReader(opened.read_at(size, 0)) if 0 < size <= MAX_WHOLE_FILE_BYTES else opened), size


@contextmanager
def _errors_of(context: TableContext, delete: DeleteFile) -> Iterator[None]:
    """Set the stage of deletes, and the file's path, on each error that leaves the block."""
    try:
        with files.translate_errors(delete.path, STAGE, storage=context.storage):
            yield
    except TwoStageError as error:
        if error.path is None or error.stage not in ("storage", STAGE):
            # The decoders are shared with planning and data files, and the ORC decoder does not know which
            # file it reads.
            error.path = error.path or mask(delete.path)
            error.stage = error.stage if error.stage == "storage" else STAGE
            error.args = (str(error),)
        raise
