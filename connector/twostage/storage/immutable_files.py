"""Files of an object store that never change: read many at a time, and kept by the process.

Takes a scan's `Storage` and paths; gives the files' bytes, in order. Metadata, manifest lists and manifests of Iceberg's writers
have a UUID in their names and are never written again, so that a query of a table that was queried before requests none of
them. The rules: a file without such a name is read each time, unless a listing has just shown its ETag; what is kept serves
only the same path under the same policy and the same configuration (`store_identity`). A file that was removed meanwhile may
still be served.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any

import cachetools

from twostage.storage.driver_reads import driver_reads
from twostage.storage.files import read_all
from twostage.storage.location import check_location, parse_location
from twostage.storage.store_identity import kept_for

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from twostage.storage.pending_ranges import PendingRanges
    from twostage.task import Storage

MAX_KEPT_BYTES = 64 * 2**20
MAX_KEPT_FILE_BYTES = 8 * 2**20
"""A larger one is read again: reading it takes as long as some requests in any case."""
MAX_AHEAD = 64
"""Files requested before the first one is used."""
MAX_AHEAD_BYTES = 64 * 2**20
"""Bytes of these."""
_UUID = re.compile(r"(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

_kept: cachetools.LRUCache[Any, bytes] = cachetools.LRUCache(MAX_KEPT_BYTES, getsizeof=len)
_lock = threading.Lock()


def read_immutable(storage: Storage, path: str, *, limit: int | None = None) -> bytes:
    """Return the bytes of a located file, read or kept; see `files.read_all` for the errors."""
    key = _key(storage, path)
    data = _find(key)
    if data is None:
        data = read_all(storage, path, limit=limit)
        _keep(key, data)
    return data


def read_version(storage: Storage, path: str, version: str, *, limit: int | None = None) -> bytes:
    """Return the bytes of a located file that a listing has just shown, read, or kept if it is still of this version.

    Args:
        storage: The scan's.
        path: The file, of any name.
        version: Its ETag in the listing; empty: it is read.
        limit: See `files.read_all`, as for the errors.
    """
    if parse_location(path).is_local or not version:
        return read_all(storage, path, limit=limit)
    key = (_scope(storage, path), version)
    data = _find(key)
    if data is not None:
        check_location(storage, path)
        return data
    with driver_reads() as reads:
        file = reads.file(storage, path)
        data = bytes(reads.ask_whole(file, limit).result()[0])
        if _plain(file.etag or "") == _plain(version):  # else it was rewritten since
            _keep(key, data)
    return data


def _plain(etag: str) -> str:
    """Return an ETag without quotation marks, which some listings leave out."""
    return etag.strip('"')


class ImmutableReads:
    """Files of a remote table that are requested together and taken one by one. Use it as a context manager.

    Args:
        storage: The scan's.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._asked: dict[str, tuple[Any, bytes | PendingRanges]] = {}
        self._opened = contextlib.ExitStack()

    def __enter__(self) -> ImmutableReads:
        self._reads = self._opened.enter_context(driver_reads(most_bytes=MAX_AHEAD_BYTES))
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def ask(self, path: str, size: int) -> None:
        """Request a located file, unless that was done or it is kept; returns at once, except for a local one.

        Args:
            path: The file.
            size: Bytes, as the metadata has it.

        Raises:
            ForbiddenLocationError: The policy refuses it.
        """
        if path in self._asked:
            return
        key = _key(self._storage, path)
        data = _find(key)
        if parse_location(path).is_local:
            self._asked[path] = None, read_all(self._storage, path)
        elif data is None:
            pending = self._reads.ask_whole(self._reads.file(self._storage, path), expected=size)
            self._asked[path] = key, pending
        else:
            check_location(self._storage, path)
            self._asked[path] = key, data

    def take(self, path: str, size: int) -> bytes:
        """Return the bytes of a file, and forget them.

        Raises:
            TwoStageError: See `files.read_all`.
        """
        self.ask(path, size)
        key, found = self._asked.pop(path)
        if isinstance(found, bytes):
            return found
        data = bytes(found.result()[0])
        found.release()
        _keep(key, data)
        return data


def read_immutables(
    storage: Storage,
    paths: Iterable[tuple[str, int]],
    *,
    first: int = MAX_AHEAD,
    reads: ImmutableReads | None = None,
) -> Generator[bytes, None, None]:
    """Yield the bytes of files of a remote table, in order; the next ones are already on their way.

    Args:
        storage: The scan's.
        paths: Located files, each with its size in bytes as the metadata has it. A local one among them is read in its turn.
        first: How many files to request before the first one is used.
        reads: What requests them, and may have requested some before; by default one of their own.

    Raises:
        TwoStageError: See `files.read_all`, at the file that cannot be read.
    """
    waiting = iter(paths)
    asked: deque[tuple[str, int]] = deque()
    with contextlib.nullcontext(reads) if reads is not None else ImmutableReads(storage) as own:

        def ask_up_to(count: int) -> None:
            for path, size in islice(waiting, count - len(asked)):
                own.ask(path, size)
                asked.append((path, size))

        ask_up_to(max(1, first))
        while asked:
            yield own.take(*asked.popleft())
            ask_up_to(MAX_AHEAD)


def is_named_once(path: str) -> bool:
    """Return whether a file has a name that no writer gives twice: one with a UUID in it.

    >>> is_named_once("s3://b/t/metadata/00002-c2a9c8cd-8a2f-4a8d-9d6a-0f1f3f0a4f55.metadata.json")
    True
    """
    return _UUID.search(path.rpartition("/")[2]) is not None


def forget() -> None:
    """Drop everything that was kept so far."""
    with _lock:
        _kept.clear()


def _key(storage: Storage, path: str) -> Any:
    """Return the key under which a file is kept; None for one that is not."""
    if parse_location(path).is_local or not is_named_once(path):
        return None
    return _scope(storage, path)


def _scope(storage: Storage, path: str) -> tuple[Any, ...]:
    """Return what a kept file serves: its path under this policy, for the same user's configuration."""
    return path, storage.root, storage.moved_from, storage.allowed, kept_for(storage)


def _find(key: Any) -> bytes | None:
    if key is None:
        return None
    with _lock:
        return _kept.get(key)


def _keep(key: Any, data: bytes) -> None:
    if key is not None and len(data) <= MAX_KEPT_FILE_BYTES:
        with _lock:
            _kept[key] = data


def _after_fork() -> None:
    global _lock  # noqa: PLW0603 - one for each process
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
