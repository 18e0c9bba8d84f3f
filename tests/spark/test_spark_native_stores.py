"""Full scans of tables in object stores go to Spark's reader where Spark has a file system that sees the same files.

Python reads ``s3://lake`` from a server on this machine. Spark's file system for it is one that comes with Hadoop and
looks keys up in local folders (`ViewFileSystemOverloadScheme`): what it is told to show, or to hide, is the test.
"""

from __future__ import annotations

import pytest

import twostage
from lakehouse import canonical, executed_plan
from native_scans import is_native, reason
from s3_server import serve
from tables import Table

VIEW = "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme"
ROWS = [{"id": i, "name": f"n{i % 7}"} for i in range(200)]


@pytest.fixture
def lake(tmp_path):
    """Tables ``plain`` and ``deleted`` (rows 3 and 5 by position) of the bucket ``lake``."""
    for name in ("plain", "deleted"):
        table = Table(tmp_path / name, {"id": "long", "name": "string"})
        table.location = f"s3://lake/{name}"
        first = table.append(ROWS[:100])
        table.append(ROWS[100:])
        if name == "deleted":
            table.delete_positions({first: [3, 5]})
        table.write()
    with serve(tmp_path) as server:
        yield server


@pytest.fixture
def session(spark):
    """A session of its own settings: file systems are of these."""
    made = spark.newSession()
    made.conf.set("fs.viewfs.overload.scheme.target.file.impl", "org.apache.hadoop.fs.LocalFileSystem")
    for scheme in ("s3", "s3a"):  # Hadoop keeps a file system for each scheme and host, whatever the settings
        made.conf.set(f"fs.{scheme}.impl.disable.cache", "true")
    return made


def mount(session, scheme, folder, bucket="lake"):
    session.conf.set(f"fs.{scheme}.impl", VIEW)
    session.conf.set(f"fs.viewfs.mounttable.{bucket}.linkFallback", f"file://{folder}")


def load(session, server, name, **more):
    reader = session.read.format("twostage").options(**server.options).options(**more)
    return reader.load(f"s3://lake/{name}")


def rows(frame):
    return canonical([tuple(row) for row in frame.collect()])


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
@pytest.mark.parametrize(("name", "gone"), [("plain", ()), ("deleted", (3, 5))])
def test_handed_over(session, lake, tmp_path, scheme, name, gone):
    mount(session, scheme, tmp_path)
    frame = load(session, lake, name)
    assert is_native(frame), executed_plan(frame)
    assert f"{scheme}://lake/{name}" in executed_plan(frame)
    found = rows(frame)
    assert found == canonical([tuple(row.values()) for row in ROWS if row["id"] not in gone])
    assert found == rows(load(session, lake, name, **{"scan.native": "never"}))
    assert twostage.scans(session)[-2].is_handed_over


@pytest.mark.parametrize("written", ["hdfs://namenode:8020/w/t", "/w/t", "gs://bucket/t", "s3://other/t"])
def test_a_moved_table_is_handed_over(session, lake, tmp_path, written):
    """What counts is where the files are now."""
    name = tmp_path.name  # never twice in one store
    table = Table(tmp_path / name, {"id": "long", "name": "string"})
    table.location = written
    first = table.append(ROWS)
    table.delete_positions({first: [3, 5]})
    table.write()
    mount(session, "s3a", tmp_path)
    options = {"allow-moved-paths": "true"}
    frame = load(session, lake, name, **options)
    assert is_native(frame), executed_plan(frame)
    assert f"s3a://lake/{name}" in executed_plan(frame)
    found = rows(frame)
    assert found == rows(load(session, lake, name, **options, **{"scan.native": "never"}))
    assert found == canonical([tuple(row.values()) for row in ROWS if row["id"] not in (3, 5)])


def test_files_of_two_stores(session, lake, tmp_path):
    """Each is asked: that the first one is reached says nothing of the other."""
    name = tmp_path.name
    table = Table(tmp_path / name, {"id": "long", "name": "string"})
    table.location = f"s3://lake/{name}"
    for part in (ROWS[:100], ROWS[100:]):
        file = table.append(part)
        if part[0]["id"] == 0:
            file.entry["file_path"] = f"file://{tmp_path}/{name}/data/{file.path.rpartition('/')[2]}"
    table.write()
    mount(session, "s3", tmp_path)
    options = {"allowed-locations": f"file://{tmp_path}"}
    frame = load(session, lake, name, **options)
    assert is_native(frame), executed_plan(frame)
    assert rows(frame) == canonical([tuple(row.values()) for row in ROWS])
    (tmp_path / "empty").mkdir()
    mount(session, "s3", tmp_path / "empty")
    again = load(session, lake, name, **options).where("id >= 0")
    assert "does not find" in reason(session, again)
    assert len(again.collect()) == 200


def test_spark_has_no_file_system(spark, lake):
    frame = load(spark, lake, "plain")
    assert "Spark has no file system for s3" in reason(spark, frame)
    assert len(frame.collect()) == 200


def test_spark_sees_another_file(session, lake, tmp_path):
    other = tmp_path / "other"
    (other / "plain" / "data").mkdir(parents=True)
    for file in (tmp_path / "plain" / "data").iterdir():
        (other / "plain" / "data" / file.name).write_bytes(file.read_bytes() + b"!")
    mount(session, "s3", other)
    frame = load(session, lake, "plain")
    assert "of another length" in reason(session, frame)
    assert len(frame.collect()) == 200


def test_spark_does_not_find_the_file(session, lake, tmp_path):
    (tmp_path / "empty").mkdir()
    mount(session, "s3", tmp_path / "empty")
    assert "does not find" in reason(session, load(session, lake, "plain"))


def test_a_store_that_spark_does_not_reach_is_not_asked_again_at_once(session, lake):
    # Without a mount table it refuses to start. A scheme of its own: the driver remembers for minutes.
    session.conf.set("fs.s3n.impl", VIEW)
    frame = load(session, lake, "plain")
    assert "Spark does not reach s3n://lake" in reason(session, frame)
    again = load(session, lake, "plain").where("id >= 0")
    assert "did not reach s3n://lake a while ago" in reason(session, again)
    assert len(again.collect()) == 200
