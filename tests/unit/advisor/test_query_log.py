"""Files of a query log: appended, begun anew by size, read back with what cannot be read counted and named."""

from __future__ import annotations

import datetime
import errno
import json
import os

import pytest

import twostage
from twostage.advisor import query_log as module
from twostage.advisor.logged_scan import LoggedScan
from twostage.advisor.query_log import DATAFRAME_SCHEMA, QueryLogFile, query_log
from twostage.errors import NotFoundError, StorageError
from twostage.storage.files import FolderEntry

NOON = datetime.datetime(2026, 11, 23, 12, 0, tzinfo=datetime.UTC)


def scan(number):
    return LoggedScan(time=NOON, scan=f"s{number}", table="t", counters={"rows.fetched": number})


def test_scans_come_back_in_order(tmp_path):
    file = QueryLogFile(str(tmp_path / "log"), {})
    file.append([scan(0), scan(1)])
    file.append([scan(2)])
    log = twostage.query_log(str(tmp_path / "log"))
    assert list(log) == [scan(0), scan(1), scan(2)]
    assert list(log) == [scan(0), scan(1), scan(2)]
    assert log.files() == [file.path]
    assert list(query_log(file.path)) == [scan(0), scan(1), scan(2)]
    assert str(log.problems) == ""


def test_a_file_is_followed_by_the_next_one(tmp_path):
    size = len(scan(1).json()) + 1
    file = QueryLogFile(str(tmp_path), {}, file_bytes=3 * size)
    for number in range(8):
        file.append([scan(number)])
    assert [len(path.read_text().splitlines()) for path in sorted(tmp_path.iterdir())] == [3, 3, 2]
    assert [one.scan for one in query_log(str(tmp_path))] == [f"s{number}" for number in range(8)]


def test_a_system_that_takes_a_few_bytes_at_once(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(module.os, "write", lambda handle, data: write(handle, bytes(data[:7])))
    file = QueryLogFile(str(tmp_path), {})
    file.append([scan(0), scan(1)])
    file.append([scan(2)])
    log = query_log(str(tmp_path))
    assert [one.scan for one in log] == ["s0", "s1", "s2"]
    assert str(log.problems) == ""


def test_a_disk_that_gets_full_in_the_middle_of_a_line_breaks_that_line_alone(tmp_path, monkeypatch):
    write, room = os.write, [1 << 20]

    def limited(handle, data):
        if not room[0]:
            raise OSError(errno.ENOSPC, "no space")
        written = write(handle, bytes(data[: room[0]]))
        room[0] -= written
        return written

    monkeypatch.setattr(module.os, "write", limited)
    file = QueryLogFile(str(tmp_path), {})
    file.append([scan(0)])
    room[0] = 20
    with pytest.raises(StorageError):
        file.append([scan(1)])
    with pytest.raises(StorageError):
        file.append([scan(2)])
    room[0] = 1 << 20
    file.append([scan(3)])
    file.append([scan(4)])
    log = query_log(str(tmp_path))
    assert [one.scan for one in log] == ["s0", "s3", "s4"]
    assert sum(log.problems.counts.values()) == 1


def test_two_drivers_write_files_of_their_own(tmp_path):
    for number in range(2):
        QueryLogFile(str(tmp_path), {}).append([scan(number)])
    assert len(list(tmp_path.iterdir())) == 2
    assert {one.scan for one in query_log(str(tmp_path))} == {"s0", "s1"}


def test_what_cannot_be_read_is_counted_and_named(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MAX_LINE_BYTES", 1000)
    path = tmp_path / "scans-1.jsonl"
    good = scan(1).json()
    lines = ["{broken", good, "", '{"other": "json"}', json.dumps({"v": 99}), "x" * 2500, good, good[:40]]
    path.write_text("\n".join(lines))
    (tmp_path / "scans-2.jsonl").mkdir()
    (tmp_path / "notes.txt").write_text("no log")
    log = query_log(str(tmp_path))
    assert list(log) == [scan(1), scan(1)]
    assert log.problems.counts["no JSON"] >= 2
    assert log.problems.counts["not a line of a query log"] == 1
    assert log.problems.counts["a line of a later version: 99"] == 1
    assert log.problems.counts["a line that is too long"] == 2
    assert f"{path}:1" in str(log.problems)


def test_there_is_no_log(tmp_path):
    with pytest.raises(NotFoundError, match=r"\[TWOSTAGE.NO_QUERY_LOG\].*spark.twostage.query-log"):
        list(query_log(str(tmp_path / "nowhere")))


def test_a_file_that_vanished_is_named(tmp_path):
    log = query_log(str(tmp_path / "scans-1.jsonl"))
    assert list(log) == []
    assert sum(log.problems.counts.values()) == 1


def test_a_bucket_is_written_in_whole_objects(monkeypatch):
    """It cannot be appended to."""
    size = len(scan(1).json()) + 1
    monkeypatch.setattr(module, "MAX_OBJECT_BYTES", 2 * size)
    objects = {}
    monkeypatch.setattr(module.files, "write_all", lambda _, path, data: objects.update({path: data}))
    monkeypatch.setattr(
        module.files,
        "list_folder",
        lambda *_: [FolderEntry(path.rpartition("/")[2], False, 0) for path in sorted(objects)],
    )
    monkeypatch.setattr(module.files, "read_all", lambda _, path, **__: objects[path])
    file = QueryLogFile("s3://lake/queries", {})
    for number in range(5):
        file.append([scan(number)])
    assert [len(data.splitlines()) for _, data in sorted(objects.items())] == [2, 2, 1]
    log = query_log("s3://lake/queries", {})
    assert [one.scan for one in log] == [f"s{number}" for number in range(5)]


def test_the_dataframe_has_the_fields_of_a_line():
    names = {
        part.split()[0].strip("`") for part in DATAFRAME_SCHEMA.replace("<STRING, BIGINT>", "").split(", ")
    }
    full = LoggedScan(
        time=NOON, scan="s", table="t", snapshot=1, limit=1, top="a", query_milliseconds=1, application="a",
        application_name="n", user="u", query=1, description="d",
    ).as_dict()  # fmt: skip
    assert names | {"v"} == set(full) | {"predicate", "hint", "text"}
