"""Planning: from a pinned table and a predicate to groups of scan tasks.

Takes a `PinnedTable`, what Spark pushed down and the options; gives a `ScanPlan` of plain values. The rule:
every row group of the files that `choose_files` left is in exactly one task, and each task carries exactly the
deletes that apply to it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from twostage.errors import OptionError
from twostage.planning.choose_files import Planning
from twostage.planning.estimates import live_rows, value_width
from twostage.planning.name_mapping import parse_name_mapping
from twostage.planning.splits import pack
from twostage.predicates.predicate import TRUE, without_implied
from twostage.storage.files import name_snapshot
from twostage.storage.location import is_under
from twostage.task import ScanContext, ScanPlan, TaskGroup

if TYPE_CHECKING:
    from twostage.options import ReadOptions
    from twostage.predicates.predicate import Predicate
    from twostage.predicates.top import TopRows
    from twostage.schema import Field
    from twostage.table.pinned import PinnedTable

SMALL_LIMIT = 65_536
"""A limit of at most this many rows is read by one task: a second one would start for nothing."""
WHOLE = 2**62
"""A split size that no scan reaches."""


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
) -> ScanPlan:
    """Plan a scan.

    Args:
        table: The table at its pinned snapshot.
        options: The reader's options.
        projection: Columns to return, structs cut to the wanted sub-fields.
        predicate: Taken over from Spark: exactly the rows where it is true are returned.
        hint: Implied by what Spark evaluates later; prunes only.
        limit: How many rows suffice, if Spark said so.
        parallelism: How many tasks run at once.
        scan_id: Names the scan in reports.
        top: Which rows suffice under ORDER BY and LIMIT, if Spark said so; of no use where rows go unseen.

    Raises:
        CorruptFileError: Metadata, a manifest list or a manifest is damaged.
        MissingFileError: One of them is not there.
        UnsupportedFeatureError: A file to read has a format that we do not read, or is encrypted.
    """
    started = time.perf_counter_ns()
    snapshot_id = None if table.snapshot is None else table.snapshot.snapshot_id
    if table.metadata_table is not None:
        from twostage.metadata_tables import plan_rows  # noqa: PLC0415 - few scans are of one

        with name_snapshot(snapshot_id):
            return plan_rows(
                table, options, projection=projection, predicate=predicate, limit=limit, scan_id=scan_id
            )
    refuse_inside(table, options.settings.compiled_dir)
    predicate = without_implied(predicate)
    top = top if options.top_n and hint == TRUE and limit is None else None
    planning = Planning(table, options, projection, predicate, hint, top)
    with name_snapshot(snapshot_id):
        chosen = planning.choose_files(limit)
    context = ScanContext(
        scan_id=scan_id,
        table=table.name,
        snapshot_id=snapshot_id,
        schema=planning.schema,
        projection=projection,
        predicate=predicate,
        hint=hint,
        key_fields=planning.key_fields(chosen),
        name_mapping=parse_name_mapping(table.metadata),
        limit=limit,
        top=planning.top,
        table_uuid=table.metadata.table_uuid,
        equality_deletes=planning.equality_deletes(chosen),
        storage=table.storage,
        settings=options.settings,
    )
    one_group = planning.limit_reached and limit is not None and limit <= SMALL_LIMIT
    packed = pack(
        chosen,
        parallelism=options.parallelism or parallelism,
        split_size=WHOLE if one_group else options.split_size,
    )
    groups = tuple(TaskGroup(index=index, context=context, tasks=tasks) for index, tasks in enumerate(packed))
    rows = sum(live_rows(candidate.task) for candidate in chosen)
    rows = min([rows, *([] if limit is None else [limit]), *([] if top is None else [top.count])])
    planning.describe(chosen, groups)
    planning.counters["time.planning"] = time.perf_counter_ns() - started
    return ScanPlan(
        context=context,
        groups=groups,
        estimated_rows=rows,
        estimated_bytes=rows * (8 + sum(value_width(field.type) for field in projection)),
        top_share=planning.top_share(chosen),
        counters=dict(planning.counters),
        choices=tuple(planning.choices),
    )


def refuse_inside(table: PinnedTable, compiled_dir: str | None) -> None:
    """Refuse a place for compiled deletes that is the table's own: its files are Iceberg's alone.

    Raises:
        OptionError: It lies in the table's location, or in a folder that the table writes to.
    """
    if compiled_dir is None:
        return
    properties = table.metadata.properties
    named = (properties.get(name) for name in ("write.data.path", "write.metadata.path"))
    for folder in (table.metadata.location, table.storage.root, *named):
        if folder and (is_under(folder, compiled_dir) or is_under(compiled_dir, folder)):
            raise OptionError(
                "BAD_OPTION",
                f"Option 'deletes.compiled-dir' lies inside the table's location: {compiled_dir}",
                stage="options",
                hint="Choose a folder or prefix beside the table.",
            )
