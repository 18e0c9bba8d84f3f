"""The indexes that a scan may use: found in the driver by one listing, sent to its tasks.

Takes a table's storage, the options and the predicate; gives a `ScanIndexes` of the groups of columns that the predicate
reads, or None. The rule: a table without indexes costs no more than that listing, and an empty remote place is not listed
again for a minute.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import cachetools

from twostage.indexes.file_keys import FILES
from twostage.indexes.place import TableIndexes, index_place, list_indexes
from twostage.predicates import predicate as tree

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Iterable

    from twostage.indexes.place import IndexGroup, IndexPlace, IndexRun
    from twostage.metrics import Metrics
    from twostage.options import ReadSettings
    from twostage.predicates.predicate import Predicate
    from twostage.schema import Schema
    from twostage.task import Storage

SECONDS_EMPTY = 60.0
"""How long an empty remote place is not listed again: that would take each scan a request of some 30 ms."""
_empty: cachetools.TTLCache[Hashable, bool] = cachetools.TTLCache(1_000, SECONDS_EMPTY)
_lock = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanIndexes:
    """Where a table's indexes are, and those of them that have a column of the scan's predicate.

    Attributes:
        place: Where they are.
        groups: Columns that are indexed per data file.
        table: What planning may use: table-wide indexes.
        every: All groups of indexed columns that the table has.
    """

    place: IndexPlace
    groups: tuple[IndexGroup, ...]
    table: TableIndexes
    every: tuple[IndexGroup, ...] = ()

    @property
    def runs(self) -> tuple[IndexRun, ...]:
        """The runs of table-wide indexes."""
        return self.table.runs

    @property
    def of_tasks(self) -> ScanIndexes | None:
        """What tasks may use; None if that is nothing."""
        return replace(self, table=TableIndexes(), every=()) if self.groups else None

    def described(self, schema: Schema) -> str:
        """Return the table's indexed columns, each with its kinds: for EXPLAIN."""
        columns = [one for group in self.every for one in group.columns if one[0] in schema]
        return ", ".join(f"{'.'.join(schema.path(i))} ({', '.join(kinds)})" for i, kinds in columns)

    def of(self, predicate: Predicate) -> ScanIndexes | None:
        """Return the groups and runs that have a column of a predicate; None if there is none."""
        wanted = {column.field_id for column in tree.columns(predicate)}
        groups = tuple(group for group in self.groups if not wanted.isdisjoint(group.field_ids))
        runs = tuple(run for run in self.runs if run.field_id in wanted)
        return replace(self, groups=groups, table=TableIndexes(runs=runs)) if groups or runs else None


def indexes_of_scan(
    storage: Storage,
    settings: ReadSettings,
    table_uuid: str | None,
    predicate: Predicate,
    metrics: Metrics,
    own_folders: Iterable[str] = (),
    sort_key: int | None = None,
) -> ScanIndexes | None:
    """Return the indexes that a scan may use; None if the table has none, or neither predicate nor order reads a column.

    They are without groups and runs if none has a column that these read.

    Args:
        storage: The table's.
        settings: The scan's.
        table_uuid: From the table's metadata.
        predicate: What rows must meet.
        metrics: Gains ``indexes.failed`` if the place cannot be listed.
        own_folders: More folders that belong to the table.
        sort_key: The first column of ORDER BY and LIMIT, if it may prune.
    """
    wanted = {column.field_id for column in tree.columns(predicate)}
    if sort_key is not None:
        wanted.add(sort_key)
    if not wanted:
        return None
    return _indexes(storage, settings, table_uuid, metrics, own_folders, wanted)


def indexes_of_table(
    storage: Storage,
    settings: ReadSettings,
    table_uuid: str | None,
    metrics: Metrics,
    own_folders: Iterable[str] = (),
    *,
    wanted: Container[int] | None = None,
) -> ScanIndexes | None:
    """Return a table's indexes; None if there is none that has a `wanted` column (field ids; None: any column).

    The other arguments are those of `indexes_of_scan`.
    """
    found = _indexes(storage, settings, table_uuid, metrics, own_folders, wanted)
    return found if found is not None and (found.groups or found.runs) else None


def _indexes(
    storage: Storage,
    settings: ReadSettings,
    table_uuid: str | None,
    metrics: Metrics,
    own_folders: Iterable[str],
    wanted: Container[int] | None,
) -> ScanIndexes | None:
    if not settings.index:
        return None
    place = index_place(storage, settings, table_uuid, own_folders)
    if place is None:
        return None
    known = place.store, place.folder
    with _lock:
        if known in _empty:
            return None
    found = list_indexes(place, metrics)
    if not found and place.is_remote:
        with _lock:
            _empty[known] = True
    groups: tuple[IndexGroup, ...] = ()
    if settings.two_stage:
        groups = tuple(
            group
            for group in found.groups
            if any(
                set(kinds) - {FILES} for _, kinds in group.columns
            )  # else it has no file for each data file
            and (wanted is None or any(one in wanted for one in group.field_ids))
        )
    runs = tuple(run for run in found.runs if wanted is None or run.field_id in wanted)
    if not found:
        return None
    return ScanIndexes(place=place, groups=groups, table=TableIndexes(runs=runs), every=found.groups)
