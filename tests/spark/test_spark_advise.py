"""``twostage.advise(spark, table, log=…)``: from logged queries to indexes that are built and checked, in one session."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import twostage
from tables import Table
from twostage.__main__ import main
from twostage.advisor.column_metadata import parse_metadata
from twostage.advisor.event_log import EventLogs
from twostage.errors import NotFoundError, OptionError
from twostage.spark import session
from twostage.spark.query_log import QUERY_LOG
from twostage.spark.session import run_job

EVENTS = Path(__file__).parents[1] / "unit" / "advisor" / "iceberg_spark_1.12.0_events.jsonl"
ROWS = 50_000


@pytest.fixture
def asked(spark, bridge, tmp_path):
    """Make a table, ask it for single values of ``k`` with a log; return its folder, the log's and the reader's options."""
    draw = random.Random(11)
    table = Table(tmp_path / "t", {"id": "long", "k": "string", "note": "string"})
    keys = [f"{draw.getrandbits(160):040x}" for _ in range(3 * ROWS)]
    for start in range(0, 3 * ROWS, ROWS):
        rows = range(start, start + ROWS)
        table.append([{"id": row, "k": keys[row], "note": f"n{row}" * 5} for row in rows])
    table.write()
    frame = spark.read.format("twostage").option("filter.cache", "off")
    spark.conf.set(QUERY_LOG, str(tmp_path / "queries"))
    try:
        for value in keys[:12]:
            assert frame.load(str(table.folder)).where(f"k = '{value}'").count() == 1
    finally:
        twostage.scans(spark)
        spark.conf.unset(QUERY_LOG)
    assert bridge.query_log.flush(60)
    return str(table.folder), str(tmp_path / "queries"), {"index.location": str(tmp_path / "indexes")}


def test_a_table_s_advice_is_shown_carried_out_and_checked(spark, asked, capsys):
    table, log, options = asked
    advice = twostage.advise(spark, table, log=log, options=options)
    first = advice.recommendations[0]
    assert (first.action, first.columns) == ("index", ("k",))
    assert [tally.filtered for tally in advice.advice.tallies] == [12]
    advice.show()
    assert capsys.readouterr().out == f"{advice!r}\n"
    assert "Index k (" in repr(advice)
    assert "12 scans, 12 with a filter" in repr(advice)

    assert twostage.index(spark, table, options).list() == []
    assert advice.apply() == 3
    (status,) = twostage.index(spark, table, options).list()
    assert (status.indexed, status.data_files) == (3, 3)
    again = twostage.advise(spark, table, log=log, options=options)
    assert not any(one.columns == ("k",) for one in again.recommendations if one.action == "index")
    assert again.apply() == 0

    check = advice.check(queries=4)
    assert len(check.replayed) == 4
    assert all(one.bytes_with < one.bytes_without for one in check.replayed)
    assert check.refused == {}


def test_other_tables_of_the_log_are_left_out(spark, asked, tmp_path):
    table, log, options = asked
    other = Table(tmp_path / "other", {"id": "long"})
    other.append([{"id": 1}])
    other.write()
    advice = twostage.advise(spark, str(other.folder), log=[log], options=options)
    assert advice.recommendations == ()
    assert repr(advice) == "No table in the log has enough scans for any advice."
    assert advice.apply() == 0
    named = twostage.advise(spark, table, log=log, options=options, name="nobody.calls.it.so")
    assert named.recommendations == ()


def test_what_is_not_there_is_named(spark, asked, tmp_path):
    table, log, _ = asked
    with pytest.raises(NotFoundError):
        twostage.advise(spark, str(tmp_path / "nowhere"), log=log)
    with pytest.raises(NotFoundError):
        twostage.advise(spark, table, log=str(tmp_path / "no-log"))
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "local-1").write_bytes(EVENTS.read_bytes())
    advice = twostage.advise(spark, table, log=[log, EventLogs(str(tmp_path / "events"))])
    with pytest.raises(OptionError, match="only twostage's query log"):
        advice.check()


def test_the_command_builds_by_spark_jobs(spark, asked, tmp_path, capsys, monkeypatch):
    """Which also read the sample; without --spark neither is one."""
    table, log, options = asked
    jobs = []

    def spy(work, items, progress, description):
        jobs.append((description, len(items)))
        return run_job(work, items, progress, description)

    monkeypatch.setattr(session, "run_job", spy)
    place = [f"--index.location={options['index.location']}"]
    arguments = ["advise", "--log", log, "--table", table, *place]
    assert main(arguments) == 0
    assert jobs == []
    assert main([*arguments, "--apply", "--yes", "--spark"]) == 0
    assert jobs == [("twostage: collecting column metadata", 3), ("twostage: building indexes", 3)]
    assert "3 data files: 3 indexed" in capsys.readouterr().err
    (status,) = twostage.index(spark, table, options).list()
    assert (status.indexed, status.data_files) == (3, 3)


def test_columns_are_collected_by_a_spark_job(spark, tmp_path, capsys):
    written = Table(tmp_path / "t", {"id": "long", "few": "long"})
    for start in range(0, 2000, 500):
        written.append([{"id": row, "few": row % 20} for row in range(start, start + 500)])
    written.write()
    out = tmp_path / "t.json"
    assert main(["advise", "collect", str(written.folder), "--spark", "--out", str(out)]) == 0
    assert "2,000 rows in 4 files, 2 columns" in capsys.readouterr().err
    found = parse_metadata(out.read_text()).columns
    assert (found["id"].distinct, found["few"].distinct, found["id"].is_exact) == (2000, 20, True)
