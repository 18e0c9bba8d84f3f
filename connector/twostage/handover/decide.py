"""Answers the planner's question whether Spark's own Parquet reader does a relation's scan.

Takes what the planner's Java saw around the relation; gives the reason why the scan stays with us, or the
pinned files and the settings under which Spark reads them as we would. The rule: an error met on the way
keeps the scan here, where the same error is raised if it is one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from twostage.deletes.compiled.for_planning import read_compiled
from twostage.errors import TwoStageError
from twostage.handover.deleted_bits import read_deleted
from twostage.handover.eligibility import (
    Surroundings,
    files_of,
    location_for_spark,
    ranges_of,
    stays_by_files,
    stays_by_footers,
    stays_by_join,
    stays_by_plan,
    stays_by_query,
    stays_by_share,
    stays_by_size,
    stays_by_top,
)
from twostage.handover.file_facts import file_facts, unread
from twostage.handover.kept_share import estimate_kept_share
from twostage.metrics import Metrics
from twostage.predicates.predicate import TRUE, both, is_exact, weaken
from twostage.schema import Primitive

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from twostage.deletes.positions.position_deletes import DeletedPositions
    from twostage.handover.deleted_bits import DeletedBits
    from twostage.handover.file_facts import FileFacts
    from twostage.handover.kept_share import KeptShare
    from twostage.options import ReadOptions
    from twostage.predicates.predicate import Predicate
    from twostage.predicates.top import TopRows
    from twostage.schema import Field
    from twostage.table.pinned import PinnedTable
    from twostage.task import ScanPlan

_OPTIONS = {
    # Of the relation, so that no setting of the session changes rows, now or when the query runs again.
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.fieldId.read.ignoreMissing": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "mergeSchema": "false",
}
_CHECKSUMS = "parquet.page.verify-checksum.enabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver:
    """A scan that Spark's reader does. `answer` is for the planner's Java, `plan` for the report."""

    plan: ScanPlan
    answer: Mapping[str, Any]


def hand_over(
    table: PinnedTable,
    options: ReadOptions,
    message: Mapping[str, Any],
    *,
    bind: Callable[[Mapping[str, Any]], Predicate],
    plan_scan: Callable[[tuple[Field, ...], Predicate, Predicate, TopRows | None], ScanPlan],
    top: TopRows | None = None,
) -> HandedOver | str:
    """Return the scan as it is handed over, or the reason why it stays.

    Args:
        table: The table at its pinned snapshot.
        options: The reader's options.
        message: The planner's request ``native``.
        bind: Makes a predicate of the planner's JSON.
        plan_scan: Plans the scan of a projection, a predicate, a hint and the first rows by an order.
        top: The first rows by an order, if the query wants only these of those that its filters leave.
    """
    query = Surroundings(
        columns=tuple(message["columns"]),
        returns_columns=bool(message["returned"]),
        under_limit=message["under_limit"],
        may_be_pruned_by_join=message["may_be_pruned_by_join"],
        names_files=message["names_files"],
        reads_vectors=message["reads_vectors"],
    )
    file_systems = tuple(message["file_systems"])
    reason = stays_by_query(table, options, query)
    if reason is not None:
        return reason
    by_name = {field.name: field for field in table.schema.fields}
    taken, hints = [], []
    kept = set(message["returned"])
    for raw in message["predicates"]:
        bound = None if raw["form"] is None else bind(raw["form"])
        if bound is not None and is_exact(bound):
            taken.append(bound)
        else:  # Spark evaluates it, whoever reads
            hints.append(TRUE if bound is None else weaken(bound))
            kept.update(raw["columns"])
    try:
        # As the scan would be planned here, so that the plan serves if it stays.
        projection = tuple(by_name[name] for name in query.columns if name in kept)
        wanted = (projection, both(TRUE, *taken), both(TRUE, *hints))
        if top is not None and not hints:
            first = plan_scan(*wanted, top)
            # Its files are some of all, and most of the bytes: what keeps them here, equality deletes that were not
            # compiled say, keeps all, and they are planned once.
            lacking = (
                stays_by_top(first) or stays_by_plan(first, file_systems) or _read_compiled(first, Metrics())
            )
            if isinstance(lacking, str):
                return lacking
        plan = plan_scan(*wanted, None)
        metrics = Metrics()
        compiled = (
            stays_by_plan(plan, file_systems)
            or stays_by_size(plan)
            or (stays_by_join(plan) if query.may_be_pruned_by_join else None)
            or _read_compiled(plan, metrics)
        )
        if isinstance(compiled, str):
            return compiled
        kept_share = estimate_kept_share(plan)
        fields = tuple(by_name[name] for name in query.columns)
        found = _stays_by_share(plan, kept_share) or _check_files(plan, table, fields)
        if isinstance(found, list) and query.may_be_pruned_by_join:
            found = stays_by_join(plan, found, fields) or found
        if isinstance(found, str):
            return found
        deleted = read_deleted(plan.context, files_of(plan), compiled, metrics)
    except TwoStageError as error:
        return f"an error while planning: {error.code}"
    return _handed_over(plan, found, fields, options, kept_share, deleted, metrics, file_systems)


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
    reason = stays_by_footers(len(files), unread(paths, constants), sum(task.file_size for task in files))
    if reason is not None:
        return reason
    facts = file_facts(table.storage, paths, constants)
    return stays_by_files(files, facts, fields) or facts


def _handed_over(
    plan: ScanPlan,
    facts: list[FileFacts],
    fields: tuple[Field, ...],
    options: ReadOptions,
    kept: KeptShare | None,
    deleted: DeletedBits | None,
    metrics: Metrics,
    file_systems: tuple[str, ...],
) -> HandedOver:
    files = files_of(plan)
    listed = [
        [location_for_spark(task.path, file_systems), known.file_size]
        for task, known in zip(files, facts, strict=True)
    ]
    if deleted is not None:
        listed = [[*file, first] for file, first in zip(listed, deleted.firsts, strict=True)]
    rows = sum(known.num_rows for known in facts)
    columns = [known.columns.get(field.id) for known in facts for field in fields]
    counters = {
        "handed_over.files": len(files),
        "handed_over.rows": rows,
        "handed_over.bytes": sum(column.num_bytes for column in columns if column is not None),
    }
    if plan.context.predicate == TRUE:
        why = "nothing to filter"
    elif all(task.all_match for task in files):
        why = "all rows of its files match"
    else:
        why = f"the filter keeps most rows ({kept.how if kept is not None else ''})"
    gone = "no deletes"
    if deleted is not None:
        how = "by position"
        if metrics.counters["delete_compiled.hits"]:
            how += f", {deleted.by_equality:,} of them by compiled equality deletes"
        gone = f"{deleted.rows:,} rows of {deleted.files} files deleted {how}, which Spark leaves out"
        counters["handed_over.deleted"] = deleted.rows
    choice = f"Handed to Spark's own Parquet reader: {why}, {gone}, {len(files)} footers checked."
    checksums = str(options.settings.verify_checksums).lower()
    return HandedOver(
        plan=replace(
            plan,
            groups=(),
            is_handed_over=True,
            counters={**plan.counters, **metrics.counters, **counters},
            choices=(choice, *metrics.choices),
        ),
        answer={
            "scan": plan.context.scan_id,
            "root": location_for_spark(plan.context.storage.root, file_systems),
            "files": listed,
            "deleted": None if deleted is None else {"size": deleted.size, "bits": deleted.texts},
            "bytes": plan.estimated_bytes,
            "ids": {field.name: field.id for field in fields},
            "options": {**_OPTIONS, _CHECKSUMS: checksums},
        },
    )
