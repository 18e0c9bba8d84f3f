"""The reports of the tasks of the connected Spark context: its accumulator, and the listener that its tasks send to.

Takes each Spark context that twostage is enabled in; gives plans of scans with the outcomes of their tasks. The rule: Spark
numbers tasks anew in each context, so its scheduler is asked for tasks of scans of the connected context only.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from twostage.spark.report_listener import LISTENER_CONFS, listen
from twostage.spark.source import MAX_SCANS, ReportsParam
from twostage.spark.task_outcomes import SparkTasks, collect_outcomes
from twostage.spark.task_reports import TaskReports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark import SparkContext

    from twostage.spark.report_listener import ReportListener
    from twostage.spark.task_outcomes import TaskOutcomes
    from twostage.task import ScanPlan


class ContextReports:
    """Brings reports from tasks to the driver, for one Spark context after another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[tuple[str | None, ...], ReportListener | None] = {}
        self._listener: ReportListener | None = None
        self._earlier_scans: frozenset[str] = frozenset()
        """Ids of scans of contexts that were connected before."""
        self.context: SparkContext | None = None
        self.of_tasks: TaskReports | None = None
        """What tasks report with; None before a context is connected."""

    def connect(self, context: SparkContext, earlier: Iterable[ScanPlan]) -> None:
        """Use this context's accumulator from now on; one accumulator for each context.

        Args:
            context: The one that is active.
            earlier: The scans that Spark has read.

        Raises:
            OptionError: The conf of the listener's port is not a port.
        """
        with self._lock:
            if self.context is not context:
                conf = dict(context.getConf().getAll())
                self._listener = self._listen(conf)  # first, for it may raise an error
                self.context = context
                self._earlier_scans = frozenset(plan.context.scan_id for plan in earlier)
                address = None if self._listener is None else self._listener.address
                self.of_tasks = TaskReports(context.accumulator({}, ReportsParam()), address)

    def _listen(self, conf: dict[str, str]) -> ReportListener | None:
        """Return what listens to this context's tasks; contexts of the same configuration share one."""
        place = tuple(conf.get(name) for name in LISTENER_CONFS)
        if place not in self._listeners:
            self._listeners[place] = listen(conf, max_scans=MAX_SCANS)
        return self._listeners[place]

    def outcomes(
        self, plans: Sequence[ScanPlan], ask_spark: Callable[[], SparkTasks]
    ) -> list[tuple[ScanPlan, TaskOutcomes]]:
        """Return plans of scans with the outcomes of their tasks.

        Args:
            plans: Of scans that Spark has read, oldest first.
            ask_spark: Returns what the connected context's scheduler says.
        """
        with self._lock:
            listener, earlier_scans = self._listener, self._earlier_scans
            accumulated = dict(self.of_tasks.accumulator.value) if self.of_tasks is not None else {}
        earlier = [plan for plan in plans if plan.context.scan_id in earlier_scans]
        own = [plan for plan in plans if plan.context.scan_id not in earlier_scans]
        return [
            *collect_outcomes(earlier, accumulated, listener, SparkTasks),
            *collect_outcomes(own, accumulated, listener, ask_spark),
        ]
