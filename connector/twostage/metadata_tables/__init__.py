"""Metadata tables: a table's snapshots, files, manifests and partitions as rows.

Takes a pinned table and the name of one of its metadata tables; returns the schema and, as a plan whose tasks
carry the rows themselves, the rows. The rule: names and types are those of Iceberg's Spark connector. An
option that chooses a snapshot applies to tables about one snapshot, and is refused for those about all
snapshots.
Source: Iceberg documentation, "Inspecting tables".
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from twostage.errors import OptionError, TwoStageError, UnsupportedFeatureError, nearest
from twostage.metadata_tables.files import entries_table, files_table
from twostage.metadata_tables.history import history_table, metadata_log_table, refs_table, snapshots_table
from twostage.metadata_tables.manifests import all_manifests_table, manifests_table
from twostage.metadata_tables.partitions import partitions_table
from twostage.metadata_tables.rows import write_rows
from twostage.task import ScanContext, ScanPlan, TaskGroup

if TYPE_CHECKING:
    from collections.abc import Callable

    from twostage.metadata_tables.table import MetadataTable
    from twostage.options import ReadOptions
    from twostage.predicates.predicate import Predicate
    from twostage.schema import Field
    from twostage.table.pinned import PinnedTable

_TABLES: dict[str, Callable[[PinnedTable], MetadataTable]] = {
    "snapshots": snapshots_table,
    "history": history_table,
    "refs": refs_table,
    "metadata_log_entries": metadata_log_table,
    "manifests": manifests_table,
    "partitions": partitions_table,
    "all_manifests": all_manifests_table,
    **{
        name: lambda table, name=name: files_table(table, name)  # type: ignore[misc]
        for name in ("files", "data_files", "delete_files", "all_files", "all_data_files", "all_delete_files")
    },
    **{
        name: lambda table, name=name: entries_table(table, name)  # type: ignore[misc]
        for name in ("entries", "all_entries")
    },
}
METADATA_TABLES = tuple(_TABLES)
NOT_YET = {
    "changes": "What changed between snapshots is not read yet.",
    "position_deletes": "delete_files lists the files; _deleted in a query marks the rows.",
}
"""Metadata tables of Iceberg's Spark connector that are not supported, and what to do instead."""
_OF_A_SNAPSHOT = frozenset(("files", "data_files", "delete_files", "entries", "manifests", "partitions"))


def choose_metadata_table(options: ReadOptions, name: str) -> ReadOptions:
    """Return options that choose the metadata table in a name's suffix (``….files``, ``…#files``).

    Raises:
        OptionError: The options choose a metadata table already.
    """
    if options.metadata_table is not None:
        raise OptionError(
            "CONFLICTING_OPTIONS",
            f"Option 'metadata-table' and the table's name both choose a metadata table: {name}",
            stage="options",
            hint="Keep one of them.",
        )
    return replace(options, metadata_table=name)


def unknown_metadata_table(name: str) -> TwoStageError:
    """Return the error for a metadata table that does not exist or is not supported."""
    if (hint := NOT_YET.get(name.lower())) is not None:
        return UnsupportedFeatureError(
            "UNSUPPORTED_METADATA_TABLE",
            f"Metadata table is not supported yet: {name.lower()}",
            stage="options",
            hint=hint,
        )
    return OptionError(
        "UNKNOWN_METADATA_TABLE",
        f"No such metadata table: {name!r}",
        stage="options",
        hint=nearest(name, METADATA_TABLES, max_listed=len(METADATA_TABLES)),
    )


def open_metadata_table(table: PinnedTable, name: str, *, chose_snapshot: bool) -> PinnedTable:
    """Return a pinned table as one of its metadata tables.

    Args:
        table: The table at its snapshot.
        name: Which metadata table, in any case.
        chose_snapshot: Whether the options chose the snapshot.

    Raises:
        OptionError: No such metadata table, or one that is about all snapshots although one was chosen.
        UnsupportedFeatureError: One of Iceberg's that is not supported.
    """
    known = name.lower()
    if known not in _TABLES:
        raise unknown_metadata_table(name)
    if chose_snapshot and known not in _OF_A_SNAPSHOT:
        raise OptionError(
            "NO_TIME_TRAVEL",
            f"Metadata table {known} is about all snapshots and cannot be read at one",
            stage="options",
            hint="Leave out the option that chooses the snapshot.",
        )
    separator = "#" if "/" in table.name else "."
    opened = replace(table, name=f"{table.name}{separator}{known}", metadata_table=known)
    return replace(opened, schema=_TABLES[known](table).schema)


def plan_rows(
    table: PinnedTable,
    options: ReadOptions,
    *,
    projection: tuple[Field, ...],
    predicate: Predicate,
    limit: int | None,
    scan_id: str,
) -> ScanPlan:
    """Return a plan whose task groups carry the rows of a metadata table, which is read here.

    Raises:
        CorruptFileError: A manifest list or a manifest is damaged.
        MissingFileError: One of them does not exist.
    """
    started = time.perf_counter_ns()
    assert table.metadata_table is not None
    context = ScanContext(
        scan_id=scan_id,
        table=table.name,
        snapshot_id=None if table.snapshot is None else table.snapshot.snapshot_id,
        schema=table.schema,
        projection=projection,
        predicate=predicate,
        limit=limit,
        settings=options.settings,
    )
    found = _TABLES[table.metadata_table](table)
    groups: list[TaskGroup] = []
    rows = 0
    for batch in found.batches(projection, predicate, limit):
        rows += batch.num_rows
        groups.append(TaskGroup(index=len(groups), context=context, tasks=(), rows=write_rows(batch)))
    return ScanPlan(
        context=context,
        groups=tuple(groups),
        estimated_rows=rows,
        estimated_bytes=sum(len(group.rows or b"") for group in groups),
        counters={"time.planning": time.perf_counter_ns() - started},
        choices=(f"Metadata table: {rows} rows, read while planning.",),
    )
