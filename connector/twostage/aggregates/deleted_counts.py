"""Rows deleted by position, read while planning: where their number, or which they are, is all that is lacking.

Takes data files with their positional delete files; gives how many rows of each are deleted. The rule: the driver
reads delete files only, and only so many that it takes it no longer than starting tasks would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twostage.deletes.positions.position_deletes import LARGE_ROWS, keep_ahead, load_positions
from twostage.metrics import Metrics
from twostage.planning.name_mapping import parse_name_mapping
from twostage.task import ScanContext, ScanTask

if TYPE_CHECKING:
    from collections.abc import Iterable

    from twostage.options import ReadOptions
    from twostage.table.manifest_entry import ContentFile
    from twostage.table.pinned import PinnedTable
    from twostage.task import DeleteFile

MOST_DELETED = 2**20
"""Positions: 0.1 s."""
MOST_PAIRS = 50_000
"""Of a data file and a delete file that may name it: 5 us each, however few rows it deletes."""


class WantedDeletes:
    """The delete files that data files ask for, and whether these are too many for the driver.

    Args:
        most_files: How many it may read.
        most_positions: How many positions of positional delete files; None: MOST_DELETED, those of vectors too.
    """

    def __init__(self, most_files: int, most_positions: int | None = None) -> None:
        self._most_files = most_files
        self._most_rows = MOST_DELETED if most_positions is None else most_positions
        self._counts_vectors = most_positions is None
        self._known: set[tuple[str, int]] = set()
        self._rows = self._pairs = 0

    def __len__(self) -> int:
        """Return how many delete files there are, each and each vector counted once."""
        return len(self._known)

    def add(self, deletes: Iterable[DeleteFile]) -> None:
        """Take note of the deletes of one data file."""
        for delete in deletes:
            self._pairs += 1
            name = (delete.path, delete.content_offset)
            # A large one is read once for each data file.
            if name not in self._known or delete.record_count > LARGE_ROWS:
                self._known.add(name)
                self._rows += delete.record_count * (self._counts_vectors or delete.content != "vector")

    @property
    def too_much(self) -> str | None:
        """Why the driver does not read them; None if it may."""
        if self._rows > self._most_rows:
            return f"more than {self._most_rows:,} rows are deleted"
        if len(self) > self._most_files:
            return f"more than {self._most_files:,} delete files would have to be read first"
        if self._pairs > MOST_PAIRS:
            return f"deleted rows would have to be looked up more than {MOST_PAIRS:,} times first"
        return None


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

    def keep_ahead(self, files: Iterable[tuple[ContentFile, tuple[DeleteFile, ...]]]) -> None:
        """Read the delete files of these data files, many at the same time where they are remote.

        Raises:
            TwoStageError: A delete file is not there, damaged or too large.
        """
        with self.metrics.timed("deletes"):
            keep_ahead(self._context, (_task(file, deletes) for file, deletes in files), self.metrics)

    def count(self, file: ContentFile, deletes: tuple[DeleteFile, ...]) -> int:
        """Return how many rows of a data file these positional delete files delete.

        Raises:
            TwoStageError: A delete file is not there, damaged or too large.
        """
        with self.metrics.timed("deletes"):
            return load_positions(self._context, _task(file, deletes), self.metrics).count


def _task(file: ContentFile, deletes: tuple[DeleteFile, ...]) -> ScanTask:
    return ScanTask(
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
