"""Remote file systems: one for each store and its properties, how they name files, and what is refused."""

from __future__ import annotations

from typing import Any

import pyiceberg.io.pyarrow
import pytest

from twostage import errors
from twostage.storage import file_systems
from twostage.storage.file_systems import CONNECT_SECONDS, REQUEST_SECONDS, file_system
from twostage.storage.files import open_file
from twostage.storage.location import parse_location
from twostage.task import Storage

CANARY = "canary-4711-secret"


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, dict[str, str]]]:
    """Note what file systems are asked for of PyIceberg, and give an object for each."""
    connections: list[tuple[str, str, dict[str, str]]] = []

    class FileIO:
        def __init__(self, properties: dict[str, str]) -> None:
            self.properties = properties

        def fs_by_scheme(self, scheme: str, authority: str | None) -> object:
            connections.append((scheme, authority or "", self.properties))
            return object()

    monkeypatch.setattr(pyiceberg.io.pyarrow, "PyArrowFileIO", FileIO)
    monkeypatch.setattr(file_systems, "_file_systems", {})
    return connections


def fail_with(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    class FileIO:
        def __init__(self, _properties: dict[str, str]) -> None:
            pass

        def fs_by_scheme(self, *_: Any) -> None:
            raise error

    monkeypatch.setattr(pyiceberg.io.pyarrow, "PyArrowFileIO", FileIO)
    monkeypatch.setattr(file_systems, "_file_systems", {})


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("s3://bucket/a/b c%20d.parquet", "bucket/a/b c%20d.parquet"),
        ("s3a://bucket/a", "bucket/a"),
        ("gs://bucket/a", "bucket/a"),
        ("abfss://container@account.dfs.core.windows.net/a/b", "container/a/b"),
        ("wasbs://container@account.blob.core.windows.net/a", "container/a"),
        ("hdfs://node:8020/a/b", "/a/b"),
        ("viewfs://cluster/a", "/a"),
    ],
)
def test_how_a_file_system_names_a_file(path: str, name: str) -> None:
    """By container and key, but for Hadoop, whose authority is the connection's."""
    assert parse_location(path).remote_name == name


def test_one_for_each_scheme_authority_and_set_of_properties(connected: list[Any]) -> None:
    def ask(path: str, **properties: str) -> Any:
        return file_system(Storage(properties=properties), parse_location(path))

    first = ask("s3://b/x", a="1", c="2")
    assert ask("s3://b/another", c="2", a="1") is first
    others = [
        ask("s3a://b/x", a="1", c="2"),
        ask("s3://d/x", a="1", c="2"),
        ask("s3://b/x", a="1"),
        ask("s3://b/x", a="1", c="3"),
    ]
    assert len({id(one) for one in (first, *others)}) == len(connected) == 5


def test_number_of_file_systems_is_bounded(connected: list[Any]) -> None:
    """Each renewal of short-lived credentials makes another one, and the oldest is dropped."""
    storages = [
        Storage(properties={"s3.session-token": str(number)})
        for number in range(file_systems.MAX_FILE_SYSTEMS + 1)
    ]
    location = parse_location("s3://t/x")
    for storage in storages:
        file_system(storage, location)
    assert len(file_systems._file_systems) == file_systems.MAX_FILE_SYSTEMS
    before = len(connected)
    file_system(storages[1], location)
    assert len(connected) == before
    file_system(storages[0], location)
    assert len(connected) == before + 1


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n", "oss"])
def test_time_limits_unless_others_are_given(connected: list[Any], scheme: str) -> None:
    location = parse_location(f"{scheme}://b/x")
    file_system(Storage(), location)
    file_system(Storage(properties={"s3.connect-timeout": "7"}), location)
    given = [properties for _, _, properties in connected]
    assert given[0] == {"s3.connect-timeout": CONNECT_SECONDS, "s3.request-timeout": REQUEST_SECONDS}
    assert given[1]["s3.connect-timeout"] == "7"


@pytest.mark.parametrize("given", [{}, {"adls.account-name": "another"}])
def test_an_azure_account_is_that_of_the_path_unless_it_is_given(
    connected: list[Any], given: dict[str, str]
) -> None:
    file_system(Storage(properties=given), parse_location("abfss://container@account.dfs.core.windows.net/x"))
    assert connected[0][2]["adls.account-name"] == given.get("adls.account-name", "account")


@pytest.mark.parametrize("scheme", ["s3", "s3a", "gs", "oss"])
def test_a_login_in_the_path_is_refused(connected: list[Any], scheme: str) -> None:
    with pytest.raises(errors.UnsupportedFeatureError) as caught:
        file_system(Storage(), parse_location(f"{scheme}://me:{CANARY}@bucket/x"))
    assert caught.value.code == "CREDENTIALS_IN_PATH"
    assert CANARY not in str(caught.value)
    assert not connected


def test_properties_that_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, ValueError("no such region"))
    with pytest.raises(errors.StorageError, match="no such region") as caught:
        file_system(Storage(), parse_location("s3://b/x"))
    assert caught.value.code == "BAD_STORAGE"
    assert not file_systems._file_systems  # what failed is not kept


def test_hadoop_s_library_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, OSError("Unable to load libjvm: not found\nmore lines"))
    with pytest.raises(errors.StorageError, match=r"hdfs://.*Unable to load libjvm: not found") as caught:
        file_system(Storage(), parse_location("hdfs://node:8020/x"))
    assert caught.value.code == "HADOOP_NOT_FOUND"
    assert "more lines" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "message"), [("hdfs://node:8020/x", "connection refused"), ("s3://b/x", "Unable to load libjvm")]
)
def test_other_failures_pass_unchanged(monkeypatch: pytest.MonkeyPatch, path: str, message: str) -> None:
    mine = OSError(message)
    fail_with(monkeypatch, mine)
    with pytest.raises(OSError, match=message) as caught:
        file_system(Storage(), parse_location(path))
    assert caught.value is mine


def test_unknown_scheme_is_refused_by_name() -> None:
    with pytest.raises(errors.UnsupportedFeatureError, match="tmp"):
        open_file(Storage(root="tmp://host/t"), "tmp://host/t/f")


def test_s3_without_a_region_does_not_ask_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyiceberg.io.pyarrow as io

    def ask(bucket: str | None) -> str:
        pytest.fail(f"asked for the region of {bucket}")

    monkeypatch.setattr(io, "_cached_resolve_s3_region", ask)
    properties = {"s3.endpoint": "http://127.0.0.1:1", "s3.access-key-id": "a", "s3.secret-access-key": "b"}
    system = file_systems._connect(properties, parse_location("s3://b/k"))
    assert system.region == "us-east-1"
