"""What the driver requested of object stores for each table, from one scan of the table to the next.

Takes what is read while requests of the planner are answered; gives the counters of the scan that Spark reads next. The rule:
what was read counts once, for the first scan after it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from twostage.metrics import Metrics
from twostage.storage.driver_reads import counted_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from twostage.task import ScanPlan

MAX_TABLES = 64
"""Tables that have counts; with more, the oldest counts are dropped."""


class PlanningRequests:
    """The counts of each pinned table, by its key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_pin: OrderedDict[str, Metrics] = OrderedDict()

    @contextmanager
    def counted(self, pin: str = "") -> Iterator[list[str]]:
        """Count for a pinned table what is read in the block; a caller that learns its key later appends it to the list."""
        metrics, late = Metrics(), [pin]
        try:
            with counted_for(metrics):
                yield late
        finally:
            self._add(late[-1], metrics)

    def take(self, pin: str, plan: ScanPlan) -> ScanPlan:
        """Return the plan of a scan with what was counted for its table, which then counts for no other."""
        with self._lock:
            found = self._by_pin.pop(pin, None)
        return plan if found is None else replace(plan, counters={**plan.counters, **found.counters})

    def hand_on(self, pin: str, part: str) -> None:
        """Count for a part of a table, pinned by itself, what was counted for the whole."""
        with self._lock:
            found = self._by_pin.pop(pin, None)
        if found is not None:
            self._add(part, found)

    def _add(self, pin: str, metrics: Metrics) -> None:
        if not pin or not metrics.counters:
            return
        with self._lock:
            self._by_pin.setdefault(pin, Metrics()).merge(metrics)
            self._by_pin.move_to_end(pin)
            while len(self._by_pin) > MAX_TABLES:
                self._by_pin.popitem(last=False)
