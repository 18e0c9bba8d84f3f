"""The host's cache: files that the worker processes of one user on one host share, and map into memory.

Takes values and arrays under a name (a fingerprint); returns them as read-only views of the mapped file to
any process of this user, until their space is needed: the least recently used files are removed first. The
rules:

- A file appears whole or not at all: it is written under another name, then renamed. It is not synced;
  checksums detect damage after a power loss.
- A directory that another user owns or may write to (`directory`), and a file that is not this user's or not
  whole, are not used: whoever writes them decides which rows are deleted.
- A failure of the cache never fails the scan: it is counted (``delete_cache.*``) and reported, and the caller
  does without the cache.

Benefit: "host's cache" in docs/benchmarks-deletes.md, columns "later" and "cold".
"""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
import time
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twostage.deletes.cache import file_format
from twostage.deletes.cache.build_lock import BuildLock, hold, open_lock_file
from twostage.deletes.cache.directory import first_usable
from twostage.errors import mask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from twostage.metrics import Metrics
    from twostage.options import ReadSettings

SUFFIX = ".twostage"
WAIT_SECONDS = 60.0
"""How long a process waits for another one that is building the same file, before it builds for itself."""
_LOCK_FILES = 64
"""Names map to them by a hash, so that lock files never have to be removed."""
_STALE_SECONDS = 3600.0
"""A file that has been half written for this long was left by a process that died."""
_SIZE_CHECKS = 16
"""A process recomputes the directory's size each time it has written ``deletes.cache-size`` divided by
this."""
_written: dict[Path, int] = {}
"""Bytes that this process has written since it last computed a directory's size."""


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a cache is for, as the report names it.

    Attributes:
        counters: The prefix of its counters' names.
        contents: What it holds: "the host's cache of …".
        size_option: The option that bounds its bytes.
    """

    counters: str
    contents: str
    size_option: str

    def counter(self, word: str) -> str:
        """Return the counter of an event, such as ``written``."""
        return f"{self.counters}.{word}"


DELETES = Purpose("delete_cache", "deletes", "deletes.cache-size")


@dataclass(frozen=True, slots=True, eq=False)
class MappedFile:
    """A checked file of the cache: its description, and its arrays as read-only views of the mapped file."""

    description: file_format.Description
    arrays: list[NDArray[Any]]


class HostCache:
    """The cache in one directory; `find` returns it, or None.

    Args:
        directory: Checked by `private_directory`.
        size: Bytes that all its files together may take.
        metrics: Counts files that are written, ignored and given up.
        purpose: What it holds.
    """

    def __init__(self, directory: Path, size: int, metrics: Metrics, purpose: Purpose = DELETES) -> None:
        self.directory = directory
        self.size = size
        self._metrics = metrics
        self._purpose = purpose

    @staticmethod
    def find(settings: ReadSettings, metrics: Metrics) -> HostCache | None:
        """Return the cache of the options; None if there is none or, with a counted warning, it is unusable."""
        if settings.delete_cache != "host":
            return None
        directory, reason = first_usable(settings.delete_cache_dir)
        if directory is not None:
            return HostCache(directory, settings.delete_cache_size, metrics)
        metrics.add(DELETES.counter("unusable"))
        metrics.choices[f"delete keys are not shared by the host's workers: {reason}"] += 1
        return None

    def names(self, prefix: str) -> list[str]:
        """Return the files whose names begin with `prefix`, the most recently used first."""
        found = []
        with contextlib.suppress(OSError), os.scandir(self.directory) as entries:
            for entry in entries:
                if entry.name.startswith(prefix) and entry.name.endswith(SUFFIX):
                    with contextlib.suppress(OSError):
                        found.append((-entry.stat(follow_symlinks=False).st_mtime_ns, entry.name))
        return [name for _, name in sorted(found)]

    def size_of(self, name: str) -> int:
        """Return a file's size in bytes; 0 if it is not there."""
        with contextlib.suppress(OSError):
            return (self.directory / name).lstat().st_size
        return 0

    def is_older(self, name: str) -> bool:
        """Tell whether a file is obsolete: of an earlier format, or damaged."""
        with self._opened(name) as file:
            return file is not None and file_format.is_older(os.pread(file, file_format.HEADER_BYTES, 0))

    def describe(self, name: str, kind: str) -> file_format.Description | None:
        """Return a file's description; None if it does not exist or is not usable."""
        with self._opened(name) as file:
            if file is not None:
                with self._ignoring(name):
                    return self._description(file, name, kind)
        return None

    def load(self, name: str, kind: str, *, is_verified: bool = False) -> MappedFile | None:
        """Return a file's values and arrays, mapped; None if it does not exist or is not usable.

        Args:
            is_verified: This process has just written it, so the arrays' checksums need not be compared.
        """
        with self._opened(name) as file:
            if file is None:
                return None
            with self._ignoring(name):
                description = self._description(file, name, kind)
                if not is_verified:
                    file_format.verify(lambda place, length: os.pread(file, length, place), description)
                content = mmap.mmap(file, description.size, access=mmap.ACCESS_READ)
                with contextlib.suppress(OSError):
                    os.utime(file)  # the time of its last use decides which file is removed first
                return MappedFile(description, file_format.arrays_in(content, description))
        return None

    def save(self, name: str, kind: str, values: dict[str, Any], arrays: Sequence[NDArray[Any]]) -> bool:
        """Write a file; tell whether that succeeded. Other processes see it whole or not at all."""
        try:
            size, parts = file_format.encode(kind, _key(name), values, arrays)
            if size > self.size:
                sentence = f"{self._purpose.contents} larger than {self._purpose.size_option}: kept in memory"
                self._warn("too_large", sentence)
                return False
            _written[self.directory] = _written.get(self.directory, self.size) + size
            if _written[self.directory] > self.size // _SIZE_CHECKS:
                # Other processes also write such a fraction before they recompute the size.
                self._make_room(self.size - size - self.size // _SIZE_CHECKS)
                _written[self.directory] = 0
            self._write(name, parts)
        except (OSError, ValueError) as error:
            text = getattr(error, "strerror", None) or str(error)
            self._warn(
                "failed", f"the host's cache of {self._purpose.contents} could not be written: {mask(text)}"
            )
            return False
        self._metrics.add(self._purpose.counter("written"))
        return True

    @contextlib.contextmanager
    def exclusive(
        self, name: str, seconds: float = WAIT_SECONDS, meanwhile: Callable[[], None] | None = None
    ) -> Iterator[BuildLock]:
        """Hold the lock of a name, waiting for at most `seconds`.

        A process that dies releases it. If the last holder could not write its file, no process waits.

        Args:
            name: The file to build.
            seconds: How long to wait for another process.
            meanwhile: Called once, before the first wait.
        """
        try:
            handle = open_lock_file(self.directory / f"lock-{zlib.crc32(name.encode()) % _LOCK_FILES:02}")
        except (ImportError, OSError) as error:
            text = getattr(error, "strerror", None) or str(error)
            self._warn(
                "failed", f"the host's cache of {self._purpose.contents} cannot be locked: {mask(text)}"
            )
            yield BuildLock()
            return
        with hold(handle, seconds, meanwhile) as lock:
            if lock.is_held:
                self._remove_left_over(name)
            yield lock

    def remove(self, name: str) -> None:
        """Remove a file; processes that have it mapped keep it."""
        with contextlib.suppress(OSError):
            os.unlink(self.directory / name)  # noqa: PTH108 (Path says the same in three calls)

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[int | None]:
        """Open a file for reading; None, with nothing counted, if it does not exist."""
        try:
            file = os.open(self.directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            yield None
            return
        except OSError as error:
            self.ignore(name, error.strerror or "")
            yield None
            return
        try:
            status = os.fstat(file)
            is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid()
            if not is_own or stat.S_IMODE(status.st_mode) & 0o077:
                self.ignore(name, "others own it or may use it")
                yield None
            else:
                yield file
        finally:
            os.close(file)

    @contextlib.contextmanager
    def _ignoring(self, name: str) -> Iterator[None]:
        """Count and remove a file that turns out to be unusable, so that no other process tries it."""
        try:
            yield
        except (OSError, ValueError, MemoryError) as error:
            self.ignore(name, str(error))

    def _description(self, file: int, name: str, kind: str) -> file_format.Description:
        size = os.fstat(file).st_size
        found = file_format.describe(lambda place, length: os.pread(file, length, place), size)
        if found.key != _key(name) or found.kind != kind:
            raise ValueError("it was written under another name")
        return found

    def ignore(self, name: str, reason: str) -> None:
        """Count a file that is not usable, and remove it."""
        self._warn("ignored", f"a damaged or foreign file of the host's cache was ignored: {mask(reason)}")
        self.remove(name)

    def _warn(self, word: str, sentence: str) -> None:
        self._metrics.add(self._purpose.counter(word))
        self._metrics.choices[sentence] += 1

    def _write(self, name: str, parts: Iterator[bytes | memoryview]) -> None:
        temporary = self.directory / f".{_key(name)}-{os.getpid()}-{time.monotonic_ns()}.part"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(temporary, flags, 0o600)
        try:
            try:
                for part in parts:
                    view = memoryview(part)
                    while view:
                        view = view[os.write(file, view) :]
            finally:
                os.close(file)
            temporary.replace(self.directory / name)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise

    def _make_room(self, room: int) -> None:
        """Remove stale half-written files, and least recently used files until the rest take at most `room` bytes."""
        files = []
        now = time.time()
        with os.scandir(self.directory) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if entry.name.endswith(".part") and now - status.st_mtime > _STALE_SECONDS:
                        self.remove(entry.name)
                    elif entry.name.endswith((SUFFIX, ".part")):
                        files.append((status.st_mtime_ns, entry.name, status.st_size))
        taken = sum(size for _, _, size in files)
        for _, name, size in sorted(files):
            if taken <= room:
                return
            if name.endswith(SUFFIX):
                self.remove(name)
                self._metrics.add(self._purpose.counter("removed"))
                taken -= size

    def _remove_left_over(self, name: str) -> None:
        """Remove half-written files of a process that died while it held this lock."""
        with contextlib.suppress(OSError):
            for path in self.directory.glob(f".{_key(name)}-*.part"):
                self.remove(path.name)


def _key(name: str) -> str:
    return name.removesuffix(SUFFIX)
