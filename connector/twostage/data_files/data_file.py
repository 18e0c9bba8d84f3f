"""An open data file, whatever its format: row groups, bounds, and columns in the scan's types.

Takes a `ScanTask`; returns Arrow arrays in the scan's types, whole row groups (stage one) or batches (stage
two). A format implements `_open`, `row_groups`, `_decode` and `_iterate`, and optionally `bounds` and
`cannot_match`. The rule: a row group gives all of its rows, in file order, or an error.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twostage.data_files import computed_columns
from twostage.data_files.remote_file import MAX_WHOLE_BYTES, RemoteFile
from twostage.data_files.row_group import ChunkFacts
from twostage.errors import CorruptFileError
from twostage.formats import convert, file_schema, internal_values, promotion
from twostage.schema import Struct, children, leaves
from twostage.storage import files
from twostage.storage.location import parse_location

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence, Set as AbstractSet

    from numpy.typing import NDArray

    from twostage.data_files.row_group import PageBounds, RowGroup
    from twostage.metrics import Metrics
    from twostage.predicates.bounds import Bounds
    from twostage.predicates.predicate import Predicate
    from twostage.schema import Field
    from twostage.selection import Selection
    from twostage.storage.task_reads import TaskReads
    from twostage.task import ScanContext, ScanTask


class FileIndex(Protocol):
    """What an index says about the data file that it was built from."""

    num_rows: int

    def is_of(self, version: bytes) -> bool:
        """Tell whether it was built from the file with this ETag."""


class DataFile(ABC):
    """An open data file of a task. Use it as a context manager: it closes its file.

    Attributes:
        reads_parts: Whether reading few rows of a row group may leave out the rest of it.
    """

    reads_parts = False

    def __init__(
        self, context: ScanContext, task: ScanTask, metrics: Metrics, reads: TaskReads | None = None
    ) -> None:
        self.context = context
        self.task = task
        self.is_remote = not parse_location(task.path).is_local
        self._metrics = metrics
        self._fields: tuple[file_schema.FileField, ...] = ()
        self._deleted_column: Callable[[RowGroup], pa.Array] | None = None
        self._stamp = files.stamp(task.path)
        with metrics.timed("open"), files.translate_errors(task.path, "open", storage=context.storage):
            self._file: pa.NativeFile | RemoteFile
            if reads is not None and self.is_remote:
                self._file = self._open_remote(reads)
                self._version = b""  # every request asks for the object that the first one found
            else:
                self._file = files.open_file(context.storage, task.path)
                self._version = files.version_of(self._file)
            self._read_before = metrics.counters["bytes.read"]
            try:
                self._open()
                self._check_count()
            except BaseException:
                self._file.close()
                raise

    def __enter__(self) -> DataFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._file.close()
        if kind is None and self._metrics.counters["bytes.read"] > self._read_before:
            version = self._file.version_to_check if isinstance(self._file, RemoteFile) else self._version
            files.check_unchanged(self.context.storage, self.task.path, version)

    @property
    def identity(self) -> tuple[Any, ...] | None:
        """What tells the open file from any other at its path; None if the store gives only its size.

        If caches assume a version of a remote file that no request has confirmed yet, this sends one.

        Raises:
            CorruptFileError: The object was replaced.
        """
        if isinstance(self._file, RemoteFile) and self.has_unconfirmed_version:
            self._file.read_at(1, 0)
        told = (self.version,) if self.version else self._stamp
        return (int(self._file.size()), *told) if told else None

    @property
    def stamp(self) -> tuple[int, ...]:
        """What tells a local file from any other ever at its path (`files.stamp`); empty for a remote one."""
        return self._stamp

    @property
    def is_in_place(self) -> bool:
        """Whether a local file is still the one that was opened; for a remote one, closing tells."""
        return files.stamp(self.task.path) == self._stamp

    def is_indexed_by(self, index: FileIndex) -> bool:
        """Tell whether an index is of this very file: as many rows, and the same ETag if there is one."""
        return index.is_of(self.version) and self.num_rows() in (None, index.num_rows)

    @property
    def has_unconfirmed_version(self) -> bool:
        """Whether caches assume a version of a remote file that no request may have confirmed yet."""
        return isinstance(self._file, RemoteFile) and self._file.is_known

    @property
    def version(self) -> bytes:
        """The ETag of the object; empty for a local file."""
        return self._file.version if isinstance(self._file, RemoteFile) else self._version

    def _open_remote(self, reads: TaskReads) -> RemoteFile:
        """Open a remote file by ranges; a small one is read whole."""
        file = RemoteFile(reads, self.context, self.task)
        if self.task.file_size <= MAX_WHOLE_BYTES:
            file.fetch_tail(self.task.file_size)
        return file

    def show_deleted(self, deleted_column: Callable[[RowGroup], pa.Array]) -> None:
        """Set the function that returns the column ``_deleted``, a bool for each row of a row group."""
        self._deleted_column = deleted_column

    # --- what a format implements ---------------------------------------------------------------------

    @abstractmethod
    def _open(self) -> None:
        """Read the file's own metadata and set ``_fields``, the file's columns with their ids."""

    @abstractmethod
    def row_groups(self) -> Iterator[RowGroup]:
        """Yield the row groups whose first byte lies in the task's range."""

    @abstractmethod
    def _decode(self, row_group: RowGroup, wanted: AbstractSet[int], stage: str) -> list[pa.Array]:
        """Decode these leaves of a row group: one array for each field of ``file_schema.cut(…)``."""

    @abstractmethod
    def _iterate(
        self, row_group: RowGroup, wanted: AbstractSet[int], batch_size: int
    ) -> Iterator[Sequence[pa.Array]]:
        """Decode these leaves in steps of `batch_size` rows, the last one shorter."""

    def num_rows(self) -> int | None:
        """Return the number of rows of the whole file; None if only reading them tells."""
        return None

    def bounds(self, row_group: RowGroup, field_id: int) -> Bounds | None:  # noqa: ARG002
        """Return the bounds of a leaf in a row group; None if they are unknown."""
        return None

    def stored_bytes(self, row_group: RowGroup, field_ids: AbstractSet[int]) -> int:
        """Estimate the bytes that these fields of a row group take in the file."""
        num_leaves = self._fields[-1].end_leaf if self._fields else 0
        return row_group.num_bytes * min(len(field_ids), num_leaves) // max(1, num_leaves)

    def chunk_facts(self, row_group: RowGroup, field_id: int) -> ChunkFacts:  # noqa: ARG002
        """Return how a field of a row group is stored."""
        return ChunkFacts()

    def decoded_bytes(self, row_group: RowGroup, field_ids: AbstractSet[int]) -> int:  # noqa: ARG002
        """Return a lower bound of the decoded bytes of these fields of a row group; 0 if none is known."""
        return 0

    def reads_windows(self, row_group: RowGroup, field_ids: AbstractSet[int], num_rows: int) -> bool:  # noqa: ARG002
        """Tell whether any `num_rows` consecutive rows of these fields are read without decoding many others."""
        return False

    def page_bounds(self, row_group: RowGroup, field_id: int) -> PageBounds | None:  # noqa: ARG002
        """Return the bounds of each page of a leaf in a row group; None if they are unknown."""
        return None

    def cannot_match(
        self,
        row_group: RowGroup,  # noqa: ARG002
        predicate: Predicate,  # noqa: ARG002
        *,
        probe_dictionaries: bool,  # noqa: ARG002
    ) -> str | None:
        """Return which of Bloom filter and dictionary proves that no row matches; None if neither does."""
        return None

    def expect(self, row_group: RowGroup, targets: Sequence[Field], rows: Selection | None = None) -> None:  # noqa: B027
        """Announce that these columns will be read, whole or for some rows; a remote file may request them.

        Without columns, withdraw what was announced before.
        """

    def expected_bytes(self, row_group: RowGroup) -> int:  # noqa: ARG002
        """Return the bytes of a row group that `expect` has requested and nothing has read yet."""
        return 0

    def search(self, row_group: RowGroup, predicate: Predicate, rows: Selection) -> Selection | None:  # noqa: ARG002
        """Return those of `rows` that may match, by a search of the column's bytes; None if it would not be cheap."""
        return None

    def is_in_range(self, offset: int) -> bool:
        """Tell whether the row group that begins at this byte belongs to the task.

        A range up to the size that the manifest states extends to the file's real end: writers have stated
        sizes that are too small, and the rows beyond would be lost silently.
        """
        start, end = self.task.start, self.task.start + self.task.length
        return start <= offset and (offset < end or end >= self.task.file_size)

    # --- columns --------------------------------------------------------------------------------------

    def read_leaf(self, row_group: RowGroup, field_id: int, rows: Selection | None = None) -> pa.Array:
        """Decode one field of a row group, or of some rows, in the scan's type, with parents' NULLs applied.

        The field is one of the scan's schema (of any type), or a dropped equality-delete key.
        """
        if field_id not in self.context.schema:
            return self._read_dropped(row_group, field_id, rows)
        target, depth = self.leaf_target(field_id)
        return descend(self.read(row_group, [target], "filter", rows)[0], depth)

    def read_filter_column(
        self, row_group: RowGroup, field_id: int, rows: Selection | None = None
    ) -> pa.Array:
        """Decode as `read_leaf` does, except that text may be a dictionary array, which filters faster."""
        return self.read_leaf(row_group, field_id, rows)

    def leaf_target(self, field_id: int) -> tuple[Field, int]:
        """Return the column that contains a field of the scan's schema, cut to it, and the field's depth."""
        schema = self.context.schema
        return file_schema.thin(schema.cut_to(field_id)), len(schema.path(field_id)) - 1

    def origin_of(self, field_id: int) -> tuple[Any, ...]:
        """Return, as plain values, what determines a field's values apart from the file's bytes.

        For the field and each struct around it: whether it is required, its default, and which column of the
        file it is read from; the field's type; constants that replace any of them, or fields below.
        """
        schema, constants = self.context.schema, self.task.constants
        field = schema.top_level(field_id)
        chain = [field]
        for name in schema.path(field_id)[1:]:
            assert isinstance(chain[-1].type, Struct)
            chain.append(next(child for child in chain[-1].type.fields if child.name == name))
        places = []
        for part in chain:
            source = self._find_deep(part.id)
            in_file = None if source is None else repr(source[-1])
            places.append((part.id, part.required, repr(part.initial_default), in_file))
        ids = {part.id for part in chain} | {leaf.id for leaf in leaves(chain[-1])}
        given = [(i, repr(constants[i])) for i in sorted(ids & constants.keys())]
        return (field_id, repr(chain[-1].type), tuple(places), tuple(given))

    def _read_dropped(self, row_group: RowGroup, field_id: int, rows: Selection | None) -> pa.Array:
        field = self.context.key_fields[field_id]
        if field_id in self.task.constants:
            value = self.task.constants[field_id]
            return internal_values.constant(
                field.type, value, row_group.num_rows if rows is None else rows.count
            )
        target = inner = self.context.key_columns.get(field_id, field)
        depth = 0
        while inner.id != field_id:
            (inner,) = children(inner.type)
            depth += 1
        # A dropped column is not required in files that were written since.
        return descend(self.read(row_group, [replace(target, required=False)], "filter", rows)[0], depth)

    def read(
        self, row_group: RowGroup, targets: Sequence[Field], stage: str, rows: Selection | None = None
    ) -> list[pa.Array]:
        """Decode columns of a row group, or of some rows of it: one array per target."""
        wanted = file_schema.wanted_leaves(self._fields, targets, self.task.constants.keys())
        arrays = self._decoded(row_group, wanted, stage, rows)
        places = range(row_group.num_rows) if rows is None or rows.is_all else rows.indices()
        return self._build(arrays, wanted, targets, row_group, places)

    def select(
        self, row_group: RowGroup, targets: Sequence[Field], rows: Selection, batch_size: int
    ) -> Iterator[list[pa.Array]]:
        """Decode columns of some rows of a row group, in steps of at most `batch_size` rows."""
        start = 0
        for arrays in self.stream(row_group, targets, batch_size):
            live = rows.slice(start, len(arrays[0]))  # shorter than `batch_size` if text would pass 2 GiB
            start += len(arrays[0])
            if live.count:
                yield arrays if live.mask is None else _filtered(arrays, pa.array(live.mask))

    def stream(
        self, row_group: RowGroup, targets: Sequence[Field], batch_size: int
    ) -> Iterator[list[pa.Array]]:
        """Decode columns of a row group in batches of `batch_size` rows (the last may be shorter)."""
        wanted = file_schema.wanted_leaves(self._fields, targets, self.task.constants.keys())
        if not wanted:
            for start in range(0, row_group.num_rows, batch_size):
                count = min(batch_size, row_group.num_rows - start)
                yield self._build([], wanted, targets, row_group, range(start, start + count))
            return
        rows = 0
        with files.translate_errors(self.task.path, "fetch", storage=self.context.storage):
            for arrays in self._iterate(row_group, wanted, batch_size):
                count = len(arrays[0])
                rows += count
                if rows <= row_group.num_rows:  # else the check below raises
                    yield self._build(arrays, wanted, targets, row_group, range(rows - count, rows))
        self._check_rows(rows, row_group)

    def _decoded(
        self, row_group: RowGroup, wanted: AbstractSet[int], stage: str, rows: Selection | None
    ) -> list[pa.Array]:
        if not wanted:
            return []
        with files.translate_errors(self.task.path, stage, storage=self.context.storage):
            if rows is not None and not rows.is_all:
                return self._decode_rows(row_group, wanted, rows, stage)
            arrays = self._decode(row_group, wanted, stage)
        self._check_rows(len(arrays[0]), row_group)
        return arrays

    def _decode_rows(
        self, row_group: RowGroup, wanted: AbstractSet[int], rows: Selection, stage: str
    ) -> list[pa.Array]:
        """Decode these leaves of some rows; a format that can skip the others overrides it."""
        arrays = self._decode(row_group, wanted, stage)
        self._check_rows(len(arrays[0]), row_group)
        indices = pa.array(rows.indices())
        return [array.take(indices) for array in arrays]

    def _build(
        self,
        arrays: Sequence[pa.Array],
        wanted: AbstractSet[int],
        targets: Sequence[Field],
        row_group: RowGroup,
        places: NDArray[np.int64] | range,
    ) -> list[pa.Array]:
        """Build the targets for the rows at `places` within the row group (ascending)."""
        fields = file_schema.cut(self._fields, wanted)
        by_id = {
            field.id: (array, field)
            for field, array in reversed([*zip(fields, arrays, strict=True)])  # of equal ids, the first
            if field.id is not None
        }
        path, constants = self.task.path, self.task.constants
        num_rows = len(places)
        built = []
        for target in targets:
            is_computed = target.id in computed_columns.COMPUTED and target.id not in constants
            column: pa.Array | None = None
            if not is_computed or target.id in computed_columns.STORABLE:
                column = convert.column(by_id, target, constants, num_rows, path)
            if is_computed:  # nothing else needs a number for each row
                numbers = np.arange(places.start, places.stop) if isinstance(places, range) else places
                if target.id == computed_columns.DELETED:
                    assert self._deleted_column is not None, "a scan that names _deleted shows deleted rows"
                    column = self._deleted_column(row_group).take(pa.array(numbers))
                else:
                    positions = row_group.first_row + numbers
                    column = computed_columns.compute_column(target.id, column, self.task, positions)
            built.append(column)
        return built

    @property
    def has_field_ids(self) -> bool:
        """Whether any column has a field id; if none has, the table's name mapping and names decide."""
        return any(field.has_ids for field in self._fields)

    def holds(self, field_id: int) -> bool:
        """Tell whether the file has a column of this id."""
        return file_schema.find(self._fields, field_id) is not None

    def _check_count(self) -> None:
        """Refuse a file with fewer rows than the manifest says if planning relied on them.

        A wrong count has no other effect: rows are what the file holds, as with Iceberg's own reader.
        """
        found = self.num_rows()
        is_limited = self.context.limit is not None or self.context.top is not None
        if is_limited and found is not None and found < self.task.record_count:
            raise CorruptFileError(
                "CORRUPT_MANIFEST",
                f"Manifest says {self.task.record_count} rows, the data file holds {found}",
                path=self.task.path,
                stage="open",
                hint="LIMIT was planned by that count. Without it the rows that the file holds are read.",
            )

    def _check_rows(self, found: int, row_group: RowGroup) -> None:
        # pyarrow stops silently if a page states fewer values than the footer.
        if found != row_group.num_rows:
            raise CorruptFileError(
                "CORRUPT_DATA_FILE",
                f"Row group {row_group.index} holds {row_group.num_rows} rows, decoded {found}",
                path=self.task.path,
                stage="fetch",
            )

    def _find_deep(self, field_id: int) -> list[file_schema.FileField] | None:
        """Return the file fields from the column down through structs to this id."""

        def search(fields: Sequence[file_schema.FileField]) -> list[file_schema.FileField] | None:
            for field in fields:
                if field.id == field_id:
                    return [field]
                below = search(field.children)
                if below is not None:
                    return [field, *below]
            return None

        return search(self._fields)


def _filtered(arrays: Sequence[pa.Array], mask: pa.Array) -> list[pa.Array]:
    """Keep the rows where `mask` is true; a batch turns it into indices once, not once per column (4x)."""
    batch = pa.RecordBatch.from_arrays(arrays, [str(number) for number in range(len(arrays))])
    kept: list[pa.Array] = batch.filter(mask).columns
    return kept


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return the column as one array; text and bytes beyond 2 GiB get 64-bit offsets."""
    if column.num_chunks == 1:
        return column.chunk(0)
    large = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(column.type)
    if large is not None and column.nbytes > promotion.MAX_TEXT_BYTES:
        return pa.concat_arrays([chunk.cast(large) for chunk in column.chunks])
    return column.combine_chunks()


def descend(array: pa.Array, depth: int) -> pa.Array:
    """Return the only field at this depth inside structs of one field, parents' NULLs applied."""
    return pc.struct_field(array, [0] * depth) if depth else array
