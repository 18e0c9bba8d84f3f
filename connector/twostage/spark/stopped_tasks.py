"""A task that Spark has ended: ends soon, and quietly.

Where Spark has its rows before a task of ours is through (``show``, ``take``, ``LIMIT``), it closes the connection to the
Python worker, and that is all. The worker finds out when it next writes, seconds later where few rows match, and
PySpark's daemon prints the traceback of a broken pipe, which is nobody's error. The rule: only a task of ours, or one that
has not begun, and only when Spark has hung up.
"""

from __future__ import annotations

import select
import sys
import traceback
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_MODULES = ("__main__", "pyspark.daemon")
"""Where PySpark's daemon lives: it is started as the main module, or imported by our own one. Without a daemon the main
module is the worker's."""


class NoLongerWantedError(BrokenPipeError):
    """Spark wants no more rows of this task."""


def still_wanted() -> Callable[[], None]:
    """Return what raises `NoLongerWantedError` once Spark has closed its end of this worker's connection."""
    descriptor = _connection()
    if descriptor is None or not hasattr(select, "POLLRDHUP"):
        return lambda: None
    poll = select.poll()
    poll.register(descriptor, select.POLLRDHUP)

    def ask() -> None:
        if poll.poll(0):
            raise NoLongerWantedError("Spark wants no more rows of this task")

    return ask


def _connection() -> int | None:
    """Return the descriptor that the worker reads from Spark; None if this is no PySpark worker."""
    frame = sys._getframe()  # noqa: SLF001 - the worker hands its connection to nobody
    while frame is not None:
        if frame.f_code.co_name == "main" and "infile" in frame.f_code.co_varnames:
            try:
                return int(frame.f_locals["infile"].fileno())
            except (OSError, ValueError, KeyError, AttributeError):
                return None
        frame = frame.f_back  # type: ignore[assignment]
    return None


def end_quietly(accumulator: int) -> None:
    """Let this worker's daemon say nothing when Spark hangs up on a task that holds the accumulator of this id."""
    for name in _MODULES:
        daemon: Any = sys.modules.get(name)
        if daemon is None or not hasattr(daemon, "manager"):
            if name == "__main__" and _is_worker(daemon) and not isinstance(sys.excepthook, _Hook):
                sys.excepthook = _Hook(accumulator, sys.excepthook)
            continue
        printer = getattr(daemon, "traceback", None)
        if isinstance(printer, _Quiet):
            printer.accumulator = accumulator
        elif printer is traceback:
            daemon.traceback = _Quiet(accumulator)


def _is_worker(main: Any) -> bool:
    return getattr(getattr(main, "__spec__", None), "name", "") == "pyspark.worker"


def begin_quietly(daemon: Any) -> None:
    """Let the workers that a daemon forks say nothing when Spark hangs up before they know their first task."""
    daemon.traceback = _Quiet(None)


def _is_hang_up(error: BaseException | None, accumulator: int | None) -> bool:
    """Tell whether an error is Spark's hanging up on a task that holds this accumulator, or that none has begun."""
    from pyspark.accumulators import _accumulatorRegistry  # noqa: PLC0415 - emptied when a task begins

    is_ours = accumulator in _accumulatorRegistry or not _accumulatorRegistry
    return is_ours and isinstance(error, ConnectionError | EOFError)


class _Hook:
    """`sys.excepthook` of a worker that no daemon made."""

    def __init__(self, accumulator: int, otherwise: Callable[..., Any]) -> None:
        self._accumulator = accumulator
        self._otherwise = otherwise

    def __call__(self, kind: type[BaseException], error: BaseException, trace: Any) -> None:
        if not _is_hang_up(error, self._accumulator):
            self._otherwise(kind, error, trace)


class _Quiet(types.ModuleType):
    """`traceback` as the daemon sees it in this worker."""

    def __init__(self, accumulator: int | None) -> None:
        super().__init__("traceback")
        self.accumulator = accumulator

    def __getattr__(self, name: str) -> Any:
        return getattr(traceback, name)

    def print_exc(self, *arguments: Any, **named: Any) -> None:
        """Print the exception that is being handled, unless it is Spark's hanging up on a task of ours."""
        if not _is_hang_up(sys.exc_info()[1], self.accumulator):
            traceback.print_exc(*arguments, **named)
