"""Compiled deletes of the data files of a Spark task: found, or a way to compile them while the task runs.

Takes data files with their deletes; gives the positions that equality deletes remove if they were compiled before, else a
recorder that compiles them while the scan applies the deletes. What the data files share is found out once for all of them: where
entries are kept, how keys are read, and the name of a set of delete files. Of 400 files with 20 delete files each that
was a third of what the deletes added to a search's time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from twostage.deletes.cache import fingerprint
from twostage.deletes.compiled.entry_name import (
    EntryName,
    name_reading,
    name_set,
    name_set_with_positions,
    part_of,
)
from twostage.deletes.compiled.recorder import Recorder
from twostage.deletes.compiled.store import (
    COMPILED,
    folder_stores,
    host_stores,
    is_kept_by_host,
    read_entry,
    write_entry,
)
from twostage.deletes.positions.position_deletes import DeletedPositions
from twostage.storage.location import parse_location

if TYPE_CHECKING:
    from collections.abc import Iterable

    from twostage.data_files.row_group import RowGroup
    from twostage.deletes.compiled.store import CompiledStore
    from twostage.metrics import Metrics
    from twostage.task import DeleteFile, ScanContext, ScanTask


MAX_SETS = 16
"""Sets of delete files that a task remembers: data files that follow each other mostly have the same one."""


@dataclass(slots=True)
class CompiledDeletes:
    """What is known of a task's equality deletes without opening them.

    Attributes:
        positions: The rows that they remove; None if they were not compiled.
        recorder: Compiles them during the scan; None where nothing would keep the result.
        name: Of the entry that the recorder makes.
        stores: Where it is written.
    """

    positions: DeletedPositions | None = None
    recorder: Recorder | None = None
    name: EntryName | None = None
    stores: list[CompiledStore] = field(default_factory=list)

    def finish(self, metrics: Metrics) -> None:
        """Keep what the scan has compiled, if it probed every row; to be called at the end of the task."""
        if self.recorder is not None and self.name is not None and self.recorder.is_complete:
            write_entry(self.name, self.recorder.bitmap, self.stores, metrics)

    def row_groups(self, row_groups: Iterable[RowGroup]) -> Iterable[RowGroup]:
        """Return the task's row groups, counted if they are recorded."""
        return row_groups if self.recorder is None else self.recorder.counted(row_groups)


@dataclass(frozen=True, slots=True)
class _DeleteSet:
    """Equality-delete files that apply together.

    Attributes:
        files: The files, which are known by their ids as long as this holds them.
        ids: Their key columns, ascending.
        counts: The keys of each.
        name: `name_set` of them; None where files are local, and may be others a moment later.
    """

    files: tuple[DeleteFile, ...]
    ids: tuple[int, ...]
    counts: tuple[int, ...]
    name: str | None


class CompiledFinder:
    """Finds the compiled deletes of a task's data files.

    Args:
        context: The scan.
        metrics: Gains ``delete_compiled.*``, and is told why the host's cache cannot be used.
    """

    def __init__(self, context: ScanContext, metrics: Metrics) -> None:
        self._context = context
        self._metrics = metrics
        self._sets: dict[tuple[int, ...], _DeleteSet] = {}
        self._readings: dict[tuple[tuple[int, ...], tuple[int, ...]], str] = {}

    def find(self, task: ScanTask, positions: DeletedPositions) -> CompiledDeletes:
        """Return the compiled deletes of a data file or a part of it, or a way to compile them while it is read.

        Args:
            task: The data file.
            positions: What its positional deletes and vectors remove: these rows are not probed, so that what is
                compiled serves only under the same positional deletes.
        """
        deletes = tuple(delete for delete in task.deletes if delete.content == "equality")
        if not deletes:
            return CompiledDeletes()
        known = self._delete_set(deletes)
        stores = [*(self._host if is_kept_by_host(known.counts, task.record_count) else ()), *self._folders]
        if not stores:
            return CompiledDeletes()
        delete_set = task.delete_set or known.name or name_set(task, deletes)
        sets = [delete_set, *([name_set_with_positions(task, delete_set)] if positions else [])]
        data_file = fingerprint.of_data_file(task)
        names = [
            EntryName(self._table, data_file, name, self._reading(known.ids, part))
            for name in sets
            for part in dict.fromkeys(
                ((), part_of(task))
            )  # of the whole file, whatever part of it is read, first
        ]
        for name in names:
            bitmap = read_entry(self._context, name, stores)
            if bitmap is not None:
                self._metrics.add("delete_compiled.hits")
                return CompiledDeletes(DeletedPositions(COMPILED, bitmap, len(bitmap)))
        # Planning left out deletes of rows that the query does not return: what is recorded is not of all deletes.
        recorder = Recorder(positions.bitmap) if task.delete_set is None else None
        return CompiledDeletes(None, recorder, names[-1], stores)

    @cached_property
    def _host(self) -> list[CompiledStore]:
        return host_stores(self._context, self._metrics)

    @cached_property
    def _folders(self) -> list[CompiledStore]:
        return folder_stores(self._context, self._metrics)

    @cached_property
    def _table(self) -> str:
        return fingerprint.of_table(self._context)

    def _reading(self, ids: tuple[int, ...], part: tuple[int, ...]) -> str:
        if part:
            return name_reading(self._context, ids, part)
        if (ids, part) not in self._readings:
            self._readings[ids, part] = name_reading(self._context, ids, part)
        return self._readings[ids, part]

    def _delete_set(self, deletes: tuple[DeleteFile, ...]) -> _DeleteSet:
        key = tuple(map(id, deletes))
        if key not in self._sets:
            if len(self._sets) >= MAX_SETS:
                self._sets.clear()
            are_remote = all(not parse_location(delete.path).is_local for delete in deletes)
            self._sets[key] = _DeleteSet(
                files=deletes,
                ids=tuple(sorted({field_id for delete in deletes for field_id in delete.equality_ids})),
                counts=tuple(delete.record_count for delete in deletes),
                name=fingerprint.of_set(map(fingerprint.of_delete, deletes)) if are_remote else None,
            )
        return self._sets[key]
