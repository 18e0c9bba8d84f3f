"""Footers that a worker keeps: one serves the same version of the same file, and is read in one request."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from twostage.data_files import parquet_footers
from twostage.data_files.parquet_footers import (
    FIRST_READ_REMOTE,
    MAX_TAIL_BYTES,
    forget_footer,
    kept_version,
    load_footer,
    load_remote_footer,
)
from twostage.errors import CorruptFileError
from twostage.formats.parquet.footer import FIRST_READ
from twostage.schema import Field, Primitive, Schema


class Counted:
    """A file that notes which ranges were read."""

    def __init__(self, path: Path) -> None:
        self.content = path.read_bytes()
        self.reads: list[tuple[int, int]] = []

    def read_at(self, length: int, offset: int) -> bytes:
        self.reads.append((offset, length))
        return self.content[offset : offset + length]


@pytest.fixture(autouse=True)
def _nothing_kept() -> Any:
    for cache in (parquet_footers._footers, parquet_footers._versions, parquet_footers._tails):
        cache.clear()
    yield
    for cache in (parquet_footers._footers, parquet_footers._versions, parquet_footers._tails):
        cache.clear()


def write(path: Path, rows: int, row_group_size: int = 100) -> Path:
    table = pa.table({"a": range(rows), "b": [f"text {n}" for n in range(rows)]})
    pq.write_table(table, path, row_group_size=row_group_size, write_page_index=True)
    return path


def load(file: Counted, path: Path, version: int | bytes = 1, *, is_remote: bool = False) -> Any:
    return load_footer(file, str(path), (str(path), len(file.content), version), is_remote=is_remote)


def test_a_footer_in_both_forms_and_the_bytes_that_were_read(tmp_path: Path) -> None:
    path = write(tmp_path / "f.parquet", 250)
    file = Counted(path)
    kept, (start, content) = load(file, path)
    right = pq.read_metadata(path)
    assert kept.metadata.equals(right)
    assert [group.num_rows for group in kept.footer.row_groups] == [100, 100, 50]
    assert [leaf.path for leaf in kept.footer.leaves] == [("a",), ("b",)]
    assert content == file.content[start:]
    assert kept.num_bytes >= 8 * right.serialized_size


def test_a_second_request_for_it_reads_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "f.parquet", 10)
    kept, _ = load(Counted(path), path)
    again = Counted(path)
    found, tail = load(again, path)
    assert found is kept
    assert (tail, again.reads) == (None, [])


def test_another_version_size_or_path_is_another_file(tmp_path: Path) -> None:
    """What was overwritten in place, or what an object store calls by another ETag."""
    path, longer = write(tmp_path / "f.parquet", 10), write(tmp_path / "g.parquet", 1000)
    first, _ = load(Counted(path), path, version=b"etag 1")
    second, tail = load(Counted(path), path, version=b"etag 2")
    assert second is not first
    assert tail is not None
    other, _ = load(Counted(longer), path, version=b"etag 1")
    assert sum(group.num_rows for group in other.footer.row_groups) == 1000
    assert load(Counted(path), longer, version=b"etag 1")[1] is not None
    assert load(Counted(path), path, version=b"etag 1") == (first, None)


def test_a_damaged_footer_is_an_error_each_time(tmp_path: Path) -> None:
    path = write(tmp_path / "f.parquet", 10)
    file = Counted(path)
    file.content = file.content[:-8] + b"\xff\xff\xff\x7fPAR1"
    for _ in range(2):
        with pytest.raises(CorruptFileError) as caught:
            load(file, path)
        assert caught.value.path == str(path)
    assert not parquet_footers._footers


@pytest.mark.parametrize(("is_remote", "first"), [(False, FIRST_READ), (True, FIRST_READ_REMOTE)])
def test_the_first_file_of_a_folder_is_guessed(tmp_path: Path, is_remote: bool, first: int) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"a": pa.array([bytes(600_000)])}), path, compression="none", use_dictionary=False, write_statistics=False)  # fmt: skip
    file = Counted(path)
    load(file, path, is_remote=is_remote)
    size = len(file.content)
    assert file.reads == [(size - first, first)]


def test_the_next_file_of_the_folder_is_read_in_one_request(tmp_path: Path) -> None:
    """Footer and page indexes of one folder's files are of a size; another folder's are not known."""
    paths = [write(tmp_path / f"{n}.parquet", 3000 + n, row_group_size=2) for n in range(2)]
    first, second, elsewhere = (Counted(path) for path in (*paths, paths[1]))
    kept, _ = load(first, paths[0])
    needed = len(first.content) - kept.footer.indexes_start()
    assert needed > FIRST_READ
    assert len(first.reads) == 2
    kept, (start, _) = load(second, paths[1])
    assert len(second.reads) == 1
    assert start <= kept.footer.indexes_start()
    load(elsewhere, tmp_path / "elsewhere" / "1.parquet")
    assert len(elsewhere.reads) == 2


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (0, FIRST_READ),
        (FIRST_READ // 2, FIRST_READ),
        (FIRST_READ, FIRST_READ * 9 // 8),
        (MAX_TAIL_BYTES * 8 // 9, MAX_TAIL_BYTES),
        (MAX_TAIL_BYTES, FIRST_READ),
    ],
)
def test_how_much_of_the_end_is_read(known: int, expected: int) -> None:
    """An eighth more than the last one took, within a bound: one huge footer must not make all reads huge."""
    parquet_footers._tails["/lake"] = known
    assert abs(parquet_footers._expected_tail("/lake", is_remote=False) - expected) <= 1


def test_footers_are_dropped_by_their_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "f.parquet", 1000)
    kept, _ = load(Counted(path), path, version=0)
    small = type(parquet_footers._footers)(3 * kept.num_bytes, getsizeof=lambda one: one.num_bytes)
    monkeypatch.setattr(parquet_footers, "_footers", small)
    for version in range(5):
        load(Counted(path), path, version=version)
    assert [load(Counted(path), path, version=version)[1] is None for version in (4, 3, 2)] == [True] * 3
    assert load(Counted(path), path, version=1)[1] is not None


class Remote(Counted):
    """A remote file: its end is read by one request, and its version is known from then on."""

    def __init__(self, path: Path, version: bytes = b'"1"', *, is_known: bool = False) -> None:
        super().__init__(path)
        self._version = version
        self.is_known = is_known
        self.tails: list[int] = []

    @property
    def version(self) -> bytes:
        return self._version if self.tails else b""

    def size(self) -> int:
        return len(self.content)

    def fetch_tail(self, length: int) -> None:
        self.tails.append(length)


def test_a_remote_footer_is_kept_with_its_version_and_indexes(tmp_path: Path) -> None:
    path = write(tmp_path / "f.parquet", 250)
    name, size = str(path), path.stat().st_size
    assert kept_version(name, size) is None
    file = Remote(path)
    kept, key = load_remote_footer(file, name, size, 700)
    (_, second) = file.tails  # too short: all of the footer by one more request
    assert kept.footer.file_size - kept.footer.offset <= second < 10_000
    assert key == (name, size, b'"1"')
    assert kept.footer.num_rows == 250
    assert kept_version(name, size) == b'"1"'
    longer = Remote(write(tmp_path / "g.parquet", 250), b'"2"')
    first, _ = load_remote_footer(longer, str(tmp_path / "g.parquet"), size, 10)
    assert longer.tails == [longer.tails[0]]
    assert longer.tails[0] > 700  # the folder's first file has told
    assert first.tail is not None
    start, content = first.tail
    assert start == first.footer.indexes_start()
    assert content == longer.content[start:]
    assert content
    again = Remote(path, is_known=True)
    assert load_remote_footer(again, name, size, 700) == (kept, key)
    assert again.tails == again.reads == []
    forget_footer(name, size)
    assert kept_version(name, size) is None
    load_remote_footer(Remote(path), name, size, 700)


def test_a_remote_footer_without_a_version_is_not_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "f.parquet", 10)
    load_remote_footer(Remote(path, b""), str(path), path.stat().st_size, 700)
    assert kept_version(str(path), path.stat().st_size) is None


def test_columns_are_made_once_for_a_schema_and_a_name_mapping(tmp_path: Path) -> None:
    path = write(tmp_path / "f.parquet", 10)
    kept, _ = load(Counted(path), path)
    one = Schema(schema_id=0, fields=(Field(id=1, name="a", type=Primitive(name="long")),))
    other = Schema(schema_id=1, fields=(Field(id=1, name="a", type=Primitive(name="long"), required=True),))
    mapping = [{"field-id": 7, "names": ["b"]}]
    read: list[int] = []

    def ids(schema: Schema, names: object) -> list[int | None]:
        def read_schema() -> pa.Schema:
            read.append(1)
            return pq.read_schema(path)

        context: Any = SimpleNamespace(schema=schema, name_mapping=names)
        return [field.id for field in kept.columns(context, str(path), read_schema).fields]

    for _ in range(2):
        assert ids(one, None) == [1, None]
        assert ids(Schema(schema_id=0, fields=one.fields), None) == [1, None]
    assert len(read) == 1
    assert ids(one, mapping) == [None, 7]
    assert ids(one, list(mapping)) == [None, 7]
    assert len(read) == 2
    assert ids(other, mapping) == [None, 7]
    assert ids(one, None) == [1, None]
    assert len(read) == 4
