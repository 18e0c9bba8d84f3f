"""An object in a store as a file to read at offsets, by the requests of a task.

Takes a task's reads and a path; gives bytes at offsets, several ranges at a time. The rule: its size need not be known; the first
request may be for its end, whose answer tells it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twostage.errors import CorruptFileError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twostage.storage.pending_ranges import PendingRanges
    from twostage.storage.task_reads import TaskReads
    from twostage.task import Storage

END_BYTES = 64 * 2**10
"""Bytes of an object's end that are requested to learn its size, where the caller does not say how many."""


class RangedObject:
    """One object of a task's reads; what it raises is what `PendingRanges.result` does.

    Args:
        reads: The task's.
        storage: How to open it.
        path: Where it is, located.
        size: Its size in bytes, if it is known.
    """

    def __init__(self, reads: TaskReads, storage: Storage, path: str, size: int | None = None) -> None:
        self._reads = reads
        self._file = reads.file(storage, path, size)
        self._end: PendingRanges | None = None
        self._first: PendingRanges | None = None

    def ask_end(self, length: int = END_BYTES) -> None:
        """Request its last `length` bytes, which are kept; returns at once."""
        if self._end is None:
            self._end = self._reads.ask_end(self._file, length)

    def ask_version(self) -> None:
        """Request its first byte, whose answer tells the ETag; returns at once."""
        if self._first is None:
            self._first = self._reads.ask(self._file, [(0, 1)])

    def version(self) -> bytes:
        """Return its ETag; empty if the store has none."""
        self.ask_version()
        assert self._first is not None
        self._first.result()
        return self.etag.encode()

    @property
    def etag(self) -> str:
        """Its ETag; empty if the store has none, or nothing has arrived yet."""
        return self._file.etag or ""

    def size(self) -> int:
        """Return its size in bytes."""
        if self._file.size is None:
            self.ask_end()
            assert self._end is not None
            try:
                self._end.result()
            except CorruptFileError as error:
                if error.code != "CORRUPT_FILE":
                    raise
                # Of an object without bytes, stores say that there is no such range.
                self._end = self._reads.ask_whole(self._file, END_BYTES)
                self._end.result()
        assert self._file.size is not None
        return self._file.size

    def read_at(self, length: int, place: int) -> bytes:
        """Return the bytes at an offset, fewer at the object's end."""
        size = self.size()
        length = max(0, min(length, size - place))
        if self._end is not None:
            (end,) = self._end.result()
            first = size - len(end)
            if first <= place:
                return bytes(end[place - first : place - first + length])
        return bytes(self.read_ranges([(place, length)])[0])

    def read_ranges(self, places: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Return the bytes of ranges (offset, length), which are requested together."""
        return self._reads.ask(self._file, places).result()
