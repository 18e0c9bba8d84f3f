"""Which kind of log is at a place, on this machine and in a bucket, and what opens the bucket: a real one over HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import zstandard

from logged_scans import log_scans, make_events
from s3_server import serve
from twostage.__main__ import main
from twostage.advisor.advise import advise
from twostage.advisor.event_log import EventLogs
from twostage.advisor.log_place import log_access, open_log, query_logs
from twostage.advisor.query_log import QueryLog
from twostage.errors import NotFoundError, OptionError, StorageError
from twostage.options import parse_options

EVENTS = Path(__file__).with_name("iceberg_spark_1.12.0_events.jsonl")


def test_which_kind_of_log_is_there(tmp_path):
    (tmp_path / "scans-1.jsonl").write_text("")
    assert isinstance(open_log(str(tmp_path)), QueryLog)
    assert isinstance(open_log(f"file://{tmp_path}"), QueryLog)
    assert isinstance(open_log(str(tmp_path / "scans-1.jsonl")), QueryLog)
    assert isinstance(open_log(str(tmp_path / "missing.jsonl")), QueryLog)
    assert isinstance(open_log(str(EVENTS)), EventLogs)
    assert isinstance(open_log(str(EVENTS.parent / "nothing")), EventLogs)


@pytest.fixture
def bucket(tmp_path):
    """A bucket with a table, a query log and event logs: whole, rolled, and a single file."""
    root = tmp_path / "bucket"
    path = make_events(root / "db" / "events", files=2, rows=1_000)
    log_scans(path, [("device = 'd1'", ["id"]), ("price > 999.0", ["id"])] * 3, root / "queries")
    rolled = root / "spark" / "eventlog_v2_app-1"
    rolled.mkdir(parents=True)
    lines = EVENTS.read_bytes().splitlines(keepends=True)
    (rolled / "events_1_app-1").write_bytes(b"".join(lines[:20]))
    (rolled / "events_2_app-1.zstd").write_bytes(zstandard.compress(b"".join(lines[20:])))
    (rolled / "appstatus_app-1").write_bytes(b"")
    (root / "spark" / "app-2").write_bytes(EVENTS.read_bytes())
    (root / "empty").mkdir()
    with serve(root) as store:
        yield store


def access(bucket, path=""):
    return log_access("s3://lake/x", parse_options({**bucket.options, "path": path}), {})


def test_kinds_in_a_bucket(bucket):
    opened = {
        name: open_log(f"s3://lake/{name}", access(bucket))
        for name in ("queries", "spark", "spark/app-2", "spark/eventlog_v2_app-1", "nothing")
    }
    assert {name: type(one) for name, one in opened.items()} == {
        "queries": QueryLog, "spark": EventLogs, "spark/app-2": EventLogs, "spark/eventlog_v2_app-1": EventLogs,
        "nothing": QueryLog,
    }  # fmt: skip
    counts = {name: len(list(one)) for name, one in opened.items() if name != "nothing"}
    assert counts == {"queries": 6, "spark": 18, "spark/app-2": 9, "spark/eventlog_v2_app-1": 9}
    assert all(not one.problems.counts for one in opened.values())
    with pytest.raises(NotFoundError, match="NO_QUERY_LOG"):
        list(opened["nothing"])
    single = next(iter(opened["queries"].files()))
    assert isinstance(open_log(single, access(bucket)), QueryLog)


def test_a_bucket_s_event_log_is_read_in_few_requests(bucket):
    log = open_log("s3://lake/spark/app-2", access(bucket))
    bucket.requests.clear()
    assert len(list(log)) == 9
    size = (bucket.root / "spark" / "app-2").stat().st_size
    asked = [span for _, key, span in bucket.requests if key.endswith("app-2")]
    assert f"bytes=0-{size - 1}" in asked
    assert len(asked) <= 3  # whether it is there, how large it is, and all of it


def test_the_table_s_own_properties_open_its_logs(bucket):
    """A path's are those of its options; a catalog's come with the table, whose confs have keys and endpoint."""
    confs = {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": "s3://lake",
        **{f"spark.sql.catalog.lake.{name.removeprefix('catalog.')}": text for name, text in bucket.options.items()},
    }  # fmt: skip
    found = log_access("s3://lake/x", parse_options({"path": "lake.db.events"}), confs)
    assert found.properties["s3.endpoint"] == bucket.endpoint
    assert len(list(open_log("s3://lake/queries", found))) == 6
    missing = log_access("s3://lake/x", parse_options({"path": "lake.db.gone", **bucket.options}), confs)
    assert missing.properties["s3.endpoint"] == bucket.endpoint
    assert log_access("/local", parse_options({"path": "lake.db.events"}), confs).properties == {}


def test_without_properties_the_error_is_told(bucket):
    options = {**bucket.options, "catalog.s3.endpoint": "http://127.0.0.1:1"}
    refused = log_access("s3://lake/x", parse_options({**options, "path": ""}), {})
    with pytest.raises(StorageError):
        open_log("s3://lake/queries", refused)


def arguments(bucket):
    return [f"--{name}={text}" for name, text in bucket.options.items()]


def test_the_commands_take_properties(bucket, capsys):
    assert (
        main(
            ["advise", "--json", "--log", "s3://lake/queries", "--log", "s3://lake/spark", *arguments(bucket)]
        )
        == 0
    )
    tables = {one["table"]: one["scans"] for one in json.loads(capsys.readouterr().out)["tables"]}
    assert tables == {"lake.db.events": 6, "lake.db.ev": 18}
    table = str(bucket.root / "db" / "events")
    check = [
        "advise",
        "check",
        "--log",
        "s3://lake/queries",
        "--table",
        "lake.db.events",
        "--path",
        table,
        "--json",
    ]
    assert main([*check, *arguments(bucket)]) == 0
    assert len(json.loads(capsys.readouterr().out)["replayed"]) == 2
    index = ["index", "list", table, "--log", "s3://lake/queries", "--name", "lake.db.events"]
    assert main([*index, *arguments(bucket)]) == 0
    assert main(["advise", "--log", "s3://lake/nothing", *arguments(bucket)]) == 1
    assert "NO_QUERY_LOG" in capsys.readouterr().err


def test_logs_of_ours_alone(bucket):
    assert [type(one) for one in query_logs(["s3://lake/queries"], access(bucket))] == [QueryLog]
    with pytest.raises(OptionError, match="not Spark.s event logs"):
        query_logs(["s3://lake/queries", "s3://lake/spark"], access(bucket))
    assert len(advise("s3://lake/queries", access=access(bucket)).tallies) == 1


def test_where_there_is_no_log_nobody_is_told_of_spark_s_alone(tmp_path):
    for place in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(NotFoundError, match="neither a query log nor a Spark event log"):
            query_logs([str(place)])
