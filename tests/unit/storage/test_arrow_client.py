"""Objects by PyArrow: one open for all reads of a file, exact bytes, the same failures as every client."""

from __future__ import annotations

import asyncio
import os

import pyarrow.fs
import pytest

from s3_server import Fault, serve
from twostage.storage.arrow_client import ArrowClient
from twostage.storage.store_client import RangedFile, RequestFailedError

DATA = bytes(range(200))


class Opened:
    """A file system that notes what it opens."""

    type_name = "subtree"

    def __init__(self, folder):
        self.files = pyarrow.fs.SubTreeFileSystem(str(folder), pyarrow.fs.LocalFileSystem())
        self.names = []

    def open_input_file(self, name):
        self.names.append(name)
        return self.files.open_input_file(name)


@pytest.fixture
def opened(tmp_path):
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "f").write_bytes(DATA)
    (tmp_path / "lake" / "empty").write_bytes(b"")
    return Opened(tmp_path)


def get(client, file, *ranges, limit=None):
    """Return the answers of ranges that are asked for at the same time."""
    from twostage.storage.store_loop import event_loop

    async def run():
        return await asyncio.gather(*(client.get(file, start, end, limit) for start, end in ranges))

    return asyncio.run_coroutine_threadsafe(run(), event_loop()).result(30)


def file_of(client, name="lake/f"):
    return RangedFile(f"s3://{name}", name, client)


def test_ranges_of_a_file_that_is_opened_once(opened):
    client = ArrowClient(("k",), opened)
    file = file_of(client)
    found = get(
        client, file, *((n, n + 10) for n in range(0, 100, 10)), (150, None), (-7, None), (-700, None)
    )
    assert [bytes(answer.data) for answer in found] == [
        *(DATA[n : n + 10] for n in range(0, 100, 10)),
        DATA[150:],
        DATA[-7:],
        DATA,
    ]
    assert {(answer.etag, answer.size) for answer in found} == {("", 200)}
    assert opened.names == ["lake/f"]
    client.release(file)
    get(client, file, (0, 1))
    assert opened.names == ["lake/f", "lake/f"]


def test_each_file_is_opened_by_the_file_system_of_now(opened, tmp_path):
    """Its credentials may have been renewed; a file that is open stays with the one that opened it."""
    systems = [opened, Opened(tmp_path)]
    client = ArrowClient(("k",), None, lambda: systems.pop(0))
    first, second = file_of(client), file_of(client)
    for file in (first, first, second):
        assert bytes(get(client, file, (0, 9))[0].data) == DATA[:9]
    assert (opened.names, systems) == (["lake/f"], [])


def test_of_hdfs_the_time_of_writing_stands_for_the_etag(opened, tmp_path):
    opened.type_name = "hdfs"
    opened.get_file_info = opened.files.get_file_info
    client = ArrowClient(("k",), opened)
    path = tmp_path / "lake" / "f"
    os.utime(path, ns=(0, 1_000_000))
    file = file_of(client)
    (found,) = get(client, file, (0, 9))
    assert found.etag == "written-1000000"
    client.release(file)
    file.etag = found.etag
    get(client, file, (0, 9))
    client.release(file)
    os.utime(path, ns=(0, 2_000_000))
    with pytest.raises(RequestFailedError) as failed:
        get(client, file, (0, 9))
    assert failed.value.kind == "replaced"


def test_a_file_of_hdfs_that_is_replaced_while_it_is_opened(opened, tmp_path):
    """Under the time of the new file nothing of the former one may be kept."""
    path = tmp_path / "lake" / "f"
    os.utime(path, ns=(0, 1_000_000))
    calls = []

    def replacing(function):
        def called(name):
            found = function(name)
            calls.append(name)
            if len(calls) == 1:
                path.unlink()
                path.write_bytes(DATA[::-1])
                os.utime(path, ns=(0, 2_000_000))
            return found

        return called

    opened.type_name = "hdfs"
    opened.get_file_info = replacing(opened.files.get_file_info)
    opened.open_input_file = replacing(opened.files.open_input_file)
    client = ArrowClient(("k",), opened)
    known = {}
    for _ in range(3):
        (found,) = get(client, file_of(client), (0, 9))
        assert known.setdefault(found.etag, bytes(found.data)) == bytes(found.data)
    assert len(calls) == 6
    assert known["written-2000000"] == DATA[::-1][:9]


def test_a_file_of_hdfs_whose_time_could_not_be_asked_for_is_not_taken_for_another_one(opened):
    failures = [OSError("the name node does not answer")]

    def get_file_info(name):
        if failures:
            raise failures.pop()
        return opened.files.get_file_info(name)

    opened.type_name, opened.get_file_info = "hdfs", get_file_info
    client = ArrowClient(("k",), opened)
    file = file_of(client)
    with pytest.raises(RequestFailedError):
        get(client, file, (0, 9))
    assert get(client, file, (0, 9))[0].etag.startswith("written-")


def test_an_empty_file(opened):
    client = ArrowClient(("k",), opened)
    assert bytes(get(client, file_of(client, "lake/empty"), (0, None))[0].data) == b""


@pytest.mark.parametrize(
    ("name", "place", "limit", "kind"),
    [
        ("lake/absent", (0, 1), None, "missing"),
        ("lake/f", (200, 201), None, "beyond"),
        ("lake/f", (0, None), 199, "too large"),
    ],
)
def test_failures(opened, name, place, limit, kind):
    client = ArrowClient(("k",), opened)
    with pytest.raises(RequestFailedError) as caught:
        get(client, file_of(client, name), place, limit=limit)
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("fault", "kind"),
    [(Fault("403", path="f"), "denied"), (Fault("503", path="f", times=9), "throttled"), (None, None)],
)
def test_over_http(tmp_path, fault, kind):
    (tmp_path / "f").write_bytes(DATA)
    with serve(tmp_path) as s3:
        given = {key.removeprefix("catalog.s3."): value for key, value in s3.options.items()}
        system = pyarrow.fs.S3FileSystem(
            endpoint_override=given["endpoint"],
            access_key="a",
            secret_key="b",
            region="us-east-1",
            request_timeout=60,
        )
        client = ArrowClient(("k",), system)
        file = file_of(client)
        if fault is None:
            (answer,) = get(client, file, (5, 9))
            assert bytes(answer.data) == DATA[5:9]
            assert answer.etag.startswith('"')
            file.etag = '"other"'
            kind = "replaced"
        else:
            s3.faults = [fault]
        with pytest.raises(RequestFailedError) as caught:
            get(client, file, (0, 200))  # of a few bytes, PyArrow cannot tell an error
        assert caught.value.kind == kind, caught.value.text
