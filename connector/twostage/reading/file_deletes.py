"""The deletes of data files, from delete files of every kind.

Takes `ScanTask`s; returns for each the positions that positional deletes and deletion vectors remove, and the
equality deletes: as positions if they were compiled before, else as an anti-join, with a recorder that
compiles them during the scan.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from twostage.deletes.anti_join.choose import TaskDeletes
from twostage.deletes.compiled.find import CompiledDeletes, CompiledFinder
from twostage.deletes.positions.position_deletes import DeletedPositions, ask_for_positions, load_positions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from twostage.data_files.row_group import RowGroup
    from twostage.deletes.files.contents import DeletesAhead
    from twostage.metrics import Metrics
    from twostage.task import ScanContext, ScanTask


@dataclass(frozen=True, slots=True, eq=False)
class FileDeletes:
    """The deletes of one data file.

    Attributes:
        positions: Rows that positional deletes or a deletion vector remove.
        compiled_positions: Rows that equality deletes remove, if these were compiled; `equality` is then
            empty.
        equality: Equality deletes, still to be applied.
        compiled: Compiles them during the scan, if the result is stored anywhere.
    """

    positions: DeletedPositions
    compiled_positions: DeletedPositions
    equality: TaskDeletes
    compiled: CompiledDeletes

    def cleared(self) -> FileDeletes:
        """Return deletes that remove nothing, for a scan that shows deleted rows."""
        none = DeletedPositions()
        return replace(self, positions=none, compiled_positions=none, equality=self.equality.none())

    def recorded(self, row_groups: Iterable[RowGroup]) -> Iterable[RowGroup]:
        """Return the row groups; if deletes are being compiled, all rows must be recorded for a complete result."""
        return self.compiled.row_groups(row_groups)

    def finish(self, metrics: Metrics) -> None:
        """Store the compiled deletes if every row was recorded. To be called once all row groups have been read."""
        self.compiled.finish(metrics)


class DeleteLoader:
    """Loads the deletes of a Spark task's data files.

    Args:
        context: The scan.
        metrics: Gains ``time.deletes`` and the counters of what is read.
        ahead: How a task that reads several data files at the same time reads remote delete files.
    """

    def __init__(self, context: ScanContext, metrics: Metrics, ahead: DeletesAhead | None = None) -> None:
        self._context = context
        self._metrics = metrics
        self._ahead = ahead
        self.contents = None if ahead is None else ahead.contents
        """Reads remote delete files, if the task schedules its own reads."""
        self.compiled = CompiledFinder(context, metrics)

    def ask(self, task: ScanTask) -> None:
        """Request the positions and compiled deletes that `load` will read of remote files; returns at once."""
        if self.contents is not None:
            ask_for_positions(self._context, task, self.contents)
            self.compiled.ask_for_compiled(task, self.contents)

    def load(self, task: ScanTask) -> FileDeletes:
        """Load the positions of a task's data file; equality-delete files are opened once rows remain to be probed.

        Raises:
            CorruptFileError: A delete file's bytes or values are wrong.
            ResourceLimitError: The positions take more than the task's memory.
        """
        with self._metrics.timed("deletes"):
            positions = load_positions(self._context, task, self._metrics, self.contents)
            compiled = self.compiled.find_compiled(task, positions)
        if compiled.positions is not None:
            task = replace(task, deletes=())
        equality = TaskDeletes(self._context, task, self._metrics, self._ahead)
        return FileDeletes(positions, compiled.positions or DeletedPositions(), equality, compiled)
