"""Compiles a kernel in another process, so that no query waits: its machine code is loaded from the cache afterwards.

Takes the kinds of a call's arguments; starts `compile_now` in a process of its own, which compiles the kernel for such
arguments and ends. Otherwise some Spark task would compile in the middle of a query, for a second or more, once the twins
have taken long enough. The rule: what cannot be named, started or cached is compiled where it is called.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

_PLAIN = "biuf"
"""Kinds of numbers, as NumPy names them."""
_SCALARS: dict[str, Any] = {"bool": False, "int": 0, "float": 0.0}


class Named(Protocol):
    """What is compiled: a loop's name, and the loop as Python."""

    name: str
    source: Callable[..., Any]


class BackgroundCompilation:
    """The compilation, in another process, of one kernel for one call's kinds of arguments."""

    def __init__(self, kernel: Named, arguments: tuple[Any, ...], directory: Path | None) -> None:
        self._marker: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        kinds = [_named(argument) for argument in arguments]
        if directory is None or None in kinds or not hasattr(os, "fork"):
            return
        self._question = json.dumps([kernel.source.__module__, kernel.name, kinds])
        self._marker = marker(kernel, self._question, directory)

    def is_done(self) -> bool:
        """Tell whether there is nothing to wait for: machine code is cached, or nobody else can make it."""
        if self._marker is None or self._marker.exists():
            return True
        if self._process is None:
            return not self._start()
        if self._process.poll() is None:
            return False
        self._marker = None  # it failed: compiling it where it is called tells why
        return True

    def _start(self) -> bool:
        paths = os.pathsep.join(path for path in sys.path if path and Path(path).is_dir())
        environment = {**os.environ, "PYTHONPATH": paths, "TWOSTAGE_JIT": "always"}
        command = [sys.executable, "-P", "-m", "twostage_native.compile_now", self._question]
        quiet = subprocess.DEVNULL
        try:
            self._process = subprocess.Popen(  # noqa: S603 - a module of ours, and the names of its kernels
                command, stdin=quiet, stdout=quiet, stderr=quiet, env=environment
            )
        except OSError:
            return False
        return True


def marker(kernel: Named, question: str, directory: Path) -> Path | None:
    """Return the file that says that the machine code is cached; None if the source is not a plain file."""
    try:
        source = Path(kernel.source.__code__.co_filename).stat()
    except OSError:
        return None
    known = (question, sys.version, str(directory), source.st_mtime_ns, source.st_size, _numba_version())
    return directory / f"{kernel.name}-{hashlib.sha256(repr(known).encode()).hexdigest()[:32]}.compiled"


def _numba_version() -> str:
    from importlib import metadata  # noqa: PLC0415 - only a process that would compile needs it

    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version("numba")
    return ""


def _named(argument: Any) -> Any:
    """Return the name in JSON of an argument's type; None for those that have none."""
    if isinstance(argument, np.ndarray):
        flags = argument.flags
        if argument.dtype.kind not in _PLAIN or not (flags.c_contiguous and flags.aligned):
            return None
        return ["array", argument.dtype.str, argument.ndim, bool(flags.writeable)]
    if isinstance(argument, np.generic):
        return ["number", argument.dtype.str] if argument.dtype.kind in _PLAIN else None
    name = type(argument).__name__
    return [name] if name in _SCALARS else None


def example_argument(kind: list[Any]) -> Any:
    """Return an argument of a kind."""
    if kind[0] == "array":
        array = np.zeros((1,) * kind[2], dtype=kind[1])
        array.setflags(write=kind[3])
        return array
    return np.dtype(kind[1]).type(0) if kind[0] == "number" else _SCALARS[kind[0]]
