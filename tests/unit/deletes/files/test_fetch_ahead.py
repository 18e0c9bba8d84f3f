"""Contents of delete files where no task schedules the reads: in order, by as many requests at once as the option says."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from scan_values import context_of, delete_of
from twostage.deletes.files import contents
from twostage.deletes.files.contents import are_remote, fetch_ahead
from twostage.errors import MissingFileError
from twostage.storage.location import parse_location
from twostage.task import DeleteFile


def remote(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let local files pass for an object store's."""
    monkeypatch.setattr(contents, "parse_location", lambda path: parse_location(f"s3://bucket{path}"))


def fetched(folder: Path, sizes: Sequence[int], **settings: Any) -> list[bytes | None]:
    deletes = []
    for number, size in enumerate(sizes):
        (folder / f"{number}.parquet").write_bytes(bytes([number]) * size)
        deletes.append(delete_of(folder / f"{number}.parquet", "equality"))
    found = list(fetch_ahead(context_of(folder, settings=settings), deletes))
    assert [delete for delete, _ in found] == deletes
    return [content for _, content in found]


def test_remote_files_come_in_order_with_their_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for large ones, of which a part may do, and those of whose size nothing is known."""
    remote(monkeypatch)
    monkeypatch.setattr(contents, "MAX_WHOLE_FILE_BYTES", 100)
    sizes = [5, 100, 101, 0, 7, 8, 9, 10, 11, 12]
    right = [bytes([number]) * size if 0 < size <= 100 else None for number, size in enumerate(sizes)]
    for parallel in (2, 4, 50):
        assert fetched(tmp_path, sizes, parallel_requests=parallel) == right


@pytest.mark.parametrize("case", ["local", "one", "one request at a time"])
def test_where_fetching_ahead_gains_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    if case != "local":
        remote(monkeypatch)
    parallel = 1 if case == "one request at a time" else 4
    sizes = [5] if case == "one" else [5, 6, 7]
    assert fetched(tmp_path, sizes, parallel_requests=parallel) == [None] * len(sizes)


def test_no_more_requests_than_the_option_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remote(monkeypatch)
    running, most, lock, real = [0], [0], threading.Lock(), contents.files.read_all

    def counted(*given: Any, **named: Any) -> bytes:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        content = real(*given, **named)
        with lock:
            running[0] -= 1
        return content

    monkeypatch.setattr(contents.files, "read_all", counted)
    assert fetched(tmp_path, range(1, 40), parallel_requests=3) == [bytes([n]) * (n + 1) for n in range(39)]
    assert 1 <= most[0] <= 3


def test_who_stops_reading_ends_the_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remote(monkeypatch)
    for number in range(5):
        (tmp_path / f"{number}.parquet").write_bytes(b"1234")
    deletes = [delete_of(tmp_path / f"{number}.parquet", "equality") for number in range(5)]
    before = set(threading.enumerate())
    ahead = fetch_ahead(context_of(tmp_path), deletes)
    next(ahead)
    ahead.close()
    assert set(threading.enumerate()) <= before


def test_local_and_remote_files(tmp_path: Path) -> None:
    local = delete_of(tmp_path / "d.parquet", "equality")
    assert not are_remote([])
    assert not are_remote([local])
    assert are_remote([DeleteFile(content="equality", format="parquet", path="s3://b/d", written_path="s3://b/d",
                                  file_size=1, record_count=1, sequence_number=1)])  # fmt: skip


def test_a_missing_file_fails_in_its_turn_and_ends_the_others(tmp_path: Path) -> None:
    context = context_of(tmp_path)
    deletes = [delete_of(tmp_path / f"{number}.parquet", "equality", file_size=9) for number in range(3)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contents, "parse_location", lambda path: parse_location(f"s3://bucket{path}"))
        before = set(threading.enumerate())
        with pytest.raises(MissingFileError, match=r"0\.parquet"):
            list(fetch_ahead(context, deletes))
        assert set(threading.enumerate()) <= before
