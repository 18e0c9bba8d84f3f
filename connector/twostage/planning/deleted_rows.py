"""Rows deleted by position, read while planning: where their number, or which they are, is all that is lacking.

Takes data files with their positional delete files; gives how many rows of each are deleted. The rule: the driver
reads delete files only, and only so many that it takes it no longer than starting tasks would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twostage.deletes.position import load_positions
from twostage.metrics import Metrics
from twostage.planning.name_mapping import parse_name_mapping
from twostage.task import ScanContext, ScanTask

if TYPE_CHECKING:
    from collections.abc import Iterable

    from twostage.options import ReadOptions
    from twostage.table.catalog import PinnedTable
    from twostage.table.manifest import ContentFile
    from twostage.task import DeleteFile

MOST_DELETED = 2**20
"""Positions: 0.1 s."""


def distinct(deletes: Iterable[DeleteFile]) -> list[DeleteFile]:
    """Return each delete file, and each vector, once."""
    return list({(delete.path, delete.content_offset): delete for delete in deletes}.values())


def too_much(deletes: list[DeleteFile], most_files: int) -> str | None:
    """Return why the driver does not read these delete files, each given once."""
    if sum(delete.record_count for delete in deletes) > MOST_DELETED:
        return f"more than {MOST_DELETED:,} rows are deleted"
    return f"{len(deletes)} delete files would have to be read first" if len(deletes) > most_files else None


class DeletedRows:
    """Counts the deleted rows of data files, and in `metrics` what that took."""

    def __init__(self, table: PinnedTable, options: ReadOptions) -> None:
        self.metrics = Metrics()
        self._context = ScanContext(
            scan_id="",
            table=table.name,
            snapshot_id=None if table.snapshot is None else table.snapshot.snapshot_id,
            schema=table.schema,
            projection=(),
            name_mapping=parse_name_mapping(table.metadata),
            storage=table.storage,
            settings=options.settings,
        )

    def count(self, file: ContentFile, deletes: tuple[DeleteFile, ...]) -> int:
        """Return how many rows of a data file these positional delete files delete.

        Raises:
            TwoStageError: A delete file is not there, damaged or too large.
        """
        task = ScanTask(
            path=file.path,  # not opened
            written_path=file.path,
            format=file.format,
            file_size=file.file_size,
            record_count=file.record_count,
            start=0,
            length=file.file_size,
            sequence_number=file.sequence_number,
            spec_id=file.spec_id,
            deletes=deletes,
        )
        with self.metrics.timed("deletes"):
            return load_positions(self._context, task, self.metrics).count
