"""Manifests that are kept from plan to plan: the same entries, and only for the same file and reader."""

from __future__ import annotations

import gc
import os
import tracemalloc
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from cachetools import LRUCache

from check import check, ids
from core_scan import open_table
from tables import Table
from twostage.errors import CorruptFileError, MissingFileError
from twostage.table import manifest, manifest_cache
from twostage.table.manifest import read_manifest_list, stream_manifests
from twostage.table.manifest_cache import read_delete_manifests, stream_data_manifests

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    manifest_cache.forget()
    yield
    manifest_cache.forget()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The manifests whose bytes were parsed."""
    found: list[str] = []
    parse = manifest.parse_manifest

    def noted(data: bytes, file: Any, *arguments: Any, **options: Any) -> Any:
        found.append(file.path)
        return parse(data, file, *arguments, **options)

    monkeypatch.setattr(manifest, "parse_manifest", noted)
    return found


class Lake:
    """A table with three delete manifests."""

    def __init__(self, folder: Path) -> None:
        self.made = Table(folder, {"id": "long", "k": "long"})
        self.made.append(ids(30, k=lambda i: i))
        for k in range(3):
            self.made.delete_equal(["k"], [{"k": k}])
        self.made.write()
        self.opened = open_table(folder)
        table = self.opened.table
        self.storage, self.specs = table.storage, table.metadata.specs
        listed = read_manifest_list(table.storage, table.snapshot)
        self.manifests = [one for one in listed if one.is_deletes]

    def read(self, **changes: Any) -> list[Any]:
        given = {"storage": self.storage, "manifests": self.manifests, "specs": self.specs, **changes}
        return read_delete_manifests(**given)


def test_each_is_read_once(tmp_path: Path, reads: list[str]) -> None:
    lake = Lake(tmp_path)
    first = lake.read()
    assert [len(entries) for entries in first] == [1, 1, 1]
    assert len(reads) == 3
    assert lake.read() == first
    assert lake.read(manifests=lake.manifests[::-1]) == first[::-1]
    assert len(reads) == 3
    check(lake.made, range(3, 30))
    read = len(reads)
    check(lake.made, range(3, 30))
    assert len([path for path in reads[read:] if path in {one.path for one in lake.manifests}]) == 0


def test_what_differs_is_read_again(tmp_path: Path, reads: list[str]) -> None:
    lake = Lake(tmp_path)
    lake.read()
    one = lake.manifests[:1]
    other = replace(lake.storage, properties={"s3.access-key-id": "another"})
    later = replace(one[0], sequence_number=9)
    elsewhere = replace(lake.storage, allowed=("/elsewhere",))
    for changes in ({"storage": other}, {"manifests": [later]}, {"storage": elsewhere}):
        before = len(reads)
        lake.read(**{"manifests": one, **changes})
        assert len(reads) == before + 1, changes
    path = lake.manifests[1].path
    os.utime(path, ns=(1, 1))
    before = len(reads)
    lake.read()
    assert reads[before:] == [path]


def test_files_that_changed_or_went_are_errors(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.read()
    path = lake.manifests[0].path
    with open(path, "r+b") as file:  # noqa: PTH123
        file.truncate(100)
    os.utime(path, ns=(1, 1))
    with pytest.raises(CorruptFileError):
        lake.read()
    os.unlink(path)  # noqa: PTH108
    with pytest.raises(MissingFileError):
        lake.read()
    assert [len(entries) for entries in lake.read(manifests=lake.manifests[1:])] == [1, 1]


def test_it_is_bounded(tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(tmp_path)
    unknown = [replace(one, length=None) for one in lake.manifests]
    lake.read(manifests=unknown)
    lake.read(manifests=unknown)
    assert len(reads) == 6
    monkeypatch.setattr(manifest_cache, "MAX_CACHE_BYTES", 4 * 1000)
    lake.read()
    assert manifest_cache._kept.currsize == 0
    monkeypatch.setattr(manifest_cache, "MAX_CACHE_BYTES", 2**20)
    monkeypatch.setattr(manifest_cache, "_kept", LRUCache(2**16, getsizeof=lambda kept: kept[0]))
    for number in range(40):
        lake.read(manifests=[replace(one, sequence_number=number) for one in lake.manifests])
    assert 2**15 < manifest_cache._kept.currsize <= 2**16


@pytest.mark.parametrize("columns", [1, 40])
def test_its_size_is_that_of_the_parsed_entries(tmp_path: Path, columns: int) -> None:
    """Packed, 200 entries of 40 columns take 24 kB, and parsed 70 times as much."""
    names = [f"c{number}" for number in range(columns)]
    table = Table(tmp_path, dict.fromkeys(names, "long"))
    table.append([dict.fromkeys(names, 1)])
    with table.transaction():
        for value in range(100):
            table.delete_equal(names, [dict.fromkeys(names, 5000 + value)])
    opened = open_table(table.write()).table
    listed = [one for one in read_manifest_list(opened.storage, opened.snapshot) if one.is_deletes]
    read = lambda: manifest.read_manifests(opened.storage, listed, opened.metadata.specs)  # noqa: E731
    read()
    gc.collect()
    tracemalloc.start()
    try:
        entries = read()
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.6 < sum(map(manifest_cache._size, entries)) / taken < 2


class DataLake:
    """A table with three data manifests, of 10 rows each."""

    def __init__(self, folder: Path) -> None:
        self.made = Table(folder, {"id": "long", "k": "long"})
        for first in (0, 10, 20):
            self.made.append([{"id": i, "k": i} for i in range(first, first + 10)])
        self.made.write()
        table = open_table(folder).table
        self.storage, self.specs = table.storage, table.metadata.specs
        self.manifests = read_manifest_list(table.storage, table.snapshot)

    def stream(self, **changes: Any) -> Iterator[Any]:
        given = {"storage": self.storage, "manifests": self.manifests, "specs": self.specs, **changes}
        return stream_data_manifests(**given, read_ahead=8)


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The manifests whose bytes were read."""
    found: list[str] = []
    fetch = manifest._fetch

    def noted(storage: Any, file: Any) -> bytes:
        found.append(file.path)
        return fetch(storage, file)

    monkeypatch.setattr(manifest, "_fetch", noted)
    return found


def test_data_manifests_are_read_once(tmp_path: Path, fetched: list[str]) -> None:
    lake = DataLake(tmp_path)
    first = list(lake.stream())
    assert first == list(stream_manifests(lake.storage, lake.manifests, lake.specs))
    fetched.clear()
    assert list(lake.stream()) == first
    assert list(lake.stream(manifests=lake.manifests[::-1])) == first[::-1]
    assert fetched == []
    check(lake.made, range(30))
    check(lake.made, range(30), **{"io.manifest.cache-enabled": "false"})
    assert sorted(set(fetched)) == sorted(one.path for one in lake.manifests)


def test_some_data_manifests_are_kept(tmp_path: Path, fetched: list[str]) -> None:
    """Those of the next snapshot are read beside them; one whose entries were not all wanted is not kept."""
    lake = DataLake(tmp_path)
    middle = lake.manifests[1:2]
    (kept,) = lake.stream(manifests=middle)
    some = lake.stream()
    assert next(some).path != kept.path
    some.close()
    fetched.clear()
    assert [entry.path for entry in lake.stream()][1] == kept.path
    assert fetched == [lake.manifests[0].path, lake.manifests[2].path]
    os.utime(middle[0].path, ns=(1, 1))
    fetched.clear()
    assert len(list(lake.stream())) == 3
    assert fetched == [middle[0].path]


def test_what_takes_too_much_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = DataLake(tmp_path)
    monkeypatch.setattr(manifest_cache, "MAX_DATA_CACHE_BYTES", 1000)
    assert len(list(lake.stream())) == 3
    assert manifest_cache._kept_data.currsize == 0


def test_a_data_manifest_that_changed_is_an_error(tmp_path: Path) -> None:
    lake = DataLake(tmp_path)
    list(lake.stream())
    path = lake.manifests[1].path
    with open(path, "r+b") as file:  # noqa: PTH123
        file.truncate(100)
    os.utime(path, ns=(1, 1))
    with pytest.raises(CorruptFileError):
        list(lake.stream())
    os.unlink(path)  # noqa: PTH108
    with pytest.raises(MissingFileError):
        list(lake.stream())


def test_no_secret_is_kept(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.read(storage=replace(lake.storage, properties={"s3.secret-access-key": "open sesame"}))
    assert len(manifest_cache._kept) == 3
    assert "sesame" not in repr(list(manifest_cache._kept.keys()))
