"""Indexes of a table's data files, built without the product's reader: pyarrow reads the columns by field id."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

from index_columns import Values
from twostage.deletes.cache import fingerprint
from twostage.indexes.build import build_index, describe
from twostage.indexes.place import IndexGroup, IndexPlace, index_place
from twostage.maintenance.index_files import index_files
from twostage.maintenance.table_indexes import OwnedIndexes
from twostage.planning import index_pruning
from twostage.planning.plan import plan_scan
from twostage.predicates.predicate import TRUE
from twostage.reading import index_answers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from core_scan import Opened
    from twostage.task import ScanTask


def place_of(opened: Opened) -> IndexPlace:
    table = opened.table
    place = index_place(table.storage, opened.options.settings, table.metadata.table_uuid)
    assert place is not None
    return place


def index_table(
    opened: Opened,
    kinds: Mapping[str, tuple[str, ...]],
    *,
    only: Callable[[int], bool] = lambda number: True,
) -> list[Path]:
    """Index columns of a table's Parquet files; return the index files.

    Args:
        opened: The table.
        kinds: The kinds of indexes, by column.
        only: Takes a data file's number in the scan; returns whether to index it.
    """
    table, place = opened.table, place_of(opened)
    fields = [table.schema.find((name,)) for name in kinds]
    group = IndexGroup(columns=tuple((f.id, kinds[f.name]) for f in fields if f is not None))
    made = []
    for number, task in enumerate(tasks_of(opened)):
        if only(number):
            columns = []
            for field in fields:
                assert field is not None
                columns.append(
                    (Values(_column(task.path, field.id), field.type, field.id), kinds[field.name])
                )
            properties = describe(
                fingerprint.of_data_file(task), task.path, task.record_count, task.file_size, b""
            )
            path = place.index_file(group, task)
            build_index(place.storage, path, columns, properties, 2**26)
            made.append(Path(path))
    marker = Path(place.path(f"{group.name}.json"))
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.touch()
    return made


def built(opened: Opened, names: Sequence[str], kinds: str) -> None:
    """Index columns of all of a table's data files, as ``index create`` does."""
    run = lambda work: map(index_files, work)
    OwnedIndexes(opened.options, {}, run, lambda text: None).create(names, kinds)


def tasks_of(opened: Opened) -> list[ScanTask]:
    """Return a task for each data file, whole."""
    plan = plan_scan(
        opened.table,
        opened.options,
        projection=(),
        predicate=TRUE,
        hint=TRUE,
        limit=None,
        parallelism=1,
        scan_id="index",
    )
    found: dict[str, ScanTask] = {}
    for group in plan.groups:
        for task in group.tasks:
            found.setdefault(task.path, task)
    return list(found.values())


def _column(path: str, field_id: int) -> Any:
    file = pq.ParquetFile(path)
    for place, field in enumerate(file.schema_arrow):
        if int((field.metadata or {}).get(b"PARQUET:field_id", -1)) == field_id:
            column = file.read().column(place)
            return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    raise AssertionError(f"{path} has no field {field_id}")


@contextlib.contextmanager
def everything_pays() -> Iterator[None]:
    """Use indexes whatever they save: on the few rows of a test, they save too little."""
    free = mock.patch.object(index_answers.FileAnswers, "_column_cost", lambda *_: (10**6, 10**9, 10**9))
    with free, mock.patch.object(index_pruning, "MIN_FILES_TO_LOOK_UP", 1):
        yield
