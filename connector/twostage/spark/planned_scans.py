"""The scans that were planned in this process: for the planner, for Spark's tasks, for the report.

Takes what a scan wants, gives its plan; a scan that was planned a moment ago, to decide who reads it, is not planned
again. The rule: a plan serves the pinned table and the arguments that it was made for, and no others.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from twostage.predicates.key_set import range_of
from twostage.predicates.predicate import InBloom, InKeys, InTuples, both, conjuncts, without_implied
from twostage.spark.source import MAX_SCANS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from twostage.predicates.predicate import Predicate
    from twostage.spark.pins import Pin
    from twostage.spark.requests import HandOverRequest, PlanRequest
    from twostage.task import ScanPlan

MAX_PLANS_AHEAD = 100
"""Plans that wait for their scan, between the request ``hand_over`` and the scan's own ``plan``: those of a whole query,
for it decides about all its scans first."""
MAX_KEY_BYTES = 64 * 2**20
"""Bytes of a scan's sets and Bloom filters of join keys, summed over its tasks: each partition that Spark keeps has them."""
MAX_TASKS_AHEAD = 20_000
"""Tasks of these plans in total; one plan alone may have more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedScan:
    """A plan, and whether Spark took its tasks."""

    plan: ScanPlan
    started: bool = False


class PlannedScans:
    """Plans by scan id, of the latest `MAX_SCANS` that Spark read and of as many others, and those made ahead of their scan."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._scans: OrderedDict[str, PlannedScan] = OrderedDict()
        self._ahead: list[tuple[Any, ScanPlan]] = []

    def plan(self, pinned: Pin, request: PlanRequest | HandOverRequest, **wanted: Any) -> ScanPlan:
        """Plan a scan, unless the same one was planned by `plan_ahead`: then return that plan, once."""
        from twostage.planning.plan import plan_scan  # noqa: PLC0415

        started = time.perf_counter_ns()
        key = (request.pin, request.parallelism, wanted)
        with self._lock:
            place = next((n for n, (known, _) in enumerate(self._ahead) if known == key), None)
            if place is not None:
                return self._ahead.pop(place)[1]
        scan_id = uuid.uuid4().hex
        plan = plan_scan(
            pinned.table, pinned.options, **wanted, parallelism=request.parallelism, scan_id=scan_id
        )
        plan = _with_small_filters(plan)
        return replace(plan, counters={"time.planning": time.perf_counter_ns() - started, **plan.counters})

    def plan_ahead(self, pinned: Pin, request: HandOverRequest, **wanted: Any) -> ScanPlan:
        """Plan a scan, and let the plan wait for the scan itself: one for each of a query's equal scans."""
        key = (request.pin, request.parallelism, wanted)
        with self._lock:
            twin = next((plan for known, plan in self._ahead if known == key), None)
        plan = self.plan(pinned, request, **wanted) if twin is None else _plan_for_another_scan(twin)
        with self._lock:
            self._ahead.append((key, plan))
            tasks = [sum(len(group.tasks) for group in ahead.groups) for _, ahead in self._ahead]
            while len(tasks) > MAX_PLANS_AHEAD or (len(tasks) > 1 and sum(tasks) > MAX_TASKS_AHEAD):
                del tasks[0], self._ahead[0]
        return plan

    def plan_again(self, pinned: Pin, request: HandOverRequest, scan_id: str, **wanted: Any) -> ScanPlan:
        """Return the plan of a scan that replaces one that was planned here and is not read: the same plan, if it serves."""
        found = self.find(scan_id)
        if found is None or found.started or not _serves(found.plan, wanted):
            return self.plan(pinned, request, **wanted)
        context = replace(found.plan.context, scan_id=uuid.uuid4().hex)
        return replace(found.plan, context=context)

    def drop_ahead(self, scan_id: str) -> None:
        """Drop a plan that was made ahead: no scan will want it."""
        with self._lock:
            self._ahead = [ahead for ahead in self._ahead if ahead[1].context.scan_id != scan_id]

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
            # Plans that are not read, of `explain` say, evict none that were.
            alike = [known for known, scan in self._scans.items() if scan.started == started]
            for known in alike[:-MAX_SCANS]:
                del self._scans[known]

    def started(self) -> list[ScanPlan]:
        """Return the plans of the scans that Spark read, oldest first."""
        with self._lock:
            return [scan.plan for scan in self._scans.values() if scan.started]


def _with_small_filters(plan: ScanPlan) -> ScanPlan:
    """Return the plan without sets and Bloom filters of join keys, if they took too much memory; the keys' range stays.

    Tuples go first, because the keys of each of their columns stay. Sets have pruned files by now.
    """
    sizes = {
        part: _weight(part) for part in plan.context.keys if isinstance(part, InBloom | InKeys | InTuples)
    }
    if len(plan.groups) * sum(sizes.values()) <= MAX_KEY_BYTES:
        return plan
    tuples = {part: size for part, size in sizes.items() if isinstance(part, InTuples)}
    if len(plan.groups) * (sum(sizes.values()) - sum(tuples.values())) <= MAX_KEY_BYTES:
        return _without(plan, tuple(tuples), "Tuples of join keys left out")
    return _without(plan, tuple(sizes), "Join keys reduced to their range")


def _without(plan: ScanPlan, left_out: Collection[Predicate], what: str) -> ScanPlan:
    """Return the plan with the ranges of these keys of joins in their place."""
    ranges = [one for part in left_out if isinstance(part, InKeys) for one in range_of(part)]
    rest = (part for part in conjuncts(plan.context.predicate) if part not in left_out)
    keys = (*(part for part in plan.context.keys if part not in left_out), *ranges)
    context = replace(plan.context, predicate=both(*rest, *ranges), keys=keys)
    choice = f"{what}: too much memory in {len(plan.groups):,} tasks."
    return replace(
        plan,
        context=context,
        groups=tuple(replace(group, context=context) for group in plan.groups),
        choices=(*plan.choices, choice),
    )


def _weight(part: InBloom | InKeys | InTuples) -> int:
    return len(part.bloom.data if isinstance(part, InBloom) else part.keys.data)


def _serves(plan: ScanPlan, wanted: Mapping[str, Any]) -> bool:
    context = plan.context
    wants = {**wanted, "predicate": without_implied(wanted["predicate"])}
    return all(getattr(context, name) == value for name, value in wants.items())


def _plan_for_another_scan(plan: ScanPlan) -> ScanPlan:
    """Return the plan of another scan that wants the same; it took no time."""
    context = replace(plan.context, scan_id=uuid.uuid4().hex)
    return replace(
        plan,
        context=context,
        groups=tuple(replace(group, context=context) for group in plan.groups),
        counters={**plan.counters, "time.planning": 0},
    )
