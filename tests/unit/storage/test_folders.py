"""Listings of object stores: what PyArrow lists, with ETags where one request tells them."""

from __future__ import annotations

import pytest

from late_store import Fault, serve_late
from twostage.errors import StorageError
from twostage.storage import retry_budget
from twostage.storage.arrow_client import ArrowClient
from twostage.storage.files import exists, list_folder
from twostage.storage.folders import FolderEntry
from twostage.storage.obstore_client import ObstoreClient
from twostage.storage.request_window import window_of
from twostage.storage.store_client import RequestFailedError
from twostage.task import Storage


@pytest.fixture
def lake(tmp_path):
    for name in (
        "t/metadata/b.json",
        "t/metadata/a b%20c.json",
        "t/metadata/sub/x",
        "t/metadata-2/y",
        "t/data/z",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    with serve_late(tmp_path) as store:
        yield store


def storage_of(store, client="auto"):
    properties = {key.removeprefix("catalog."): value for key, value in store.options.items()}
    return Storage(root="s3://lake/t", properties=properties, client=client)


def without_versions(entries):
    return [FolderEntry(one.name, one.is_folder, one.modified, one.size) for one in entries]


@pytest.mark.parametrize("folder", ["", "/metadata", "/metadata/", "/data", "/metadat", "/absent"])
def test_a_listing_is_pyarrows(lake, folder):
    path = f"s3://lake/t{folder}"
    found = list_folder(storage_of(lake), path)
    assert without_versions(found) == list_folder(storage_of(lake, "arrow"), path)
    assert all(bool(one.version) != one.is_folder for one in found)


def test_a_listing_takes_one_request_and_tells_the_version_that_reading_tells(lake):
    found = list_folder(storage_of(lake), "s3://lake/t/metadata")
    assert [one.name for one in found] == ["a b%20c.json", "b.json", "sub"]
    assert len(lake.requests) <= 1  # this server notes no listings
    status = (lake.root / "t/metadata/b.json").stat()
    assert found[1].version == f'"{status.st_size:x}-{status.st_mtime_ns:x}"'


def test_a_store_without_etags(lake):
    lake.etags = False
    assert [one.version for one in list_folder(storage_of(lake), "s3://lake/t/metadata")] == ["", "", ""]


@pytest.mark.parametrize("kind", ["missing", "denied", "other"])
def test_a_listing_that_is_refused_is_left_to_pyarrow(lake, monkeypatch, kind):
    async def fails(*_):
        raise RequestFailedError(kind, "told to")

    monkeypatch.setattr(ObstoreClient, "list", fails)
    found = list_folder(storage_of(lake), "s3://lake/t/metadata")
    assert found == list_folder(storage_of(lake, "arrow"), "s3://lake/t/metadata")
    assert len(found) == 3


def test_a_store_that_is_not_there(lake):
    storage = storage_of(lake)
    away = Storage(root=storage.root, properties={**storage.properties, "s3.endpoint": "http://127.0.0.1:1"})
    with pytest.raises(StorageError):
        list_folder(away, "s3://lake/t/metadata")


def test_a_listing_that_fails_is_repeated_and_waits_for_a_place(lake, monkeypatch):
    """Each attempt is in the store's window, which throttling halves."""
    monkeypatch.setattr(retry_budget, "FIRST_PAUSE", 0.001)
    kinds, list_once, sizes = ["throttled", "broken", "throttled"], ObstoreClient.list, []

    async def fails(client, folder):
        window = window_of(client.key)
        sizes.append((window.in_flight, window.size))
        if kinds:
            raise RequestFailedError(kinds.pop(0), "told to")
        return await list_once(client, folder)

    monkeypatch.setattr(ObstoreClient, "list", fails)
    assert len(list_folder(storage_of(lake), "s3://lake/t/metadata")) == 3
    assert [in_flight for in_flight, _ in sizes] == [1] * 4
    assert sizes[1][1] == sizes[0][1] / 2
    window = window_of(("s3", lake.endpoint, "lake"))
    assert window.in_flight == 0


@pytest.mark.parametrize("client", ["auto", "arrow"])
def test_a_listing_that_keeps_failing_is_a_typed_error(lake, monkeypatch, client):
    async def fails(*_):
        raise RequestFailedError("throttled", "told to by canary-4711/secret+key")

    monkeypatch.setattr(retry_budget, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(ObstoreClient, "list", fails)
    monkeypatch.setattr(ArrowClient, "list", fails)
    with pytest.raises(StorageError, match=r"attempts\): told to") as caught:
        list_folder(storage_of(lake, client), "s3://lake/t/metadata")
    assert caught.value.transient
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("client", ["auto", "arrow"])
def test_whether_a_file_exists(lake, client):
    (lake.root / "t" / "empty").write_bytes(b"")
    storage = storage_of(lake, client)
    for name, expected in {"data/z": True, "empty": True, "data": False, "absent": False}.items():
        assert exists(storage, f"s3://lake/t/{name}") is expected, name


def test_whether_a_file_exists_is_asked_again_where_a_store_throttles(lake):
    lake.faults = [Fault("503", path="data/z", times=5)]
    assert exists(storage_of(lake), "s3://lake/t/data/z")
    assert lake.faults[0].fired == 5
