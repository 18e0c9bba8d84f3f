"""Avro data files: a run of blocks is a row group.

Blocks are found by the lengths that precede them, and each must end with the file's sync marker; a task owns
those that begin in its range, and walks over the ones before to count their rows. The rule: a block holds
exactly the records that it announces. Avro has no statistics, so nothing is pruned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from twostage.data_files.data_file import DataFile
from twostage.data_files.orc_file import damage
from twostage.data_files.remote_file import MAX_WHOLE_BYTES, ReadAhead, RemoteFile
from twostage.data_files.row_group import RowGroup
from twostage.errors import CorruptFileError, ResourceLimitError, UnsupportedFeatureError
from twostage.formats import file_schema
from twostage.formats.avro import container
from twostage.formats.avro.columns import AvroColumns
from twostage.formats.avro.compression import CODECS, unpack
from twostage.formats.avro.schema import arrow_schema, parse_schema
from twostage.formats.varint import MAX_VARINT_BYTES, read_zigzag

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence, Set as AbstractSet

    import pyarrow as pa

HEADER_BYTES = 64 * 2**10
MAX_HEADER_BYTES = 64 * 2**20
GROUP_ROWS = 65_536
"""Records pass through Python dictionaries, some 1 kB each for ten columns."""
GROUP_BYTES = 4 * 2**20
WINDOW_BYTES = 2**20
REMOTE_WINDOW_BYTES = 4 * 2**20
WINDOWS_AHEAD = 4
"""Of a large file in an object store: with the current one, what arrives in the time of some requests."""


@dataclass(frozen=True, slots=True)
class _Block:
    """A block: its records, and where its content (without count, length and marker) lies."""

    num_rows: int
    offset: int
    length: int


class AvroDataFile(DataFile):
    """An open Avro data file of a task."""

    def _open(self) -> None:
        self._bytes: RemoteFile | ReadAhead | pa.NativeFile = self._file
        if isinstance(self._file, RemoteFile) and self.task.file_size > MAX_WHOLE_BYTES:
            end = self.task.start + self.task.length
            self._bytes = ReadAhead(self._file, end, window=REMOTE_WINDOW_BYTES, ahead=WINDOWS_AHEAD)
        with damage(self.task.path, "CORRUPT_AVRO", "open", self.context.storage):
            self._size = self._file.size()
            self._header, self._sync, self._begin = self._read_header()
            if self._header.codec not in CODECS:
                raise UnsupportedFeatureError(
                    "UNSUPPORTED_COMPRESSION",
                    f"Avro file's compression is not supported: {self._header.codec}",
                    stage="open",
                )
            root = parse_schema(self._header.schema)
            self._fields = file_schema.identify(
                arrow_schema(root), self.context.name_mapping, self.context.schema, self.task.path
            )
            self._columns = AvroColumns(root, self._fields)
        self._blocks: dict[int, tuple[_Block, ...]] = {}
        self._unpacked: dict[int, tuple[tuple[int, bytes], ...]] = {}
        self._window = (0, b"")

    def __exit__(self, kind: type[BaseException] | None, *more: object) -> None:
        if isinstance(self._bytes, ReadAhead):
            self._bytes.close()
        super().__exit__(kind, *more)

    def _read_header(self) -> tuple[container.AvroFile, bytes, int]:
        length = HEADER_BYTES
        while True:
            data = bytes(self._bytes.read_at(min(length, self._size), 0))
            try:
                return container.open_header(data, path=self.task.path, code="CORRUPT_AVRO")
            except CorruptFileError:  # perhaps only longer than we read
                if length >= min(self._size, MAX_HEADER_BYTES) or data[:3] != b"Obj":
                    raise
                length *= 16

    def row_groups(self) -> Iterator[RowGroup]:
        """Yield the runs of blocks whose first byte lies in the task's range."""
        index = first_row = rows = size = 0
        run: list[_Block] = []
        for begin, block in self._walk():
            if begin < self.task.start:
                first_row += block.num_rows
                continue
            run.append(block)
            rows += block.num_rows
            size += block.length
            if rows >= GROUP_ROWS or size >= GROUP_BYTES:
                yield self._row_group(index, first_row, run)
                index, first_row = index + 1, first_row + rows
                run, rows, size = [], 0, 0
        if run:
            yield self._row_group(index, first_row, run)

    def _row_group(self, index: int, first_row: int, run: list[_Block]) -> RowGroup:
        self._blocks[index] = tuple(run)
        return RowGroup(
            index=index,
            first_row=first_row,
            num_rows=sum(block.num_rows for block in run),
            num_bytes=sum(block.length for block in run),
        )

    def _walk(self) -> Iterator[tuple[int, _Block]]:
        """Yield each block up to the end of the range, with the offset of its first byte."""
        position = self._begin
        while position < self._size and (position < self.task.start or self.is_in_range(position)):
            with damage(self.task.path, "CORRUPT_AVRO", "open", self.context.storage):
                head = self._at(position, 2 * MAX_VARINT_BYTES)
                count, used = read_zigzag(head, 0)
                length, used = read_zigzag(head, used)
                block = _Block(count, position + used, length)
                end = block.offset + block.length
                if not 0 <= block.length <= self._size - block.offset - len(self._sync):
                    raise ValueError(f"a block of {block.length} bytes at {position} of {self._size}")
                if not 0 <= block.num_rows or (block.num_rows and not block.length):
                    raise ValueError(f"a block announces {block.num_rows} records")
                if self._at(end, len(self._sync)) != self._sync:
                    raise ValueError("a block does not end with the sync marker")
            if block.num_rows:
                yield position, block
            position = end + len(self._sync)

    def _at(self, offset: int, length: int) -> bytes:
        """Return bytes of the file, fewer at its end, from a sliding window."""
        start, data = self._window
        if not start <= offset <= start + len(data) - min(length, self._size - offset):
            data = bytes(self._bytes.read_at(min(WINDOW_BYTES, self._size - offset), offset))
            start = offset
            self._window = start, data
        return data[offset - start : offset - start + length]

    def _decode(self, row_group: RowGroup, wanted: AbstractSet[int], stage: str) -> list[pa.Array]:
        with damage(self.task.path, "CORRUPT_AVRO", stage, self.context.storage):
            blocks = self._unpack(row_group, stage)
            file = replace(self._header, codec="null", blocks=blocks)
            limit = self.context.settings.memory_budget  # as `_unpack` has checked
            return self._columns.decode(file, wanted, limit=limit)

    def _unpack(self, row_group: RowGroup, stage: str) -> tuple[tuple[int, bytes], ...]:
        """Return the content of the row group's blocks, kept for the columns read next."""
        found = self._unpacked.get(row_group.index)
        if found is not None:
            return found
        limit = self.context.settings.memory_budget
        unpacked = []
        for block in self._blocks[row_group.index]:
            packed = bytes(self._bytes.read_at(block.length, block.offset))
            if len(packed) != block.length:
                raise ValueError("the file ends within a block")
            content = unpack(self._header.codec, packed, limit)
            limit -= len(content)
            if limit < 0:
                raise ResourceLimitError(
                    "BLOCK_TOO_LARGE",
                    "Blocks of the Avro file unpack to more than the task's budget, bytes: "
                    f"{self.context.settings.memory_budget}",
                    stage=stage,
                    hint="Raise the option 'task-memory'.",
                )
            unpacked.append((block.num_rows, content))
        self._metrics.add_read(stage, row_group.num_bytes)
        self._unpacked = {row_group.index: tuple(unpacked)}
        return self._unpacked[row_group.index]

    def _iterate(
        self, row_group: RowGroup, wanted: AbstractSet[int], batch_size: int
    ) -> Iterator[Sequence[pa.Array]]:
        arrays = self._decode(row_group, wanted, "fetch")
        for start in range(0, row_group.num_rows, batch_size):
            yield [array.slice(start, batch_size) for array in arrays]
