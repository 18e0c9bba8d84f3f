"""The reports that a Spark task sends to the driver while it runs, since Spark may end it at any moment.

Spark brings a Python accumulator to the driver when a task's last row was read. Where it needs no more rows before that
(``show``, ``take``, ``LIMIT``), or where a task fails, it never does. So a task also sends its metrics itself: when it
begins, before batches, and when it ends, over its worker's connection to the driver (see `report_listener.py`). The rule: a
task does not wait for the driver, and a driver that cannot be reached changes nothing but the report.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401 - what getaddrinfo makes host names of; a worker short of memory could not import it
import functools
import hashlib
import hmac
import json
import select
import socket
import struct
import time
from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING, Any, Self

from twostage.masking import masked_repr
from twostage.metrics import Metrics, PredicateCost
from twostage.spark.stopped_tasks import NoLongerWantedError, end_quietly

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from pyspark import Accumulator

    from twostage.task import TaskGroup

RUNNING, FINISHED, STOPPED, FAILED = "running", "finished", "stopped", "failed"
"""Not ended; read all that it had to; ended by Spark, which needed no more of its rows; ended by an error."""
LENGTH = struct.Struct("!I")
SIGNATURE_SIZE = hashlib.sha256().digest_size
_CONNECT_MILLISECONDS = 20
"""Wait for a connection that is not established when a task ends; then the worker gives it up for good."""
_SECONDS_BETWEEN_REPORTS = 0.1
ScanReports = dict[str, dict[int, "TaskReport"]]
"""Reports by scan id and task group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """What the task of a task group has done so far.

    Of two attempts the one that finished counts, as its rows do: Spark ends a speculative copy once the other has finished.
    Of two that finished, or of two that did not, the later attempt counts, whichever reports last.
    """

    attempt: int
    """Spark's number of the attempt; later attempts have higher ones."""
    state: str
    metrics: Metrics = field(default_factory=Metrics)

    def replaces(self, other: TaskReport | None) -> bool:
        """Return whether this report counts instead of another one of the task group."""
        if other is None:
            return True
        if (self.state == FINISHED) != (other.state == FINISHED):
            return self.state == FINISHED
        if self.attempt != other.attempt:
            return self.attempt > other.attempt
        return self.state != RUNNING or other.state == RUNNING


def merge_reports(into: ScanReports, more: ScanReports) -> ScanReports:
    """Merge more reports into those that are there, and return these."""
    for scan_id, groups in more.items():
        known = into.setdefault(scan_id, {})
        for index, report in groups.items():
            if report.replaces(known.get(index)):
                known[index] = report
    return into


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a driver listens, and the key that its own tasks sign their messages with."""

    __repr__ = masked_repr

    host: str
    port: int
    key: bytes = field(repr=False)
    with_texts: bool
    """The connection stays on this machine, so predicates and choices, which quote the query, may be sent, too."""


class TaskReports:
    """The ways back to the driver: Spark's accumulator, and the address of its listener (None without one)."""

    def __init__(self, accumulator: Accumulator[ScanReports], address: Address | None = None) -> None:
        self.accumulator = accumulator
        self.address = address

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # In a worker, before its task begins: Spark may end it before it reads anything.
        end_quietly(self.accumulator.aid)

    def of(self, group: TaskGroup, metrics: Metrics) -> RunningTask:
        """Return the reporter of a task: a context manager around its work."""
        return RunningTask(self, group, metrics)


class RunningTask:
    """Reports to the driver that a task runs, what it has done so far, and how it ended."""

    def __init__(self, reports: TaskReports, group: TaskGroup, metrics: Metrics) -> None:
        from pyspark import TaskContext  # noqa: PLC0415

        context = TaskContext.get()
        self._attempt = int(context.taskAttemptId()) if context is not None else 0
        self._accumulator = reports.accumulator
        self._place = (group.context.scan_id, group.index)
        self._metrics = metrics
        self._line = None if reports.address is None else _line(reports.address)
        self._told = 0.0
        self._began = (0, 0)

    def __enter__(self) -> Self:
        self._began = (time.perf_counter_ns(), time.process_time_ns())
        self._tell(RUNNING)
        return self

    def before_batch(self) -> None:
        """Report what was done so far: Spark may want no batch after this one."""
        if time.monotonic() - self._told > _SECONDS_BETWEEN_REPORTS or not self._told:
            self._told = time.monotonic()
            self._tell(RUNNING)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        state = FINISHED
        if kind is not None:
            state = STOPPED if issubclass(kind, GeneratorExit | NoLongerWantedError) else FAILED
        self._metrics.add("time.tasks", time.perf_counter_ns() - self._began[0])
        self._metrics.add("time.cpu", time.process_time_ns() - self._began[1])
        self._tell(state)
        scan_id, index = self._place
        report = TaskReport(attempt=self._attempt, state=state, metrics=self._metrics)
        self._accumulator.add({scan_id: {index: report}})

    def _tell(self, state: str) -> None:
        if self._line is not None and self._line.is_open:
            report = TaskReport(attempt=self._attempt, state=state, metrics=self._metrics)
            self._line.send(*self._place, report)


class _Line:
    """A worker's connection to a driver. It never blocks, and drops what cannot be sent; the end of a task waits a moment."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._unsent = bytearray()
        self.is_open = False
        try:
            family, kind, protocol, _, place = socket.getaddrinfo(
                address.host, address.port, type=socket.SOCK_STREAM
            )[0]
            self._socket = socket.socket(family, kind, protocol)
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.connect_ex(place)
            self.is_open = True
        except OSError:
            return

    def send(self, scan_id: str, index: int, report: TaskReport) -> None:
        """Send a report."""
        is_last = report.state != RUNNING
        self._push()
        if self._unsent and not is_last:
            return
        self._unsent += pack(self._address, scan_id, index, report)
        self._push()
        if is_last and self._unsent and self.is_open:
            waiting = select.poll()
            waiting.register(self._socket, select.POLLOUT)
            waiting.poll(_CONNECT_MILLISECONDS)
            self._push()
            if self._unsent:
                self._close()

    def _push(self) -> None:
        try:
            while self._unsent and self.is_open:
                del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:
            self._close()

    def _close(self) -> None:
        self.is_open = False
        self._socket.close()


@functools.lru_cache(4)
def _line(address: Address) -> _Line:
    return _Line(address)


def pack(address: Address, scan_id: str, index: int, report: TaskReport) -> bytes:
    """Return a report as bytes: a length, a signature, a line that names it, its figures; JSON, signed with the key."""
    metrics = report.metrics
    figures: dict[str, Any] = {"counters": dict(metrics.counters)}
    if address.with_texts:
        figures["choices"] = dict(metrics.choices)
        for name, costs in (("predicates", metrics.predicates), ("parts", metrics.parts)):
            known = list(costs.items())
            figures[name] = {text: astuple(cost) for text, cost in known}
    place = json.dumps([scan_id, index, report.attempt, report.state])
    body = f"{place}\n{json.dumps(figures)}".encode()
    return LENGTH.pack(len(body)) + hmac.digest(address.key, body, "sha256") + body


def unpack(body: bytes) -> tuple[str, int, TaskReport]:
    """Return the scan, the task group and the report of a message's signed part.

    Raises:
        ValueError: Not such a message.
    """
    name, _, figures = body.partition(b"\n")
    scan_id, index, attempt, state = json.loads(name)
    found = json.loads(figures)
    metrics = Metrics()
    metrics.counters.update(dict(_numbers(found["counters"])))
    metrics.choices.update(dict(_numbers(found.get("choices", {}))))
    for costs, given in ((metrics.predicates, "predicates"), (metrics.parts, "parts")):
        for text, cost in found.get(given, {}).items():
            costs[str(text)] = PredicateCost(*map(int, cost))
    return str(scan_id), int(index), TaskReport(attempt=int(attempt), state=str(state), metrics=metrics)


def _numbers(found: dict[str, Any]) -> Iterator[tuple[str, int]]:
    return ((str(name), int(number)) for name, number in found.items())
