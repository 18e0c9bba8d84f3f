"""Planning: from a pinned table and a predicate to groups of scan tasks.

Takes a `PinnedTable`, what Spark pushed down and the options; returns a `ScanPlan` of plain, picklable values. Every row
group of the files that `choose_files` returns is in exactly one task, and each task has exactly the deletes that apply
to it.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from twostage.errors import OptionError
from twostage.indexes.of_scan import indexes_of_scan
from twostage.metrics import Metrics
from twostage.planning.choose_files import Planning
from twostage.planning.estimates import drops_rows, estimate_bytes, live_rows
from twostage.planning.index_threshold import threshold_from_indexes
from twostage.planning.name_mapping import parse_name_mapping
from twostage.planning.schema_history import key_column
from twostage.planning.splits import pack
from twostage.predicates.predicate import TRUE, both, without_implied
from twostage.storage.files import name_snapshot
from twostage.storage.location import is_under
from twostage.task import ScanContext, ScanPlan, TaskGroup

if TYPE_CHECKING:
    from twostage.indexes.of_scan import ScanIndexes
    from twostage.options import ReadOptions
    from twostage.predicates.predicate import Predicate
    from twostage.predicates.top import Threshold, TopRows
    from twostage.schema import Field
    from twostage.table.pinned import PinnedTable

MAX_LIMIT_FOR_ONE_TASK = 65_536
"""Rows: a limit up to this is read by one task, because starting a second one takes longer than reading them."""
UNREACHABLE_SPLIT_BYTES = 2**62
"""Split size, in bytes, that puts any scan into one group."""


def plan_scan(
    table: PinnedTable,
    options: ReadOptions,
    *,
    projection: tuple[Field, ...],
    predicate: Predicate,
    hint: Predicate,
    limit: int | None,
    parallelism: int,
    scan_id: str,
    top: TopRows | None = None,
    keys: tuple[Predicate, ...] = (),
) -> ScanPlan:
    """Plan a scan.

    Args:
        table: The table at its pinned snapshot.
        options: The reader's options.
        projection: Columns to return, structs reduced to the selected sub-fields.
        predicate: Evaluated by us instead of Spark: exactly the rows for which it is true are returned.
        hint: Implied by the predicates that Spark evaluates later; prunes only.
        limit: The number of rows that suffice, if Spark pushed a limit.
        parallelism: How many tasks can run at once.
        scan_id: Identifies the scan in reports.
        keys: Conjuncts of the predicate that a join enforces anyway.
        top: ORDER BY and LIMIT, if Spark pushed them; ignored with a `hint`, because Spark drops further rows then.

    Raises:
        CorruptFileError: Metadata, a manifest list or a manifest is damaged.
        MissingFileError: One of them does not exist.
        UnsupportedFeatureError: A file to read is encrypted or has a format that we do not read.
    """
    started = time.perf_counter_ns()
    snapshot_id = None if table.snapshot is None else table.snapshot.snapshot_id
    if table.metadata_table is not None:
        from twostage.metadata_tables import plan_rows  # noqa: PLC0415 - few scans read a metadata table

        with name_snapshot(snapshot_id):
            return plan_rows(
                table, options, projection=projection, predicate=predicate, limit=limit, scan_id=scan_id
            )
    refuse_inside(table, options.settings.compiled_dir)
    refuse_inside(table, options.settings.index_location, "index.location")
    predicate = without_implied(predicate)
    top = top if options.top_n and hint == TRUE and limit is None else None
    found = Metrics()
    indexes = indexes_of_scan(
        table.storage,
        options.settings,
        table.metadata.table_uuid,
        both(predicate, hint),
        found,
        own_folders(table),
        None if top is None else top.column.field_id,
    )
    with name_snapshot(snapshot_id):
        planning = Planning(table, options, projection, predicate, hint, top, indexes, found, keys)
        chosen = planning.choose_files(limit)
        better = None if indexes is None else _threshold(table, options, planning, predicate, indexes, found)
        if better is not None and top is not None:
            predicate = without_implied(both(predicate, top.no_worse(better)))
            top = replace(top, threshold=better)
            planning = Planning(table, options, projection, predicate, hint, top, indexes, found, keys)
            chosen = planning.choose_files(limit)
    indexed = "" if indexes is None else indexes.described(planning.schema)
    if indexes is not None:
        indexes = indexes.of(both(predicate, hint))
    key_fields = planning.key_fields(chosen)
    context = ScanContext(
        scan_id=scan_id,
        table=table.name,
        snapshot_id=snapshot_id,
        schema=planning.schema,
        projection=projection,
        predicate=predicate,
        keys=keys,
        hint=hint,
        key_fields=key_fields,
        key_columns={field_id: key_column(table, field_id) for field_id in key_fields},
        name_mapping=parse_name_mapping(table.metadata),
        limit=limit,
        top=planning.top,
        table_uuid=table.metadata.table_uuid,
        equality_deletes=planning.equality_deletes(chosen),
        indexes=None if indexes is None else indexes.of_tasks,
        storage=table.storage,
        settings=options.settings,
    )
    one_group = planning.limit_reached and limit is not None and limit <= MAX_LIMIT_FOR_ONE_TASK
    is_cut = limit is not None or planning.top is not None or drops_rows(hint)
    packed = pack(
        chosen,
        parallelism=options.parallelism or parallelism,
        split_size=UNREACHABLE_SPLIT_BYTES if one_group else options.split_size,
        may_keep_most_rows=not is_cut and planning.join_selectivity.may_keep_most_rows,
    )
    groups = tuple(TaskGroup(index=index, context=context, tasks=tasks) for index, tasks in enumerate(packed))
    rows = sum(live_rows(candidate.task) for candidate in chosen)
    rows = min([rows, *([] if limit is None else [limit]), *([] if top is None else [top.count])])
    planning.describe(chosen, groups)
    planning.counters.update(found.counters)
    planning.choices += found.choices
    planning.counters["time.planning"] = time.perf_counter_ns() - started
    return ScanPlan(
        context=context,
        groups=groups,
        estimated_rows=rows,
        estimated_bytes=estimate_bytes(
            rows,
            (candidate.task for candidate in chosen),
            projection,
            planning.schema,
            is_filtered=drops_rows(predicate) or drops_rows(hint),
        ),
        top_share=planning.top_share(chosen) if better is None else 0.0,
        counters=dict(planning.counters),
        choices=tuple(planning.choices),
        indexed=indexed,
    )


def _threshold(
    table: PinnedTable,
    options: ReadOptions,
    planning: Planning,
    predicate: Predicate,
    indexes: ScanIndexes,
    metrics: Metrics,
) -> Threshold | None:
    """Return a value that indexes prove enough rows to reach; None if there is none, or none better than that of bounds."""
    top = planning.top
    if top is None or not options.settings.prune_files:
        return None
    context = ScanContext(
        scan_id=uuid.uuid4().hex,
        table=table.name,
        snapshot_id=None if table.snapshot is None else table.snapshot.snapshot_id,
        schema=planning.schema,
        projection=(),
        predicate=predicate,
        table_uuid=table.metadata.table_uuid,
        storage=table.storage,
        settings=options.settings,
    )
    found = threshold_from_indexes(context, top, planning.ranked, indexes, metrics)
    if found is None or not (top.threshold is None or top.is_better(found, top.threshold)):
        return None
    if (wanted := top.no_worse(found)) != TRUE:
        metrics.choices[f"First {top.count}: indexes prove enough rows with {wanted}."] += 1
    return found


def refuse_inside(table: PinnedTable, location: str | None, option: str = "deletes.compiled-dir") -> None:
    """Refuse a folder for our own files inside the table: only Iceberg may write there.

    Raises:
        OptionError: The folder overlaps the table's location or a folder that its properties name.
    """
    if location is None:
        return
    for folder in own_folders(table):
        if is_under(folder, location) or is_under(location, folder):
            raise OptionError(
                "BAD_OPTION",
                f"Option {option!r} lies inside the table's location: {location}",
                stage="options",
                hint="Choose a folder or prefix outside the table.",
            )


def own_folders(table: PinnedTable) -> list[str]:
    """Return the folders in which only Iceberg may write."""
    properties = table.metadata.properties
    named = [properties.get(name) for name in ("write.data.path", "write.metadata.path")]
    return [folder for folder in (table.metadata.location, table.storage.root, *named) if folder]
