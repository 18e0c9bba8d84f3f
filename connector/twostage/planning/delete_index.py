"""Which delete files apply to a data file.

Takes the delete entries of a snapshot; returns, per data file, the `DeleteFile`s to apply. These follow the spec's scan
planning rules as Iceberg's Java library implements them; beyond that, a delete file is pruned only if it cannot delete
a row of that data file for which the query's predicate is true.
Source: Iceberg table spec, "Scan Planning" and "Delete Formats"; org.apache.iceberg.DeleteFileIndex.

- A deletion vector applies to the data file it references if the data sequence number is at most its own.
- A position delete file applies likewise, to the one data file it refers to or, if it may refer to several,
  to all files of its spec and partition; and only to data files without a deletion vector.
- A delete that refers to a data file of another spec or partition is an error, as in Iceberg 1.12. (Older versions
  applied it; the spec does not mention it.)
- An equality delete file applies if the data sequence number is strictly less than its own, within the same spec and
  partition, or in every partition if its own spec is unpartitioned.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from twostage.deletes.cache import fingerprint
from twostage.errors import CorruptFileError
from twostage.planning.delete_scope import (
    FileKeys,
    PathRange,
    authority_of,
    corrupt_delete,
    is_plain,
    only_path,
    partition_key,
)
from twostage.predicates.predicate import TRUE
from twostage.predicates.prune import Match, match
from twostage.table.manifest_entry import EQUALITY_DELETES, ContentFile
from twostage.task import DeleteFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from twostage.predicates.predicate import Predicate
    from twostage.schema import Field
    from twostage.table.metadata import PartitionSpec

VECTOR_FORMAT = "puffin"
"""File format of manifest entries that are deletion vectors."""


class DeleteIndex:
    """The deletes of one snapshot, indexed by the data file, path range or partition they apply to.

    Args:
        entries: Live entries of the delete manifests.
        specs: The table's partition specs by id.
        key_field: Returns the field of an equality key by id, from any of the table's schemas, and whether it
            is a top-level column.
        canonical: Returns the form in which written paths are compared.
        locate: Returns the location to open for a written path.
        prune: Prune equality delete files whose key bounds do not overlap the data file's, or contradict the
            predicate.
        predicate: True for every row that the query returns.
    """

    def __init__(
        self,
        entries: Iterable[ContentFile],
        specs: Mapping[int, PartitionSpec],
        *,
        key_field: Callable[[int], tuple[Field, bool]],
        canonical: Callable[[str], str],
        locate: Callable[[str], str],
        prune: bool = True,
        predicate: Predicate = TRUE,
    ) -> None:
        self._specs = specs
        self._key_field = key_field
        self._canonical = canonical
        self._locate = locate
        self._prune = prune
        self._predicate = predicate
        self._outside_predicate: dict[int, bool] = {}
        self._vectors: defaultdict[str, list[ContentFile]] = defaultdict(list)
        self._by_path: defaultdict[str, list[ContentFile]] = defaultdict(list)
        self._positions: defaultdict[Any, list[tuple[ContentFile, PathRange]]] = defaultdict(list)
        self._equality: defaultdict[Any, list[ContentFile]] = defaultdict(list)
        self._global: list[ContentFile] = []
        self._delete_files: dict[int, DeleteFile] = {}
        self._last: tuple[ContentFile | None, list[ContentFile]] = (None, [])
        self._names: dict[int, str] = {}
        self._sets: dict[tuple[int, ...], str] = {}
        self._keys: dict[int, dict[int, FileKeys]] = {}  # by id of the entry, which this index keeps alive
        self.with_key_metadata: dict[str, str] = {}
        """The kind of each delete file with key metadata that applies to a data file, by path."""
        self.considered = 0
        for entry in entries:
            self._add(entry)
            self.considered += 1

    @property
    def skipped_by_predicate(self) -> int:
        """How many equality delete files have no key for which the predicate is true."""
        return sum(self._outside_predicate.values())

    @property
    def skipped(self) -> int:
        """How many delete files apply to none of the data files looked up so far."""
        return self.considered - len(self._delete_files)

    def deletes_of(self, data: ContentFile) -> tuple[DeleteFile, ...]:
        """Return the delete files that apply to a data file: deletion vector or position deletes, then equality deletes.

        Raises:
            CorruptFileError: The data file has two vectors, or a delete that applies is malformed or belongs to
                another partition.
        """
        self._last = (data, [])
        if not self.considered:
            return ()
        partition = partition_key(data, self._specs)
        found = self._vectors_of(data, partition) or self._positions_of(data, partition)
        values: dict[int, FileKeys] = {}
        equality = [
            entry
            for entry in (*self._equality.get(partition, ()), *self._global)
            if data.sequence_number < entry.sequence_number and not self._cannot_overlap(data, values, entry)
        ]
        applicable = [entry for entry in equality if not self._misses_predicate(entry)]
        self._last = (data, equality if applicable and len(applicable) < len(equality) else [])
        found += applicable
        return tuple(self._delete_file(entry) for entry in found)

    def fingerprint_before_pruning(self, data: ContentFile) -> str | None:
        """Return the fingerprint of a data file's equality deletes, including those that the predicate prunes.

        It identifies the same set for queries with other predicates. None if the predicate prunes none (or all) of
        them. `data` must be the file of the last call to `deletes_of`.
        """
        last, entries = self._last
        assert last is data
        if not entries:
            return None
        key = tuple(map(id, entries))
        if key not in self._sets:
            for entry in entries:
                if id(entry) not in self._names:
                    self._names[id(entry)] = fingerprint.of_delete(self._make(entry))
            self._sets[key] = fingerprint.of_set(self._names[i] for i in key)
        return self._sets[key]

    def _add(self, entry: ContentFile) -> None:
        if entry.content == EQUALITY_DELETES:
            if self._specs[entry.spec_id].is_unpartitioned:
                self._global.append(entry)
            else:
                self._equality[partition_key(entry, self._specs)].append(entry)
            return
        path = only_path(entry)
        if entry.format == VECTOR_FORMAT:
            if entry.referenced_data_file is None or not entry.content_size or entry.content_offset is None:
                raise corrupt_delete("Deletion vector does not say what it applies to or where it is", entry)
            self._vectors[self._canonical(entry.referenced_data_file)].append(entry)
        elif path is not None:
            self._by_path[self._canonical(path)].append(entry)
        else:
            self._positions[partition_key(entry, self._specs)].append((entry, PathRange(entry)))

    def _vectors_of(self, data: ContentFile, partition: Any) -> list[ContentFile]:
        found = self._that_name(self._vectors, data, partition)
        if len(found) > 1:
            raise corrupt_delete(f"Data file has two deletion vectors: {data.path}", found[1])
        return found

    def _that_name(
        self, by_path: Mapping[str, list[ContentFile]], data: ContentFile, partition: Any
    ) -> list[ContentFile]:
        """Return the deletes that refer to a data file by path and are not older than it."""
        found = [
            entry
            for entry in by_path.get(self._canonical(data.path), ())
            if data.sequence_number <= entry.sequence_number
        ]
        for entry in found:
            if partition_key(entry, self._specs) != partition:
                raise corrupt_delete(
                    f"Delete file belongs to another partition than the data file: {data.path}", entry
                )
        return found

    def _positions_of(self, data: ContentFile, partition: Any) -> list[ContentFile]:
        found = self._that_name(self._by_path, data, partition)
        start = authority_of(data.path)
        plain = start is not None and is_plain(data.path, start)
        found += [
            entry
            for entry, paths in self._positions.get(partition, ())
            if paths.may_hold(data.path, start, plain=plain)
        ]
        return [entry for entry in found if data.sequence_number <= entry.sequence_number]

    def _cannot_overlap(self, data: ContentFile, values: dict[int, FileKeys], entry: ContentFile) -> bool:
        """Return whether the bounds of a key column prove that no row of the data file has a deleted key.

        `values` caches the ranges of the data file's key columns.
        """
        ranges = self._key_ranges(entry)  # before the check of `prune`, because it refuses invalid keys
        if not self._prune:
            return False
        for field_id, keys in ranges.items():
            if field_id not in values:
                values[field_id] = FileKeys(data, *self._key_field(field_id))
            if keys.is_disjoint(values[field_id]):
                return True
        return False

    def _misses_predicate(self, entry: ContentFile) -> bool:
        """Return whether the predicate is true for no row that has a key of the delete file.

        A deleted row has the values of the delete file in its key columns, so the delete file's bounds apply to the
        row, and the predicate is evaluated as for the row itself: ``k = -0.0`` is true for 0.0, so it keeps a delete
        of 0.0.
        """
        ranges = self._key_ranges(entry)
        if not self._prune or self._predicate == TRUE:
            return False
        if id(entry) not in self._outside_predicate:
            bounds = {field_id: keys.of_rows for field_id, keys in ranges.items()}
            self._outside_predicate[id(entry)] = match(self._predicate, bounds.get) is Match.NONE
        return self._outside_predicate[id(entry)]

    def _key_ranges(self, entry: ContentFile) -> dict[int, FileKeys]:
        """Return the ranges of an equality delete's key columns, by field id.

        Raises:
            CorruptFileError: A key is unknown, or inside a list or map.
            UnsupportedFeatureError: A key is a struct.
        """
        if id(entry) not in self._keys:
            try:
                fields = {field_id: self._key_field(field_id) for field_id in entry.equality_ids}
            except CorruptFileError as error:
                raise corrupt_delete(error.message, entry) from None
            self._keys[id(entry)] = {field_id: FileKeys(entry, *field) for field_id, field in fields.items()}
        return self._keys[id(entry)]

    def _delete_file(self, entry: ContentFile) -> DeleteFile:
        if id(entry) not in self._delete_files:
            self._delete_files[id(entry)] = made = self._make(entry)
            if entry.key_metadata:
                self.with_key_metadata[made.path] = "Delete file"
        return self._delete_files[id(entry)]

    def _make(self, entry: ContentFile) -> DeleteFile:
        is_equality = entry.content == EQUALITY_DELETES
        is_vector = entry.format == VECTOR_FORMAT
        return DeleteFile(
            content="equality" if is_equality else "vector" if is_vector else "position",
            format=entry.format,
            path=self._locate(entry.path),
            written_path=entry.path,
            file_size=entry.file_size,
            record_count=entry.record_count,
            sequence_number=entry.sequence_number,
            equality_ids=entry.equality_ids if is_equality else (),
            content_offset=entry.content_offset or 0,
            content_size=entry.content_size or 0,
            referenced_data_file=None if is_equality else entry.referenced_data_file or only_path(entry),
            scope=self._scope(entry) if is_equality else None,
            keys={i: keys.of_rows for i, keys in self._key_ranges(entry).items()} if is_equality else {},
        )

    def _scope(self, entry: ContentFile) -> str:
        """Return the name of the partition that an equality delete applies to; ``global`` for the whole table."""
        if self._specs[entry.spec_id].is_unpartitioned:
            return "global"
        return repr(partition_key(entry, self._specs))
