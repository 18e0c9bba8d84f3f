"""What the driver reads from object stores: counted for the query that is being planned.

Takes nothing but a block of code to count in; gives `TaskReads` to callers outside tasks. The rule: requests are counted, and
round trips that one reader after another waited for; in tasks, which count for themselves, nothing is.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from twostage.metrics import Metrics
from twostage.storage.task_reads import TaskReads

if TYPE_CHECKING:
    from collections.abc import Iterator

_counting: ContextVar[Metrics | None] = ContextVar("counting", default=None)


@contextmanager
def counted_for(metrics: Metrics) -> Iterator[None]:
    """Count what this thread reads in the block: ``planning.requests`` and ``planning.trips``."""
    token = _counting.set(metrics)
    try:
        yield
    finally:
        _counting.reset(token)


def count_listing() -> None:
    """Count a listing: one request that the caller waits for."""
    _add(_counting.get(), 1, 1)


@contextmanager
def driver_reads(**limits: Any) -> Iterator[TaskReads]:
    """Read until the end of the block, and count that.

    Args:
        limits: Arguments of `TaskReads`.
    """
    metrics, own = _counting.get(), Metrics()
    try:
        with TaskReads(own, **limits) as reads:
            yield reads
    finally:
        _add(metrics, own.counters["store.requests"], own.counters["store.trips"])


def _add(metrics: Metrics | None, requests: int, trips: int) -> None:
    if metrics is not None and requests:
        metrics.add("planning.requests", requests)
        metrics.add("planning.trips", trips)
