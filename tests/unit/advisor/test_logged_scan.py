"""Lines of a query log: Pinot's two counters, and every field there and back."""

from __future__ import annotations

import datetime
import json

import pytest

from twostage.advisor.logged_predicate import LoggedPredicate
from twostage.advisor.logged_scan import VERSION, LoggedScan, QueryFacts, log_scan, parse_scan
from twostage.metrics import Metrics
from twostage.options import ReadSettings
from twostage.predicates.predicate import And, Column, Compare, IsNull, Not
from twostage.predicates.top import TopRows
from twostage.report.scan_report import ScanReport
from twostage.schema import Field, Primitive, Schema
from twostage.task import ScanContext, ScanPlan

NOON = datetime.datetime(2026, 11, 23, 12, 0, tzinfo=datetime.UTC)
A, B = (Column(number, (name,), Primitive("string")) for number, name in ((1, "a"), (2, "b")))
FIELDS = tuple(Field(id=number, name=name, type=Primitive("string")) for number, name in ((1, "a"), (2, "b")))


def plan_of(**more):
    context = ScanContext(
        scan_id="s1",
        table="lake.db.t",
        snapshot_id=9,
        schema=Schema(schema_id=0, fields=FIELDS),
        projection=FIELDS,
        settings=ReadSettings(),
        predicate=And((Compare("=", A, "secret"), Compare(">", B, "secret"))),
        hint=Not(IsNull(A)),
        top=TopRows(column=A, count=3, descending=False, nulls_first=True),
    )
    return ScanPlan(context=context, groups=(), estimated_rows=0, estimated_bytes=0, **more)


def logged(*, literals=True, **more):
    metrics = Metrics()
    metrics.count_predicate("a = 'secret'", 1000, 10, 5)
    metrics.count_predicate("b > 'secret'", 10, 4, 5)
    metrics.add("rows.fetched", 4)
    metrics.add("rows.considered", 1500)
    metrics.add("rows.pruned", 400)
    metrics.add("rows.deleted.vector", 100)
    metrics.add("files.read", 0)
    plan = plan_of(**more)
    facts = QueryFacts(
        time=NOON, milliseconds=12, application="app-1", user="ann", query=3, description="SELECT 'secret'"
    )
    return log_scan(plan, ScanReport.build(plan, [metrics]), facts, literals=literals)


def test_pinots_counters():
    """Column by column: 1,000 values of a, then 10 of b; afterwards two columns of four rows."""
    scan = logged()
    assert scan.entries_in_filter == 1010
    assert scan.entries_after_filter == 8
    assert scan.rows_read == 1000
    assert scan.counters == {
        "rows.fetched": 4, "rows.considered": 1500, "rows.pruned": 400, "rows.deleted.vector": 100
    }  # fmt: skip


def test_a_reader_that_measures_no_leaf_scans_every_filter_column():
    leaves = tuple(LoggedPredicate(op="=", columns=(name,), text=f"{name} = 1") for name in "aab")
    scan = LoggedScan(
        time=NOON, scan="x", table="t", reader="iceberg", columns=("a", "c"),
        predicate=LoggedPredicate(op="or", children=leaves), counters={"spark.rows": 50},
    )  # fmt: skip
    assert (scan.entries_in_filter, scan.entries_after_filter) == (100, 100)
    assert LoggedScan(time=NOON, scan="x", table="t").entries_in_filter == 0


def test_a_child_that_was_not_measured_counts_as_what_it_stands_in():
    children = (LoggedPredicate(op="=", columns=("a",), rows_in=7), LoggedPredicate(op="=", columns=("b",)))
    scan = LoggedScan(
        time=NOON, scan="x", table="t", predicate=LoggedPredicate(op="or", children=children, rows_in=9)
    )
    assert scan.entries_in_filter == 16


def test_a_line_comes_back_whole():
    for scan in (logged(), logged(literals=False), logged(is_handed_over=True)):
        assert parse_scan(scan.json()) == scan
        assert parse_scan(scan.json().encode()) == scan
    line = json.loads(logged().json())
    assert line["text"] == "a = 'secret' AND b > 'secret'"
    assert line["time"] == "2026-11-23T12:00:00.000Z"
    assert line["entries_in_filter"] == 1010


def test_no_literal_is_in_a_line_without_literals():
    text = logged(literals=False).json()
    assert "secret" not in text
    assert '"in":1000,"out":10' in text
    assert "secret" in logged().json()


def test_the_filter_is_the_predicate_and_the_hint():
    assert [one.text for one in logged().filter.conjuncts] == ["a = 'secret'", "b > 'secret'"]
    assert LoggedScan(time=NOON, scan="x", table="t").filter is None
    assert LoggedScan(time=NOON, scan="x", table="t").text == ""


GOOD = {"v": 1, "time": "2026-11-23T12:00:00Z", "scan": "s", "table": "t", "reader": "twostage"}


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[]",
        "7",
        '{"a": 1}',
        json.dumps(GOOD | {"v": VERSION + 1}),
        json.dumps(GOOD | {"table": 7}),
        json.dumps(GOOD | {"time": "yesterday"}),
        json.dumps(GOOD | {"counters": {"rows": "many"}}),
        json.dumps(GOOD | {"columns": "a"}),
        json.dumps(GOOD | {"query": "x"}),
        json.dumps(GOOD | {"predicate": {"op": "and"}}),
        "[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_a_line_of_something_else_is_refused(line):
    with pytest.raises(ValueError, match=r"."):
        parse_scan(line)


def test_the_least_that_a_line_has():
    assert parse_scan(json.dumps(GOOD)).time == NOON
    assert parse_scan(json.dumps(GOOD | {"time": "2026-11-23T12:00:00"})).time == NOON


@pytest.mark.parametrize(
    ("top", "column"),
    [
        ("", None),
        ("price DESC NULLS LAST LIMIT 5", "price"),
        ("price DESC NULLS LAST LIMIT ?", "price"),
        ("s.`a b` ASC NULLS FIRST, … LIMIT 5", "s.a b"),
        ("something else", None),
    ],
)
def test_the_column_of_first_rows(top, column):
    now = datetime.datetime.now(datetime.UTC)
    assert LoggedScan(time=now, scan="s", table="t", top=top).order_column == column
