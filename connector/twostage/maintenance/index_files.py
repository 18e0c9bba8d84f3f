"""Indexes some data files: what a Spark task does for ``index create`` and ``index refresh``.

Takes a unit of work (data files, columns and their kinds); writes an index file for each data file that has
none, and one run for each column with a table-wide index. The rules: a data file is read as a scan reads it,
whole, without applying deletes; columns that it lacks, or that are constants of its partition, have no index
of rows; a run has the values of every file that it covers, including initial defaults of columns that the
file lacks; and a file without field ids has no index, because which columns it has depends on names that may
change.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from twostage.data_files.data_file import descend
from twostage.data_files.open_data_file import open_data_file
from twostage.deletes.cache import fingerprint
from twostage.indexes.build import build_index, describe
from twostage.indexes.file_key_runs import RunBuilder
from twostage.indexes.file_keys import FILES, file_key
from twostage.indexes.file_stamp import NO_STAMP, file_stamp, version_stamp
from twostage.indexes.keys import hash_values, indexed_type
from twostage.indexes.kind import MAX_ROWS_OF_A_FILE, non_null
from twostage.metrics import Metrics
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from twostage.data_files.data_file import DataFile
    from twostage.indexes.place import IndexGroup, IndexPlace
    from twostage.task import ScanContext, ScanTask

_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexWork:
    """What one task indexes.

    Attributes:
        tasks: Whole data files that have no index file yet, or are in no run.
        lacks_index: Whether each of them needs an index file.
        lacks_keys: For each, the field ids of columns whose runs do not cover it.
    """

    context: ScanContext
    place: IndexPlace
    group: IndexGroup
    tasks: tuple[ScanTask, ...]
    lacks_index: tuple[bool, ...]
    lacks_keys: tuple[tuple[int, ...], ...]


class FileColumn:
    """The values of one column of an open data file, kept in memory if they take a share of the budget.

    Args:
        data_file: An open data file, whole.
        field_id: The column, or a field nested in structs.
        num_rows: The data file's.
        budget: Bytes that may be kept.
    """

    def __init__(self, data_file: DataFile, field_id: int, num_rows: int, budget: int) -> None:
        self.field_id = field_id
        kind = indexed_type(data_file.context.schema.field(field_id).type)
        assert kind is not None
        self.type = kind
        self.num_rows = num_rows
        self._data_file = data_file
        self._budget = budget
        self._kept: list[pa.Array] | None = None

    def chunks(self) -> Iterator[pa.Array]:
        """Yield all values in the order of the rows."""
        if self._kept is not None:
            yield from self._kept
            return
        kept: list[pa.Array] | None = []
        nbytes = 0
        for array in self._read():
            nbytes += array.nbytes
            if kept is not None:
                kept.append(array)
            if nbytes > self._budget:
                kept = None
            yield array
        self._kept = kept

    def _read(self) -> Iterator[pa.Array]:
        target, depth = self._data_file.leaf_target(self.field_id)
        for row_group in self._data_file.row_groups():
            for (array,) in self._data_file.stream(row_group, [target], _BATCH_ROWS):
                yield descend(array, depth)


def index_files(work: IndexWork) -> Metrics:
    """Run one unit of work; return its counters.

    Raises:
        StorageError: An index could not be written.
        CorruptFileError: A data file is damaged.
    """
    metrics = Metrics()
    budget = work.context.settings.memory_budget
    kept = budget // 8 // len(work.group.field_ids)
    with tempfile.TemporaryDirectory(prefix="twostage-index-") as folder:
        builders = _builders(work, Path(folder), budget)
        every = zip(work.tasks, work.lacks_index, work.lacks_keys, strict=True)
        for task, lacks_index, lacks_keys in sorted(every, key=lambda one: file_key(one[0])):
            stamp = file_stamp(task.path)
            with open_data_file(work.context, task, Metrics()) as data_file:
                num_rows = sum(group.num_rows for group in data_file.row_groups())
                if num_rows != task.record_count or num_rows > MAX_ROWS_OF_A_FILE:
                    metrics.choices[
                        f"no index of a data file of {num_rows:,} rows, listed with {task.record_count:,}"
                    ] += 1
                    continue
                if not data_file.has_field_ids:
                    metrics.choices["no index of a data file without field ids"] += 1
                    continue
                columns = {
                    field_id: FileColumn(data_file, field_id, num_rows, kept)
                    for field_id in work.group.field_ids
                    if field_id in work.context.schema and has_values(data_file, field_id)
                }
                if lacks_index:
                    _build(work, task, stamp, data_file, columns, num_rows, metrics)
                for field_id in lacks_keys:
                    builder = builders[field_id]
                    builder.begin(
                        file_key(task), version_stamp(data_file.version) if stamp == NO_STAMP else stamp
                    )
                    if field_id in columns:  # no index is used for constants of the partition
                        for _, array in non_null(columns[field_id].chunks()):
                            builder.add(hash_values(array))
            metrics.add("indexes.made")
        for builder in builders.values():
            if builder.members:
                builder.publish(work.place)
    return metrics


def has_values(data_file: DataFile, field_id: int) -> bool:
    """Tell whether a column's values come from the data file (if missing, its default), not the partition."""
    return field_id not in data_file.task.constants


def is_stored(data_file: DataFile, field_id: int) -> bool:
    """Tell whether a data file stores a column: one that is constant in it needs no index of rows."""
    top = data_file.context.schema.top_level(field_id)
    return has_values(data_file, field_id) and data_file.holds(top.id)


def _builders(work: IndexWork, folder: Path, budget: int) -> dict[int, RunBuilder]:
    wanted = sorted({field_id for lacking in work.lacks_keys for field_id in lacking})
    rows = sum(task.record_count for task in work.tasks)
    found = {}
    for field_id in wanted:
        kind = work.context.schema.field(field_id).type
        assert isinstance(kind, Primitive)
        share = budget // (4 * len(wanted))
        found[field_id] = RunBuilder(field_id, kind, folder, share, len(work.tasks), rows)
    return found


def _build(
    work: IndexWork,
    task: ScanTask,
    stamp: bytes,
    data_file: DataFile,
    columns: dict[int, FileColumn],
    num_rows: int,
    metrics: Metrics,
) -> None:
    given = [
        (columns[field_id], [kind for kind in kinds if kind != FILES])
        for field_id, kinds in work.group.columns
        if field_id in columns and is_stored(data_file, field_id)
    ]
    properties = describe(
        fingerprint.of_data_file(task), task.written_path, num_rows, task.file_size, data_file.version, stamp
    )
    budget = work.context.settings.memory_budget // 2
    path = work.place.index_file(work.group, task)
    built = build_index(work.place.storage, path, given, properties, budget)
    metrics.add("indexes.bytes", built.nbytes)
    for sentence in built.refused:
        metrics.choices[sentence] += 1
