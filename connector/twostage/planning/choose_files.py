"""The data files that a scan reads, each with the deletes that apply to it.

Takes a `PinnedTable`, the query's projection and predicates, and the options; returns one `Candidate` per
file of the snapshot that may contain a matching row, and counts the pruned files. A file is pruned only if it
contains no matching row, or if other files are certain to satisfy LIMIT or top-n.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property, partial
from typing import TYPE_CHECKING

from twostage.metrics import Metrics
from twostage.planning.candidates import CandidateBuilder
from twostage.planning.delete_index import DeleteIndex
from twostage.planning.encrypted_files import refuse_encrypted
from twostage.planning.index_pruning import prune_by_keys
from twostage.planning.join_selectivity import JoinSelectivity
from twostage.planning.name_mapping import fields_with_stale_metrics, without_metrics
from twostage.planning.prune_files import FilePruner, PruneResult
from twostage.planning.schema_history import key_field
from twostage.planning.top_n import RankedFile, keep_best
from twostage.predicates.predicate import FALSE, TRUE, both, conjuncts
from twostage.schema import Struct
from twostage.storage.files import canonical_for, locate
from twostage.storage.immutable_files import ImmutableReads
from twostage.table.manifest import is_local, read_manifest_list, read_manifests, stream_manifests
from twostage.table.manifest_cache import read_delete_manifests, request_manifests, stream_data_manifests
from twostage.table.manifest_fields import METRIC_FIELDS
from twostage.table.metadata_columns import PARTITION, MetadataColumnValues, scan_schema, used_columns
from twostage.table.partition_values import partition_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from twostage.indexes.of_scan import ScanIndexes
    from twostage.options import ReadOptions
    from twostage.planning.splits import Candidate
    from twostage.predicates.bounds import Bounds
    from twostage.predicates.predicate import Predicate
    from twostage.predicates.top import TopRows
    from twostage.schema import Field
    from twostage.table.manifest_entry import ContentFile, ManifestFile
    from twostage.table.pinned import PinnedTable
    from twostage.task import DeleteFile, TaskGroup


class Planning:
    """One planning run, with its counters and the choices to report.

    Args:
        table: The pinned table.
        options: The reader's options.
        projection: The columns to return.
        predicate: Evaluated by us: exactly the rows for which it is true are returned.
        hint: Implied by predicates that Spark evaluates later; prunes only.
        top: The query's ORDER BY and LIMIT, if it may prune.
        indexes: Table-wide indexes that may tell which files hold a key.
        metrics: Gains the bytes read from them.
        keys: Conjuncts of the predicate that are join keys: what they alone prune is counted.
    """

    def __init__(
        self,
        table: PinnedTable,
        options: ReadOptions,
        projection: tuple[Field, ...],
        predicate: Predicate,
        hint: Predicate,
        top: TopRows | None = None,
        indexes: ScanIndexes | None = None,
        metrics: Metrics | None = None,
        keys: tuple[Predicate, ...] = (),
    ) -> None:
        self.top = top
        self._indexes = indexes
        self._metrics = Metrics() if metrics is None else metrics
        self.counters: Counter[str] = Counter()
        self.choices: list[str] = []
        self.limit_reached = False
        self.ranked: list[RankedFile] = []
        self.join_selectivity = JoinSelectivity(predicate, keys)
        self._table = table
        self._settings = options.settings
        self._keeps_manifests = options.manifest_cache
        used = used_columns(projection, predicate, hint)
        self.schema = scan_schema(table) if used else table.schema
        struct = partition_type(table.metadata) if PARTITION in used else Struct(())
        self._file_columns = MetadataColumnValues(used, struct)
        self._pruner = FilePruner(table.metadata, self.schema, predicate, hint, self._file_columns)
        others = both(*(part for part in conjuncts(predicate) if part not in keys))
        self._without_keys = (
            FilePruner(table.metadata, self.schema, others, hint, self._file_columns) if keys else None
        )
        self._stale_metrics = fields_with_stale_metrics(table.metadata)
        self._predicate, self._hint = predicate, hint
        self._is_filtered = predicate != TRUE or hint != TRUE
        self._is_hinted = hint != TRUE
        self._is_empty = predicate == FALSE
        self._deletes: DeleteIndex | None = None
        self._candidates = CandidateBuilder(
            table, options.settings, projection, predicate, top, self._file_columns
        )

    @cached_property
    def manifests(self) -> tuple[ManifestFile, ...]:
        """The manifests of the snapshot; none if the predicate is FALSE or the table has no snapshot."""
        snapshot = self._table.snapshot
        return () if snapshot is None or self._is_empty else read_manifest_list(self._table.storage, snapshot)

    def choose_files(self, limit: int | None) -> list[Candidate]:
        """Return the files to read, in the order of the manifests (for top-n: best first).

        Args:
            limit: The number of rows that suffice, if Spark pushed a limit.
        """
        if limit == 0:
            return []
        with ImmutableReads(self._table.storage) as reads:
            return self._choose_files(limit, reads)

    def _choose_files(self, limit: int | None, reads: ImmutableReads) -> list[Candidate]:
        data, deletes = self._manifests(reads, 1 if limit is not None else None)
        chosen: list[Candidate] = []
        sufficient: list[Candidate] = []
        sufficient_rows = 0
        ranked: list[RankedFile] = []
        for file, pruning in self._files(data, reads, may_stop_early=limit is not None):
            applied = deletes.deletes_of(file)
            candidate = self._candidates.build(
                file,
                applied,
                deletes.fingerprint_before_pruning(file),
                all_match=pruning.all_match,
            )
            chosen.append(candidate)
            self.join_selectivity.add(file.record_count, self.bounds_of(file))
            # Avro files have no row count, so a wrong count in the manifest would go unnoticed.
            is_counted = pruning.all_match and file.record_count > 0 and file.format != "avro"
            # A vector's cardinality is verified when it is read; other deletes may delete every row.
            num_deleted = sum(d.record_count if d.content == "vector" else file.record_count for d in applied)
            counts_are_exact = is_counted and num_deleted < file.record_count
            if self.top is not None:
                key = self._pruner.bounds(file, self.top.column.field_id)
                ranked.append(
                    RankedFile(
                        candidate=candidate,
                        key=key,
                        counts_are_exact=counts_are_exact,
                        num_deleted=num_deleted,
                    )
                )
            if limit is not None and counts_are_exact and not self._is_hinted:
                sufficient.append(candidate)
                sufficient_rows += file.record_count - num_deleted
                if sufficient_rows >= limit:
                    self.limit_reached = True
                    self.choices.append(
                        f"Limit {limit}: {len(sufficient)} files have enough rows that live for certain."
                    )
                    chosen = sufficient
                    break
        if self._indexes is not None and self._settings.prune_files and not self.limit_reached:
            wanted, memory = both(self._predicate, self._hint), self._settings.memory_budget
            chosen = prune_by_keys(chosen, wanted, self._indexes, memory, self.counters, self._metrics)
            kept = set(map(id, chosen))
            ranked = [one for one in ranked if id(one.candidate) in kept]
        self.ranked = ranked
        if self.top is not None and self._settings.prune_files:
            chosen, self.top = keep_best(self.top, ranked, self.counters, self.choices)
        self._refuse_encrypted(chosen, deletes)
        self.counters["delete_files.considered"] = deletes.considered
        self.counters["delete_files.skipped"] = deletes.skipped
        self.counters["delete_files.skipped.predicate"] = deletes.skipped_by_predicate
        return chosen

    def _refuse_encrypted(self, chosen: list[Candidate], deletes: DeleteIndex) -> None:
        kinds = {**self._candidates.with_key_metadata, **deletes.with_key_metadata}
        if kinds:
            sizes = {one.task.path: one.task.file_size for one in chosen}
            sizes |= {delete.path: delete.file_size for one in chosen for delete in one.task.deletes}
            refuse_encrypted(
                self._table.storage,
                {path: (kinds[path], size) for path, size in sizes.items() if path in kinds},
            )

    def top_share(self, chosen: list[Candidate]) -> float | None:
        """Return the bytes a top-n scan is expected to read, as a share of those of a full scan; None without top-n."""
        full_cost = self._candidates.cost_of_all_rows
        if self.top is None or not full_cost:
            return None
        return sum(candidate.cost for candidate in chosen) / full_cost

    def files(self, *, metrics: bool) -> Iterator[tuple[ContentFile, PruneResult, tuple[DeleteFile, ...]]]:
        """Yield the data files that may contain a matching row, with the deletes that apply.

        Args:
            metrics: Whether the caller needs the files' column metrics; otherwise they are skipped while decoding,
                unless pruning needs them.
        """
        with ImmutableReads(self._table.storage) as reads:
            data, deletes = self._manifests(reads)
            self._deletes = deletes
            skip_metrics = not metrics and not self._is_filtered and not deletes.considered
            without = METRIC_FIELDS if skip_metrics else frozenset[int]()
            # From an object store all of them take as long as one, and a scan will need them if metadata
            # gives no answer.
            may_stop_early = self._is_filtered and is_local(self._table.storage, data)
            for file, pruning in self._files(data, reads, may_stop_early=may_stop_early, without=without):
                yield file, pruning, deletes.deletes_of(file)

    def candidate(
        self, file: ContentFile, pruning: PruneResult, deletes: tuple[DeleteFile, ...]
    ) -> Candidate:
        """Return the task of a file that `files` has yielded: the last one, if it has equality deletes.

        Raises:
            TwoStageError: It cannot be read.
        """
        before = None
        if self._deletes is not None and any(delete.content == "equality" for delete in deletes):
            before = self._deletes.fingerprint_before_pruning(file)
        return self._candidates.build(file, deletes, before, all_match=pruning.all_match)

    def bounds_of(self, file: ContentFile) -> Callable[[int], Bounds | None]:
        """Return a function from field id to the column's bounds in a data file."""
        return partial(self._pruner.bounds, file)

    def _manifests(
        self, reads: ImmutableReads, most: int | None = None
    ) -> tuple[list[ManifestFile], DeleteIndex]:
        """Return the data manifests that may have matching files, and the index of the deletes.

        Remote manifests of both kinds are requested together, at most `most` of the data manifests.
        """
        data = self._prune_manifests([manifest for manifest in self.manifests if not manifest.is_deletes])
        deletes = self._prune_deletes([manifest for manifest in self.manifests if manifest.is_deletes], data)
        specs, keeps = self._table.metadata.specs, self._keeps_manifests
        request_manifests(self._table.storage, deletes, data[:most], specs, reads, use_cache=keeps)
        return data, self._read_deletes(deletes, reads)

    def key_fields(self, chosen: list[Candidate]) -> dict[int, Field]:
        """Return the key fields of the equality deletes to apply that the scan's schema lacks, by field id."""
        ids = {
            field_id
            for candidate in chosen
            for delete in candidate.task.deletes
            for field_id in delete.equality_ids
        }
        return {
            field_id: key_field(self._table, field_id)[0]
            for field_id in sorted(ids)
            if field_id not in self._table.schema
        }

    def equality_deletes(self, chosen: list[Candidate]) -> tuple[DeleteFile, ...]:
        """Return the distinct equality deletes of the chosen files; none unless workers share a cache per host."""
        if self._settings.delete_cache != "host":
            return ()
        deletes = {delete.path: delete for candidate in chosen for delete in candidate.task.deletes}
        return tuple(delete for delete in deletes.values() if delete.content == "equality")

    def describe(self, chosen: list[Candidate], groups: tuple[TaskGroup, ...]) -> None:
        """Add the report's lines about how the files were pruned and split."""
        if self._table.only_files is not None:
            self.counters["files.answered.index"] = by_index = self._table.answered_by_index
            others = self.counters["files.answered"] - by_index
            and_indexes = f", indexes for {by_index}" if by_index else ""
            self.choices.append(f"Metadata answers for {others} other files{and_indexes}.")
        if not self._settings.prune_files:
            self.choices.append("File pruning is switched off.")
        proven = sum(candidate.task.all_match for candidate in chosen)
        if self._is_filtered and proven:
            self.choices.append(
                f"{proven} of {len(chosen)} files need no filtering: all of their rows match."
            )
        if not groups:
            self.choices.append("Nothing to read.")
            return
        cost = sum(candidate.cost for candidate in chosen)
        ranges = sum(len(group.tasks) for group in groups)
        self.choices.append(
            f"{len(chosen)} files in {ranges} ranges, {len(groups)} tasks: "
            f"about {cost / 2**20:.1f} MiB to read, {cost / len(groups) / 2**20:.1f} MiB a task."
        )

    def _prune_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        kept = []
        for manifest in manifests:
            if self._settings.prune_files and not self._pruner.manifest_may_match(manifest):
                self.counters["manifests.pruned"] += 1
                self.counters["files.considered"] += manifest.num_live_files or 0
                self.counters["files.pruned.partition"] += manifest.num_live_files or 0
                if self._without_keys is not None and self._without_keys.manifest_may_match(manifest):
                    self.counters["manifests.unjoined"] += 1
                    self.counters["files.unjoined"] += manifest.num_live_files or 0
            else:
                kept.append(manifest)
        self.counters["manifests.considered"] += len(manifests)
        return kept

    def _prune_deletes(self, manifests: list[ManifestFile], data: list[ManifestFile]) -> list[ManifestFile]:
        """Return the delete manifests that may apply to a file with a matching row.

        Deletes are scoped to a spec and partition: if a manifest's partitions contain no matching row, neither do the
        data files that its deletes apply to. Global equality deletes have an unpartitioned spec, which has no
        partition summaries, so their manifests are always kept.
        """
        self.counters["manifests.considered"] += len(manifests)
        kept = [
            manifest
            for manifest in manifests
            if data and (not self._settings.prune_files or self._pruner.manifest_may_match(manifest))
        ]
        self.counters["manifests.pruned"] += len(manifests) - len(kept)
        return kept

    def _read_deletes(self, manifests: list[ManifestFile], reads: ImmutableReads) -> DeleteIndex:
        specs, storage = self._table.metadata.specs, self._table.storage
        read = read_delete_manifests if self._keeps_manifests else read_manifests
        return DeleteIndex(
            (entry for entries in read(storage, manifests, specs, reads=reads) for entry in entries),
            specs,
            key_field=partial(key_field, self._table),
            canonical=canonical_for(storage),
            locate=lambda path: locate(storage, path),
            prune=self._settings.prune_deletes,
            predicate=self._predicate,
        )

    def _files(
        self,
        manifests: list[ManifestFile],
        reads: ImmutableReads,
        *,
        may_stop_early: bool,
        without: frozenset[int] = frozenset(),
    ) -> Iterator[tuple[ContentFile, PruneResult]]:
        """Yield the data files that may contain a matching row.

        Args:
            manifests: The data manifests to read.
            reads: Reads the remote ones.
            may_stop_early: The caller may not need all files: read the first manifest before requesting the others.
            without: Ids of the manifest fields to skip while decoding.
        """
        read_ahead = 1 if may_stop_early else len(manifests)
        storage, specs = self._table.storage, self._table.metadata.specs
        if without or not self._keeps_manifests:
            entries = stream_manifests(
                storage, manifests, specs, read_ahead=read_ahead, without=without, reads=reads
            )
        else:
            entries = stream_data_manifests(storage, manifests, specs, read_ahead=read_ahead, reads=reads)
        for entry in entries:
            file = without_metrics(entry, self._stale_metrics)
            pruning = self._judge(file)
            if pruning.pruned_by is not None:
                continue
            if self._table.only_files is not None and file.path not in self._table.only_files:
                self.counters["files.answered"] += 1
            else:
                yield file, pruning

    def _judge(self, file: ContentFile) -> PruneResult:
        self.counters["files.considered"] += 1
        self.counters["bytes.considered"] += file.file_size
        if not self._settings.prune_files:
            return PruneResult(None, all_match=not self._is_filtered)
        pruning = self._pruner.prune(file)
        if pruning.pruned_by is not None:
            self.counters[f"files.pruned.{pruning.pruned_by}"] += 1
            # The rows of all other files are counted when they are read.
            self.counters["rows.considered"] += file.record_count
            self.counters["rows.pruned"] += file.record_count
            if self._without_keys is not None and self._without_keys.prune(file).pruned_by is None:
                self.counters["files.unjoined"] += 1
        return pruning
