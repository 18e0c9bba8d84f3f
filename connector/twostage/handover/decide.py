"""Decides whether Spark's own Parquet reader does a relation's scan.

Takes what the query needs of the relation; gives the reason why the scan stays with us, or the pinned files and the
settings under which Spark reads them as we would. The rule: if deciding fails, the scan stays here, where the same error
is raised should the query run into it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from twostage.deletes.compiled.for_planning import read_compiled
from twostage.errors import TwoStageError
from twostage.handover import key_ranges
from twostage.handover.deleted_bits import read_deleted
from twostage.handover.eligibility import (
    MAX_COLUMNS,
    MIN_ROWS_PER_KEY_TO_PRUNE,
    MIN_ROWS_TO_AWAIT_KEYS,
    NUM_DELETE_COLUMNS,
    files_of,
    is_read_fast,
    is_small,
    location_for_spark,
    ranges_of,
    stays_by_files,
    stays_by_footers,
    stays_by_join,
    stays_by_plan,
    stays_by_query,
    stays_by_share,
    stays_by_size,
    stays_by_store,
    stays_by_top,
)
from twostage.handover.file_facts import count_uncached, file_facts
from twostage.handover.kept_share import estimate_kept_share
from twostage.handover.protocol import DeletedRows, SparkFile, SparkScan
from twostage.metrics import Metrics
from twostage.planning.estimates import drops_rows, estimate_bytes
from twostage.predicates.predicate import TRUE, both, is_exact, weaken
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from twostage.deletes.positions.position_deletes import DeletedPositions
    from twostage.handover.deleted_bits import DeletedBits
    from twostage.handover.file_facts import FileFacts
    from twostage.handover.kept_share import KeptShare
    from twostage.handover.protocol import ScanDemand
    from twostage.options import ReadOptions
    from twostage.predicates.predicate import Predicate
    from twostage.predicates.top import TopRows
    from twostage.schema import Field
    from twostage.table.pinned import PinnedTable
    from twostage.task import ScanPlan

_OPTIONS = {
    # Set on the relation, so that no setting of the session changes rows, now or when the query runs again.
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.fieldId.read.ignoreMissing": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "mergeSchema": "false",
}
_DELETE_WIDTH = 8 + 4
"""Bytes per row, as Spark's optimizer counts them, of the two columns that identify deleted rows."""
_RANGE_WIDTH = 8 + 8
"""Bytes per row of the two columns with a file's range of a key column."""
_CHECKSUMS = "parquet.page.verify-checksum.enabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitsKeys:
    """The scan stays with us until it is known which keys of a join will come; then Spark's reader may do it."""

    columns: tuple[str, ...]
    """The columns whose keys can prune files."""
    only_these: bool = True
    """Keys of others would be useless: Spark's reader does the scan in any case. False: it does unless some come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver:
    """A scan that Spark's reader does: the plan for the report, and what the planner's Java is told."""

    plan: ScanPlan
    scan: SparkScan


def hand_over(
    table: PinnedTable,
    options: ReadOptions,
    demand: ScanDemand,
    *,
    bind: Callable[[Mapping[str, Any]], Predicate],
    plan_scan: Callable[[tuple[Field, ...], Predicate, Predicate, TopRows | None], ScanPlan],
    top: TopRows | None = None,
    awaited_keys: bool = False,
    has_keys: bool = False,
) -> HandedOver | AwaitsKeys | str:
    """Return the scan as Spark's reader does it, or the reason why it stays with us.

    Args:
        table: The table at its pinned snapshot.
        options: The reader's options.
        demand: What the query needs of the relation.
        bind: Makes a predicate of the planner's JSON.
        plan_scan: Plans a scan from its projection, predicate, hint and top-n.
        top: The top-n, if the query wants no other rows of those that match its filters.
        awaited_keys: The scan stayed only because keys of a join might prune it. By now it is known whether they come.
        has_keys: They do, for columns that `AwaitsKeys` named.
    """
    reason = stays_by_query(table, options, demand)
    if reason is not None:
        return reason
    by_name = {field.name: field for field in table.schema.fields}
    exact, hints = [], []
    projected = set(demand.returned)
    for conjunct in demand.predicates:
        bound = None if conjunct.form is None else bind(conjunct.form)
        if bound is not None and is_exact(bound):
            exact.append(bound)
        else:  # Spark evaluates it, whichever reader reads
            hints.append(TRUE if bound is None else weaken(bound))
            projected.update(conjunct.columns)
    try:
        # Planned as for reading here, so that the plan can be used if the scan stays.
        projection = tuple(by_name[name] for name in demand.columns if name in projected)
        wanted = (projection, both(TRUE, *exact), both(TRUE, *hints))
        if top is not None and not hints:
            first = plan_scan(*wanted, top)
            # Its files are a subset of the scan's: what keeps them here, such as equality deletes that were not compiled,
            # keeps the whole scan here, without planning it a second time.
            keeps_first = (
                stays_by_top(first)
                or stays_by_plan(first, demand.file_systems)
                or _read_compiled(first, Metrics())
            )
            if isinstance(keeps_first, str):
                return keeps_first
        plan = plan_scan(*wanted, None)
        metrics = Metrics()
        # Spark's reader does it, however many rows its filter drops: Spark then sees the filter, whose keys may prune the other side.
        is_small_side = demand.under_join and is_small(plan)
        may_be_pruned = demand.may_be_pruned_by_join and not awaited_keys
        compiled = (
            stays_by_plan(plan, demand.file_systems)
            or stays_by_store(plan)
            or (None if is_small_side else stays_by_size(plan))
            or (stays_by_join(plan) if may_be_pruned and not is_small_side else None)
            or _read_compiled(plan, metrics)
        )
        if isinstance(compiled, str):
            return compiled
        fields = tuple(by_name[name] for name in demand.columns)
        # Cached footers tell in 0.01 ms how many rows a filter keeps that only drops NULLs; a probe of three columns takes 8.
        facts = None if drops_rows(plan.context.predicate) else _check_files(plan, table, fields)
        if isinstance(facts, str):
            return facts
        kept_share = None if is_small_side else estimate_kept_share(plan, facts or ())
        stays = None if is_small_side else _stays_by_share(plan, kept_share)
        found = stays or facts or _check_files(plan, table, fields)
        if isinstance(found, str):
            return found
        stays_for_keys = (
            None if is_small_side else stays_by_join(plan, found, fields, options.dynamic_filter_min_bytes)
        )
        serves_no_keys = not options.dynamic_filter_files or (is_small_side and _needs_no_keys(plan))
        columns = (
            () if serves_no_keys else _key_columns(found, fields, only_coarse=stays_for_keys is not None)
        )
        if may_be_pruned and columns:
            return AwaitsKeys(columns=columns, only_these=stays_for_keys is None)
        if may_be_pruned and stays_for_keys is not None:
            return stays_for_keys
        deleted = read_deleted(plan.context, files_of(plan), compiled, metrics)
    except TwoStageError as error:
        return f"an error while planning: {error.code}"
    why = _why(plan, kept_share)
    if awaited_keys:
        told = f"join keys exclude files by {', '.join(columns)}" if has_keys else "no join keys arrived"
        why = f"{told}, {why}"
    keys = [by_name[name] for name in columns] if has_keys else []
    joined_by = by_name.get(demand.joined_by or "")
    rows_a_key = 1.0 if joined_by is None else key_ranges.rows_a_key(found, joined_by)
    return _handed_over(
        plan, found, fields, keys, options, why, deleted, metrics, demand.file_systems, rows_a_key
    )


def _needs_no_keys(plan: ScanPlan) -> bool:
    """Return whether a small side goes to Spark at once: reading it takes no time, or it has a filter for Spark to see."""
    return plan.estimated_rows < MIN_ROWS_TO_AWAIT_KEYS or _is_filtered(plan)


def _is_filtered(plan: ScanPlan) -> bool:
    return drops_rows(plan.context.predicate) or drops_rows(plan.context.hint)


def _key_columns(facts: list[FileFacts], fields: tuple[Field, ...], *, only_coarse: bool) -> tuple[str, ...]:
    """Return the columns whose keys can prune files; none if their ranges would make Spark's reader return rows, not batches.

    `only_coarse`: only those of which each key has many rows, so that no reader skips much of a file that has any of them.
    """
    width = len(fields) + NUM_DELETE_COLUMNS + 2 * key_ranges.MAX_KEY_COLUMNS
    if width > MAX_COLUMNS or (only_coarse and not is_read_fast(facts, fields)):
        return ()
    fewest = MIN_ROWS_PER_KEY_TO_PRUNE if only_coarse else 0
    enough = tuple(field for field in fields if key_ranges.rows_a_key(facts, field) >= fewest)
    return key_ranges.key_columns(facts, enough)


def _read_compiled(plan: ScanPlan, metrics: Metrics) -> list[DeletedPositions] | str:
    return read_compiled(plan.context, ranges_of(plan), metrics)


def _stays_by_share(plan: ScanPlan, kept: KeptShare | None) -> str | None:
    return stays_by_share(plan, None, "") if kept is None else stays_by_share(plan, kept.share, kept.how)


def _check_files(plan: ScanPlan, table: PinnedTable, fields: tuple[Field, ...]) -> str | list[FileFacts]:
    files = files_of(plan)
    paths = [task.path for task in files]
    constants = {
        field.id: field.type
        for field in fields
        if isinstance(field.type, Primitive) and any(field.id in task.constants for task in files)
    }
    sizes = [task.file_size for task in files]
    uncached = count_uncached(table.storage, paths, constants, sizes)
    reason = stays_by_footers(len(files), uncached, sum(sizes))
    if reason is not None:
        return reason
    facts = file_facts(table.storage, paths, constants, sizes)
    return stays_by_files(files, facts, fields) or facts


def _why(plan: ScanPlan, kept: KeptShare | None) -> str:
    """Return why Spark's reader does a scan, for the report."""
    if plan.context.predicate == TRUE:
        return "nothing to filter"
    if all(task.all_match for task in files_of(plan)):
        return "all rows of its files match"
    if kept is None:
        return "its files are small, and a join waits for it"
    return f"the filter keeps most rows ({kept.how})"


def _handed_over(
    plan: ScanPlan,
    facts: list[FileFacts],
    fields: tuple[Field, ...],
    keys: list[Field],
    options: ReadOptions,
    why: str,
    deleted: DeletedBits | None,
    metrics: Metrics,
    file_systems: tuple[str, ...],
    rows_a_key: float,
) -> HandedOver:
    files = files_of(plan)
    firsts = [None] * len(files) if deleted is None else deleted.firsts
    listed = tuple(
        SparkFile(
            path=_located(task.path, file_systems),
            length=known.file_size,
            first_bit=first,
            ranges=key_ranges.ranges_of(known, keys),
        )
        for task, known, first in zip(files, facts, firsts, strict=True)
    )
    rows = sum(known.num_rows for known in facts)
    columns = [known.columns.get(field.id) for known in facts for field in fields]
    counters = {
        "handed_over.files": len(files),
        "handed_over.rows": rows,
        "handed_over.bytes": sum(column.num_bytes for column in columns if column is not None),
    }
    deletes = "no deletes"
    if deleted is not None:
        how = "by position"
        if metrics.counters["delete_compiled.hits"]:
            how += f", {deleted.by_equality:,} of them by compiled equality deletes"
        deletes = f"{deleted.rows:,} rows of {deleted.files} files deleted {how}, which Spark leaves out"
        counters["handed_over.deleted"] = deleted.rows
    choice = f"Handed to Spark's own Parquet reader: {why}, {deletes}, {len(files)} footers checked."
    checksums = str(options.settings.verify_checksums).lower()
    return HandedOver(
        plan=replace(
            plan,
            groups=(),
            is_handed_over=True,
            counters={**plan.counters, **metrics.counters, **counters},
            choices=(choice, *metrics.choices),
        ),
        scan=SparkScan(
            scan=plan.context.scan_id,
            root=_located(plan.context.storage.root, file_systems),
            files=listed,
            deleted=None if deleted is None else DeletedRows(size=deleted.size, texts=tuple(deleted.texts)),
            key_columns=tuple(key.name for key in keys),
            # For all columns that Spark reads; Spark subtracts those that only its filter needs.
            bytes=estimate_bytes(
                plan.estimated_rows,
                files,
                fields,
                plan.context.schema,
                is_filtered=_is_filtered(plan),
                rows_a_key=rows_a_key,
                extra_width=(0 if deleted is None else _DELETE_WIDTH) + _RANGE_WIDTH * len(keys),
            ),
            ids={field.name: field.id for field in fields},
            options={**_OPTIONS, _CHECKSUMS: checksums},
        ),
    )


def _located(path: str, file_systems: tuple[str, ...]) -> str:
    located = location_for_spark(path, file_systems)
    assert located is not None, path  # stays_by_plan checked each
    return located
