"""The driver's side of the query log, without Spark: what is logged once, what fails quietly, what waits."""

from __future__ import annotations

import functools
import json
import sys
import threading
import warnings
from dataclasses import asdict, replace

import pytest

from twostage.advisor import query_log as query_log_files
from twostage.advisor.query_log import query_log
from twostage.errors import OptionError
from twostage.metrics import Metrics
from twostage.options import ReadSettings
from twostage.predicates.predicate import Column, In
from twostage.report.tasks import TaskStates
from twostage.schema import Field, Primitive, Schema
from twostage.spark import query_log as module
from twostage.spark.bridge import Bridge
from twostage.spark.query_log import FILE_SIZE, LITERALS, QUERY_LOG, QueryLogWriter, check_location
from twostage.spark.requests import EndedRequest
from twostage.spark.task_outcomes import TaskOutcomes
from twostage.task import ScanContext, ScanPlan, Storage


class Reports:
    """Outcomes of a task that fetched seven rows; `gate` holds the writer back."""

    def __init__(self):
        self.gate = threading.Event()
        self.gate.set()

    def outcomes(self, plans, ask_spark):
        assert self.gate.wait(120)
        ask_spark()
        metrics = Metrics()
        metrics.add("rows.fetched", 7)
        return [(plan, TaskOutcomes(metrics=(metrics,), states=TaskStates(finished=1))) for plan in plans]


def plan(scan_id):
    context = ScanContext(
        scan_id=scan_id,
        table="t",
        snapshot_id=None,
        schema=Schema(schema_id=0, fields=()),
        projection=(),
        settings=ReadSettings(),
    )
    return ScanPlan(context=context, groups=(), estimated_rows=0, estimated_bytes=0)


def ended(log, *scan_ids, measured=None, **confs):
    return EndedRequest(
        query=1,
        description="what it is",
        milliseconds=5,
        failed=False,
        application={"id": "app", "name": "n", "user": "u"},
        scans={scan_id: measured or {"analysis": 3} for scan_id in scan_ids},
        confs={QUERY_LOG: str(log), **confs},
    )


def add(writer, log, *scan_ids, **more):
    writer.add(ended(log, *scan_ids, **more), [plan(scan_id) for scan_id in scan_ids])
    assert writer.flush(20)


def test_a_query_is_logged(tmp_path):
    add(QueryLogWriter(Reports()), tmp_path, "a", "b")
    scans = list(query_log(str(tmp_path)))
    assert [(one.scan, one.scans, one.count("rows.fetched")) for one in scans] == [("a", 2, 7), ("b", 2, 7)]
    assert scans[0].count("spark.analysis.ms") == 3
    assert (scans[0].application, scans[0].user, scans[0].query, scans[0].query_milliseconds) == (
        "app",
        "u",
        1,
        5,
    )
    assert scans[0].description == "what it is"


def test_a_scan_whose_rows_came_from_a_cache_is_logged_once(tmp_path):
    """Spark names it again; a scan by Spark's reader that ran again has other figures."""
    writer = QueryLogWriter(Reports())
    add(writer, tmp_path, "a")
    add(writer, tmp_path, "a", measured={"analysis": 99})
    add(writer, tmp_path, "h", measured={"numOutputRows": 5})
    add(writer, tmp_path, "h", measured={"numOutputRows": 5, "planning": 1})
    add(writer, tmp_path, "h", measured={"numOutputRows": 10})
    assert [one.scan for one in query_log(str(tmp_path))] == ["a", "h", "h"]


def test_no_scan_no_line(tmp_path):
    QueryLogWriter(Reports()).add(ended(tmp_path / "log"), [])
    assert not (tmp_path / "log").exists()


def test_a_place_that_cannot_be_written_is_a_warning_once(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    seen = []
    monkeypatch.setattr(warnings, "warn", lambda text, *_, **__: seen.append(text))
    writer = QueryLogWriter(Reports())
    add(writer, tmp_path / "file", "a")
    add(writer, tmp_path / "file", "b")
    add(writer, "relative/place", "b")
    assert len(seen) == 2
    assert "query log was not written" in seen[0]
    add(writer, tmp_path / "log", "c")
    assert [one.scan for one in query_log(str(tmp_path / "log"))] == ["c"]


def test_a_log_that_does_not_keep_up_holds_nobody_back(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MAX_WAITING", 3)
    seen = []
    monkeypatch.setattr(warnings, "warn", lambda text, *_, **__: seen.append(text))
    reports = Reports()
    reports.gate.clear()
    writer = QueryLogWriter(reports)
    for number in range(9):
        writer.add(ended(tmp_path, f"s{number}"), [plan(f"s{number}")])
    assert not writer.flush(0.01)
    reports.gate.set()
    assert writer.flush(20)
    assert 3 <= len(list(query_log(str(tmp_path)))) <= 5
    assert "keep up" in seen[0]


def test_sizes_and_literals(tmp_path):
    writer = QueryLogWriter(Reports())
    for number in range(4):
        add(writer, tmp_path, f"s{number}", **{FILE_SIZE: "1", LITERALS: "FALSE"})
    assert len(list(tmp_path.iterdir())) == 4
    assert {one.description for one in query_log(str(tmp_path))} == {""}


@pytest.mark.parametrize("place", ["", "queries", "./queries"])
def test_a_place_that_is_none(place):
    with pytest.raises(OptionError, match="BAD_OPTION"):
        check_location(place)


def test_places():
    assert check_location(" /logs/q ") == "/logs/q"
    assert check_location("s3://lake/q") == "s3://lake/q"


IO = ("open", "socket.", "os.", "subprocess.", "shutil.")
"""How the events begin that Python audits where something outside of the process is asked."""
watched: list[list[tuple[int, str]]] = []
"""Where the hook below, which cannot be taken away again, puts such events: of which thread, and which."""


@functools.cache
def watch():
    """Let Python tell of them."""

    def hook(event, _arguments):
        if watched and event.startswith(IO):
            watched[-1].append((threading.get_ident(), event))

    sys.addaudithook(hook)


class Work:
    """Counts the calls of functions, in Python and C, of the thread that enters it, and notes all threads' input and output."""

    def __enter__(self):
        watch()
        self.calls, self.events = 0, []
        watched.append(self.events)
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)

    def _count(self, _frame, event, _argument):
        self.calls += event in ("call", "c_call")

    def done(self):
        """Stop noting; return the events of this thread and those of others."""
        watched.remove(self.events)
        mine = threading.get_ident()
        return tuple(
            {event for thread, event in self.events if (thread == mine) == here} for here in (True, False)
        )


def large_plan(scan_id):
    """A scan of 1,000 columns with a list of 10,000 literals in its filter."""
    fields = tuple(Field(id=number, name=f"c{number}", type=Primitive("long")) for number in range(1_000))
    column = Column(0, ("c0",), Primitive("long"))
    small = plan(scan_id)
    context = replace(
        small.context, schema=Schema(schema_id=0, fields=fields), projection=fields,
        predicate=In(column, tuple(range(10_000))), storage=Storage(properties={}, root="s3://lake/t"),
    )  # fmt: skip
    return replace(small, context=context)


@pytest.fixture
def blocked_store(monkeypatch):
    """A store that takes nothing until its gate is opened; `entered` is set when somebody waits for it."""
    entered, gate, written = threading.Event(), threading.Event(), {}

    def write_all(_storage, path, data):
        entered.set()
        assert gate.wait(120)
        written[path] = data

    monkeypatch.setattr(query_log_files.files, "write_all", write_all)
    yield entered, gate, written
    gate.set()


@pytest.mark.parametrize("make", [plan, large_plan])
def test_a_query_waits_for_nothing_and_pays_for_a_few_calls(make, blocked_store):
    """What a query may take is a millisecond: 100 calls of functions are a tenth of that."""
    entered, gate, written = blocked_store
    writer = QueryLogWriter(Reports())
    writer.add(ended("s3://lake/q", "first"), [plan("first")])  # which starts the thread
    assert entered.wait(120)
    with Work() as work:
        for number in range(50):
            writer.add(ended("s3://lake/q", f"s{number}"), [make(f"s{number}")] if number % 10 == 0 else [])
    here, _ = work.done()
    assert here == set()
    assert not written
    one = make("one")
    request = ended("s3://lake/q", "one")
    with Work() as work:
        writer.add(request, [one])
    assert work.done()[0] == set()
    assert work.calls < 100
    gate.set()
    assert writer.flush(60)
    assert sum(data.count(b"\n") for data in written.values()) == 7


def test_what_spark_s_listener_calls_waits_for_nothing_either(blocked_store, tmp_path):
    """The call ``ended`` as the planner makes it, with the bridge's own way to the scan's plan."""
    entered, gate, written = blocked_store
    bridge = Bridge()
    bridge.query_log = QueryLogWriter(Reports())

    def text(scan_id, place):
        bridge.scans.remember(large_plan(scan_id), started=True)
        return json.dumps({"call": "ended", **asdict(ended(place, scan_id))})

    assert "error" not in bridge.apply(text("first", "s3://lake/q"))
    assert entered.wait(120)
    second = text("second", "s3://lake/q")
    with Work() as work:
        answer = bridge.apply(second)
    assert "error" not in answer
    assert work.done()[0] == set()
    assert work.calls < 400
    assert not written
    gate.set()
    assert bridge.query_log.flush(60)
    assert len(written) == 1
    on_disk = text("third", str(tmp_path))
    with Work() as work:
        assert "error" not in bridge.apply(on_disk)
    assert bridge.query_log.flush(60)
    here, elsewhere = work.done()
    assert here == set()
    assert "open" in elsewhere  # so the hook sees it
    assert len(list(query_log(str(tmp_path)))) == 1
