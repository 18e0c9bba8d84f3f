"""The deletes of one data file, from delete files of every kind.

Takes a `ScanTask`; returns the positions that positional deletes and deletion vectors remove, and the
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

    @staticmethod
    def ask(
        context: ScanContext, task: ScanTask, ahead: DeletesAhead, finder: CompiledFinder | None = None
    ) -> None:
        """Request the positions and compiled deletes that `load` will read; returns at once."""
        ask_for_positions(context, task, ahead.contents)
        if finder is not None:
            finder.ask(task, ahead.contents)

    @staticmethod
    def load(
        context: ScanContext,
        task: ScanTask,
        metrics: Metrics,
        ahead: DeletesAhead | None = None,
        finder: CompiledFinder | None = None,
    ) -> FileDeletes:
        """Load the positions of a task's data file; equality-delete files are opened once rows remain to be probed.

        Args:
            context: The scan.
            task: The data file with its deletes.
            metrics: Gains ``time.deletes`` and the counters of what is read.
            ahead: How a task that reads several data files at the same time reads remote delete files.
            finder: Finds compiled deletes, for all data files of a Spark task; None: for this one alone.

        Raises:
            CorruptFileError: A delete file's bytes or values are wrong.
            ResourceLimitError: The positions take more than the task's memory.
        """
        with metrics.timed("deletes"):
            positions = load_positions(context, task, metrics, None if ahead is None else ahead.contents)
            finder = finder or CompiledFinder(context, metrics)
            compiled = finder.find(task, positions)
            finder.leave(task)
        if compiled.positions is not None:
            equality = TaskDeletes.none(context, task, metrics)
            return FileDeletes(positions, compiled.positions, equality, compiled)
        return FileDeletes(
            positions, DeletedPositions(), TaskDeletes(context, task, metrics, ahead), compiled
        )

    def cleared(self, context: ScanContext, task: ScanTask, metrics: Metrics) -> FileDeletes:
        """Return deletes that remove nothing, for a scan that shows deleted rows."""
        none = DeletedPositions()
        equality = TaskDeletes.none(context, task, metrics)
        return replace(self, positions=none, compiled_positions=none, equality=equality)

    def recorded(self, row_groups: Iterable[RowGroup]) -> Iterable[RowGroup]:
        """Return the row groups; if deletes are being compiled, all rows must be recorded for a complete result."""
        return self.compiled.row_groups(row_groups)

    def finish(self, metrics: Metrics) -> None:
        """Store the compiled deletes if every row was recorded. To be called once all row groups have been read."""
        self.compiled.finish(metrics)
