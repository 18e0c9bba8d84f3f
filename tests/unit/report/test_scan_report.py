"""What the report says of deletes: where keys came from, what removed rows, and what would make it cheaper."""

from __future__ import annotations

import json

import pytest

from twostage.metrics import Metrics
from twostage.options import ReadSettings
from twostage.report.scan_report import ScanReport
from twostage.schema import Schema, parse_schema
from twostage.task import ScanContext, ScanPlan

SECOND = 10**9


def report_of(*, is_handed_over=False, **counters):
    schema: Schema = parse_schema({"fields": [{"id": 1, "name": "k", "type": "long", "required": False}]})
    context = ScanContext(
        scan_id="x", table="t", snapshot_id=1, schema=schema, projection=(), settings=ReadSettings()
    )
    metrics = Metrics()
    metrics.counters.update({name.replace("__", "."): count for name, count in counters.items()})
    return ScanReport.build(
        ScanPlan(
            context=context,
            groups=(),
            estimated_rows=0,
            estimated_bytes=0,
            is_handed_over=is_handed_over,
        ),
        [metrics],
    )


def test_figures_of_spark_s_reader_are_upper_bounds_until_spark_has_measured_them():
    """A query may not need a scan: its join's other side had no rows."""
    handed = {"handed_over__files": 3, "handed_over__rows": 700, "files__considered": 3}
    report = str(report_of(is_handed_over=True, **handed))
    assert "measured    nothing: the query has not ended, or needed no file of this scan" in report
    assert "up to 700" in report
    report = str(report_of(is_handed_over=True, spark__files=1, spark__rows=70, **handed))
    assert "measured    1 files of" in report
    assert "up to" not in report


@pytest.mark.parametrize(
    ("counters", "said"),
    [
        ({"delete_files__skipped": 3}, "3 cannot apply"),
        ({"delete_files__cached": 5}, "5 uses from cache"),
        ({"delete_cache__hits": 2}, "2 key tables from the host's cache"),
        ({"delete_compiled__hits": 4}, "4 data files by compiled deletes"),
        ({"delete_keys__loaded": 1234}, "1,234"),
        ({"delete_keys__loaded": 9, "delete_keys__folded": 8}, "8 without their constant partition columns"),
        ({"delete_keys__loaded": 9, "delete_cache__built": 2, "delete_cache__merged": 1},
         "2 tables built for the host, 1 of them extending an older one"),
        ({"delete_keys__loaded": 9, "delete_keys__redundant": 4}, "4 made redundant by shorter keys"),
        ({"key_pages__considered": 9, "key_pages__untouched": 5, "key_pages__deleted": 1},
         "9  5 hold none of them, 1 only deleted rows"),
        ({"row_groups__considered": 9, "row_groups__untouched": 7}, "7 without a deleted key"),
        ({"key_pages__considered": 9, "key_pages__untouched": 9}, "9 hold none of them"),
        ({"rows__deleted__position": 1}, "1 by position deletes"),
        ({"rows__deleted__vector": 1}, "1 by vector deletes"),
        ({"rows__deleted__equality": 1}, "1 by equality deletes"),
        ({"rows__deleted__compiled": 1}, "1 by compiled deletes"),
    ],
)  # fmt: skip
def test_caches_keys_and_rows_by_kind_are_told(counters, said):
    assert said in str(report_of(delete_files__considered=20, **counters))
    assert said not in str(report_of(delete_files__considered=20))


@pytest.mark.parametrize(
    ("counters", "advice"),
    [
        ({"time__deletes": 3 * SECOND, "time__fetch": SECOND, "delete_keys__loaded": 9}, "compile-deletes"),
        (
            {"time__deletes": 3 * SECOND, "time__fetch": SECOND, "rows__deleted__equality": 9},
            "compile-deletes",
        ),
        (
            {"time__deletes": 3 * SECOND, "time__fetch": SECOND, "rows__deleted__position": 9},
            "rewrite_data_files",
        ),
        ({"time__deletes": 3 * SECOND, "time__fetch": 4 * SECOND, "delete_keys__loaded": 9}, ""),
        ({"time__deletes": 3 * SECOND, "time__fetch": 2 * SECOND, "time__filter": 2 * SECOND}, ""),
        ({"time__deletes": SECOND // 10, "delete_keys__loaded": 9}, ""),
        ({}, ""),
    ],
)
def test_advice_where_deletes_cost_more_than_the_rest(counters, advice):
    report = report_of(**counters)
    assert bool(report.advice) == bool(advice)
    assert advice in report.advice
    assert ("advice" in str(report)) == bool(advice)
    assert json.loads(report.json())["advice"] == report.advice
    if advice == "rewrite_data_files":
        assert "compile-deletes" not in report.advice


def test_an_object_store_has_a_line_if_one_was_read():
    assert "store" not in str(report_of(**{"files.read": 3}))
    assert "\n  store       12 requests, " in str(report_of(**{"store.requests": 12}))


def test_without_a_filter():
    text = str(report_of(**{"files.read": 3}))
    assert "\n  filtered by nothing" in text
    assert "pruned by" not in text


def test_a_notebook_gets_the_report_and_not_its_lines(monkeypatch, capsys):
    """In Jupyter, rich displays what it is told to print, so that the text of the report would be empty."""
    outside = str(report_of(rows__deleted__vector=1))
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    report = report_of(rows__deleted__vector=1)
    assert str(report) == outside
    assert "1 by vector deletes" in report._repr_html_()
    assert capsys.readouterr().out == ""
