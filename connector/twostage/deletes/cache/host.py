"""A directory of files that the worker processes of one host share: only this user can read or write it.

Takes values and arrays under a name; gives them back, mapped, to any process of this user, until the room is
needed. The rules: a file appears whole or not at all (written aside, renamed; nobody waits for the disk, as its
checksums tell what a machine that went down has left of it); a directory that another user owns or may write, and a
file that is not ours or not whole, are not used; no failure of the cache is an error of the scan: it is counted
(``delete_cache.*``), said in the report, and the caller does without. File names are hashes. Whoever can write the
directory decides which rows are deleted, as with the table itself.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
import tempfile
import time
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twostage.deletes.cache import file_format
from twostage.errors import mask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from twostage.metrics import Metrics
    from twostage.options import ReadSettings

SUFFIX = ".twostage"
WAIT_SECONDS = 60.0
"""A process waits so long for another one that builds the same, then builds for itself."""
_POLL_SECONDS = 0.02
_FAILED_SECONDS = 60.0
"""After a process could not write, others do not wait for each other so long."""
_LOCKS = 64
"""Lock files; names share them, so that none has to be removed."""
_STALE_SECONDS = 3600.0
"""A file being written for so long was left by a process that died."""


_LOOKS = 16
"""A process looks how large the directory is after each such part of its size, not for each small file."""
_unlooked: dict[Path, int] = {}
"""Bytes that this process has written since it looked, by directory."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A file of the cache, checked: its description, and its arrays as read-only views of the mapped file."""

    description: file_format.Description
    arrays: list[NDArray[Any]]


class HostCache:
    """The cache in one directory; `find` gives it, or None.

    Args:
        directory: Checked by `private_directory`.
        size: Bytes that its files may take together.
        metrics: Counts what is written, ignored and given up.
    """

    def __init__(self, directory: Path, size: int, metrics: Metrics) -> None:
        self.directory = directory
        self.size = size
        self._metrics = metrics

    @staticmethod
    def find(settings: ReadSettings, metrics: Metrics) -> HostCache | None:
        """Return the cache that the options choose; None with a counted warning where it cannot be used."""
        if settings.delete_cache != "host":
            return None
        reason = "there is none"
        for candidate in candidates(settings.delete_cache_dir):
            directory, reason = private_directory(candidate)
            if directory is not None:
                return HostCache(directory, settings.delete_cache_size, metrics)
        _warn(metrics, "unusable", f"delete keys are not shared by the host's workers: {reason}")
        return None

    def names(self, prefix: str) -> list[str]:
        """Return the files whose names begin so, those used last first."""
        found = []
        with contextlib.suppress(OSError), os.scandir(self.directory) as entries:
            for entry in entries:
                if entry.name.startswith(prefix) and entry.name.endswith(SUFFIX):
                    with contextlib.suppress(OSError):
                        found.append((-entry.stat(follow_symlinks=False).st_mtime_ns, entry.name))
        return [name for _, name in sorted(found)]

    def size_of(self, name: str) -> int:
        """Return how many bytes a file takes; 0 if it is not there."""
        with contextlib.suppress(OSError):
            return (self.directory / name).lstat().st_size
        return 0

    def describe(self, name: str, kind: str) -> file_format.Description | None:
        """Return what a file says of itself; None if it is not there or not usable."""
        with self._opened(name) as file:
            if file is not None:
                with self._ignoring(name):
                    return self._description(file, name, kind)
        return None

    def load(self, name: str, kind: str, *, is_verified: bool = False) -> Entry | None:
        """Return a file's values and arrays, mapped; None if it is not there or not usable.

        Args:
            is_verified: This process has just written it: its arrays' checksums need not be compared.
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
                    os.utime(file)  # when it was used last: what decides who makes room
                return Entry(description, file_format.arrays_in(content, description))
        return None

    def save(self, name: str, kind: str, values: dict[str, Any], arrays: Sequence[NDArray[Any]]) -> bool:
        """Write a file; tell whether it is there now. Others see it whole or not at all."""
        try:
            size, parts = file_format.encode(kind, _key(name), values, arrays)
            if size > self.size:
                _warn(
                    self._metrics,
                    "too_large",
                    "delete keys are larger than deletes.cache-size: kept in memory",
                )
                return False
            _unlooked[self.directory] = _unlooked.get(self.directory, self.size) + size
            if _unlooked[self.directory] > self.size // _LOOKS:
                # Other processes, too, write a little before they look again.
                self._make_room(self.size - size - self.size // _LOOKS)
                _unlooked[self.directory] = 0
            self._write(name, parts)
        except (OSError, ValueError) as error:
            text = getattr(error, "strerror", None) or str(error)
            _warn(self._metrics, "failed", f"the host's cache of deletes could not be written: {mask(text)}")
            return False
        self._metrics.add("delete_cache.written")
        return True

    @contextlib.contextmanager
    def exclusive(
        self, name: str, seconds: float = WAIT_SECONDS, meanwhile: Callable[[], None] | None = None
    ) -> Iterator[_Turn]:
        """Hold the lock of a name, waiting for at most so long.

        A process that dies lets go of it. Where another one could lately not write what it built, nobody waits.
        Who has to wait does first what is to be done `meanwhile`.
        """
        turn = _Turn()
        handle = None
        try:
            import fcntl  # noqa: PLC0415 - not on every platform

            number = zlib.crc32(name.encode()) % _LOCKS
            handle = os.open(
                self.directory / f"lock-{number:02}",
                os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC,
                0o600,
            )
        except (ImportError, OSError) as error:
            text = getattr(error, "strerror", None) or str(error)
            _warn(self._metrics, "failed", f"the host's cache of deletes cannot be locked: {mask(text)}")
            yield turn
            return
        try:
            deadline = time.monotonic() + seconds
            while not turn.is_ours:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    turn.is_ours = True
                except OSError:
                    if time.monotonic() >= deadline or _failed_lately(handle):
                        break
                    if meanwhile is not None and not turn.waited:
                        meanwhile()
                    turn.waited = True
                    time.sleep(_POLL_SECONDS)
            if turn.is_ours and turn.waited and _failed_lately(handle):
                fcntl.flock(handle, fcntl.LOCK_UN)
                turn.is_ours = False
            if turn.is_ours:
                self._remove_left_over(name)
            yield turn
            if turn.is_ours:
                # Times take no room, of which there may be none on the disk.
                with contextlib.suppress(OSError):
                    os.utime(handle, (0, time.time() if turn.failed else 0))
        finally:
            os.close(handle)

    def remove(self, name: str) -> None:
        """Remove a file; who has it mapped keeps it."""
        with contextlib.suppress(OSError):
            os.unlink(self.directory / name)  # noqa: PTH108 (Path says the same in three calls)

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[int | None]:
        """Open a file for reading; None with nothing counted if it is not there."""
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
        """Count and remove a file that turns out not to be usable: nobody else should try it."""
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
        _warn(
            self._metrics,
            "ignored",
            f"a damaged or foreign file of the host's cache was ignored: {mask(reason)}",
        )
        self.remove(name)

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
        """Remove the files used longest ago until the others take no more than `room`, and what died half written."""
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
                self._metrics.add("delete_cache.removed")
                taken -= size

    def _remove_left_over(self, name: str) -> None:
        """Remove what a process that died under this lock left of the same name."""
        with contextlib.suppress(OSError):
            for path in self.directory.glob(f".{_key(name)}-*.part"):
                self.remove(path.name)


@dataclass(slots=True)
class _Turn:
    """Whether it is ours to build; `failed` is for the builder to set."""

    is_ours: bool = False
    waited: bool = False
    failed: bool = False


def private_directory(directory: Path) -> tuple[Path | None, str]:
    """Make a directory if need be; return it if only this user can use it, else None and why not.

    It is not one if it is a link, another user's or open to others, if others may replace it, or if it cannot be
    written.
    """
    if not directory.is_absolute() or not hasattr(os, "getuid"):
        return None, "deletes.cache-dir is not an absolute path"
    try:
        directory.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        directory.mkdir(mode=0o700, exist_ok=True)
        own = directory.lstat()
        if not stat.S_ISDIR(own.st_mode):
            return None, "its directory is a link or a file"
        if own.st_uid != os.getuid() or stat.S_IMODE(own.st_mode) & 0o077:
            return None, "its directory is another user's or open to others"
        resolved = directory.resolve()
        for parent in resolved.parents:
            status = parent.stat()
            others_write = status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX
            if others_write or status.st_uid not in (0, os.getuid()):
                return None, "others may replace its directory"
        if not os.access(resolved, os.R_OK | os.W_OK | os.X_OK):
            return None, "its directory cannot be written"
    except (OSError, RuntimeError) as error:  # RuntimeError: links that lead in a circle
        return None, f"its directory cannot be had: {mask(getattr(error, 'strerror', None) or str(error))}"
    return resolved, ""


def candidates(chosen: str | None) -> Iterator[Path]:
    """Yield the directories that the cache may be in, the best first; only the one that the option chooses, if it does."""
    if chosen is not None:
        yield Path(chosen)
        return
    with contextlib.suppress(Exception):  # no home
        import platformdirs  # noqa: PLC0415 - few processes need it

        yield platformdirs.user_cache_path("twostage", appauthor=False) / "deletes"
    with contextlib.suppress(OSError, AttributeError):
        yield Path(tempfile.gettempdir(), f"twostage-{os.getuid()}", "deletes")


def _failed_lately(handle: int) -> bool:
    return time.time() - os.fstat(handle).st_mtime < _FAILED_SECONDS and os.fstat(handle).st_atime == 0


def _key(name: str) -> str:
    return name.removesuffix(SUFFIX)


def _warn(metrics: Metrics, counter: str, sentence: str) -> None:
    metrics.add(f"delete_cache.{counter}")
    metrics.choices[sentence] += 1
