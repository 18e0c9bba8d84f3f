"""Objects on their way to a store: there whole or not at all, repeated, and waited for by whoever wants to."""

from __future__ import annotations

import pyarrow.fs
import pytest

from s3_server import Fault, serve
from twostage.errors import ForbiddenLocationError, StorageError, TwoStageError
from twostage.storage import file_systems, obstore_client
from twostage.storage.location import parse_location
from twostage.storage.pending_write import begin_write
from twostage.storage.task_reads import TaskReads
from twostage.task import Storage

PATH = "s3://lake/compiled/entry"
DATA = bytes(range(256)) * 100


@pytest.fixture
def s3(tmp_path):
    with serve(tmp_path) as server:
        yield server


def storage_of(s3, client="auto"):
    properties = {name.removeprefix("catalog."): value for name, value in s3.options.items()}
    return Storage(properties=properties, root="s3://lake/compiled", client=client)


@pytest.mark.parametrize("client", ["auto", "arrow"])
def test_an_object_is_written_and_read_again(s3, client):
    storage = storage_of(s3, client)
    pending = begin_write(storage, PATH, DATA)
    told = []
    pending.on_done(lambda: told.append(1))
    pending.block()
    pending.result()
    assert pending.done()
    assert told == [1]
    assert (s3.root / "compiled/entry").read_bytes() == DATA
    begin_write(storage, PATH, b"other").result()
    with TaskReads() as reads:
        assert bytes(reads.ask_whole(reads.file(storage, PATH)).result()[0]) == b"other"


def test_a_small_object_takes_one_request_and_a_large_one_is_sent_in_parts(s3, monkeypatch):
    begin_write(storage_of(s3), PATH, DATA).result()
    assert [request[0] for request in s3.requests] == ["PUT"]
    size = 5 * 2**20  # no part may be smaller, but the last
    monkeypatch.setattr(obstore_client, "PART_BYTES", size)
    data = DATA * (2 * size // len(DATA) + 1)
    begin_write(storage_of(s3), PATH, data).result()
    assert (s3.root / "compiled/entry").read_bytes() == data
    assert len(s3.requests) == 1 + 3


def test_what_fails_for_a_while_is_sent_again(s3):
    s3.faults = [Fault("503", path="entry", method="PUT", times=2), Fault("500", path="entry", method="PUT")]
    begin_write(storage_of(s3), PATH, DATA).result()
    assert (s3.root / "compiled/entry").read_bytes() == DATA
    assert len(s3.requests) == 4


def test_what_is_refused_is_an_error_without_secrets(s3):
    s3.faults = [Fault("403", path="entry", method="PUT", times=99)]
    pending = begin_write(storage_of(s3), PATH, DATA)
    pending.block()
    assert pending.done()
    with pytest.raises(StorageError) as caught:
        pending.result()
    assert caught.value.code == "ACCESS_DENIED"
    assert "canary" not in str(caught.value)
    assert not (s3.root / "compiled/entry").exists()


def test_nothing_is_written_outside_of_the_folder_that_the_user_names(s3):
    with pytest.raises(ForbiddenLocationError):
        begin_write(storage_of(s3), "s3://other/entry", DATA)
    assert s3.requests == []


def test_pyarrow_s_errors_are_ours(s3, tmp_path, monkeypatch):
    """Of a store that obstore does not know."""
    folder = pyarrow.fs.SubTreeFileSystem(str(tmp_path / "nowhere"), pyarrow.fs.LocalFileSystem())
    monkeypatch.setattr("twostage.storage.stores.file_system", lambda *_: folder)
    monkeypatch.setattr("twostage.storage.stores._clients", {})
    with pytest.raises(TwoStageError):
        begin_write(storage_of(s3, "arrow"), PATH, DATA).result()
    assert parse_location(PATH).family in file_systems._BUCKETS
