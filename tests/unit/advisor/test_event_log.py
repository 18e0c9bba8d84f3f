"""Spark event logs: a real one of Iceberg-Spark 1.12.0 on PySpark 4.1.4, without what the reader does not look at.

The table had 20,000 rows in six files, partitioned by days(at).
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
from pathlib import Path

import pytest

from twostage.advisor import event_log as module
from twostage.advisor.advise import advise
from twostage.advisor.column_metadata import ColumnMetadata, TableColumns
from twostage.advisor.event_log import EventLogs
from twostage.advisor.logged_predicate import LoggedPredicate
from twostage.advisor.logged_scan import LoggedScan
from twostage.advisor.tally import Tally
from twostage.advisor.thresholds import Thresholds
from twostage.errors import NotFoundError

REAL = Path(__file__).with_name("iceberg_spark_1.12.0_events.jsonl")


@pytest.fixture(scope="module")
def scans():
    log = EventLogs(str(REAL))
    found = list(log)
    assert str(log.problems) == ""
    return found


def test_every_scan_of_every_query(scans):
    """Eight queries, one with two scans; writing the table is none."""
    assert len(scans) == 9
    assert {scan.table for scan in scans} == {"lake.db.ev"}
    assert {scan.reader for scan in scans} == {"iceberg"}
    assert len({scan.scan for scan in scans}) == 9
    assert len({scan.query for scan in scans}) == 8
    assert all(scan.query_milliseconds > 0 and scan.snapshot and not scan.failed for scan in scans)
    assert scans[0].application.startswith("local-")
    assert (scans[0].application_name, scans[0].description) == ("ice", "collect at queries.py:24")


def test_how_many_scans_a_query_has(scans):
    """Of a join it is not known which scan took the time: the model of seconds leaves such queries out."""
    assert [(scan.query, scan.scans) for scan in scans] == [
        *((number, 1) for number in range(2, 6)),
        (6, 2),
        (6, 2),
        *((number, 1) for number in range(7, 10)),
    ]
    tally = Tally("lake.db.ev", Thresholds())
    for scan in scans[4:6]:
        tally.add(scan)
    assert all(math.isnan(seconds) for seconds in tally.quantiles()["seconds"])


def test_scans_of_other_sources_take_of_a_query_s_time_too(tmp_path):
    sql = module._SQL
    text = "BatchScan t[id#1L] IcebergScan(table=t, branch=null, filters=, runtimeFilters=, groupedBy=)"
    other = {"nodeName": "Scan csv ", "simpleString": "FileScan csv [a#2]", "children": [], "metrics": []}
    plan = {**plan_of(text), "nodeName": "Union", "simpleString": "Union", "children": [plan_of(text), other]}
    events = [
        line(f"{sql}SQLExecutionStart", executionId=1, time=1000, sparkPlanInfo=plan),
        line(f"{sql}SQLExecutionEnd", executionId=1, time=1500),
    ]
    (tmp_path / "app").write_text("\n".join(events))
    assert [scan.scans for scan in EventLogs(str(tmp_path))] == [2]


def test_a_filter_and_what_it_took(scans):
    first = scans[0]
    assert [(leaf.op, leaf.columns, leaf.values) for leaf in first.filter.leaves()] == [
        ("=", ("dev",), ("d3",)),
        (">", ("price",), ("990.0",)),
        ("<", ("at",), (1700092800000000,)),
    ]
    assert first.columns == ("id", "dev", "price", "at")
    assert (first.count("files.considered"), first.count("files.read")) == (6, 1)
    assert (first.count("files.pruned.bounds"), first.count("spark.files.bytes")) == (5, 27748)
    assert (first.rows_read, first.entries_in_filter) == (4320, 3 * 4320)
    assert (first.filter.rows_in, first.filter.rows_out) == (4320, 0)


def test_filters_of_all_kinds(scans):
    ops = [sorted({leaf.op for leaf in scan.filter.leaves()}) if scan.filter else [] for scan in scans]
    assert ops == [
        ["<", "=", ">"],
        ["<=", ">=", "in"],
        ["=", "not is null"],
        ["<>", "=", "is null"],
        ["not is null"],
        ["=", "not is null"],
        [">", "not is null"],
        ["<>", "not in", "not is null"],
        [],
    ]
    assert scans[1].filter.op == "or"
    assert next(iter(scans[1].filter.leaves())).values == ("d1", "d2", "it's")
    assert scans[1].filter.share == pytest.approx(472 / 20000)
    assert {leaf.columns for leaf in scans[2].filter.leaves()} == {("s.x",), ("s.y",)}


def line(kind, **more):
    return json.dumps({"Event": kind, **more}, separators=(",", ":"))


def test_what_is_broken_is_counted_and_the_rest_is_read(tmp_path):
    real = REAL.read_text().splitlines()
    sql = module._SQL
    bad = [
        "{half",
        "[]",
        '{"Event":"SparkListenerStageCompleted"}',
        line(f"{sql}SQLExecutionStart", executionId="x"),
        line(f"{sql}DriverAccumUpdates", executionId=1, accumUpdates=[["a"]]),
        line("SparkListenerSomethingNew"),
        "",
    ]
    text = "\n".join([*real[:5], *bad, *real[5:], real[-2][: len(real[-2]) // 2]])
    (tmp_path / "app-1.inprogress").write_text(text)
    log = EventLogs(str(tmp_path))
    assert len(list(log)) == 9
    assert log.problems.counts["not an event of Spark"] == 5
    assert "app-1.inprogress:6" in str(log.problems)


def test_a_query_that_has_not_ended_is_not_logged(tmp_path):
    kept = [one for one in REAL.read_text().splitlines() if "SQLExecutionEnd" not in one]
    (tmp_path / "app").write_text("\n".join(kept))
    assert list(EventLogs(str(tmp_path))) == []


def plan_of(text, **more):
    return {"nodeName": "BatchScan lake.t", "simpleString": text, "children": [], "metrics": [], **more}


@pytest.mark.parametrize(
    ("text", "table", "filters", "reader"),
    [
        (
            "BatchScan lake.t[a#1] twostage lake.t, snapshot 7, columns [a], predicates [a = 5, b IS NOT NULL] RuntimeFilters: []",
            "lake.t", ["=", "not is null"], "twostage",
        ),
        (
            "BatchScan lake.t[a#1] twostage lake.t, snapshot 7, columns [a], predicates [b IN (1, 2)], limit 3 RuntimeFilters: []",
            "lake.t", ["in"], "twostage",
        ),
        (
            "BatchScan t[a#1] twostage t, snapshot 7, columns [a], predicates [b = 1], limit 3, first by a DESC, not Spark's reader: x RuntimeFilters: [a#1]",
            "t", ["=", "unknown"], "twostage",
        ),
        (
            "BatchScan t[a#1] twostage t, snapshot 7, columns [a], predicates [b = 1], indexes [k (postings, files)], keys of joins [id in list of 2] RuntimeFilters: [a#1]",
            "t", ["=", "unknown"], "twostage",
        ),
        (
            "BatchScan t[a#1] twostage t, snapshot 7, columns [a], predicates [b = 1], keys of joins [id in list of 2] RuntimeFilters: []",
            "t", ["=", "unknown"], "twostage",
        ),
        (
            "BatchScan local.db.t[id#1L] local.db.t (branch=null) [filters=id = 5, groupedBy=] RuntimeFilters: []",
            "local.db.t", ["="], "iceberg",
        ),
        (
            "BatchScan t[id#1L] IcebergScan(table=t, branch=null, filters=, runtimeFilters=, groupedBy=)",
            "t", [], "iceberg",
        ),
    ],
)  # fmt: skip
def test_nodes_of_other_versions_and_our_own(tmp_path, text, table, filters, reader):
    sql = module._SQL
    events = [
        line(f"{sql}SQLExecutionStart", executionId=1, time=1000, sparkPlanInfo=plan_of(text)),
        line(f"{sql}SQLExecutionEnd", executionId=1, time=1500, errorMessage="no space"),
    ]
    (tmp_path / "app").write_text("\n".join(events))
    (scan,) = EventLogs(str(tmp_path))
    assert (scan.table, scan.reader, scan.failed, scan.query_milliseconds) == (table, reader, True, 500)
    assert (scan.limit, scan.top) == (
        (3, "a DESC" if "first by" in text else "") if ", limit" in text else (None, "")
    )
    assert sorted(leaf.op for leaf in (scan.filter.leaves() if scan.filter else ())) == sorted(filters)


def query_events(number, first, *, rows=100, ends=True, cached_from=None):
    """Return the events of a query whose scan has the metrics `first` and `first` + 1, and the internal ones of its task."""
    sql = module._SQL
    text = "BatchScan t[id#1L] IcebergScan(table=t, branch=null, filters=id = 5, runtimeFilters=, groupedBy=)"
    metrics = [{"name": name, "accumulatorId": (cached_from or first) + place, "metricType": "sum"}
               for place, name in enumerate(["number of output rows", "number of result data files"])]  # fmt: skip
    plan = plan_of(text, metrics=metrics)
    if cached_from:
        cache = [{"name": "number of output rows", "accumulatorId": first, "metricType": "sum"}]
        plan = {
            **plan,
            "nodeName": "InMemoryTableScan",
            "simpleString": "",
            "metrics": cache,
            "children": [plan],
        }
    tasks = [{"ID": first + place, "Name": "internal.metrics.x", "Value": 1} for place in range(2, 40)]
    found = [
        line(f"{sql}SQLExecutionStart", executionId=number, time=1000, sparkPlanInfo=plan),
        line(f"{sql}DriverAccumUpdates", executionId=number, accumUpdates=[[first + 1, 3]]),
        line(
            "SparkListenerStageCompleted",
            **{"Stage Info": {"Accumulables": [{"ID": first, "Value": str(rows)}, *tasks]}},
        ),
    ]
    return [*found, line(f"{sql}SQLExecutionEnd", executionId=number, time=1500)] if ends else found


def test_values_are_kept_of_running_queries_alone(tmp_path, monkeypatch):
    """One query runs from the first to the last; 200 others begin and end meanwhile, with an old cache among their plans."""
    applications = []
    monkeypatch.setattr(module, "_MIN_VALUES_TO_PRUNE", 10)
    kept = module._Application
    monkeypatch.setattr(
        module, "_Application", lambda: applications.append(kept(prune_at=10)) or applications[-1]
    )
    *begun, end = query_events(0, 1000, rows=7)
    text = [
        *begun,
        *(one for number in range(1, 201) for one in query_events(number, 1000 + 50 * number)),
        end,
    ]
    (tmp_path / "app").write_text("\n".join(text))
    sizes = []
    log = EventLogs(str(tmp_path))
    for scan in log:
        sizes.append(len(applications[0].values))
        assert scan.rows_read == (7 if scan.query == 0 else 100)
        assert scan.count("files.read") == 3
    assert (len(sizes), max(sizes), sizes[-1]) == (201, 2, 0)


def test_what_no_plan_has_is_dropped_with_the_query_that_could_have_had_it(tmp_path, monkeypatch):
    """Stages of plans that were replaced while they ran; two queries always overlap."""
    applications = []
    monkeypatch.setattr(module, "_MIN_VALUES_TO_PRUNE", 10)
    kept = module._Application
    monkeypatch.setattr(
        module, "_Application", lambda: applications.append(kept(prune_at=10)) or applications[-1]
    )
    text, ends = [], []
    for number in range(200):
        *begun, end = query_events(number, 1000 + 50 * number)
        lost = [{"ID": 1000 + 50 * number + place, "Value": 1} for place in range(40, 45)]
        text += [*begun, line("SparkListenerStageCompleted", **{"Stage Info": {"Accumulables": lost}})]
        text += ends[-1:]
        ends.append(end)
    (tmp_path / "app").write_text("\n".join(text))
    sizes = [len(applications[0].values) for _ in EventLogs(str(tmp_path))]
    assert len(sizes) == 199
    assert max(sizes) <= 30


def test_a_cache_is_read_by_the_query_that_fills_it(tmp_path):
    filled = query_events(1, 200, cached_from=100)
    filled[2] = filled[2].replace(
        '{"ID":200,"Value":"100"}', '{"ID":200,"Value":"100"},{"ID":100,"Value":"9"}'
    )
    (tmp_path / "app").write_text("\n".join([*filled, *query_events(2, 300, cached_from=100)]))
    assert [(scan.query, scan.rows_read) for scan in EventLogs(str(tmp_path))] == [(1, 9)]


def test_queries_whose_end_is_missing_are_not_awaited_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MAX_RUNNING", 5)
    ends = [query_events(number, 100 * number)[-1] for number in range(1, 10)]
    begun = [one for number in range(1, 10) for one in query_events(number, 100 * number, ends=False)]
    (tmp_path / "app").write_text("\n".join([*begun, *ends]))
    assert [scan.query for scan in EventLogs(str(tmp_path))] == [5, 6, 7, 8, 9]


def test_there_is_no_log(tmp_path):
    with pytest.raises(NotFoundError, match="NO_EVENT_LOG"):
        list(EventLogs(str(tmp_path / "nowhere")))


@pytest.mark.parametrize("version", ["4.1.4", "4.3.0"])
def test_our_own_scans(version):
    """Six queries on 4,000 rows in four files, by PySpark; a join of two scans that Spark's own reader did."""
    log = EventLogs(str(Path(__file__).with_name(f"twostage_spark_{version}_events.jsonl")))
    found = list(log)
    assert str(log.problems) == ""
    assert all(scan.query_milliseconds > 0 and not scan.failed for scan in found)
    assert [leaves_of(scan) for scan in found if scan.filter] == [
        [("=", ("dev",)), (">", ("price",))],
        [("in", ("dev",)), ("<", ("id",))],
        [("=", ("s.x",)), ("prefix", ("dev",))],
        [("not is null", ("id",)), ("<", ("price",))],
        [("=", ("dev",)), ("not is null", ("id",))],
        [(">", ("price",)), ("not is null", ("id",))],
    ]
    handed_over = [scan for scan in found if scan.reader == "spark"]
    ours = [scan for scan in found if scan.reader == "twostage"]
    assert {(scan.table, scan.scans) for scan in ours} == {("lake.db.ev", 1)}
    assert [(scan.query, scan.columns, scan.count("rows.fetched")) for scan in ours] == [
        (0, ("id", "dev"), 41),
        (1, ("id",), 210),
        (2, ("id",), 228),
        (3, ("id",), 75),
        (5, ("id", "dev", "price", "s"), 4_000),
    ]
    assert {(scan.query, scan.table, scan.scans) for scan in handed_over} == {(4, "/warehouse/db/ev", 2)}
    assert [scan.columns for scan in handed_over] == [("id", "dev"), ("id", "price")]
    assert [scan.text for scan in handed_over] == [
        "dev = 'd9' AND id IS NOT NULL",
        "price > '900.0' AND id IS NOT NULL",
    ]
    assert [(scan.filter.rows_in, scan.filter.rows_out) for scan in handed_over] == [
        (4_000, 99),
        (4_000, 394),
    ]
    assert [(scan.count("files.read"), scan.bytes_read, scan.rows_read) for scan in handed_over] == [
        (4, 56_895, 4_000)
    ] * 2


def leaves_of(scan):
    return [(leaf.op, leaf.columns) for leaf in scan.filter.leaves()]


def test_scans_by_spark_s_reader_are_of_the_table_at_their_place():
    log = EventLogs(str(Path(__file__).with_name("twostage_spark_4.1.4_events.jsonl")))
    assert [(tally.table, tally.scans) for tally in advise(log).tallies] == [
        ("/warehouse/db/ev", 2),
        ("lake.db.ev", 5),
    ]
    known = TableColumns(
        table="x", snapshot=None, rows=4_000, files=4, bytes=10**6, location="file:///warehouse/db/ev/",
        columns={name: ColumnMetadata() for name in ("id", "dev", "price", "s.x")},
    )  # fmt: skip
    advice = advise(
        log, metadata={"lake.db.ev": known}, thresholds=Thresholds(tables=frozenset({"lake.db.ev"}))
    )
    assert [(tally.table, tally.scans) for tally in advice.tallies] == [("lake.db.ev", 7)]


def file_scan(**facts):
    return {
        "nodeName": "Scan parquet ",
        "simpleString": "FileScan parquet ",
        "children": [],
        "metrics": [],
        "metadata": facts,
    }


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"Location": "InMemoryFileIndex(1 paths)[file:/t]"},
        {"Location": None},
        {"Location": "TwoStageFiles"},
    ],
)
def test_file_scans_of_other_files_are_no_scans_of_tables(tmp_path, facts):
    sql = module._SQL
    events = [
        line(f"{sql}SQLExecutionStart", executionId=1, time=1000, sparkPlanInfo=file_scan(**facts)),
        line(f"{sql}SQLExecutionEnd", executionId=1, time=1500),
    ]
    (tmp_path / "app").write_text("\n".join(events))
    log = EventLogs(str(tmp_path))
    assert (list(log), str(log.problems)) == ([], "")


def test_our_own_scans_filter_the_rows_of_their_table():
    """Event logs do not say how many rows there were to filter, and our own scans drop them before Spark counts."""
    place = str(Path(__file__).with_name("twostage_spark_4.1.4_events.jsonl"))
    log = EventLogs(place)
    only = next(one for one in advise(log).recommendations if one.table == "lake.db.ev")
    assert only.action == "nothing"
    assert "event logs do not say how many rows 4 of its 4 filters were evaluated for" in only.reason
    known = TableColumns(
        table="lake.db.ev", snapshot=None, rows=4_000, files=4, bytes=10**6,
        columns={name: ColumnMetadata(rows=4_000, distinct_per_file=97) for name in ("id", "dev", "price", "s.x")},
    )  # fmt: skip
    advice = advise(log, metadata={"lake.db.ev": known})
    tally = next(one for one in advice.tallies if one.table == "lake.db.ev")
    assert tally.of_unknown_rows == 0
    assert not tally.knows_bytes
    assert tally.entries == 4 * 2 * 4_000
    found = {
        one.columns: one
        for one in advice.recommendations
        if one.action == "index" and one.table == "lake.db.ev"
    }
    assert ("dev",) in found
    assert found["dev",].votes >= 2
    shares = [scan.of_table(4_000).filter.share for scan in log if scan.filter and scan.reader == "twostage"]
    assert shares == [41 / 4_000, 210 / 4_000, 228 / 4_000, 75 / 4_000]


def test_a_limit_or_keys_of_a_join_leave_a_share_unknown():
    scan = LoggedScan(
        time=datetime.datetime.now(datetime.UTC), scan="s", table="t", columns=("a",), is_measured=False,
        predicate=LoggedPredicate(op="=", columns=("a",), count=1), counters={"rows.fetched": 10},
    )  # fmt: skip
    assert scan.of_table(100).filter.share == 0.1
    for more in ({"limit": 10}, {"top": "a"}, {"hint": LoggedPredicate(op="unknown")}):
        ended = dataclasses.replace(scan, **more).of_table(100)
        assert (ended.rows_read, ended.predicate.share) == (100, None)
    assert scan.of_table(5).predicate.share is None
    measured = dataclasses.replace(scan, is_measured=True)
    assert measured.of_table(100) == measured
