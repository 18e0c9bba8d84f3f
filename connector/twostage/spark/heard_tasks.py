"""What became of each task of a scan: by what it told itself, and by what Spark knows of it.

Takes what Spark's accumulator brought and what the listener heard; gives the figures, and how many tasks ended how. The
rule: of a task that nobody heard of, nothing is said that is not known.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twostage.report import TaskStates
from twostage.spark.task_reports import FAILED, FINISHED, RUNNING, STOPPED, merge_reports

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from twostage.metrics import Metrics
    from twostage.spark.report_listener import ReportListener
    from twostage.spark.task_reports import ScanReports, TaskReport
    from twostage.task import ScanPlan

_TIMES, _PAUSE_SECONDS = 25, 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTasks:
    """What Spark's scheduler says: the attempts that run now, and how those ended that did not succeed."""

    running: frozenset[int] = frozenset()
    lost: Mapping[int, str] = field(default_factory=dict)
    """``killed`` or ``failed``, of the latest attempts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeardTasks:
    """The figures of a scan's tasks, and what became of these."""

    figures: tuple[Metrics, ...]
    states: TaskStates


def hear(
    plans: Sequence[ScanPlan],
    brought: ScanReports,
    listener: ReportListener | None,
    ask_spark: Callable[[], SparkTasks],
) -> list[tuple[ScanPlan, HeardTasks]]:
    """Return each plan with what its tasks told; `ask_spark` is asked only if one was not through."""
    found = [_known(plan, brought, listener) for plan in plans]
    spark = SparkTasks()
    if any(report.state in (RUNNING, STOPPED) for reports in found for report in reports.values()):
        stopped = {
            report.attempt for reports in found for report in reports.values() if report.state == STOPPED
        }
        spark = ask_spark()
        for _ in range(_TIMES):
            if not stopped & spark.running:
                break
            time.sleep(_PAUSE_SECONDS)  # Spark has hung up on a task whose end it tells in a moment
            spark = ask_spark()
        ended = {
            (plan.context.scan_id, index): report.attempt
            for plan, reports in zip(plans, found, strict=True)
            for index, report in reports.items()
            if report.state == RUNNING
            and report.attempt not in spark.running
            and report.attempt not in spark.lost
        }
        if ended and listener is not None:
            listener.wait_for_end(ended)
            found = [_known(plan, brought, listener) for plan in plans]
    # Where one task gets through to the driver while it works, the others do when they begin.
    gets_through = listener is not None and (listener.is_local or listener.was_reached)
    return [
        (plan, _summed(plan, reports, spark, gets_through=gets_through))
        for plan, reports in zip(plans, found, strict=True)
    ]


def _known(plan: ScanPlan, brought: ScanReports, listener: ReportListener | None) -> dict[int, TaskReport]:
    if not plan.groups:
        return {}
    scan_id = plan.context.scan_id
    heard = {} if listener is None else listener.heard(scan_id)
    # Spark brings the last word of a task, with all its texts.
    return merge_reports({scan_id: heard}, {scan_id: brought.get(scan_id, {})})[scan_id]


def _summed(
    plan: ScanPlan, reports: Mapping[int, TaskReport], spark: SparkTasks, *, gets_through: bool
) -> HeardTasks:
    count: Counter[str] = Counter()
    unsure = 0
    for report in reports.values():
        if report.state == FINISHED:
            count["limited" if report.metrics.counters.get("tasks.limited") else "finished"] += 1
        elif report.attempt in spark.lost or report.state == FAILED:
            count[spark.lost.get(report.attempt, FAILED)] += 1
        elif report.state == RUNNING and report.attempt in spark.running:
            count["running"] += 1
        else:
            count["stopped"] += 1
        unsure += report.state == RUNNING
    unheard = len(plan.groups) - len(reports)
    count["not_started" if gets_through else "unknown"] = unheard
    return HeardTasks(
        figures=tuple(report.metrics for _, report in sorted(reports.items())),
        states=TaskStates(**count, unsure=unsure),
    )
