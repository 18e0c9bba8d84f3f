"""Objects by PyArrow's file systems, for stores that obstore does not know.

Takes a connected file system; gives a `StoreClient`. Reads block, so each takes one of a few threads; a file is opened at
its first read, which asks for its size and ETag, and kept open.
"""

from __future__ import annotations

import contextlib
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from twostage.errors import CorruptFileError, MissingFileError, StorageError
from twostage.storage.errors import translate_errors
from twostage.storage.expiry import EXPIRED
from twostage.storage.store_client import ListedObject, Listing, RequestFailedError, StoreAnswer
from twostage.storage.store_loop import event_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from twostage.storage.store_client import FailureKind, RangedFile
    from twostage.storage.vended_credentials import VendedCredentials

_THROTTLED = re.compile(r"SERVICE_UNAVAILABLE|SLOW_DOWN|HTTP (?:\w+ )*(?:429|503)|ServerBusy|TooManyRequests")
THREADS = 24
"""As many as the connections that PyArrow's S3 client keeps open."""


class ArrowClient:
    """A client of one file system.

    Args:
        key: See `StoreClient`.
        file_system: Connected.
        connect: Returns the file system to open the next file with, if its credentials renew themselves. It may block.
        vended: These credentials.
    """

    asks_for_version = False

    def __init__(
        self,
        key: tuple[str, ...],
        file_system: Any,
        connect: Callable[[], Any] | None = None,
        vended: VendedCredentials | None = None,
    ) -> None:
        self.key = key
        self.vended = vended
        self._connect = connect or (lambda: file_system)
        self._threads = ThreadPoolExecutor(THREADS, "twostage-arrow")
        self._lock = threading.Lock()

    async def get(self, file: RangedFile, start: int, end: int | None, limit: int | None) -> StoreAnswer:
        """Read one range in a thread."""
        return await event_loop().run_in_executor(self._threads, self._read, file, start, end, limit)

    def _read(self, file: RangedFile, start: int, end: int | None, limit: int | None) -> StoreAnswer:
        with _failures(file.path):
            opened, etag = self._open(file)
            size = opened.size()
            if limit is not None and size > limit:
                raise RequestFailedError("too large", str(size))
            if file.etag and etag and etag != file.etag:
                raise RequestFailedError("replaced", "ETag differs")
            start = start if start >= 0 else max(0, size + start)
            if start >= size and size:
                raise RequestFailedError("beyond", f"range starts at {start} of {size} bytes")
            length = (size if end is None else min(end, size)) - start
            data = opened.read_at(length, start) if length else b""
            return StoreAnswer(data, etag, size)

    def _open(self, file: RangedFile) -> tuple[Any, str]:
        """Return the open file and its ETag."""
        with self._lock:
            own = file.opened = file.opened or _Opened()
        with own.lock:
            if own.file is None:
                file_system = self._connect()
                # Before opening: if the file is replaced in between, the new one's time must not stand for the old one's bytes.
                written = _written(file_system, file.name)
                opened = file_system.open_input_file(file.name)
                tags = opened.metadata() or {}
                own.etag = next(
                    (
                        bytes(value).decode("latin-1")
                        for key, value in tags.items()
                        if str(key).lower() == "etag"
                    ),
                    written,
                )
                own.file = opened
            return own.file, own.etag

    async def list(self, folder: str) -> Listing:
        """List a folder in a thread; a missing one is empty."""
        return await event_loop().run_in_executor(self._threads, self._list, folder)

    def _list(self, folder: str) -> Listing:
        from pyarrow.fs import FileSelector, FileType  # noqa: PLC0415

        with _failures(folder):
            found = self._connect().get_file_info(FileSelector(folder, allow_not_found=True))
        listing = Listing([], [])
        for one in found:
            if one.type == FileType.Directory:
                listing.folders.append(one.base_name)
            else:
                listing.objects.append(ListedObject(one.base_name, one.size or 0, "", one.mtime_ns or 0))
        return listing

    async def is_file(self, name: str) -> bool:
        """Tell in a thread whether there is an object, and no folder, of this name."""
        return await event_loop().run_in_executor(self._threads, self._is_file, name)

    def _is_file(self, name: str) -> bool:
        from pyarrow.fs import FileType  # noqa: PLC0415

        with _failures(name):
            return bool(self._connect().get_file_info(name).type == FileType.File)

    async def put(self, name: str, data: bytes) -> None:
        """Write an object in a thread."""
        await event_loop().run_in_executor(self._threads, self._put, name, data)

    def _put(self, name: str, data: bytes) -> None:
        with _failures(name), self._connect().open_output_stream(name) as stream:
            stream.write(data)

    def release(self, file: RangedFile) -> None:
        """Let go of the open file, which closes when no thread reads it any more."""
        file.opened = None


def _written(file_system: Any, name: str) -> str:
    """Return what replaces the ETag of a file of HDFS, which has none: when it was written. Takes a request there.

    Without it, nothing would tell that a file was replaced, so that no footer could be cached.
    """
    if file_system.type_name != "hdfs":
        return ""
    written = file_system.get_file_info(name).mtime_ns
    return f"written-{written}" if written else ""


@contextlib.contextmanager
def _failures(path: str) -> Iterator[None]:
    """Turn PyArrow's exceptions that leave the block into failures of a request."""
    try:
        with translate_errors(path, "storage"):
            yield
    except MissingFileError:
        raise RequestFailedError("missing", "not found") from None
    except StorageError as error:
        text = error.message  # without what our own error says again
        for said in ("Storage failed: ", "Storage refused access: ", EXPIRED):
            text = text.removeprefix(said)
        failure = RequestFailedError(_kind_of(error), text)
        failure.is_transient = error.transient
        raise failure from None
    except CorruptFileError as error:
        failure = RequestFailedError("other", error.message.removeprefix("File is damaged: "))
        failure.is_transient = False
        raise failure from None


def _kind_of(error: StorageError) -> FailureKind:
    """Return how a request failed; PyArrow repeats requests itself, so that its failures are final, except for throttling."""
    if error.code in ("ACCESS_DENIED", "CREDENTIALS_EXPIRED"):
        return "denied"
    return "throttled" if _THROTTLED.search(error.message) else "other"


class _Opened:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.file: Any = None
        self.etag = ""
