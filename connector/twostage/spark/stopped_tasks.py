"""Lets a task that Spark has ended stop soon, and without a traceback.

Where Spark has enough rows before a task of ours has read all (``show``, ``take``, ``LIMIT``), it only closes the connection to
the Python worker. The worker notices when it next writes, seconds later where few rows match, and PySpark's daemon then
prints the traceback of a broken pipe, though nothing is wrong. The rule: nothing is silenced but a task of ours, or one
that has not begun, and only when Spark has closed the connection.
"""

from __future__ import annotations

import select
import sys
import traceback
import types
from typing import TYPE_CHECKING, Any

from twostage.spark.spark_internals import accumulators, worker_connection

if TYPE_CHECKING:
    from collections.abc import Callable

_MODULES = ("__main__", "pyspark.daemon")
"""The module of PySpark's daemon: it is started as the main module, or imported by our own daemon. Without a daemon the
main module is the worker's."""


class NoLongerWantedError(BrokenPipeError):
    """Spark wants no more rows of this task."""


def still_wanted() -> Callable[[], None]:
    """Return a function that raises `NoLongerWantedError` once Spark has closed its end of this worker's connection."""
    descriptor = worker_connection()
    if descriptor is None or not hasattr(select, "POLLRDHUP"):
        return lambda: None
    poll = select.poll()
    poll.register(descriptor, select.POLLRDHUP)

    def ask() -> None:
        if poll.poll(0):
            raise NoLongerWantedError("Spark wants no more rows of this task")

    return ask


def end_quietly(accumulator: int) -> None:
    """Let this worker print nothing when Spark closes the connection of a task that has the accumulator of this id."""
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
    """Let the workers that a daemon forks print nothing when Spark closes the connection before their first task."""
    daemon.traceback = _Quiet(None)


def _is_hang_up(error: BaseException | None, accumulator: int | None) -> bool:
    """Return whether Spark has closed the connection of a task that has this accumulator, or of one that has not begun."""
    registered = accumulators()
    is_ours = accumulator in registered or not registered
    return is_ours and isinstance(error, ConnectionError | EOFError)


class _Hook:
    """`sys.excepthook` of a worker that no daemon forked."""

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
        """Print the exception that is being handled, unless Spark has closed the connection of a task of ours."""
        if not _is_hang_up(sys.exc_info()[1], self.accumulator):
            traceback.print_exc(*arguments, **named)
