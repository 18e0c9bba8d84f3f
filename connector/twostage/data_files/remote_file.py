"""An open remote data file: ranges that are requested together, and exact reads of the rest.

Takes a file of a task's reads; returns bytes at places, and file objects that pyarrow decodes from. The
rules: what `held` requests is in memory within its block, so that pyarrow decodes it without waiting; bytes
not requested in advance take one request of exactly these bytes, and are not kept.
"""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from twostage.errors import CorruptFileError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from twostage.storage.pending_ranges import PendingRanges
    from twostage.storage.store_client import RangedFile
    from twostage.storage.task_reads import TaskReads
    from twostage.task import ScanContext, ScanTask

MAX_WHOLE_BYTES = 8 * 2**20
"""An ORC or Avro file up to this size is fetched whole: most of it is needed, and its parts are found one
after another."""


WINDOWS_KEPT = 2
"""Windows that are kept after a file was read past them, in order: a run of its blocks is read twice."""

CHUNK_WINDOWS_AHEAD = 2
"""Of a column chunk that is too large to be held whole."""


class RemoteFile:
    """One remote data file of a task.

    Args:
        reads: The task's.
        context: The scan, whose policy the path must pass.
        task: Whose data file it is.
        version: Its ETag, if something of it is cached; an object with another one is an error.
    """

    def __init__(
        self, reads: TaskReads, context: ScanContext, task: ScanTask, version: bytes | None = None
    ) -> None:
        self._reads = reads
        self._context = context
        self._task = task
        self.is_known = version is not None
        """Whether something of the file is cached; its version is then requested."""
        self._file = self._open(task.file_size or None, version)
        self._held: list[PendingRanges] = []
        """The requested ranges that are kept, the newest last. Bytes are freed with the last reference."""

    def _open(self, size: int | None, version: bytes | None = None) -> RangedFile:
        etag = None if version is None else version.decode()
        return self._reads.file(self._context.storage, self._task.path, size, etag)

    @property
    def version(self) -> bytes:
        """The object's ETag; empty if the store has none, or nothing was read yet."""
        return (self._file.etag or "").encode()

    @property
    def version_to_check(self) -> bytes:
        """The ETag to compare with the object's when all is read; empty if requests are for that version."""
        return b"" if self._file.client.asks_for_version else self.version

    def size(self) -> int:
        """Return the file's size in bytes: the manifest's, until an answer gives the true one."""
        if self._file.size is None:
            self._reads.ask(self._file, [(0, 1)]).result()
        assert self._file.size is not None
        return self._file.size

    def fetch_tail(self, length: int) -> None:
        """Read the last bytes, or all of a small file, and keep them until `close`; `size` is then exact."""
        try:
            expected = self.size()
            self._fetch_tail(length)
        except CorruptFileError as error:
            if error.code != "CORRUPT_FILE":
                raise
            # The manifest states more bytes than there are: ask the store, as for an unknown file.
            self._file = self._open(None)
            expected = -1
        if self.size() != expected:
            self._held.clear()
            self._fetch_tail(length)

    def _fetch_tail(self, length: int) -> None:
        size = self.size()
        length = size if size <= max(length, self._reads.cost.gap) else length
        pending = self._reads.ask(self._file, [(size - length, length)])
        pending.result()
        self._held.append(pending)

    def read_at(self, length: int, offset: int) -> bytes:
        """Return bytes at a place, fewer at the file's end."""
        length = max(0, min(length, self.size() - offset))
        return bytes(self.views([(offset, length)])[0])

    def views(self, places: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Return the bytes of places (offset, length), which are requested together."""
        missing = [place for place in places if self._holder(*place) is None]
        pending = self._reads.ask(self._file, missing)
        found = dict(zip(missing, pending.result(), strict=True))
        return [found[place] if place in found else self._view(*place) for place in places]

    def ask(self, places: Sequence[tuple[int, int]]) -> PendingRanges:
        """Request the bytes of places (offset, length), even if they are in memory; returns at once."""
        return self._reads.ask(self._file, places)

    @contextlib.contextmanager
    def held(self, places: Sequence[tuple[int, int]]) -> Iterator[None]:
        """Hold the bytes of places (offset, length) in memory within the block."""
        sharers = [found[0] for place in places if (found := self._holder(*place)) is not None]
        pending = self.keep(places)
        try:
            for one in (pending, *sharers):
                one.result()
            yield
        finally:
            self.forget(pending)

    def keep(self, places: Sequence[tuple[int, int]]) -> PendingRanges:
        """Request the places (offset, length) not in memory; keep them until `close`; returns at once."""
        pending = self._reads.ask(self._file, [place for place in places if self._holder(*place) is None])
        self._held.append(pending)
        return pending

    def forget(self, pending: PendingRanges) -> None:
        """Discard what `keep` returned."""
        if pending in self._held:  # else the file was closed
            self._held.remove(pending)

    def _view(self, offset: int, length: int) -> memoryview:
        """Return bytes that are in memory or in flight."""
        found = self._holder(offset, length)
        assert found is not None
        pending, number = found
        start = pending.ranges[number][0]
        return pending.result()[number][offset - start : offset - start + length]

    def _holder(self, offset: int, length: int) -> tuple[PendingRanges, int] | None:
        for pending in reversed(self._held):
            for number, (start, held) in enumerate(pending.ranges):
                if start <= offset and offset + length <= start + held:
                    return pending, number
        return None

    def arrow_file(self, ahead: Sequence[tuple[int, int]] = (), window: int = 0) -> pa.PythonFile:
        """Return a separate file object for a pyarrow reader.

        Args:
            ahead: Places (offset, length) that it reads from front to back, all at the same time.
            window: Bytes of them that arrive together.
        """
        streams = [
            ReadAhead(self, start + length, window=window, ahead=CHUNK_WINDOWS_AHEAD, start=start, kept=0)
            for start, length in ahead
        ]
        return pa.PythonFile(_Cursor(self, streams), mode="r")

    def close(self) -> None:
        """Release what was read."""
        self._held.clear()


class ReadAhead:
    """The bytes of a remote file read from front to back: windows are requested before they are needed.

    Args:
        file: The file.
        end: Where reading is expected to end: nothing after it is requested ahead.
        window: Bytes of a window.
        ahead: Windows that are requested before they are needed.
        start: Where reading begins; if given, nothing after `end` is requested at all.
        kept: Windows that are kept after they are read.
    """

    def __init__(
        self,
        file: RemoteFile,
        end: int,
        *,
        window: int,
        ahead: int,
        start: int | None = None,
        kept: int = WINDOWS_KEPT,
    ) -> None:
        self._file = file
        self._end = end
        self._first = start or 0
        self._stop = None if start is None else end
        self._kept = kept
        self._window = window
        self._ahead = ahead
        self._windows: dict[int, PendingRanges] = {}

    def read_at(self, length: int, offset: int) -> bytes:
        """Return bytes at a place, fewer at the file's end."""
        end = min(offset + length, self._file.size())
        if end <= offset:
            return b""
        first, last = ((at - self._first) // self._window for at in (offset, end - 1))
        for number in range(first, last + 1 + self._ahead):
            if number not in self._windows and (number <= last or self._start(number) < self._end):
                self._ask(number)
        for number in [one for one in self._windows if one < first - self._kept]:
            del self._windows[number]
        parts = []
        for number in range(first, last + 1):
            (view,) = self._windows[number].result()
            start = self._start(number)
            parts.append(view[max(0, offset - start) : end - start])
        return b"".join(parts)

    def close(self) -> None:
        """Release what was read."""
        self._windows.clear()

    def holds(self, length: int, offset: int) -> bool:
        """Tell whether a place lies within the part that is read from front to back."""
        return self._first <= offset and offset + length <= self._end

    def _start(self, number: int) -> int:
        return self._first + number * self._window

    def _ask(self, number: int) -> None:
        start = self._start(number)
        length = min(self._window, (self._stop or self._file.size()) - start)
        if length > 0:
            self._windows[number] = self._file.ask([(start, length)])


class _Cursor(io.RawIOBase):
    """A file object over a remote file, some parts of which are read from front to back."""

    def __init__(self, file: RemoteFile, streams: Sequence[ReadAhead] = ()) -> None:
        super().__init__()
        self._file = file
        self._streams = streams
        self._position = 0

    def read(self, size: int = -1) -> Any:  # pyarrow takes any buffer
        """Return the next bytes."""
        left = max(0, self._file.size() - self._position)
        size = left if size is None or size < 0 else min(size, left)
        stream = next((one for one in self._streams if size and one.holds(size, self._position)), None)
        if stream is not None:
            found: Any = stream.read_at(size, self._position)
        else:
            (found,) = self._file.views([(self._position, size)])
        self._position += size
        return found

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position}.get(whence)
        self._position = offset + (self._file.size() if start is None else start)
        return self._position

    def tell(self) -> int:
        """Return the place."""
        return self._position

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True
