"""Spark event logs as a source of logged scans: our own, and those of Iceberg's connector without twostage.

Takes the history server's files; returns a `LoggedScan` for each scan of an Iceberg table when its query
ends; `event_plan.py` finds them in the query's plan. The rules: broken lines are counted and named, never
fatal; nothing in a log is executed.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from twostage.advisor.event_files import MAX_LINE_BYTES, applications, lines
from twostage.advisor.event_plan import accumulators_of, scans_of
from twostage.advisor.log_values import load_line, milliseconds, whole_number
from twostage.advisor.logged_scan import QueryFacts
from twostage.advisor.query_log import Problems
from twostage.errors import NotFoundError, mask
from twostage.task import Storage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from twostage.advisor.logged_scan import LoggedScan

_SQL = "org.apache.spark.sql.execution.ui.SparkListener"
_WANTED = tuple(
    f'"Event":"{name}'.encode()
    for name in (
        "SparkListenerApplicationStart",
        "SparkListenerStageCompleted",
        f"{_SQL}SQLExecutionStart",
        f"{_SQL}SQLAdaptiveExecutionUpdate",
        f"{_SQL}SQLExecutionEnd",
        f"{_SQL}DriverAccumUpdates",
    )
)
"""The starts of the lines that matter; the others, nine tenths of a log, are not parsed."""
_TASK_METRICS_PREFIX = "internal.metrics."
"""The name prefix of accumulators that are not plan metrics, nine tenths of them."""
_MIN_VALUES_TO_PRUNE = 100_000
_MAX_RUNNING = 1_000
"""Queries that have not ended: Spark drops events when it cannot keep up, so a query may never end in the
log."""
_DIGITS = re.compile(r"-?[0-9]+")


@dataclass(slots=True)
class _Query:
    """A running query: its start, description and latest plan, and the smallest metric id of its first plan."""

    began: int
    description: str
    plan: Mapping[str, Any]
    first: int


@dataclass(slots=True)
class _Application:
    """What is known about an application so far.

    `values` are accumulator values of running queries, by id: a plan with the ids may come after their
    values, so all values of stages are kept until their query ends.
    """

    id: str = ""
    name: str = ""
    user: str = ""
    queries: dict[int, _Query] = field(default_factory=dict)
    values: dict[int, int] = field(default_factory=dict)
    highest: int = 0
    prune_at: int = _MIN_VALUES_TO_PRUNE


class EventLogs:
    """The scans of Spark event logs; iterating reads the files anew.

    Attributes:
        location: A log, a rolled log's folder, or a history server's folder; local or in a bucket, which is
            opened with FileIO properties like a catalog's.
        problems: What the last iteration skipped.
    """

    def __init__(
        self, location: str, properties: Mapping[str, str] | None = None, *, client: str = "auto"
    ) -> None:
        self.location = location
        self.problems = Problems()
        self._storage = Storage(properties=dict(properties or {}), root=location, client=client)

    def applications(self) -> list[list[str]]:
        """Return the files of each application.

        Raises:
            NotFoundError: There are none.
        """
        found = applications(self.location, self._storage)
        if not found:
            raise NotFoundError(
                "NO_EVENT_LOG",
                "There is neither a query log nor a Spark event log",
                path=self.location,
                stage="advisor",
                hint="spark.twostage.query-log makes twostage write the one, spark.eventLog.enabled makes Spark write the other, into spark.eventLog.dir.",
            )
        return found

    def __iter__(self) -> Iterator[LoggedScan]:
        self.problems = Problems()
        for files in self.applications():
            application = _Application()
            for place, line in lines(files, self.problems, self._storage):
                if not line[:120].replace(b'": "', b'":"').lstrip(b"{ ").startswith(_WANTED):
                    if not line.lstrip().startswith(b'{"Event"') and line.strip():
                        self.problems.add("not an event of Spark", place)
                    continue
                if not line.endswith(b"\n") and len(line) >= MAX_LINE_BYTES:
                    self.problems.add("a line that is too long", place)
                    continue
                try:
                    scans = list(_take(application, load_line(line)))
                except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                    self.problems.add("not an event of Spark", place)
                    continue
                yield from scans


def _take(application: _Application, event: dict[str, Any]) -> Iterator[LoggedScan]:
    """Process one event; yield the scans of a query that ends with it."""
    match event["Event"].removeprefix(_SQL):
        case "SparkListenerApplicationStart":
            application.id = str(event.get("App ID", ""))
            application.name = str(event.get("App Name", ""))
            application.user = str(event.get("User", ""))
        case "SQLExecutionStart":
            plan = event["sparkPlanInfo"]
            application.queries[whole_number(event["executionId"], "executionId")] = _Query(
                began=milliseconds(event["time"], "time"),
                description=str(event.get("description", "")),
                plan=plan,
                first=min(accumulators_of(plan, with_caches=False), default=application.highest + 1),
            )
            if len(application.queries) > _MAX_RUNNING:
                del application.queries[next(iter(application.queries))]
        case "SQLAdaptiveExecutionUpdate":
            query = application.queries.get(whole_number(event["executionId"], "executionId"))
            if query is not None:
                query.plan = event["sparkPlanInfo"]
        case "DriverAccumUpdates":
            if whole_number(event["executionId"], "executionId") in application.queries:
                for number, value in event["accumUpdates"]:
                    _keep(application, number, value)
        case "SparkListenerStageCompleted" if application.queries:
            for one in event["Stage Info"].get("Accumulables", ()):
                if str(one.get("Name", "")).startswith(_TASK_METRICS_PREFIX):
                    continue
                value = one.get("Value")
                if isinstance(value, str) and _DIGITS.fullmatch(value):
                    value = int(value)
                if isinstance(value, int):
                    _keep(application, one["ID"], value)
        case "SQLExecutionEnd":
            ended = application.queries.pop(whole_number(event["executionId"], "executionId"), None)
            if ended is not None:
                scans = _scans(application, ended, event)
                _forget(application, ended)
                yield from scans


def _keep(application: _Application, number: Any, value: Any) -> None:
    """Keep an accumulator's value; some of Spark's start at -1, meaning none, and users' may be negative."""
    kept = whole_number(max(value, 0), "value")
    application.values[whole_number(number, "accumulator")] = kept
    application.highest = max(application.highest, number)


def _forget(application: _Application, ended: _Query) -> None:
    """Drop the values of a query that has ended, and those that no running query can have: ids only grow."""
    values, running = application.values, application.queries.values()
    if not running:
        values.clear()
        return
    for number in accumulators_of(ended.plan):
        values.pop(number, None)
    if len(values) > application.prune_at:
        first = min(one.first for one in running)
        for number in [one for one in values if one < first]:
            del values[number]
        application.prune_at = max(_MIN_VALUES_TO_PRUNE, 2 * len(values))


def _scans(application: _Application, query: _Query, end: dict[str, Any]) -> list[LoggedScan]:
    ended = milliseconds(end["time"], "time")
    facts = QueryFacts(
        time=datetime.datetime.fromtimestamp(ended / 1000, datetime.UTC),
        milliseconds=max(0, ended - query.began),
        failed=bool(end.get("errorMessage")),
        application=application.id,
        application_name=mask(application.name),
        user=application.user,
        query=whole_number(end["executionId"], "executionId"),
        description=mask(query.description),
    )
    return scans_of(query.plan, application.values, facts)
