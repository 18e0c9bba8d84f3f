"""Writes the query log of a driver: a line for each scan of each query that ends in a session with a log.

Takes what Spark's listeners say about a query, with the plans of its scans; a thread of its own collects what the tasks
reported, and appends. The rules: a query waits for nothing of this; and whatever fails here is a warning, once for each
place, never the query's error.
"""

from __future__ import annotations

import datetime
import queue
import threading
import time
import warnings
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twostage.advisor.logged_scan import QueryFacts, log_scan
from twostage.advisor.query_log import DEFAULT_FILE_BYTES, QueryLogFile
from twostage.errors import OptionError
from twostage.option_values import size as parse_size
from twostage.report.scan_report import ScanReport
from twostage.spark.task_outcomes import SparkTasks
from twostage.storage.location import parse_location

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twostage.advisor.logged_scan import LoggedScan
    from twostage.spark.context_reports import ContextReports
    from twostage.spark.requests import EndedRequest
    from twostage.task import ScanPlan

QUERY_LOG = "spark.twostage.query-log"
"""The conf of the folder or bucket; without it there is no log."""
LITERALS = f"{QUERY_LOG}-literals"
FILE_SIZE = f"{QUERY_LOG}-file-size"
_MAX_WAITING = 10_000
"""Queries that wait to be logged; while there are as many, further ones are not logged, and a warning says so."""
_MAX_KNOWN = 10_000
_MAX_BATCH = 1_000
_OF_A_READ = ("time.tasks", "spark.scan.ms", "spark.rows")
"""Counters, one of which differs when a scan is read again: the first is in nanoseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ended:
    """A query that has ended, when it did, and the plans of its scans."""

    time: datetime.datetime
    request: EndedRequest
    plans: tuple[ScanPlan, ...]


class QueryLogWriter:
    """Logs queries, in the order in which they ended.

    Args:
        reports: Where the reports of tasks are.
    """

    def __init__(self, reports: ContextReports) -> None:
        self._reports = reports
        self._lock = threading.Lock()
        self._waiting: queue.Queue[_Ended] = queue.Queue(_MAX_WAITING)
        self._thread: threading.Thread | None = None
        self._files: dict[str, QueryLogFile] = {}
        self._warned: set[str] = set()
        self._logged: OrderedDict[tuple[str, tuple[int, ...]], None] = OrderedDict()

    def add(self, request: EndedRequest, plans: Sequence[ScanPlan]) -> None:
        """Let the scans of a query be logged; returns at once."""
        if not plans:
            return
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="twostage-query-log", daemon=True)
                self._thread.start()
        now = datetime.datetime.now(datetime.UTC)
        try:
            self._waiting.put_nowait(_Ended(time=now, request=request, plans=tuple(plans)))
        except queue.Full:
            self._warn("waiting", "the log does not keep up; some queries are not logged")

    def flush(self, seconds: float) -> bool:
        """Wait until everything that was added is written, but no longer than this; return whether it is."""
        until = time.monotonic() + seconds
        with self._waiting.all_tasks_done:
            while self._waiting.unfinished_tasks:
                if not self._waiting.all_tasks_done.wait(max(0.0, until - time.monotonic())):
                    return False
        return True

    def _run(self) -> None:
        while True:
            ended = [self._waiting.get()]
            while len(ended) < _MAX_BATCH and not self._waiting.empty():
                ended.append(self._waiting.get_nowait())
            try:
                self._write(ended)
            except Exception as error:  # noqa: BLE001 - a log that fails must not end the thread, nor a query
                self._warn(type(error).__name__, str(error))
            finally:
                for _ in ended:
                    self._waiting.task_done()

    def _write(self, ended: Sequence[_Ended]) -> None:
        lines: dict[str, tuple[QueryLogFile, list[LoggedScan]]] = {}
        for one in ended:
            file = self._file(one)
            lines.setdefault(file.path, (file, []))[1].extend(self._scans(one))
        for file, scans in lines.values():
            if scans:
                file.append(scans)

    def _file(self, ended: _Ended) -> QueryLogFile:
        confs = ended.request.confs
        location = confs[QUERY_LOG]
        key = f"{location} {confs.get(FILE_SIZE, '')}"
        if key not in self._files:
            size = parse_size(confs[FILE_SIZE]) if FILE_SIZE in confs else DEFAULT_FILE_BYTES
            properties = ended.plans[0].context.storage.properties
            self._files[key] = QueryLogFile(check_location(location), properties, file_bytes=size)
        return self._files[key]

    def _scans(self, ended: _Ended) -> list[LoggedScan]:
        request = ended.request
        # Without asking the scheduler: that would wait for the listeners, and all tasks of this query have ended.
        reports = [
            (
                plan,
                ScanReport.build(
                    plan, outcomes.metrics, request.scans[plan.context.scan_id], outcomes.states
                ),
            )
            for plan, outcomes in self._reports.outcomes(ended.plans, SparkTasks)
        ]
        reports = [(plan, report) for plan, report in reports if self._is_new(report)]
        facts = QueryFacts(
            time=ended.time,
            milliseconds=request.milliseconds,
            failed=request.failed,
            scans=len(reports),
            application=request.application.get("id", ""),
            application_name=request.application.get("name", ""),
            user=request.application.get("user", ""),
            query=request.query,
            description=request.description or "",
        )
        literals = request.confs.get(LITERALS, "true").strip().lower() != "false"
        return [log_scan(plan, report, facts, literals=literals) for plan, report in reports]

    def _is_new(self, report: ScanReport) -> bool:
        """Tell whether a scan was read since it was logged: a query that reads a cached DataFrame names its scans again."""
        key = (report.scan_id, tuple(report.count(name) for name in _OF_A_READ))
        if key in self._logged:
            return False
        self._logged[key] = None
        if len(self._logged) > _MAX_KNOWN:
            self._logged.popitem(last=False)
        return True

    def _warn(self, reason: str, text: str) -> None:
        if reason not in self._warned:
            self._warned.add(reason)
            warnings.warn(f"twostage: the query log was not written: {text}", RuntimeWarning, stacklevel=2)


def is_logged(plan: ScanPlan) -> bool:
    """Return whether a scan is one for the log: answers from manifests alone read nothing, and use no index."""
    return not plan.is_from_metadata or plan.counters.get("files.answered.index", 0) > 0


def check_location(location: str) -> str:
    """Return the place of a query log.

    Raises:
        OptionError: It is no absolute path and no URI of a folder or bucket.
    """
    text = location.strip()
    if "://" not in text and not text.startswith("/"):
        raise OptionError(
            "BAD_OPTION",
            f"The query log's location is not a folder or bucket: {location!r}",
            stage="options",
            hint="An absolute path, or a URI such as s3://bucket/queries.",
        )
    parse_location(text)
    return text
