"""Spark event logs as a source of logged scans: of Iceberg's connector, which need not know of us, and our own.

Takes the history server's files; gives a `LoggedScan` for each scan of an Iceberg table, when its query ends. What a plan's
node says is text: its filters are parsed, its metrics are numbers that Spark and Iceberg counted. The rules: lines that are
broken are counted and named, never fatal; nothing of a log is executed.
"""

from __future__ import annotations

import datetime
import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from twostage.advisor.event_files import MAX_LINE_BYTES, applications, lines
from twostage.advisor.filter_text import parse_filters
from twostage.advisor.logged_scan import LoggedScan
from twostage.advisor.query_log import Problems
from twostage.errors import NotFoundError, mask

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from twostage.advisor.logged_predicate import LoggedPredicate

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
"""How the lines begin that matter; the others, nine tenths of a log, are not parsed."""
_ICEBERG = re.compile(
    r"IcebergScan\(table=(?P<table>.*?), (?:schemaId=\d+, )?(?:snapshotId=(?P<snapshot>\d+|null), )?"
    r"(?:branch=(?P<branch>.*?), )?.*?filters=(?P<filters>.*?), runtimeFilters=(?P<runtime>.*?), groupedBy=",
    re.DOTALL,
)
_OLD_ICEBERG = re.compile(
    r"(?P<table>[\w.`-]+) \(branch=.*?\) \[filters=(?P<filters>.*?), groupedBy=", re.DOTALL
)
_OWN = re.compile(
    r"twostage (?P<table>.*?), snapshot (?P<snapshot>\d+|null), columns \[(?P<columns>.*?)\], predicates \[(?P<filters>.*?)\]"
    r"(?:, (?:limit|first by|not Spark's reader|indexes \[)|\s*(?:RuntimeFilters|$))",
    re.DOTALL,
)
_OUTPUT = re.compile(r"^BatchScan .*?\[(?P<columns>[^\]]*)\]")
_COUNTERS = {
    "number of output rows": "spark.rows",
    "number of result data files": "files.read",
    "total data file size (bytes)": "spark.files.bytes",
    "total data manifests": "manifests.considered",
    "number of skipped data manifests": "manifests.pruned",
    "number of row deletes applied": "rows.deleted.position",
}
"""Names of Spark's and Iceberg's metrics, each with the counter of ours that counts the same."""
_SKIPPED_FILES = "number of skipped data files"
_PASSES = frozenset({"InputAdapter", "ColumnarToRow", "Project", "AdaptiveSparkPlan"})


@dataclass(slots=True)
class _Query:
    """A query that has begun: when, what it is called, and its latest plan."""

    began: int
    description: str
    plan: Mapping[str, Any]


@dataclass(slots=True)
class _Application:
    """What is known of an application so far; `values` are those of accumulators, by id."""

    id: str = ""
    name: str = ""
    user: str = ""
    queries: dict[int, _Query] = field(default_factory=dict)
    values: dict[int, int] = field(default_factory=dict)


class EventLogs:
    """The scans of Spark event logs; iterating reads the files anew.

    Attributes:
        location: A log, a rolled log's folder, or the folder of a history server.
        problems: What the last iteration skipped.
    """

    def __init__(self, location: str) -> None:
        self.location = location
        self.problems = Problems()

    def __iter__(self) -> Iterator[LoggedScan]:
        self.problems = Problems()
        found = applications(self.location)
        if not found:
            raise NotFoundError(
                "NO_EVENT_LOG",
                "There is no Spark event log",
                path=self.location,
                stage="advisor",
                hint="spark.eventLog.enabled makes Spark write them, into spark.eventLog.dir.",
            )
        for files in found:
            application = _Application()
            for place, line in lines(files, self.problems):
                if not line[:120].replace(b'": "', b'":"').lstrip(b"{ ").startswith(_WANTED):
                    if not line.lstrip().startswith(b'{"Event"') and line.strip():
                        self.problems.add("no event of Spark", place)
                    continue
                if not line.endswith(b"\n") and len(line) >= MAX_LINE_BYTES:
                    self.problems.add("a line that is too long", place)
                    continue
                try:
                    scans = list(_take(application, json.loads(line)))
                except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                    self.problems.add("no event of Spark", place)
                    continue
                yield from scans


def _take(application: _Application, event: dict[str, Any]) -> Iterator[LoggedScan]:
    """Take one event; yield the scans of a query that ends with it."""
    match event["Event"].removeprefix(_SQL):
        case "SparkListenerApplicationStart":
            application.id = str(event.get("App ID", ""))
            application.name = str(event.get("App Name", ""))
            application.user = str(event.get("User", ""))
        case "SQLExecutionStart":
            application.queries[int(event["executionId"])] = _Query(
                int(event["time"]), str(event.get("description", "")), event["sparkPlanInfo"]
            )
        case "SQLAdaptiveExecutionUpdate":
            query = application.queries.get(int(event["executionId"]))
            if query is not None:
                query.plan = event["sparkPlanInfo"]
        case "DriverAccumUpdates":
            for number, value in event["accumUpdates"]:
                application.values[int(number)] = int(value)
        case "SparkListenerStageCompleted":
            for one in event["Stage Info"].get("Accumulables", ()):
                value = one.get("Value")
                if isinstance(value, int) or (isinstance(value, str) and value.lstrip("-").isdigit()):
                    application.values[int(one["ID"])] = int(value)
        case "SQLExecutionEnd":
            ended = application.queries.pop(int(event["executionId"]), None)
            if ended is not None:
                yield from _scans(application, ended, event)


def _scans(application: _Application, query: _Query, end: dict[str, Any]) -> Iterator[LoggedScan]:
    number = int(end["executionId"])
    nodes = list(_nodes(query.plan, None))
    ended = datetime.datetime.fromtimestamp(int(end["time"]) / 1000, datetime.UTC)
    used: set[int] = set()
    for place, (node, above) in enumerate(nodes):
        text = str(node.get("simpleString", ""))
        found = _ICEBERG.search(text) or _OWN.search(text) or _OLD_ICEBERG.search(text)
        if found is None or not str(node.get("nodeName", "")).startswith("BatchScan"):
            continue
        metrics = _metrics(node, application.values)
        numbers = {int(one["accumulatorId"]) for one in node.get("metrics", ())}
        if numbers and numbers <= used:
            continue  # a reused exchange shows the same scan again
        used |= numbers
        is_own = found.re is _OWN
        predicate = parse_filters(found["filters"])
        rows_after = _rows_of(above, application.values)
        groups = found.groupdict()
        snapshot = groups.get("snapshot")
        yield LoggedScan(
            time=ended,
            scan=f"{application.id}-{number}-{place}",
            table=mask(groups["table"].strip("`")),
            reader="twostage" if is_own else "iceberg",
            snapshot=int(snapshot) if snapshot and snapshot.isdigit() else None,
            columns=_columns(text),
            predicate=None if predicate is None else _measured(predicate, metrics, rows_after, is_own=is_own),
            counters=_counters(metrics, is_own=is_own),
            query_milliseconds=max(0, int(end["time"]) - query.began),
            failed=bool(end.get("errorMessage")),
            application=application.id,
            application_name=mask(application.name),
            user=application.user,
            query=number,
            description=mask(query.description),
        )


def _nodes(
    plan: Mapping[str, Any], above: Mapping[str, Any] | None
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any] | None]]:
    """Yield each node of a plan with the filter directly above it, if there is one."""
    stack: list[tuple[Mapping[str, Any], Mapping[str, Any] | None]] = [(plan, above)]
    while stack:
        node, filtered = stack.pop()
        yield node, filtered
        name = str(node.get("nodeName", ""))
        passes = name in _PASSES or name.startswith(("WholeStageCodegen", "Scan"))
        below = node if name == "Filter" else filtered if passes else None
        stack.extend((child, below) for child in reversed(node.get("children", [])))


def _metrics(node: Mapping[str, Any], values: Mapping[int, int]) -> dict[str, int]:
    return {
        str(one["name"]): values[int(one["accumulatorId"])]
        for one in node.get("metrics", ())
        if int(one["accumulatorId"]) in values
    }


def _rows_of(filtered: Mapping[str, Any] | None, values: Mapping[int, int]) -> int | None:
    """Return the rows that a filter gave; Spark reports no metric that stayed 0."""
    for one in () if filtered is None else filtered.get("metrics", ()):
        if one["name"] == "number of output rows":
            return values.get(int(one["accumulatorId"]), 0)
    return None


def _measured(
    predicate: LoggedPredicate, metrics: Mapping[str, int], rows_after: int | None, *, is_own: bool
) -> LoggedPredicate:
    """Return the predicate with what is known of its rows: what the scan gave, and what the filter above it left."""
    rows = metrics.get("number of output rows")
    if is_own or rows is None or rows_after is None or rows_after > rows:
        return predicate
    return replace(predicate, rows_in=rows, rows_out=rows_after)


def _counters(metrics: Mapping[str, int], *, is_own: bool) -> dict[str, int]:
    if is_own:
        return {"rows.fetched": rows} if (rows := metrics.get("number of output rows", 0)) else {}
    counters = {ours: metrics[name] for name, ours in _COUNTERS.items() if metrics.get(name)}
    if skipped := metrics.get(_SKIPPED_FILES):
        counters["files.pruned.bounds"] = skipped
    counters["files.considered"] = counters.get("files.read", 0) + metrics.get(_SKIPPED_FILES, 0)
    return {name: number for name, number in counters.items() if number}


def _columns(text: str) -> tuple[str, ...]:
    """Return the columns that a scan's node gives: ``BatchScan lake.db.t[id#80L, dev#81]``."""
    found = _OUTPUT.match(text)
    if found is None:
        return ()
    names = [part.strip().rpartition("#")[0] for part in found["columns"].split(",")]
    return tuple(name for name in names if name)
