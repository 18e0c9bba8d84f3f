"""Event logs as Spark wrote them, rolled and compressed, with all events that there are.

Spark 4.1.4 recorded three queries by Iceberg-Spark 1.12.0 on 2,000 rows, and before the last one a job whose properties are
12 MB large, so that the log is rolled (10 MiB is Spark's least). `spark.redaction.regex` left out the values of confs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from twostage.advisor.event_files import applications
from twostage.advisor.event_log import EventLogs

ROLLED, PACKED = (Path(__file__).with_name(f"spark_4.1.4_{name}") for name in ("rolled_zstd", "lz4"))


@pytest.mark.parametrize("folder", [ROLLED, PACKED])
def test_logs_as_spark_writes_them(folder):
    """Rolled and compressed, with all events that there are."""
    log = EventLogs(str(folder))
    found = list(log)
    assert str(log.problems) == ""
    assert [(scan.table, scan.text, scan.columns, scan.scans) for scan in found] == [
        ("lake.db.ev", "dev = 'd3' AND price > 100.0", ("id", "dev", "price"), 1),
        ("lake.db.ev", "dev IN ('d1', 'd2') AND id <= 1500 AND price < 5000.0", ("id", "dev", "price"), 1),
        ("lake.db.ev", "id < 50", ("id", "price"), 1),
    ]
    assert [(scan.rows_read, scan.filter.rows_out, scan.count("files.read")) for scan in found] == [
        (2_000, 18, 1), (2_000, 32, 1), (2_000, 50, 1),
    ]  # fmt: skip
    assert {(scan.application_name, scan.description, scan.reader) for scan in found} == {
        ("recorded", "collect at /job/queries.py:16", "iceberg")
    }
    assert all(scan.query_milliseconds > 0 for scan in found)


def test_the_rolled_log_is_in_several_files():
    (files,) = applications(str(ROLLED))
    assert len(files) > 1
    assert [len(list(EventLogs(path))) for path in (files[0], files[-1])] == [2, 1]


def test_a_packed_log_that_is_cut_gives_the_queries_before(tmp_path):
    (whole,) = PACKED.iterdir()
    data = whole.read_bytes()
    (tmp_path / f"{whole.name}.inprogress").write_bytes(data[: len(data) - 1_000])
    log = EventLogs(str(tmp_path))
    found = list(log)
    assert 1 <= len(found) < 3
    assert list(log.problems.counts) == ["the file ends in the middle"]
