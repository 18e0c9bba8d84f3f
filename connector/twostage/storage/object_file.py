"""An object in a store as a file of pyarrow's, to read a few files outside a task's pipeline.

Takes a `Storage` and a path; gives an open file. Its requests are sent as those of tasks are: in the store's window, repeated
when they fail, all of one version of the object. The rule: opening tells whether the object is there, with one request, whose
answer holds the object's end: where formats keep their footers.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from twostage.storage.ranged_object import RangedObject
from twostage.storage.task_reads import TaskReads

if TYPE_CHECKING:
    from twostage.task import Storage


def open_object(storage: Storage, path: str) -> ObjectFile:
    """Open an object.

    Raises:
        MissingFileError: It does not exist.
        StorageError: No access, no network, an answer that does not come.
    """
    reads = TaskReads()
    try:
        found = RangedObject(reads, storage, path)
        found.size()
    except BaseException:
        reads.close()
        raise
    return ObjectFile(_Cursor(reads, found), mode="r")


class ObjectFile(pa.PythonFile):  # type: ignore[misc]  # pyarrow has no types
    """An open object. Threads may read it at offsets at the same time."""

    def __init__(self, cursor: _Cursor, mode: str) -> None:  # noqa: ARG002 - what `__cinit__` has taken
        super().__init__()
        self._object = cursor.file

    def size(self) -> int:
        """Return its size in bytes."""
        return self._object.size()

    def read_at(self, nbytes: int, offset: int) -> bytes:
        """Return the bytes at an offset, fewer at the object's end."""
        self._assert_open()
        return self._object.read_at(nbytes, offset)

    def metadata(self) -> dict[str, bytes]:
        """Return the object's ETag, if the store has one."""
        return {"ETag": self._object.etag.encode()} if self._object.etag else {}


class _Cursor(io.RawIOBase):
    """The file object that pyarrow's own readers read."""

    def __init__(self, reads: TaskReads, file: RangedObject) -> None:
        super().__init__()
        self._reads = reads
        self.file = file
        self._position = 0

    def read(self, size: int = -1) -> Any:  # pyarrow takes any buffer
        """Return the next bytes."""
        size = self.file.size() if size is None or size < 0 else size
        found = self.file.read_at(size, self._position)
        self._position += len(found)
        return found

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to an offset."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position}.get(whence)
        self._position = offset + (self.file.size() if start is None else start)
        return self._position

    def tell(self) -> int:
        """Return the offset."""
        return self._position

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """End the reads."""
        self._reads.close()
        super().close()
