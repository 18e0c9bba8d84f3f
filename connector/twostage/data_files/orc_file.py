"""ORC data files: a stripe is a row group.

Our own reader decodes them: pyarrow's crashes the process on some damaged streams, cannot tell where stripes
are or what their statistics say, and has no timestamps before 1677 or after 2262. Tails are cached per worker
process, up to TAIL_CACHE_BYTES. The rule: statistics may only prune.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

import cachetools

from twostage.data_files.data_file import DataFile
from twostage.data_files.remote_file import MAX_WHOLE_BYTES, RemoteFile
from twostage.data_files.row_group import RowGroup
from twostage.errors import CorruptFileError, TwoStageError, mask
from twostage.formats import file_schema
from twostage.formats.orc import protobuf
from twostage.formats.orc.schema import arrow_schema, meanings
from twostage.formats.orc.statistics import stripe_bounds
from twostage.formats.orc.stripe import StripeReader
from twostage.formats.orc.tail import Stripe, StripeFooter, Tail, read_stripe_footer, read_tail
from twostage.schema import Primitive
from twostage.storage import files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence, Set as AbstractSet

    import pyarrow as pa

    from twostage.formats.file_schema import FileField
    from twostage.formats.orc.tail import OrcType
    from twostage.predicates.bounds import Bounds
    from twostage.storage.task_reads import TaskReads
    from twostage.task import Storage

TAIL_CACHE_BYTES = 64 * 2**20
FIRST_READ_REMOTE = 128 * 2**10
"""Bytes at a remote file's end that are read first: they take only as long as the request itself."""

_lock = threading.Lock()
_tails: cachetools.LRUCache[tuple[str, int, bytes | tuple[int, ...]], Tail] = cachetools.LRUCache(
    # A parsed tail takes some eight times its bytes in the file.
    TAIL_CACHE_BYTES,
    getsizeof=lambda tail: 8 * tail.num_bytes,
)


class OrcDataFile(DataFile):
    """An open ORC data file of a task."""

    def _open(self) -> None:
        with damage(self.task.path, "CORRUPT_ORC", "open", self.context.storage):
            size = self._file.size()
            told = self.version or self.stamp
            key = (self.task.path, size, told)
            with _lock:
                tail = _tails.get(key)
            if tail is None:
                tail = read_tail(self._file, size)
                if told:  # otherwise a replaced object would go unnoticed
                    with _lock:
                        _tails[key] = tail
            self._tail = tail
            self._fields = file_schema.identify(
                arrow_schema(tail.schema), self.context.name_mapping, self.context.schema, self.task.path
            )
        self._columns = dict(_by_leaf(tail.schema.children, self._fields))
        self._meanings = dict(meanings(tail.schema.children, self._fields, self.context.schema))
        self._footers: dict[int, StripeFooter] = {}
        self._has_footers = False
        self._statistics: dict[int, list[bytes]] = {}

    def _open_remote(self, reads: TaskReads) -> RemoteFile:
        """Open a remote file by ranges; unless it is small, read its end first."""
        file = super()._open_remote(reads)
        if self.task.file_size > MAX_WHOLE_BYTES:
            file.fetch_tail(FIRST_READ_REMOTE)
        return file

    def row_groups(self) -> Iterator[RowGroup]:
        """Yield the stripes whose first byte lies in the task's range."""
        for stripe in self._tail.stripes:
            if self.is_in_range(stripe.offset):
                yield RowGroup(
                    index=stripe.index,
                    first_row=stripe.first_row,
                    num_rows=stripe.num_rows,
                    num_bytes=stripe.index_length + stripe.data_length,
                )

    def num_rows(self) -> int:
        """Return the rows of the whole file."""
        return sum(stripe.num_rows for stripe in self._tail.stripes)

    def bounds(self, row_group: RowGroup, field_id: int) -> Bounds | None:
        """Return the bounds of a leaf in a stripe; None if they are unknown."""
        if field_id in self.task.constants or field_id not in self.context.schema:
            return None
        target = self.context.schema.field(field_id).type
        source = self._find_deep(field_id)
        if source is None or source[-1].children or not isinstance(target, Primitive):
            return None
        column = self._columns.get(source[-1].first_leaf)
        if column is None or not self._tail.stripe_statistics:
            return None
        with damage(self.task.path, "CORRUPT_ORC", "prune", self.context.storage):
            if row_group.index not in self._statistics:
                message = protobuf.parse(self._tail.stripe_statistics[row_group.index])
                self._statistics = {row_group.index: message.blobs(1)}
            return stripe_bounds(
                self._tail,
                self._tail.stripes[row_group.index],
                self._statistics[row_group.index],
                column,
                target,
                self._meanings.get(column.column),
            )

    def _decode(self, row_group: RowGroup, wanted: AbstractSet[int], stage: str) -> list[pa.Array]:
        stripe = self._tail.stripes[row_group.index]
        with damage(self.task.path, "CORRUPT_ORC", stage, self.context.storage):
            reader = StripeReader(
                self._file,
                self._tail,
                stripe,
                self._footer(stripe),
                meanings=self._meanings,
                limit=self.context.settings.memory_budget,
            )
            with self._held(reader.places(self._fields, wanted)):
                arrays = reader.read(self._fields, wanted)
        self._metrics.add_read(stage, reader.num_bytes)
        return arrays

    def _iterate(
        self, row_group: RowGroup, wanted: AbstractSet[int], batch_size: int
    ) -> Iterator[Sequence[pa.Array]]:
        arrays = self._decode(row_group, wanted, "fetch")
        for start in range(0, row_group.num_rows, batch_size):
            yield [array.slice(start, batch_size) for array in arrays]

    def _held(self, places: list[tuple[int, int]]) -> contextlib.AbstractContextManager[None]:
        """Hold places of a remote file in memory within the block; all are requested at once."""
        if isinstance(self._file, RemoteFile):
            return self._file.held(places)
        return contextlib.nullcontext()

    def _footer(self, stripe: Stripe) -> StripeFooter:
        if isinstance(self._file, RemoteFile) and not self._has_footers:
            self._has_footers = True
            own = [one for one in self._tail.stripes if self.is_in_range(one.offset)]
            self._file.keep(
                [(one.offset + one.index_length + one.data_length, one.footer_length) for one in own]
            )
        if stripe.index not in self._footers:
            self._footers = {stripe.index: read_stripe_footer(self._file, self._tail, stripe)}
        return self._footers[stripe.index]


@contextlib.contextmanager
def damage(path: str, code: str, stage: str, storage: Storage) -> Iterator[None]:
    """Add the file and the stage to a reader's errors and, if bytes are malformed, the format's code.

    `storage` is the scan's: its secrets are masked in the messages of libraries.
    """
    try:
        with files.translate_errors(path, stage, storage=storage):
            yield
    except TwoStageError as error:
        if isinstance(error, CorruptFileError) and error.code == "CORRUPT_FILE":
            error.code = code
        error.path = error.path or mask(path)
        error.stage = stage
        error.args = (str(error),)
        raise


def _by_leaf(kinds: Sequence[OrcType], fields: Sequence[FileField]) -> Iterator[tuple[int, OrcType]]:
    """Yield the file's type of each leaf outside lists and maps."""
    for kind, field in zip(kinds, fields, strict=True):
        if kind.kind == "struct":
            yield from _by_leaf(kind.children, field.children)
        elif not field.children:
            yield field.first_leaf, kind
