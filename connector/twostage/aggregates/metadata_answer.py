"""Answer count, min, max and sum from manifests and indexes, without opening data files.

Takes a pinned table, aggregates, columns to group by and a predicate; returns the result rows, or the reason why files
must be read. The result equals that of reading every file, provided that the metrics are right, which pruning relies on
too. Position delete files are read if there are few. Files of which metadata proves too little are answered by their
indexes (`index_answers.py`); if some of them have none that suffices, the answer may omit these files and name them
(``unread``), so that Spark reads only those. `file_proofs.py` decides what a file's metadata proves.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from twostage.aggregates.deleted_counts import PositionDeleteCounts, WantedDeletes
from twostage.aggregates.file_proofs import COMPARED, COUNTED, GROUPED, FileProofs
from twostage.aggregates.index_answers import MAX_WAITING_FILES, IndexAnswers, WaitingFile
from twostage.aggregates.sums import is_summed
from twostage.aggregates.totals import Aggregate, Totals
from twostage.aggregates.unproven_files import MAX_UNPROVEN_FILES, UnprovenFiles
from twostage.data_files.computed_columns import DELETED
from twostage.planning.choose_files import Planning
from twostage.predicates.predicate import TRUE, columns as columns_of, is_exact
from twostage.schema import Primitive
from twostage.storage.files import name_snapshot
from twostage.table.manifest import fetch_manifests
from twostage.table.transforms import Transform

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.options import ReadOptions
    from twostage.planning.prune_files import PruneResult
    from twostage.predicates.predicate import Predicate
    from twostage.schema import Field
    from twostage.table.manifest_entry import ContentFile
    from twostage.table.pinned import PinnedTable
    from twostage.task import DeleteFile

MIN_FILES_TO_SUM_COUNTS = 20_000
"""Data files from which on record counts are summed without decoding manifest entries, which takes 30 us each."""
MAX_DELETE_FILES_TO_READ = 256
"""Position delete files: reading one takes the driver 1 to 4 ms, starting a Spark task 10 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateAnswer:
    """The result of aggregates.

    Attributes:
        rows: One per group: the values of the groups, then those of the aggregates, in the internal form of
            `schema.py`.
        files: How many data files the result covers.
        by_index: For how many of these it came from indexes.
        delete_files: How many position delete files were read for it.
        unread: Paths (as in manifests) of the data files that the result does not cover.
        lacks: Why the first of them is not covered.
        counters: The counters of planning.
        choices: What indexes were read, or ignored and why: sentences for the report.
    """

    rows: tuple[tuple[Any, ...], ...]
    files: int
    by_index: int = 0
    delete_files: int = 0
    unread: frozenset[str] = frozenset()
    lacks: str = ""
    counters: Mapping[str, int]
    choices: tuple[str, ...] = ()


def answer(
    table: PinnedTable,
    options: ReadOptions,
    *,
    aggregates: tuple[Aggregate, ...],
    groups: tuple[Field, ...] = (),
    predicate: Predicate = TRUE,
    mix: bool = False,
) -> AggregateAnswer | str:
    """Return the answer, or the reason why files must be read.

    Args:
        table: The table at its pinned snapshot.
        options: The reader's options.
        aggregates: The aggregates to answer.
        groups: The columns to group by.
        predicate: The query's filter.
        mix: Whether the answer may omit files for Spark to read, if metadata answers for most of the bytes.

    Raises:
        TwoStageError: Metadata, a manifest list or a manifest is damaged or does not exist.
    """
    reason = refusal(table, predicate)
    if reason is not None:
        return reason
    for part in aggregates:
        if part.function == "sum" and part.field is not None and not is_summed(part.field.type):
            return f"the sum of {part.field.name}, {part.field.type}, depends on the order of its rows"
    fields = tuple(part.field for part in aggregates if part.field is not None)
    planning = Planning(table, options, (*fields, *groups), predicate, TRUE)
    if not fields and not groups and predicate == TRUE:
        counted = _sum_record_counts(table, planning, len(aggregates))
        if counted is not None:
            return counted
    # Numbers of distinct values cannot be added up.
    mix = mix and all(part.function != "distinct" for part in aggregates)
    found = _Answering(table, options, planning, aggregates, groups, predicate, mix=mix)
    return found.answer(not_in_metadata(table, aggregates, groups))


class _Answering:
    """Collects the answer to one query, file by file: from metadata, then from indexes."""

    def __init__(
        self,
        table: PinnedTable,
        options: ReadOptions,
        planning: Planning,
        aggregates: tuple[Aggregate, ...],
        groups: tuple[Field, ...],
        predicate: Predicate,
        *,
        mix: bool,
    ) -> None:
        self._mix = mix
        self._planning = planning
        self._aggregates_columns = any(part.field is not None for part in aggregates)
        self._proofs = FileProofs(table, groups)
        self._totals = Totals(aggregates, is_grouped=bool(groups))
        self._rest = UnprovenFiles(mix=mix)
        self._deleted = PositionDeleteCounts(table, options)
        self._delete_files = 0
        self._open_indexes = partial(IndexAnswers.of, table, options, planning, aggregates, groups, predicate)
        self._indexes: IndexAnswers | None = None
        self._looked_for_indexes = False
        self._waiting: list[WaitingFile] = []
        self._by_index = 0

    def answer(self, lacking: NotInMetadata | None) -> AggregateAnswer | str:
        """Return the answer, or why files must be read; metadata is `lacking` this for all files."""
        if lacking is not None and self._index_answers(lacking.columns) is None:
            return lacking.reason
        if (
            not self._by_metadata(None if lacking is None else lacking.reason)
            or not self._by_indexes()
            or not self._rest.is_worth_mixing
            or (self._rest.paths and not self._totals.may_be_mixed)
        ):
            return self._rest.lacks
        counters = Counter({**self._planning.counters, **self._deleted.metrics.counters})
        choices: tuple[str, ...] = ()
        if self._indexes is not None:
            counters.update(self._indexes.metrics.counters)
            choices = tuple(self._indexes.metrics.choices)
        return AggregateAnswer(
            rows=self._totals.rows(),
            files=self._rest.num_proven,
            by_index=self._by_index,
            delete_files=self._delete_files,
            counters=counters,
            choices=choices,
            unread=frozenset(self._rest.paths),
            lacks=self._rest.lacks,
        )

    def _index_answers(self, needs_values: frozenset[int] = frozenset()) -> IndexAnswers | None:
        """Return what answers by indexes, searched for when the first file needs it."""
        if not self._looked_for_indexes:
            self._looked_for_indexes = True
            self._indexes = self._open_indexes(needs_values)
        return self._indexes

    def _add_unproven(
        self, file: ContentFile, pruning: PruneResult, deletes: tuple[DeleteFile, ...], lacking: str
    ) -> bool:
        """Record a file for which metadata is `lacking` something; return whether to examine further files."""
        if self._index_answers() is None:
            return self._rest.add(file, lacking)
        candidate = self._planning.candidate(file, pruning, deletes)
        self._waiting.append(WaitingFile(file, candidate, pruning.all_match))
        if len(self._waiting) > MAX_WAITING_FILES:
            self._rest.lacks = self._rest.lacks or lacking
            return False
        return True

    def _by_metadata(self, refused: str | None) -> bool:
        """Add the files that metadata answers for, none if it is `refused`; return whether an answer is still possible."""
        proofs = self._proofs
        waiting: list[tuple[ContentFile, PruneResult, tuple[DeleteFile, ...]]] = []
        to_read = WantedDeletes(MAX_DELETE_FILES_TO_READ)
        for file, pruning, deletes in self._planning.files(metrics=self._aggregates_columns):
            by_position = bool(deletes) and all(delete.content == "position" for delete in deletes)
            known = refused or proofs.of(file, pruning, () if by_position else deletes)
            if by_position and not isinstance(known, str):
                waiting.append((file, pruning, deletes))
                to_read.add(deletes)
                # Too many files would have to be read already, whatever the others prove.
                if to_read.too_much is not None and len(waiting) > (MAX_UNPROVEN_FILES if self._mix else 0):
                    self._rest.lacks = self._rest.lacks or to_read.too_much
                    return False
                continue
            lacking = known if isinstance(known, str) else self._totals.add_proof(known)
            if lacking is None:
                goes_on = self._rest.add(file, None)
            else:
                goes_on = self._add_unproven(file, pruning, deletes, lacking)
            if not goes_on:
                return False
        lacking = to_read.too_much
        if self._aggregates_columns and to_read and len(to_read) >= len(waiting):
            # Each waiting file has its own delete file, so it has deleted rows, and its bounds prove nothing.
            lacking = "files have rows deleted by position"
        counts: list[int] = [0] * len(waiting)
        if lacking is None:
            self._delete_files = len(to_read)
            counts = self._deleted.counts((file, deletes) for file, _, deletes in waiting)
        for (file, pruning, deletes), num_deleted in zip(waiting, counts, strict=True):
            found = lacking
            if found is None:
                known = proofs.of(file, pruning, (), num_deleted=num_deleted)
                found = known if isinstance(known, str) else self._totals.add_proof(known)
            if not (
                self._rest.add(file, None)
                if found is None
                else self._add_unproven(file, pruning, deletes, found)
            ):
                return False
        return True

    def _by_indexes(self) -> bool:
        """Add the files that indexes answer for; return whether an answer is still possible."""
        if self._indexes is None:
            return True
        for one, found in self._indexes.answer(self._waiting):
            lacking = found if isinstance(found, str) else self._totals.add(found)
            self._by_index += lacking is None
            if not self._rest.add(one.file, lacking):
                return False
        return True


def _sum_record_counts(table: PinnedTable, planning: Planning, width: int) -> AggregateAnswer | None:
    """Return ``count(*)`` of a table with very many files and no deletes, `width` times in one row; else None."""
    if table.snapshot is None or table.only_files is not None:
        return None
    with name_snapshot(table.snapshot.snapshot_id):
        manifests = planning.manifests
        live = sum(manifest.num_live_files or 0 for manifest in manifests)
        if live < MIN_FILES_TO_SUM_COUNTS or any(manifest.is_deletes for manifest in manifests):
            return None
        from twostage.aggregates.row_counts import count_rows, is_compiled  # noqa: PLC0415 - few tables have that many files

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
    return AggregateAnswer(rows=((rows,) * width,), files=files, counters=counters)


def refusal(table: PinnedTable, predicate: Predicate) -> str | None:
    """Return why neither metadata nor indexes can answer, if that is known without reading manifests; else None."""
    if table.metadata_table is not None:
        return "it is a metadata table"
    if not is_exact(predicate):
        return "a filter is left to Spark"
    if any(column.field_id == DELETED for column in columns_of(predicate)):
        return "the filter shows deleted rows"
    return None


@dataclass(frozen=True, slots=True)
class NotInMetadata:
    """Why metadata alone answers for no data file, and the columns whose values indexes must give."""

    reason: str
    columns: frozenset[int]


def not_in_metadata(
    table: PinnedTable, aggregates: tuple[Aggregate, ...], groups: tuple[Field, ...]
) -> NotInMetadata | None:
    """Return what metadata alone tells for no file, if that is known without reading manifests; else None."""
    columns = {field.id for field in table.schema.fields}
    identity = {
        part.source_id
        for spec in table.metadata.specs.values()
        for part in spec.fields
        if Transform.of(part).name == "identity"
    }
    reasons: dict[int, str] = {}
    for part in aggregates:
        field = part.field
        if field is None:
            continue
        kind = field.type.name if isinstance(field.type, Primitive) and field.id in columns else ""
        may_be_constant = field.id in identity and kind in GROUPED
        told = {"count": COUNTED, "sum": frozenset[str]()}.get(part.function, COMPARED)
        if kind not in told and not may_be_constant:
            reasons[field.id] = f"bounds do not give {part.function}({field.name})"
    for field in groups:
        if field.id not in columns or not isinstance(field.type, Primitive) or field.type.name not in GROUPED:
            reasons[field.id] = f"{field.name} is not a column to group by"
        elif field.id not in identity:
            reasons[field.id] = f"{field.name} is not an identity partition"
    return NotInMetadata(next(iter(reasons.values())), frozenset(reasons)) if reasons else None
