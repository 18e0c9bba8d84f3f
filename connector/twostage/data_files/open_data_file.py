"""Opens a data file by its format.

Takes a `ScanTask`; returns the `DataFile` that reads its format. A worker imports the readers of ORC and Avro
only when it opens such a file: that takes 15 ms, with what they import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twostage.data_files.parquet_file import ParquetDataFile

if TYPE_CHECKING:
    from twostage.data_files.data_file import DataFile
    from twostage.metrics import Metrics
    from twostage.storage.task_reads import TaskReads
    from twostage.task import ScanContext, ScanTask


def open_data_file(
    context: ScanContext, task: ScanTask, metrics: Metrics, reads: TaskReads | None = None
) -> DataFile:
    """Open the task's data file. Use the result as a context manager: it closes the file.

    Args:
        context: The scan.
        task: The task whose data file to open.
        metrics: Gains ``time.open`` and ``bytes.read``.
        reads: Reads a remote file; None: pyarrow's file system does.

    Raises:
        MissingFileError: There is no such file.
        CorruptFileError: Its own metadata is damaged.
    """
    if task.format == "orc":
        from twostage.data_files.orc_file import OrcDataFile  # noqa: PLC0415

        return OrcDataFile(context, task, metrics, reads)
    if task.format == "avro":
        from twostage.data_files.avro_file import AvroDataFile  # noqa: PLC0415

        return AvroDataFile(context, task, metrics, reads)
    return {"parquet": ParquetDataFile}[task.format](context, task, metrics, reads)
