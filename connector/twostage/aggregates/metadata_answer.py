"""Counts, minima and maxima that manifests prove, so that no data file is opened.

Takes a pinned table, aggregates, identity-partition columns to group by and a predicate; gives the rows of the
answer, or the reason why files must be read. The rule: an answer is what reading every file would give, as far
as the metrics are right, which pruning relies on too. Positional delete files are read for it if they are few. Where
few files prove too little, the rows may leave them out, and name them. Nothing here knows Spark; what proves a file
is in `file_proofs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from twostage.aggregates.deleted_counts import DeletedRows, WantedDeletes
from twostage.aggregates.file_proofs import COMPARED, COUNTED, GROUPED, FileProof, FileProofs
from twostage.aggregates.unproven_files import MOST_UNREAD, UnprovenFiles
from twostage.data_files.computed_columns import DELETED
from twostage.planning.choose_files import Planning
from twostage.predicates.predicate import TRUE, columns as columns_of, is_exact
from twostage.schema import Field, Primitive
from twostage.storage.files import name_snapshot
from twostage.table.manifest import fetch_manifests
from twostage.table.transforms import Transform

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.options import ReadOptions
    from twostage.planning.prune_files import Verdict
    from twostage.predicates.predicate import Predicate
    from twostage.table.manifest_entry import ContentFile
    from twostage.table.pinned import PinnedTable
    from twostage.task import DeleteFile

MOST_GROUPS = 10_000
"""Rows of an answer at most: the driver holds them."""
MANY_FILES = 20_000
"""From so many on, entries are not read one by one to count rows: 30 us each."""
MOST_DELETE_FILES = 256
"""Files of positions take the driver 1 to 4 ms each, and a task starts in 10."""

Function = Literal["rows", "count", "min", "max"]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``count(*)`` (``rows``), or `function` of a column."""

    function: Function
    field: Field | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The rows: the values of the groups, then those of the aggregates. Values in the form of `schema.py`."""

    rows: tuple[tuple[Any, ...], ...]
    files: int
    """Data files whose metadata answered."""
    delete_files: int = 0
    """Positional delete files that were read for it."""
    unread: frozenset[str] = frozenset()
    """Data files that the rows leave out, as they prove too little: written paths."""
    lacks: str = ""
    """What the first of them lacks."""
    counters: Mapping[str, int]


def answer(
    table: PinnedTable,
    options: ReadOptions,
    *,
    aggregates: tuple[Aggregate, ...],
    groups: tuple[Field, ...] = (),
    predicate: Predicate = TRUE,
    mix: bool = False,
) -> Answer | str:
    """Return the answer, or why there is none.

    Args:
        table: The table at its pinned snapshot.
        options: The reader's options.
        aggregates: What is asked.
        groups: Columns to group by.
        predicate: What the rows must meet.
        mix: Whether files may be left to be read, if metadata answers for the greater part of the bytes.

    Raises:
        TwoStageError: Metadata, a manifest list or a manifest is damaged or not there.
    """
    reason = refusal(table, aggregates, groups, predicate)
    if reason is not None:
        return reason
    fields = tuple(part.field for part in aggregates if part.field is not None)
    planning = Planning(table, options, (*fields, *groups), predicate, TRUE)
    if not fields and not groups and predicate == TRUE:
        counted = _count_of_many(table, planning, len(aggregates))
        if counted is not None:
            return counted
    proofs = FileProofs(table, groups)
    totals: dict[tuple[Any, ...], _Totals] = {}
    if not groups:
        totals[()] = _Totals(aggregates)
    rest = UnprovenFiles(mix=mix)
    waiting: list[tuple[ContentFile, Verdict, tuple[DeleteFile, ...]]] = []
    to_read = WantedDeletes(MOST_DELETE_FILES)
    for file, verdict, deletes in planning.files(metrics=bool(fields)):
        by_position = bool(deletes) and all(delete.content == "position" for delete in deletes)
        known = proofs.of(file, verdict, () if by_position else deletes)
        if by_position and not isinstance(known, str):
            waiting.append((file, verdict, deletes))
            to_read.add(deletes)
            # All that wait would have to be read, so that the others need not be asked.
            if to_read.too_much is not None and len(waiting) > (MOST_UNREAD if mix else 0):
                return rest.lacks or to_read.too_much
        elif not rest.goes_on(file, known if isinstance(known, str) else _add(totals, known, aggregates)):
            return rest.lacks
    lacking = to_read.too_much
    if fields and to_read and len(to_read) >= len(waiting):
        lacking = (
            "files have rows deleted by position"  # in each of them, or else it had no delete file of its own
        )
    deleted = DeletedRows(table, options)
    if lacking is None:
        deleted.keep_ahead((file, deletes) for file, _, deletes in waiting)
    for file, verdict, deletes in waiting:
        found = lacking
        if found is None:
            known = proofs.of(file, verdict, (), gone=deleted.count(file, deletes))
            found = known if isinstance(known, str) else _add(totals, known, aggregates)
        if not rest.goes_on(file, found):
            return rest.lacks
    if not rest.is_worth_it:
        return rest.lacks
    return Answer(
        rows=tuple((*group, *total.values) for group, total in totals.items()),
        files=rest.num_proven,
        delete_files=0 if lacking is not None else len(to_read),
        counters={**planning.counters, **deleted.metrics.counters},
        unread=frozenset(rest.paths),
        lacks=rest.lacks,
    )


def _add(
    totals: dict[tuple[Any, ...], _Totals], known: FileProof, aggregates: tuple[Aggregate, ...]
) -> str | None:
    """Add a file to its group; return what its metadata does not tell, if anything."""
    if not known.rows:
        return None
    total = totals.get(known.group)
    if total is None:
        if len(totals) == MOST_GROUPS:
            return f"more than {MOST_GROUPS} groups"
        total = _Totals(aggregates)
    lacking = total.add(known)
    if lacking is None:
        totals[known.group] = total
    return lacking


def _count_of_many(table: PinnedTable, planning: Planning, width: int) -> Answer | None:
    """Return the rows of a table of very many files without deletes, `width` times; None where it takes a closer look."""
    if table.snapshot is None or table.only is not None:
        return None
    with name_snapshot(table.snapshot.snapshot_id):
        manifests = planning.manifests
        live = sum(manifest.num_live_files or 0 for manifest in manifests)
        if live < MANY_FILES or any(manifest.is_deletes for manifest in manifests):
            return None
        from twostage.aggregates.row_counts import count_rows, is_compiled  # noqa: PLC0415 - few tables have so many

        if not is_compiled():
            return None
        specs = table.metadata.specs
        files = rows = 0
        for manifest, data in fetch_manifests(table.storage, manifests):
            found = count_rows(data, manifest, specs.get(manifest.spec_id or 0))
            if found is None:
                return None
            files += found[0]
            rows += found[1]
    counters = {"manifests.considered": len(manifests), "files.considered": files}
    return Answer(rows=((rows,) * width,), files=files, counters=counters)


def refusal(
    table: PinnedTable, aggregates: tuple[Aggregate, ...], groups: tuple[Field, ...], predicate: Predicate
) -> str | None:
    """Return why metadata cannot answer, by what is known before a manifest is read."""
    if table.metadata_table is not None:
        return "it is a metadata table"
    if not is_exact(predicate):
        return "a filter is left to Spark"
    if any(column.field_id == DELETED for column in columns_of(predicate)):
        return "the filter shows deleted rows"
    columns = {field.id for field in table.schema.fields}
    identity = {
        part.source_id
        for spec in table.metadata.specs.values()
        for part in spec.fields
        if Transform.of(part).name == "identity"
    }
    for part in aggregates:
        field = part.field
        if field is None:
            continue
        kind = field.type.name if isinstance(field.type, Primitive) and field.id in columns else ""
        may_be_constant = field.id in identity and kind in GROUPED
        if kind not in (COUNTED if part.function == "count" else COMPARED) and not may_be_constant:
            return f"bounds do not tell {part.function}({field.name})"
    for field in groups:
        if field.id not in columns or not isinstance(field.type, Primitive) or field.type.name not in GROUPED:
            return f"{field.name} is no column to group by"
        if field.id not in identity:
            return f"{field.name} is no identity partition"
    return None


class _Totals:
    """The aggregates of one group."""

    __slots__ = ("_aggregates", "values")

    def __init__(self, aggregates: tuple[Aggregate, ...]) -> None:
        self._aggregates = aggregates
        self.values: list[Any] = [0 if part.function in ("rows", "count") else None for part in aggregates]

    def add(self, known: FileProof) -> str | None:
        """Add a file; return what its metadata does not tell, if anything: then it is not added."""
        values = list(self.values)
        for place, part in enumerate(self._aggregates):
            if part.field is None:
                values[place] += known.rows
                continue
            column = known.column(part.field)
            if isinstance(column, str):
                return column
            if part.function == "count":
                if column.nulls is None:
                    return f"a file does not tell how many values {part.field.name} has"
                values[place] += known.rows - column.nulls
            elif column.nulls is None or column.nulls < known.rows:
                value = column.lower if part.function == "min" else column.upper
                if value is None:
                    return f"a file's metadata does not tell the {part.function} of {part.field.name}"
                held = values[place]
                if held is None or (value < held if part.function == "min" else value > held):
                    values[place] = value
        self.values = values
        return None
