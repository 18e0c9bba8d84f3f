"""Finds the compiled deletes of a Spark task's data files, or prepares to compile them while the task runs.

Takes data files with their deletes; returns the positions that equality deletes remove if they were compiled
before, else a recorder that compiles them while the scan applies the deletes. Where entries are stored is found out
once for all data files. Entries in a bucket are requested before a data file is opened.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from twostage.deletes.compiled.entry_name import EntryName, EntryNames
from twostage.deletes.compiled.recorder import Recorder
from twostage.deletes.compiled.store import (
    COMPILED,
    MAX_ENTRY_BYTES,
    PendingEntry,
    folder_store,
    host_stores,
    is_kept_by_host,
    read_asked,
    read_entry,
)
from twostage.deletes.compiled.writes import EntryWrites
from twostage.deletes.positions.position_deletes import DeletedPositions
from twostage.errors import TwoStageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from twostage.data_files.row_group import RowGroup
    from twostage.deletes.compiled.store import CompiledStore, FolderStore
    from twostage.deletes.files.contents import DeleteContents
    from twostage.metrics import Metrics
    from twostage.storage.pending_ranges import PendingRanges
    from twostage.task import DeleteFile, ScanContext, ScanTask


MAX_EXPECTED_BYTES = 2**20
"""Of an entry requested ahead, whose size is unknown: one bit for each of 8,000,000 rows."""


@dataclass(slots=True)
class CompiledDeletes:
    """What is known about a task's equality deletes without opening them.

    Attributes:
        positions: The rows that they remove; None if they were not compiled.
        recorder: Compiles them during the scan; None if the result would not be stored.
        name: The name of the entry that the recorder builds.
        stores: Where it is written.
        writes: Writes it.
    """

    positions: DeletedPositions | None = None
    recorder: Recorder | None = None
    name: EntryName | None = None
    stores: list[CompiledStore] = field(default_factory=list)
    writes: EntryWrites | None = None

    def finish(self, metrics: Metrics) -> None:
        """Store what the scan has compiled, if it probed every row; to be called after the data file is read."""
        if self.recorder is None or self.name is None or self.writes is None:
            return
        if self.recorder.is_complete:
            self.writes.add(PendingEntry(self.name, self.recorder.bitmap, self.stores, metrics))

    def row_groups(self, row_groups: Iterable[RowGroup]) -> Iterable[RowGroup]:
        """Return the task's row groups, counting their rows if deletes are recorded."""
        return row_groups if self.recorder is None else self.recorder.counted(row_groups)


class CompiledFinder:
    """Finds the compiled deletes of a task's data files.

    Args:
        context: The scan.
        metrics: Gains ``delete_compiled.*``, and the reason if the host's cache cannot be used.
    """

    def __init__(self, context: ScanContext, metrics: Metrics) -> None:
        self._context = context
        self._metrics = metrics
        self._names = EntryNames(context)
        self._asked: dict[tuple[str, int], dict[EntryName, PendingRanges]] = {}
        """By path and start: the entries requested for a data file, or a part of it, that was not looked for yet."""
        self.writes = EntryWrites(context.settings.memory_budget)
        """Writes what is compiled while the task runs."""

    def find_compiled(self, task: ScanTask, positions: DeletedPositions) -> CompiledDeletes:
        """Return the compiled deletes of a data file or a part of it, or a way to compile them while it is read.

        Args:
            task: The data file.
            positions: What its positional deletes and vectors remove: these rows are not probed, so the
                compiled entry is valid only with the same positional deletes.
        """
        asked = self._asked.pop((task.path, task.start), {})
        deletes = _equality(task)
        if not deletes:
            return CompiledDeletes()
        folder = self._folder
        stores = [*self._hosts(task, deletes), *([] if folder is None else [folder])]
        if not stores:
            return CompiledDeletes()
        names = self._names.for_task(task, deletes, with_positions=bool(positions))
        for name in names:
            if folder is not None and name in asked:
                bitmap = read_asked(self._context, name, folder, asked[name])
            else:
                bitmap = read_entry(self._context, name, stores)
            if bitmap is not None:
                self._metrics.add("delete_compiled.hits")
                return CompiledDeletes(DeletedPositions(COMPILED, bitmap, len(bitmap)))
        # Planning left out deletes of rows that the query does not return: what is recorded is not of all deletes.
        is_recorded = self._context.settings.compile_deletes and task.delete_set is None
        recorder = Recorder(positions.bitmap) if is_recorded else None
        return CompiledDeletes(None, recorder, names[-1], stores, self.writes)

    def ask_for_compiled(self, task: ScanTask, contents: DeleteContents) -> None:
        """Request what `find_compiled` will read from remote folders; returns at once."""
        deletes = _equality(task)
        if not deletes or self._folder is None or not self._folder.is_remote:
            return
        names = self._names.for_task(task, deletes, with_positions=len(deletes) < len(task.deletes))
        hosts = self._hosts(task, deletes)
        if any(read_entry(self._context, name, hosts) is not None for name in names):
            return
        asked = self._asked[task.path, task.start] = {}
        expected = expected_bytes(task)
        with contextlib.suppress(TwoStageError):  # `find_compiled` runs into it again, and reports it
            for name in names:
                place = self._folder.place(name.text)
                asked[name] = contents.ask_beside(self._folder.storage, place, MAX_ENTRY_BYTES, expected)

    def _hosts(self, task: ScanTask, deletes: Sequence[DeleteFile]) -> list[CompiledStore]:
        return self._host if is_kept_by_host(deletes, task.record_count) else []

    @cached_property
    def _host(self) -> list[CompiledStore]:
        return host_stores(self._context, self._metrics)

    @cached_property
    def _folder(self) -> FolderStore | None:
        return folder_store(self._context, self._metrics)


def expected_bytes(task: ScanTask) -> int:
    """Return a rough upper limit of the bytes of a data file's entry: one bit per row."""
    return min(task.record_count // 8, MAX_EXPECTED_BYTES)


def _equality(task: ScanTask) -> tuple[DeleteFile, ...]:
    return tuple(delete for delete in task.deletes if delete.content == "equality")
