"""What a report says of the joins whose keys filtered its scan."""

from __future__ import annotations

from pathlib import Path

from scan_values import context_of
from twostage.report import ScanReport
from twostage.report_joins import KeysOfJoin
from twostage.task import ScanPlan

RAW = {
    "column": "n",
    "sources": ["BatchScan s3://u:p@lake/t", "Scan parquet"],
    "milliseconds": 1234,
    "broadcast": False,
}


def test_what_java_gathered():
    keys = KeysOfJoin.of(RAW)
    assert keys.milliseconds == 1234
    assert "u:p" not in str(keys)
    assert str(keys).startswith("n, after 1,234 ms, from a reading of its own of BatchScan s3://")
    assert str(keys).endswith(" and Scan parquet")


def test_the_report_has_a_line_for_each_join():
    plan = ScanPlan(context=context_of(Path("/lake")), groups=(), estimated_rows=0, estimated_bytes=0)
    report = ScanReport.build(plan, (), {"analysis": 3, "joins": [RAW, {**RAW, "broadcast": True}]})
    assert [keys.broadcast for keys in report.joins] == [False, True]
    assert str(report).count("keys        n, after 1,234 ms") == 2
    assert report.as_dict()["joins"][0]["milliseconds"] == 1234
    assert ScanReport.build(plan).joins == ()
