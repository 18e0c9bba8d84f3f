"""The scans that were planned in this process: for the planner, for Spark's own question, for the report.

Takes what a scan wants, gives its plan; a scan that was planned a moment ago to ask who reads it is not planned
again. The rule: a plan serves the pinned table and the wishes that it was made for, and no others.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from twostage.spark.source import MAX_SCANS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.spark.pins import Pin
    from twostage.task import ScanPlan

MAX_SPARES = 100
"""Plans held for the scan that they were made for, between the planner's question who reads and Spark's own: of a whole
query's scans, for all of them are asked about first."""
MAX_SPARE_TASKS = 20_000
"""Of all these plans but the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedScan:
    """A plan, and whether Spark asked for its partitions."""

    plan: ScanPlan
    started: bool = False


class PlannedScans:
    """Plans by scan id, the latest `MAX_SCANS` read and as many not read, and those that were made ahead of their scan."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._scans: OrderedDict[str, PlannedScan] = OrderedDict()
        self._spares: list[tuple[Any, ScanPlan]] = []

    def plan(self, pinned: Pin, message: Mapping[str, Any], **wanted: Any) -> ScanPlan:
        """Plan a scan, unless the same one was planned `plan_ahead`: then that plan, once."""
        from twostage.planning.plan import plan_scan  # noqa: PLC0415

        started = time.perf_counter_ns()
        key = (message["pin"], message["parallelism"], wanted)
        with self._lock:
            place = next((n for n, (known, _) in enumerate(self._spares) if known == key), None)
            if place is not None:
                return self._spares.pop(place)[1]
        scan_id = uuid.uuid4().hex
        plan = plan_scan(
            pinned.table, pinned.options, **wanted, parallelism=message["parallelism"], scan_id=scan_id
        )
        return replace(plan, counters={"time.planning": time.perf_counter_ns() - started, **plan.counters})

    def plan_ahead(self, pinned: Pin, message: Mapping[str, Any], **wanted: Any) -> ScanPlan:
        """Plan a scan, and hold the plan for the scan itself: one for each of a query's equal scans."""
        key = (message["pin"], message["parallelism"], wanted)
        with self._lock:
            twin = next((plan for known, plan in self._spares if known == key), None)
        plan = self.plan(pinned, message, **wanted) if twin is None else _once_more(twin)
        with self._lock:
            self._spares.append((key, plan))
            tasks = [sum(len(group.tasks) for group in spare.groups) for _, spare in self._spares]
            while len(tasks) > MAX_SPARES or (len(tasks) > 1 and sum(tasks) > MAX_SPARE_TASKS):
                del tasks[0], self._spares[0]
        return plan

    def drop_spare(self, scan_id: str) -> None:
        """Hold a plan that was made ahead no longer: nobody will ask for it."""
        with self._lock:
            self._spares = [spare for spare in self._spares if spare[1].context.scan_id != scan_id]

    def find(self, scan_id: str) -> PlannedScan | None:
        """Return a remembered scan."""
        with self._lock:
            return self._scans.get(scan_id)

    def remember(self, plan: ScanPlan, *, started: bool = False) -> None:
        """Remember a plan, and whether Spark reads it now."""
        scan_id = plan.context.scan_id
        with self._lock:
            self._scans[scan_id] = PlannedScan(plan=plan, started=started)
            self._scans.move_to_end(scan_id)
            # Plans that nobody reads, of `explain` say, push none out of those that were read.
            alike = [known for known, scan in self._scans.items() if scan.started == started]
            for known in alike[:-MAX_SCANS]:
                del self._scans[known]

    def started(self) -> list[ScanPlan]:
        """Return the plans of the scans that Spark read, oldest first."""
        with self._lock:
            return [scan.plan for scan in self._scans.values() if scan.started]


def _once_more(plan: ScanPlan) -> ScanPlan:
    """Return the plan of another scan that wants the same; it took no time."""
    context = replace(plan.context, scan_id=uuid.uuid4().hex)
    return replace(
        plan,
        context=context,
        groups=tuple(replace(group, context=context) for group in plan.groups),
        counters={**plan.counters, "time.planning": 0},
    )
