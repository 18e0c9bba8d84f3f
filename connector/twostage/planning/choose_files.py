"""Which data files a scan reads: those of the snapshot that may hold a matching row, each with its deletes.

Takes a `PinnedTable`, what is asked of it and the options; gives `Candidate`s, one for each file, and counts what
was left out. The rule: a file is left out only if it cannot hold a matching row (or enough others are better),
and what we cannot read is refused by name, only if it would be read.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

from twostage.errors import CorruptFileError, ForbiddenLocationError, UnsupportedFeatureError, mask
from twostage.planning.delete_index import DeleteIndex
from twostage.planning.encrypted_files import refuse_encrypted
from twostage.planning.name_mapping import moved_fields, without_metrics
from twostage.planning.prune_files import FilePruner, Verdict
from twostage.planning.splits import Candidate
from twostage.planning.top_n import TOP_SHARE, KnownFile, keep_best
from twostage.predicates.predicate import FALSE, TRUE, columns
from twostage.schema import Field, Primitive, Struct, leaves
from twostage.storage.files import canonical_for, locate
from twostage.table.manifest import read_manifest_list, stream_manifests
from twostage.table.manifest_cache import read_delete_manifests
from twostage.table.manifest_fields import UNMEASURED
from twostage.table.metadata_columns import PARTITION, FileColumns, scan_schema, used_columns
from twostage.table.partition_values import partition_type
from twostage.table.transforms import constants
from twostage.task import DeleteFile, ScanTask, TaskGroup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from twostage.options import ReadOptions
    from twostage.predicates.predicate import Predicate
    from twostage.predicates.top import TopRows
    from twostage.schema import Schema
    from twostage.table.manifest_entry import ContentFile, ManifestFile
    from twostage.table.pinned import PinnedTable

DATA_FORMATS = ("parquet", "orc", "avro")
FETCH_SHARE = 0.25
"""What stage two is expected to read of the columns that no filter needs."""
OPEN_COST = 256 * 2**10
"""Expected bytes of a file beyond its columns: opening it and its footer."""


class Planning:
    """One planning run: what it counts, and the choices it makes."""

    def __init__(
        self,
        table: PinnedTable,
        options: ReadOptions,
        projection: tuple[Field, ...],
        predicate: Predicate,
        hint: Predicate,
        top: TopRows | None = None,
    ) -> None:
        self.top = top
        self.counters: Counter[str] = Counter()
        self.choices: list[str] = []
        self.limit_reached = False
        self._whole_cost = 0
        self._written: dict[str, str] = {}
        self._keyed: dict[str, str] = {}
        """Located data files that have key metadata."""
        self._table = table
        self._settings = options.settings
        used = used_columns(projection, predicate, hint)
        self.schema = scan_schema(table) if used else table.schema
        struct = partition_type(table.metadata) if PARTITION in used else Struct(())
        self._metadata_columns = FileColumns(used, struct)
        self._pruner = FilePruner(table.metadata, self.schema, predicate, hint, self._metadata_columns)
        self._moved = moved_fields(table.metadata)
        self._predicate = predicate
        self._is_filtered = predicate != TRUE or hint != TRUE
        self._is_hinted = hint != TRUE
        self._is_empty = predicate == FALSE
        self._filter_ids = {
            leaf.id for column in columns(predicate) for leaf in self._leaves_of(column.field_id)
        }
        if top is not None:
            self._filter_ids.add(top.column.field_id)
        self._select_ids = {leaf.id for field in projection for leaf in leaves(field)} - self._filter_ids
        self._num_leaves = max(1, sum(1 for field in table.schema.fields for _ in leaves(field)))
        self._source_types = {
            field.source_id: kind
            for spec in table.metadata.specs.values()
            for field in spec.fields
            # A dropped column too: an equality delete may ask for it, and an imported file may lack it.
            if (schema := self._newest_schema(field.source_id)) is not None
            and isinstance(kind := schema.field(field.source_id).type, Primitive)
        }

    @cached_property
    def manifests(self) -> tuple[ManifestFile, ...]:
        """The manifests of the snapshot; none where no row can match."""
        snapshot = self._table.snapshot
        return () if snapshot is None or self._is_empty else read_manifest_list(self._table.storage, snapshot)

    def choose_files(self, limit: int | None) -> list[Candidate]:
        """Return the files to read, in the order of the manifests."""
        if limit == 0:
            return []
        data, deletes = self._manifests()
        chosen: list[Candidate] = []
        clean: list[Candidate] = []
        clean_rows = 0
        known: list[KnownFile] = []
        for file, verdict in self._files(data, may_end=limit is not None):
            applied = deletes.deletes_of(file)
            candidate = self._candidate(file, verdict, applied, deletes.whole_set(file))
            chosen.append(candidate)
            # Of Avro nobody knows the rows before they are all read, so that a wrong count would go unnoticed.
            is_counted = verdict.all_match and file.record_count > 0 and file.format != "avro"
            # How many rows a vector deletes is checked when it is read; of other deletes nobody knows.
            gone = sum(d.record_count if d.content == "vector" else file.record_count for d in applied)
            is_sure = is_counted and gone < file.record_count
            if self.top is not None:
                key = self._pruner.bounds(file, self.top.column.field_id)
                known.append(KnownFile(candidate=candidate, key=key, is_sure=is_sure, gone=gone))
            if limit is not None and is_sure and not self._is_hinted:
                clean.append(candidate)
                clean_rows += file.record_count - gone
                if clean_rows >= limit:
                    self.limit_reached = True
                    self.choices.append(
                        f"Limit {limit}: {len(clean)} files have enough rows that live for certain."
                    )
                    chosen = clean
                    break
        if self.top is not None and self._settings.prune_files:
            chosen, self.top = keep_best(self.top, known, self.counters, self.choices)
        self._refuse_encrypted(chosen, deletes)
        self.counters["delete_files.considered"] = deletes.considered
        self.counters["delete_files.skipped"] = deletes.skipped
        self.counters["delete_files.skipped.predicate"] = deletes.skipped_by_predicate
        return chosen

    def _refuse_encrypted(self, chosen: list[Candidate], deletes: DeleteIndex) -> None:
        keyed = {**self._keyed, **deletes.keyed}
        if keyed:
            paths = (path for one in chosen for path in (one.task.path, *(d.path for d in one.task.deletes)))
            refuse_encrypted(self._table.storage, {path: keyed[path] for path in paths if path in keyed})

    def top_share(self, chosen: list[Candidate]) -> float | None:
        """Return the bytes that a scan of the first rows is expected to read, as a share of all rows'."""
        if self.top is None or not self._whole_cost:
            return None
        return sum(candidate.cost for candidate in chosen) / self._whole_cost

    def files(self, *, metrics: bool) -> Iterator[tuple[ContentFile, Verdict, tuple[DeleteFile, ...]]]:
        """Yield the data files that may hold a matching row; without `metrics` of columns unless needed here."""
        data, deletes = self._manifests()
        lean = not metrics and not self._is_filtered and not deletes.considered
        without = UNMEASURED if lean else frozenset[int]()
        for file, verdict in self._files(data, may_end=self._is_filtered, without=without):
            yield file, verdict, deletes.deletes_of(file)

    def _manifests(self) -> tuple[list[ManifestFile], DeleteIndex]:
        """Return the data manifests that may matter, and the deletes."""
        data = self._prune_manifests([manifest for manifest in self.manifests if not manifest.is_deletes])
        deletes = self._read_deletes([manifest for manifest in self.manifests if manifest.is_deletes], data)
        return data, deletes

    def key_fields(self, chosen: list[Candidate]) -> dict[int, Field]:
        """Return the key fields of the applied equality deletes that the scan's schema lacks."""
        ids = {
            field_id
            for candidate in chosen
            for delete in candidate.task.deletes
            for field_id in delete.equality_ids
        }
        return {
            field_id: self._key_field(field_id)[0]
            for field_id in sorted(ids)
            if field_id not in self._table.schema
        }

    def equality_deletes(self, chosen: list[Candidate]) -> tuple[DeleteFile, ...]:
        """Return the equality deletes that the files to read need, each once; where workers share them."""
        if self._settings.delete_cache != "host":
            return ()
        deletes = {delete.path: delete for candidate in chosen for delete in candidate.task.deletes}
        return tuple(delete for delete in deletes.values() if delete.content == "equality")

    def describe(self, chosen: list[Candidate], groups: tuple[TaskGroup, ...]) -> None:
        """Add the sentences that say how the files were divided."""
        if self._table.only is not None:
            self.choices.append(f"Metadata answers for {self.counters['files.answered']} other files.")
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
            else:
                kept.append(manifest)
        self.counters["manifests.considered"] += len(manifests)
        return kept

    def _read_deletes(self, manifests: list[ManifestFile], data: list[ManifestFile]) -> DeleteIndex:
        """Read the delete manifests that can matter.

        Deletes are bound to a spec and partition, so where a manifest's partitions cannot hold a matching
        row, the data files that its deletes apply to hold none either. Global equality deletes are in a
        spec that divides nothing, about which a summary says nothing, so those are always kept.
        """
        self.counters["manifests.considered"] += len(manifests)
        kept = [
            manifest
            for manifest in manifests
            if data and (not self._settings.prune_files or self._pruner.manifest_may_match(manifest))
        ]
        self.counters["manifests.pruned"] += len(manifests) - len(kept)
        specs, storage = self._table.metadata.specs, self._table.storage
        return DeleteIndex(
            (entry for entries in read_delete_manifests(storage, kept, specs) for entry in entries),
            specs,
            key_field=self._key_field,
            canonical=canonical_for(storage),
            locate=lambda path: locate(storage, path),
            prune=self._settings.prune_deletes,
            predicate=self._predicate,
        )

    def _files(
        self, manifests: list[ManifestFile], *, may_end: bool, without: frozenset[int] = frozenset()
    ) -> Iterator[tuple[ContentFile, Verdict]]:
        """Yield the data files that may hold a matching row, their entries read without these fields.

        One that `may_end` early reads the first manifest before the others are asked for.
        """
        at_first = 1 if may_end else len(manifests)
        storage, specs = self._table.storage, self._table.metadata.specs
        for entry in stream_manifests(storage, manifests, specs, at_first=at_first, without=without):
            file = without_metrics(entry, self._moved)
            verdict = self._judge(file)
            if verdict.pruned_by is not None:
                continue
            if self._table.only is not None and file.path not in self._table.only:
                self.counters["files.answered"] += 1
            else:
                yield file, verdict

    def _judge(self, file: ContentFile) -> Verdict:
        self.counters["files.considered"] += 1
        self.counters["bytes.considered"] += file.file_size
        if not self._settings.prune_files:
            return Verdict(None, all_match=not self._is_filtered)
        verdict = self._pruner.judge(file)
        if verdict.pruned_by is not None:
            self.counters[f"files.pruned.{verdict.pruned_by}"] += 1
            # Rows of the other files are counted where they are read, row group by row group.
            self.counters["rows.considered"] += file.record_count
            self.counters["rows.pruned"] += file.record_count
        return verdict

    def _candidate(
        self, file: ContentFile, verdict: Verdict, deletes: tuple[DeleteFile, ...], delete_set: str | None
    ) -> Candidate:
        _refuse_unreadable(file)
        table = self._table
        try:
            values = constants(table.metadata.specs[file.spec_id], file.partition, self._source_types)
        except CorruptFileError as error:
            error.path = mask(file.path)
            raise
        path = self._locate(file.path)
        if file.key_metadata:
            self._keyed[path] = "Data file"
        task = ScanTask(
            path=path,
            written_path=file.path,
            format=file.format,
            file_size=file.file_size,
            record_count=file.record_count,
            start=0,
            length=file.file_size,
            sequence_number=file.sequence_number,
            spec_id=file.spec_id,
            constants={**values, **self._metadata_columns.constants(file, has_deletes=bool(deletes))},
            deletes=deletes,
            delete_set=delete_set,
            first_row_id=file.first_row_id,
            all_match=verdict.all_match,
        )
        return Candidate(task=task, cost=self._cost(file, task), split_offsets=file.split_offsets)

    def _locate(self, written: str) -> str:
        """Return where a data file lies; two files of a moved table that seem to lie in one place are refused."""
        storage = self._table.storage
        path = locate(storage, written)
        if storage.moved_from is not None:
            canonical = canonical_for(storage)
            other = self._written.setdefault(path, written)
            if canonical(other) != canonical(written):
                raise ForbiddenLocationError(
                    "AMBIGUOUS_LOCATION",
                    f"Two data files of the moved table lead to one file: {other} and {written}",
                    path=path,
                    stage="plan",
                    hint="Only one of them was copied; name the folder of the other in allowed-locations.",
                )
        return path

    def _cost(self, file: ContentFile, task: ScanTask) -> int:
        """Return the bytes that reading the file is expected to take, most of them in stage one."""
        keys = {field_id for delete in task.deletes for field_id in delete.equality_ids}
        filtering = keys if task.all_match else keys | self._filter_ids
        share = FETCH_SHARE if filtering and self._settings.two_stage else 1.0
        if self.top is not None and self._settings.two_stage:
            filtering, share = filtering | {self.top.column.field_id}, TOP_SHARE
        if file.column_sizes:
            sizes = file.column_sizes
            first = sum(sizes.get(field_id, 0) for field_id in filtering)
            then = sum(sizes.get(field_id, 0) for field_id in self._select_ids - filtering)
        else:
            each = file.file_size / self._num_leaves
            first, then = int(each * len(filtering)), int(each * len(self._select_ids - filtering))
        self._whole_cost += OPEN_COST + first + then
        return OPEN_COST + first + int(share * then)

    def _leaves_of(self, field_id: int) -> Iterator[Field]:
        if field_id in self._table.schema:
            yield from leaves(self._table.schema.field(field_id))

    def _key_field(self, field_id: int) -> tuple[Field, bool]:
        """Return the field with this id in the newest schema that has it, and whether it is a column."""
        schema = self._newest_schema(field_id)
        path = () if schema is None else schema.path(field_id)
        if schema is not None and schema.find(path) is not None:  # else inside a list or map
            return schema.field(field_id), len(path) == 1
        raise CorruptFileError(
            "CORRUPT_MANIFEST",
            f"Equality delete names a field that no schema has, or one in a list or map: {field_id}",
            path=self._table.metadata.metadata_location,
            stage="plan",
        )

    def _newest_schema(self, field_id: int) -> Schema | None:
        """Return the scan's schema if it has the field, else the newest that does."""
        metadata = self._table.metadata
        older = (metadata.schemas[number] for number in sorted(metadata.schemas, reverse=True))
        schemas = (self._table.schema, metadata.schema, *older)
        return next((schema for schema in schemas if field_id in schema), None)


def _refuse_unreadable(file: ContentFile) -> None:
    if file.format not in DATA_FORMATS:
        raise UnsupportedFeatureError(
            "UNSUPPORTED_FILE_FORMAT",
            f"Data file has a format that is not supported: {file.format}",
            path=file.path,
            stage="plan",
            hint="Parquet, ORC and Avro are.",
        )
