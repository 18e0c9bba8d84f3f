"""Which delete files apply to a data file.

Takes a snapshot's delete entries; gives, per data file, the `DeleteFile`s to apply. The rule: the spec's scan
planning rules as Iceberg's own library carries them out, and a delete file is left out only if it cannot
remove a row of that data file for which the query's predicate is true.
Source: Iceberg table spec, "Scan Planning" and "Delete Formats"; org.apache.iceberg.DeleteFileIndex.

- A vector applies to the file it references: data sequence number <= its own.
- A positional delete file applies likewise to the one file that it names, or, if it names no single one, to
  all of its spec and partition; and only where no vector does.
- A delete that names a file of another spec or partition is an error, as in Iceberg 1.12. (Older ones applied it,
  the spec's words leave it out.)
- An equality delete file applies where the data sequence number is strictly less, in the same spec and
  partition; in every partition if its own spec divides nothing.
"""

from __future__ import annotations

import math
import struct
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from twostage.deletes.cache import fingerprint
from twostage.deletes.keys.intervals import KeyRange
from twostage.errors import CorruptFileError, UnsupportedFeatureError
from twostage.predicates.bounds import Bounds
from twostage.predicates.predicate import TRUE
from twostage.predicates.prune import Match, match
from twostage.schema import Primitive, Struct
from twostage.storage.location import parse_location
from twostage.table.column_metrics import metrics_bounds
from twostage.table.manifest_entry import EQUALITY_DELETES, ContentFile
from twostage.task import DeleteFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from twostage.predicates.predicate import Predicate
    from twostage.schema import Field
    from twostage.table.metadata import PartitionSpec

FILE_PATH_ID = 2_147_483_546
"""Field id of ``file_path`` in positional delete files."""
VECTOR_FORMAT = "puffin"
_STRING = Primitive("string")


class DeleteIndex:
    """The deletes of one snapshot, by what they apply to.

    Args:
        entries: Live entries of the delete manifests.
        specs: The table's partition specs.
        key_field: Finds a field of any schema of the table by id, and whether it is a column (not inside
            a struct).
        canonical: The form in which written paths compare.
        locate: Where to open a written path.
        prune: Leave out equality delete files whose key bounds miss the data file's, or the predicate.
        predicate: What is true for every row that the query returns.
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
        self._unasked: dict[int, bool] = {}
        self._vectors: defaultdict[str, list[ContentFile]] = defaultdict(list)
        self._by_path: defaultdict[str, list[ContentFile]] = defaultdict(list)
        self._positions: defaultdict[Any, list[tuple[ContentFile, _PathRange]]] = defaultdict(list)
        self._equality: defaultdict[Any, list[ContentFile]] = defaultdict(list)
        self._global: list[ContentFile] = []
        self._made: dict[int, DeleteFile] = {}
        self._last: tuple[ContentFile | None, list[ContentFile]] = (None, [])
        self._names: dict[int, str] = {}
        self._sets: dict[tuple[int, ...], str] = {}
        self._keys: dict[int, dict[int, _FileKeys]] = {}  # of delete entries, which this index keeps alive
        self.keyed: dict[str, str] = {}
        """Located delete files that have key metadata, of those that apply."""
        self.considered = 0
        for entry in entries:
            self._add(entry)
            self.considered += 1

    @property
    def skipped_by_predicate(self) -> int:
        """How many equality delete files hold only keys of rows that the query does not return."""
        return sum(self._unasked.values())

    @property
    def skipped(self) -> int:
        """How many delete files apply to none of the data files asked about so far."""
        return self.considered - len(self._made)

    def deletes_of(self, data: ContentFile) -> tuple[DeleteFile, ...]:
        """Return what applies to a data file: vector or positional deletes, then equality deletes.

        Raises:
            CorruptFileError: Two vectors for the file, a malformed delete entry that applies, or one that names the
                file from another partition.
        """
        self._last = (data, [])
        if not self.considered:
            return ()
        partition = _partition_key(data, self._specs)
        found = self._vectors_of(data, partition) or self._positions_of(data, partition)
        values: dict[int, _FileKeys] = {}
        equality = [
            entry
            for entry in (*self._equality.get(partition, ()), *self._global)
            if data.sequence_number < entry.sequence_number and not self._cannot_meet(data, values, entry)
        ]
        asked = [entry for entry in equality if not self._is_unasked(entry)]
        self._last = (data, equality if asked and len(asked) < len(equality) else [])
        found += asked
        return tuple(self._delete_file(entry) for entry in found)

    def whole_set(self, data: ContentFile) -> str | None:
        """Name the equality deletes of the data file asked about last; None if `deletes_of` gave all of them."""
        asked, entries = self._last
        assert asked is data
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
                self._equality[_partition_key(entry, self._specs)].append(entry)
            return
        path = _only_path(entry)
        if entry.format == VECTOR_FORMAT:
            if entry.referenced_data_file is None or not entry.content_size or entry.content_offset is None:
                raise _corrupt("Deletion vector does not say what it applies to or where it lies", entry)
            self._vectors[self._canonical(entry.referenced_data_file)].append(entry)
        elif path is not None:
            self._by_path[self._canonical(path)].append(entry)
        else:
            self._positions[_partition_key(entry, self._specs)].append((entry, _PathRange(entry)))

    def _vectors_of(self, data: ContentFile, partition: Any) -> list[ContentFile]:
        found = self._naming(self._vectors, data, partition)
        if len(found) > 1:
            raise _corrupt(f"Data file has two deletion vectors: {data.path}", found[1])
        return found

    def _naming(
        self, by_path: Mapping[str, list[ContentFile]], data: ContentFile, partition: Any
    ) -> list[ContentFile]:
        """Return the deletes that name a data file and are not older than it."""
        found = [
            entry
            for entry in by_path.get(self._canonical(data.path), ())
            if data.sequence_number <= entry.sequence_number
        ]
        for entry in found:
            if _partition_key(entry, self._specs) != partition:
                raise _corrupt(f"Delete file is of another partition than the data file: {data.path}", entry)
        return found

    def _positions_of(self, data: ContentFile, partition: Any) -> list[ContentFile]:
        found = self._naming(self._by_path, data, partition)
        start = _start_of(data.path)
        found += [
            entry for entry, paths in self._positions.get(partition, ()) if paths.may_hold(data.path, start)
        ]
        return [entry for entry in found if data.sequence_number <= entry.sequence_number]

    def _cannot_meet(self, data: ContentFile, values: dict[int, _FileKeys], entry: ContentFile) -> bool:
        """Whether one key column proves that no key of the delete file equals a row's.

        `values` collects what the data file holds in the key columns.
        """
        ranges = self._key_ranges(entry)  # without pruning too: it refuses what is no key
        if not self._prune:
            return False
        for field_id, keys in ranges.items():
            if field_id not in values:
                values[field_id] = _FileKeys(data, *self._key_field(field_id))
            if keys.misses(values[field_id]):
                return True
        return False

    def _is_unasked(self, entry: ContentFile) -> bool:
        """Whether no row that has one of the delete file's keys can be a row that the query returns.

        Such a row's key columns hold exactly the values that the delete file's do, so that its bounds are bounds
        of the row, and the proof is Spark's comparison of the row itself: ``k = -0.0`` returns rows of 0.0, and
        keeps the delete of 0.0.
        """
        ranges = self._key_ranges(entry)
        if not self._prune or self._predicate == TRUE:
            return False
        if id(entry) not in self._unasked:
            bounds = {field_id: keys.of_rows for field_id, keys in ranges.items()}
            self._unasked[id(entry)] = match(self._predicate, bounds.get) is Match.NONE
        return self._unasked[id(entry)]

    def _key_ranges(self, entry: ContentFile) -> dict[int, _FileKeys]:
        """Return what an equality delete holds in its key columns, by field id.

        Raises:
            CorruptFileError: A key is unknown, not primitive or inside a list or map; names the delete file.
        """
        if id(entry) not in self._keys:
            try:
                fields = {field_id: self._key_field(field_id) for field_id in entry.equality_ids}
            except CorruptFileError as error:
                raise _corrupt(error.message, entry) from None
            self._keys[id(entry)] = {field_id: _FileKeys(entry, *field) for field_id, field in fields.items()}
        return self._keys[id(entry)]

    def _delete_file(self, entry: ContentFile) -> DeleteFile:
        if id(entry) not in self._made:
            self._made[id(entry)] = made = self._make(entry)
            if entry.key_metadata:
                self.keyed[made.path] = "Delete file"
        return self._made[id(entry)]

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
            referenced_data_file=None if is_equality else entry.referenced_data_file or _only_path(entry),
            scope=self._scope(entry) if is_equality else None,
            keys={i: keys.of_rows for i, keys in self._key_ranges(entry).items()} if is_equality else {},
        )

    def _scope(self, entry: ContentFile) -> str:
        """Name what an equality delete file covers: its partition, or the whole table."""
        if self._specs[entry.spec_id].is_unpartitioned:
            return "global"
        return repr(_partition_key(entry, self._specs))


class _FileKeys(KeyRange):
    """What a file's metrics say of one key column: where its values may be."""

    __slots__ = ()

    def __init__(self, file: ContentFile, field: Field, is_column: bool) -> None:  # noqa: FBT001
        kind = field.type
        if not isinstance(kind, Primitive | Struct):
            raise _corrupt(f"Equality field is a list or a map: {field.id}", file)
        if isinstance(kind, Struct):
            raise UnsupportedFeatureError(  # Iceberg's Java compares whole structs
                "UNSUPPORTED_DELETE_KEY",
                f"Equality-delete key {field.name!r} is not of a primitive type: {kind}",
                path=file.path,
                stage="plan",
            )
        rows = None if file.num_rows is None else file.record_count
        super().__init__(kind, metrics_bounds(kind, file, field.id), rows, counted=is_column)

    @property
    def of_rows(self) -> Bounds:
        """What is known of the column in any rows that have these keys."""
        if not self.may_value:
            return Bounds(null_count=1, value_count=1)
        return replace(self.bounds, null_count=None if self.may_null else 0, value_count=None)


def _partition_key(file: ContentFile, specs: Mapping[int, PartitionSpec]) -> Any:
    """Return spec and partition values in a form that compares them: NULL = NULL, NaN = NaN."""
    fields = specs[file.spec_id].fields
    return file.spec_id, tuple(_comparable(file.partition.get(field.field_id)) for field in fields)


def _comparable(value: Any) -> Any:
    if isinstance(value, float):  # bits, because -0.0 and 0.0 are two partitions, and all NaN are one
        return "nan" if math.isnan(value) else struct.pack("<d", value)
    return (type(value), value) if isinstance(value, bool) else value


def _only_path(entry: ContentFile) -> str | None:
    """Return the one data file that a positional delete file names, if it says so."""
    if entry.referenced_data_file is not None:
        return entry.referenced_data_file
    lower, upper = entry.lower_bounds.get(FILE_PATH_ID), entry.upper_bounds.get(FILE_PATH_ID)
    if lower is None or lower != upper:  # a cut upper bound is greater than the lower one
        return None
    path = metrics_bounds(_STRING, entry, FILE_PATH_ID)
    return None if path is None else path.lower


class _PathRange:
    """What the bounds of ``file_path`` say of the data files that a positional delete file names.

    One file can be written in several forms (``file:/x``, ``/x``; s3, s3a). Texts compare only if both
    bounds and the path begin alike: everything between two bounds then begins so too. Made once for each
    delete file, because each is asked about each data file of its partition.
    """

    __slots__ = ("lower", "start", "upper")

    def __init__(self, entry: ContentFile) -> None:
        bounds = metrics_bounds(_STRING, entry, FILE_PATH_ID) or Bounds()
        self.lower, self.upper = bounds.lower, bounds.upper
        is_known = self.lower is not None and self.upper is not None
        self.start = _start_of(self.lower) if is_known else None
        if is_known and self.start != _start_of(self.upper):
            self.start = None

    def may_hold(self, path: str, start: str | None) -> bool:
        """Tell whether the bounds leave room for a path that begins with scheme and authority `start`."""
        if self.start is None or self.start != start:
            return True
        return bool(self.lower <= path <= self.upper) or path.startswith(self.upper)


def _start_of(path: str) -> str | None:
    """Return the scheme and authority before an absolute path; None where there is no such path."""
    inner = parse_location(path).path
    return path[: len(path) - len(inner)] if inner.startswith("/") else None


def _corrupt(message: str, entry: ContentFile) -> CorruptFileError:
    return CorruptFileError("CORRUPT_MANIFEST", message, path=entry.path, stage="plan")
