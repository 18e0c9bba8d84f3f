"""How many rows positional deletes remove, counted in the driver where nothing else keeps metadata from answering.

Takes data files with their positional delete files; gives the number of deleted rows of each. The rule: the driver
reads delete files only, never a data file, and only as many as take no longer than starting tasks would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twostage.deletes.positions.position_deletes import MAX_ROWS_TO_READ_WHOLE, load_positions
from twostage.deletes.positions.read_together import read_together
from twostage.metrics import Metrics
from twostage.planning.name_mapping import parse_name_mapping
from twostage.task import DataFileWithDeletes, TableContext

if TYPE_CHECKING:
    from collections.abc import Iterable

    from twostage.options import ReadOptions
    from twostage.table.manifest_entry import ContentFile
    from twostage.table.pinned import PinnedTable
    from twostage.task import DeleteFile

MAX_POSITIONS = 2**20
"""Deleted positions that the driver reads: 0.1 s."""
MAX_PAIRS = 50_000
"""Pairs of a data file and a delete file that may name it: 5 us each, however few rows it deletes."""


class WantedDeletes:
    """The delete files that some data files need, and whether these are too many for the driver.

    Args:
        max_files: How many it may read.
        max_positions: How many positions of positional delete files; None: MAX_POSITIONS, those of vectors too.
    """

    def __init__(self, max_files: int, max_positions: int | None = None) -> None:
        self._max_files = max_files
        self._max_rows = MAX_POSITIONS if max_positions is None else max_positions
        self._counts_vectors = max_positions is None
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
            # A large one is read again for each data file.
            if name not in self._known or delete.record_count > MAX_ROWS_TO_READ_WHOLE:
                self._known.add(name)
                self._rows += delete.record_count * (self._counts_vectors or delete.content != "vector")

    @property
    def too_much(self) -> str | None:
        """Why the driver does not read them; None if it may."""
        if self._rows > self._max_rows:
            return f"more than {self._max_rows:,} rows are deleted"
        if len(self) > self._max_files:
            return f"more than {self._max_files:,} delete files would have to be read first"
        if self._pairs > MAX_PAIRS:
            return f"deleted rows would have to be looked up more than {MAX_PAIRS:,} times first"
        return None


class PositionDeleteCounts:
    """Counts the rows that positional delete files delete, and in `metrics` what that took."""

    def __init__(self, table: PinnedTable, options: ReadOptions) -> None:
        self.metrics = Metrics()
        self._context = TableContext(
            schema=table.schema,
            name_mapping=parse_name_mapping(table.metadata),
            storage=table.storage,
            settings=options.settings,
        )

    def counts(self, files: Iterable[tuple[ContentFile, tuple[DeleteFile, ...]]]) -> list[int]:
        """Return how many rows of each data file its positional delete files delete; they are read together.

        Raises:
            TwoStageError: A delete file is not there, damaged or too large.
        """
        tasks = [_with_deletes(file, deletes) for file, deletes in files]
        with self.metrics.timed("deletes"), read_together(self._context, tasks) as contents:
            return [load_positions(self._context, task, self.metrics, contents).count for task in tasks]


def _with_deletes(file: ContentFile, deletes: tuple[DeleteFile, ...]) -> DataFileWithDeletes:
    return DataFileWithDeletes(written_path=file.path, record_count=file.record_count, deletes=deletes)
