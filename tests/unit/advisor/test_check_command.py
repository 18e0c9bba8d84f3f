"""``advise check``: what it prints, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from logged_scans import log_scans, make_events
from twostage.__main__ import main
from twostage.advisor.query_log import QueryLog, QueryLogFile

EVENTS = str(Path(__file__).with_name("iceberg_spark_1.12.0_events.jsonl"))
QUERIES = [(f"user = 'u{number}' AND price > 5", ["id"]) for number in range(6)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A table with an index, and the log of scans before it had that."""
    folder = tmp_path_factory.mktemp("check")
    path = make_events(folder / "t", files=2)
    log_scans(path, QUERIES, folder / "log")
    assert main(["index", "create", path, "--columns", "user", "--kind", "postings"]) == 0
    return path, str(folder / "log")


def arguments(made, *more):
    return [
        "advise", "check", "--log", made[1], "--table", "lake.db.events", "--path", made[0], "--scans", "3", *more
    ]  # fmt: skip


def test_the_table(made, capsys):
    assert main(arguments(made)) == 0
    out = capsys.readouterr().out
    assert "lake.db.events: bytes\n" in out
    assert "  1  " in out
    assert "…" not in out  # nor on a terminal of 80 columns
    row = out.split("seconds\n")[1].splitlines()[1]
    without, with_indexes, saved = (float(cell) for cell in row.split()[1:4])
    assert saved == pytest.approx(without - with_indexes, abs=0.002)
    assert "3 scans read" in out
    assert "median error of the predicted bytes saved: " in out


def test_json(made, capsys):
    assert main(arguments(made, "--json")) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["replayed"]) == 3
    assert {"bytes_without", "bytes_with", "predicted", "saved", "error"} <= found["replayed"][0].keys()


def test_scans_by_spark_s_reader(made, capsys, tmp_path):
    scans = [replace(scan, reader="spark") for scan in QueryLog(made[1])]
    QueryLogFile(str(tmp_path), {}).append(scans)
    assert main(arguments((made[0], str(tmp_path)))) == 0
    assert f"{len(scans)} not replayed: Spark's reader read it" in capsys.readouterr().out
    assert main(arguments((made[0], str(tmp_path)), "--spark-scans")) == 0
    out = capsys.readouterr().out
    assert out.count("(Spark's reader read it; replayed by twostage's)") == 3
    assert "not replayed" not in out


def test_a_log_without_literals(made, capsys, tmp_path):
    log_scans(made[0], QUERIES[:1], tmp_path / "log", literals=False, index="off")
    assert main(arguments((made[0], str(tmp_path / "log")))) == 0
    out = capsys.readouterr().out
    assert "1 not replayed: the log has no literals (query-log-literals=false)" in out
    assert "Nothing was replayed." in out


def test_what_is_refused(made, capsys, tmp_path):
    (tmp_path / "local-1").write_bytes(Path(EVENTS).read_bytes())
    assert main(["advise", "check", "--log", made[1]]) == 1
    assert "takes one --table" in capsys.readouterr().err
    assert main(["advise", "check", "--log", str(tmp_path), "--table", "lake.db.ev"]) == 1
    assert "only twostage's query log" in capsys.readouterr().err
    assert main(["advise", "check", "--log", made[1], "--table", "/nowhere/t"]) == 1
    assert "[TWOSTAGE.TABLE_NOT_FOUND]" in capsys.readouterr().err
