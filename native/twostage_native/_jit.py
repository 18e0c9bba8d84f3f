"""The one kernel decorator: compile once it pays off, cache only where it is safe, else run the NumPy twin.

Takes a loop and its NumPy twin; returns a `Kernel` to call. Rules: importing a module of kernels imports no
Numba and touches no disk; whatever fails on the way to machine code ends in the twin, never in an error;
machine code is cached only in a directory that nobody else can write, because Numba's cache is pickle, and
whoever can write it can run code.

Rent or buy: loading Numba takes 0.3 s, more than most filters, so the twins run until they have taken as
long, and then kernels are compiled: at most twice the time of the better choice. Machine code that is not in
the cache takes seconds to compile; another process does so while the twins run on (`compile_apart.py`). So
data that kernels build for each other (tables, sets) must suit twins as well: one process may run both. The
environment variable ``TWOSTAGE_JIT`` overrides this: ``0`` never compiles, ``always`` compiles at the first
call, ``here`` in this process.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from twostage_native.compile_apart import BackgroundCompilation

_LOCK = threading.RLock()
_LOCK_SECONDS = 60.0
_LOAD_SECONDS = 0.3
_COMPILE_SECONDS = 0.02
_Function = TypeVar("_Function", bound="Callable[..., Any]")
_log = logging.getLogger("twostage_native")

KERNELS: dict[str, Kernel] = {}
"""Every kernel of the imported modules, by name."""


class _Numba(Protocol):
    config: Any

    def njit(self, source: Callable[..., Any], **options: Any) -> Any: ...
    def typeof(self, value: Any) -> Any: ...


class Kernel:
    """A compiled loop with a NumPy twin; call it as the function that it is.

    Attributes:
        name: The name of the loop's function.
        source: The loop as Python: what gets compiled.
        twin: The plain NumPy function with the same answers.
        is_cached: Whether the most recently compiled machine code is in the cache.
        allocates: Whether the loop makes arrays. If not, it does not count references to its arguments: where
            it passes them to an `inner` function in a branch, that would take ten times as long as the
            comparison.
    """

    def __init__(
        self, source: Callable[..., Any], twin: Callable[..., Any], *, allocates: bool = True
    ) -> None:
        self.name = source.__name__
        self.allocates = allocates
        self.source = source
        self.twin = twin
        self.__doc__ = source.__doc__
        self._compiled: dict[tuple[Any, ...], Callable[..., Any]] = {}
        self._apart: dict[tuple[Any, ...], BackgroundCompilation] = {}
        self.is_cached = False
        self._seconds = 0.0

    def __call__(self, *arguments: Any) -> Any:
        """Run the compiled loop, or the twin if there is none, or none yet."""
        key = tuple(map(_kind, arguments))
        run = self._compiled.get(key)
        if run is not None:
            return run(*arguments)
        if self._pays() and self._may_compile_now(key, arguments):
            return self._compile(key, arguments)(*arguments)
        start = time.thread_time()
        answer = self.twin(*arguments)
        spent = time.thread_time() - start  # what other processes do is not the twin's fault
        self._seconds += spent
        _state["seconds"] = _state.get("seconds", 0.0) + spent
        return answer

    def compiled(self, *arguments: Any) -> bool:
        """Compile for these arguments' types; tell whether machine code (not the twin) will run."""
        key = tuple(map(_kind, arguments))
        return (self._compiled.get(key) or self._compile(key, arguments)) is not self.twin

    def is_ready(self, seconds: float) -> bool:
        """Tell whether a call runs machine code, compiled now if need be; for callers with a better fallback.

        If not, `seconds` is what that costs the caller; it counts as time of the twin.
        """
        if os.environ.get("TWOSTAGE_JIT") == "0" or any(run is self.twin for run in self._compiled.values()):
            return False
        if self._compiled or (self._pays() and all(apart.is_done() for apart in self._apart.values())):
            return True
        self._seconds += seconds
        _state["seconds"] = _state.get("seconds", 0.0) + seconds
        return False

    def _may_compile_now(self, key: tuple[Any, ...], arguments: tuple[Any, ...]) -> bool:
        """Tell whether to load or compile now; if not, another process is compiling."""
        if os.environ.get("TWOSTAGE_JIT") in ("0", "always", "here") or _state.get("numba", True) is None:
            return True
        with _LOCK:
            if key not in self._apart:
                from twostage_native.compile_apart import BackgroundCompilation  # noqa: PLC0415 - rarely needed

                self._apart[key] = BackgroundCompilation(self, arguments, cache_directory())
            return self._apart[key].is_done()

    def _pays(self) -> bool:
        mode = os.environ.get("TWOSTAGE_JIT", "auto")
        loaded = "numba" in _state or _state.get("seconds", 0.0) >= _LOAD_SECONDS
        return mode in ("0", "always") or (loaded and self._seconds >= _COMPILE_SECONDS)

    def _compile(self, key: tuple[Any, ...], arguments: tuple[Any, ...]) -> Callable[..., Any]:
        with _LOCK:
            if key in self._compiled:
                return self._compiled[key]
            run: Callable[..., Any] = self.twin
            numba = _numba()
            if numba is not None:
                try:
                    run = self._specialize(numba, arguments)
                except Exception as error:  # noqa: BLE001 - a compiler has no list of what it raises
                    _log.warning("Kernel %s runs as plain NumPy: %r", self.name, error)
            self._compiled[key] = run
            return run

    def _specialize(self, numba: _Numba, arguments: tuple[Any, ...]) -> Callable[..., Any]:
        signature = tuple(numba.typeof(argument) for argument in arguments)
        directory = cache_directory()
        # Two processes that save one function at once can cross its index and its machine code
        # (numba issue 4807): loading, compiling and saving happen under a lock of the directory.
        options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
        if not self.allocates:
            options["_nrt"] = False
        with _exclusive(directory) as locked:
            dispatcher = numba.njit(self.source, **options)
            is_cached = directory is not None and locked
            if directory is not None and locked and not _enable_cache(numba, dispatcher, directory):
                dispatcher = numba.njit(self.source, **options)
                is_cached = False
            dispatcher.compile(signature)
            self.is_cached = is_cached
        run: Callable[..., Any] = dispatcher
        return run


def kernel(twin: Callable[..., Any], *, allocates: bool = True) -> Callable[[Callable[..., Any]], Kernel]:
    """Make a loop a `Kernel` with this NumPy twin, and register it under its name.

    >>> @kernel(lambda values: values + 1)
    ... def _plus_one(values):
    ...     return values + 1
    >>> KERNELS.pop("_plus_one").name
    '_plus_one'
    """

    def register(source: Callable[..., Any]) -> Kernel:
        made = Kernel(source, twin, allocates=allocates)
        if made.name in KERNELS:
            raise ValueError(f"Two kernels have one name: {made.name}")
        KERNELS[made.name] = made
        return made

    return register


_INNER: list[Callable[..., Any]] = []


def inner(source: _Function) -> _Function:
    """Let kernels call this plain function: it is compiled into each of them."""
    _INNER.append(source)
    return source


def _kind(argument: Any) -> Any:
    """Return what determines the machine code for an argument: its type and, for arrays, the layout."""
    if isinstance(argument, np.ndarray):
        return argument.dtype, argument.ndim, argument.flags.num & _LAYOUT
    return type(argument)


_LAYOUT = 0x0001 | 0x0100 | 0x0400
"""NumPy's flags of C order, alignment and writeability: read at once, in a third of the time."""
_state: dict[str, Any] = {}


def _numba() -> _Numba | None:
    """Import Numba once; None if it is switched off, missing or broken."""
    if "numba" not in _state:
        _state["numba"] = None
        if os.environ.get("TWOSTAGE_JIT", "1") != "0":
            try:
                import numba  # noqa: PLC0415 - 0.3 s that most processes never need

                for source in _INNER:
                    numba.extending.register_jitable(forceinline=True)(source)
                _state["numba"] = numba
            except Exception as error:  # noqa: BLE001 - a broken llvmlite raises what it likes
                _log.warning("Kernels run as plain NumPy, for Numba cannot be imported: %r", error)
    found: _Numba | None = _state["numba"]
    return found


def prepare() -> None:
    """Import Numba, and let it compile a first function: it takes 0.2 s of CPU, whichever kernel is first.

    For a process that others are forked from: their kernels then compile or load once their own twins have
    taken long enough.
    """
    numba = _numba()
    if numba is not None:
        with contextlib.suppress(Exception), _LOCK:  # kernels will meet the error again, and report it
            numba.njit(lambda value: value + 1, nogil=True, error_model="numpy").compile((numba.typeof(1),))


def _enable_cache(numba: _Numba, dispatcher: Any, directory: Path) -> bool:
    """Let the dispatcher cache in `directory`, without changing Numba's settings for anybody else.

    Code from an archive makes Numba pick a directory that we have not checked: then False.
    """
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(directory)
    try:
        dispatcher.enable_caching()
        return Path(dispatcher.stats.cache_path or "/").is_relative_to(directory)
    except Exception as error:  # noqa: BLE001 - no cache is slower, nothing more
        _log.info("Kernel is not cached: %r", error)
        return False
    finally:
        numba.config.CACHE_DIR = before


def cache_directory() -> Path | None:
    """Return a directory that only we can write, created if necessary; None if there is none.

    One chosen by NUMBA_CACHE_DIR is not replaced by another: if it is unfit, there is no cache, but one
    warning.
    """
    if "directory" not in _state:
        _state["directory"] = next((d for d in cache_candidates() if _is_private(d)), None)
        if _state["directory"] is None and (chosen := os.environ.get("NUMBA_CACHE_DIR")):
            _log.warning(
                "Kernels are not cached: NUMBA_CACHE_DIR is no directory that only this user can write: %r",
                chosen,
            )
    found: Path | None = _state["directory"]
    return found


def cache_candidates() -> Iterator[Path]:
    """Yield the directories that machine code may be kept in, the best first."""
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(chosen, "twostage", "kernels")
        return
    with contextlib.suppress(Exception):  # no platformdirs, no home
        import platformdirs  # noqa: PLC0415 - only a process that compiles needs it

        yield platformdirs.user_cache_path("twostage", appauthor=False) / "kernels"
    with contextlib.suppress(OSError, AttributeError):
        yield Path(tempfile.gettempdir(), f"twostage-{os.getuid()}", "kernels")


def _is_private(directory: Path) -> bool:
    """Create the directory if necessary; tell whether only we can write it, its parents included."""
    try:
        if not directory.is_absolute() or not hasattr(os, "getuid"):
            return False
        directory.parent.parent.mkdir(parents=True, exist_ok=True)
        directory.parent.mkdir(mode=0o700, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
        own = directory.lstat()
        if not stat.S_ISDIR(own.st_mode) or own.st_uid != os.getuid() or stat.S_IMODE(own.st_mode) & 0o077:
            return False
        for parent in directory.resolve().parents:
            status = parent.stat()
            others_write = status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX
            if others_write or status.st_uid not in (0, os.getuid()):
                return False
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


@contextlib.contextmanager
def _exclusive(directory: Path | None) -> Iterator[bool]:
    """Hold the directory's lock; yield False if it could not be acquired in time."""
    if directory is None:
        yield False
        return
    try:
        import fcntl  # noqa: PLC0415 - not on every platform

        handle = (directory / "lock").open("ab")
    except (ImportError, OSError):
        yield False
        return
    with handle:
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() > deadline:
                    yield False
                    return
                time.sleep(0.02)
            else:
                break
        yield True  # closing the file releases the lock
