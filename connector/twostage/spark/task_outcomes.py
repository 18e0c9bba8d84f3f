"""What became of each task of a scan: by its own reports, and by what Spark's scheduler says.

Takes the reports of Spark's accumulator and of the listener; gives the tasks' metrics, and how many tasks ended how. The
rule: a task without a report counts as not started only where reports of running tasks arrive; otherwise as unknown.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twostage.report.tasks import TaskStates
from twostage.spark.task_reports import FAILED, FINISHED, RUNNING, STOPPED, merge_reports

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from twostage.metrics import Metrics
    from twostage.spark.report_listener import ReportListener
    from twostage.spark.task_reports import ScanReports, TaskReport
    from twostage.task import ScanPlan

_MAX_ASKS, _SECONDS_BETWEEN_ASKS = 25, 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTasks:
    """What Spark's scheduler says: the attempts that run now, and how those ended that did not succeed."""

    running: frozenset[int] = frozenset()
    lost: Mapping[int, str] = field(default_factory=dict)
    """``killed`` or ``failed``, of the latest attempts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutcomes:
    """The metrics of a scan's tasks, and how many ended how."""

    metrics: tuple[Metrics, ...]
    states: TaskStates


def collect_outcomes(
    plans: Sequence[ScanPlan],
    accumulated: ScanReports,
    listener: ReportListener | None,
    ask_spark: Callable[[], SparkTasks],
) -> list[tuple[ScanPlan, TaskOutcomes]]:
    """Return each plan with the outcomes of its tasks.

    Args:
        plans: Of the scans.
        accumulated: Reports that Spark's accumulator brought.
        listener: Has the reports that tasks sent themselves; None where nothing listens.
        ask_spark: Returns what the scheduler says; called only if some task has not reported its end.
    """
    found = [_latest(plan, accumulated, listener) for plan in plans]
    spark = SparkTasks()
    if any(report.state in (RUNNING, STOPPED) for reports in found for report in reports.values()):
        stopped = {
            report.attempt for reports in found for report in reports.values() if report.state == STOPPED
        }
        spark = ask_spark()
        for _ in range(_MAX_ASKS):
            if not stopped & spark.running:
                break
            time.sleep(
                _SECONDS_BETWEEN_ASKS
            )  # Spark ended a task, and its listeners learn of that in a moment
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
            found = [_latest(plan, accumulated, listener) for plan in plans]
    # Where one task's report reaches the driver while the task runs, those of others do when they begin.
    gets_through = listener is not None and (listener.is_local or listener.was_reached)
    return [
        (plan, _outcomes(plan, reports, spark, gets_through=gets_through))
        for plan, reports in zip(plans, found, strict=True)
    ]


def _latest(
    plan: ScanPlan, accumulated: ScanReports, listener: ReportListener | None
) -> dict[int, TaskReport]:
    if not plan.groups:
        return {}
    scan_id = plan.context.scan_id
    sent = {} if listener is None else listener.latest_reports(scan_id)
    # The accumulator brings a task's last report, with all its texts.
    return merge_reports({scan_id: sent}, {scan_id: accumulated.get(scan_id, {})})[scan_id]


def _outcomes(
    plan: ScanPlan, reports: Mapping[int, TaskReport], spark: SparkTasks, *, gets_through: bool
) -> TaskOutcomes:
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
    without_report = len(plan.groups) - len(reports)
    count["not_started" if gets_through else "unknown"] = without_report
    return TaskOutcomes(
        metrics=tuple(report.metrics for _, report in sorted(reports.items())),
        states=TaskStates(**count, unsure=unsure),
    )
