"""The lock for building a file of the host's cache: one process builds, the others wait and find the file.

Takes a lock file and how long to wait; returns a `BuildLock`. The rules: a process that dies releases its
lock; if the last builder could not write its file, no process waits for the next; a process that has waited
too long builds for itself.

Locks are `fcntl.flock`. Why not `filelock`: importing it costs each new worker 38 ms of CPU, a lock 0.07 ms
(here 0.015), and it would replace only the retry loop of `hold`: the work done while waiting, and the mark of
a process that could not write, would remain (`benchmarks/delete_cache_formats.py`).
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_POLL_SECONDS = 0.02
_FAILED_SECONDS = 60.0
"""How long processes do not wait for each other after one of them failed to write its file."""


@dataclass(slots=True)
class BuildLock:
    """The lock for building a file.

    Attributes:
        is_held: Whether this process may build it.
        has_waited: Whether another process held the lock meanwhile; it may have built the file.
        has_failed: Set by the builder if it could not write the file.
    """

    is_held: bool = False
    has_waited: bool = False
    has_failed: bool = False


def open_lock_file(path: Path) -> int:
    """Open a lock file that only this user may use, creating it if necessary; return its descriptor.

    Raises:
        ImportError: This platform has no `fcntl`.
        OSError: It cannot be opened.
    """
    import fcntl  # noqa: F401, PLC0415 - not on every platform

    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


@contextlib.contextmanager
def hold(handle: int, seconds: float, meanwhile: Callable[[], None] | None = None) -> Iterator[BuildLock]:
    """Hold a lock file's lock, waiting for at most `seconds`; closes the descriptor.

    Args:
        handle: The descriptor from `open_lock_file`.
        seconds: How long to wait for another process.
        meanwhile: Called once, before the first wait.
    """
    import fcntl  # noqa: PLC0415 - not on every platform

    lock = BuildLock()
    try:
        deadline = time.monotonic() + seconds
        while not lock.is_held:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                lock.is_held = True
            except OSError:
                if time.monotonic() >= deadline or _failed_lately(handle):
                    break
                if meanwhile is not None and not lock.has_waited:
                    meanwhile()
                lock.has_waited = True
                time.sleep(_POLL_SECONDS)
        if lock.is_held and lock.has_waited and _failed_lately(handle):
            fcntl.flock(handle, fcntl.LOCK_UN)
            lock.is_held = False
        yield lock
        if lock.is_held:
            # The mark is the lock file's timestamps, which can be set even on a full disk.
            with contextlib.suppress(OSError):
                os.utime(handle, (0, time.time() if lock.has_failed else 0))
    finally:
        os.close(handle)


def _failed_lately(handle: int) -> bool:
    return time.time() - os.fstat(handle).st_mtime < _FAILED_SECONDS and os.fstat(handle).st_atime == 0
