"""Opening files: bytes, moved tables, remote file systems by their contract, errors."""

from __future__ import annotations

import contextlib
import os
import pickle
import struct
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs
import pytest

from twostage import errors
from twostage.storage import file_systems, retry_budget, stores
from twostage.storage.files import (
    STALE_SECONDS,
    exists,
    is_half_written,
    list_folder,
    locate,
    open_file,
    read_all,
    read_range,
    remove_stale,
    translate_errors,
    write_stream,
)
from twostage.task import Storage

if TYPE_CHECKING:
    from collections.abc import Iterator

CANARY = "canary-4711-secret"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    folder = tmp_path / "t"
    (folder / "data" / "p=1").mkdir(parents=True)
    (folder / "data" / "p=1" / "f.parquet").write_bytes(bytes(range(100)))
    (folder / "empty").write_bytes(b"")
    return folder


def test_reads_local_files_in_every_spelling(table: Path) -> None:
    storage = Storage(root=str(table))
    for prefix in ("", "file:", "file://", "file://localhost"):
        path = f"{prefix}{table}/data/p=1/f.parquet"
        assert read_all(storage, path) == bytes(range(100))
        assert read_range(storage, path, 10, 5) == bytes(range(10, 15))
        assert exists(storage, path)
        assert locate(storage, path) == str(table / "data/p=1/f.parquet")
        with open_file(storage, path) as file:
            assert file.size() == 100
            assert file.read_at(3, 97) == bytes([97, 98, 99])
    assert read_all(storage, f"{table}/empty") == b""
    assert read_range(storage, f"{table}/empty", 0, 0) == b""


def test_percent_signs_in_local_uris_are_literal(table: Path) -> None:
    (table / "a%20b").write_bytes(b"literal")
    (table / "a b").write_bytes(b"decoded")
    assert read_all(Storage(root=str(table)), f"file://{table}/a%20b") == b"literal"


@pytest.mark.parametrize(("offset", "length"), [(90, 11), (101, 0), (-1, 5), (0, -1), (0, 2**62), (2**62, 1)])
def test_a_range_beyond_the_file_is_corruption(table: Path, offset: int, length: int) -> None:
    with pytest.raises(errors.CorruptFileError) as caught:
        read_range(Storage(root=str(table)), f"{table}/data/p=1/f.parquet", offset, length)
    assert caught.value.code == "CORRUPT_FILE"


def test_read_all_has_a_limit(table: Path) -> None:
    path = f"{table}/data/p=1/f.parquet"
    assert len(read_all(Storage(root=str(table)), path, limit=100)) == 100
    with pytest.raises(errors.ResourceLimitError, match="99 bytes: 100"):
        read_all(Storage(root=str(table)), path, limit=99)


def test_missing_folder_pipe_and_unreadable(table: Path) -> None:
    storage = Storage(root=str(table))
    with pytest.raises(errors.MissingFileError) as missing:
        open_file(storage, f"{table}/absent")
    assert missing.value.path == f"{table}/absent"
    assert missing.value.hint is None
    with pytest.raises(errors.MissingFileError, match="allow-moved-paths"):
        open_file(storage, f"{table.parent}/other/absent")
    with pytest.raises(errors.StorageError, match="NOT_A_FILE"):
        open_file(storage, str(table))
    os.mkfifo(table / "pipe")
    with pytest.raises(errors.StorageError, match="NOT_A_FILE"):  # opening it would wait for a writer
        open_file(storage, f"{table}/pipe")
    assert list_folder(storage, f"{table}/absent") == []
    assert [(entry.name, entry.is_folder) for entry in list_folder(storage, str(table))] == [
        ("data", True),
        ("empty", False),
        ("pipe", False),
    ]


@pytest.mark.parametrize(
    "written_at", ["s3a://lake/db/t", "/old/t", "file:///old/t", "hdfs://n:8020/old/t", "old/t"]
)
def test_moved_table(table: Path, written_at: str) -> None:
    storage = Storage(root=str(table), moved_from=written_at)
    expected = str(table / "data/p=1/f.parquet")
    path = written_at.partition("://")[2].partition("/")[2] if "://" in written_at else written_at.lstrip("/")
    for written in (f"{written_at}/data/p=1/f.parquet", f"s3://other-bucket/{path}/data/p=1/f.parquet"):
        assert locate(storage, written) == expected
        assert locate(storage, written) == expected
    assert locate(storage, f"{written_at}/data/absent") == str(table / "data/absent")


def test_table_moved_twice_is_found_by_its_longest_suffix(table: Path) -> None:
    (table / "f.parquet").write_bytes(b"shorter suffix")
    storage = Storage(root=str(table), moved_from="s3://second/t")
    assert locate(storage, "s3://first/db/t/data/p=1/f.parquet") == str(table / "data/p=1/f.parquet")
    assert locate(storage, "s3://first/db/t/elsewhere/f.parquet") == str(table / "f.parquet")
    with pytest.raises(errors.MissingFileError, match="s3://second/t"):
        locate(storage, "s3://first/db/t/data/absent.parquet")


def test_a_file_under_the_location_is_never_replaced_by_a_namesake(table: Path) -> None:
    (table / "f.parquet").write_bytes(b"namesake")
    storage = Storage(root=str(table), moved_from="s3://b/t")
    assert locate(storage, "s3://b/t/data/p=2/f.parquet") == str(table / "data/p=2/f.parquet")


def test_moved_files_in_another_allowed_folder(table: Path) -> None:
    beside = table.parent / "shared" / "u" / "data"
    beside.mkdir(parents=True)
    (beside / "g.parquet").write_bytes(b"g")
    plain = Storage(root=str(table), moved_from="s3://b/u")
    assert locate(plain, "s3://b/u/data/g.parquet") == str(table / "data/g.parquet")
    storage = Storage(root=str(table), moved_from="s3://b/u", allowed=(str(table.parent / "shared"),))
    found = locate(storage, "s3://b/u/data/g.parquet")
    assert found == str(beside / "g.parquet")
    assert read_all(storage, found) == b"g"
    assert locate(storage, "s3://b/u/data/p=1/f.parquet") == str(table / "data/p=1/f.parquet")


@pytest.mark.parametrize(
    "written",
    ["s3://b/t/../secret", "s3://b/t/data/../../secret", "/x/../../secret", "s3://b/t/.."],
)
def test_moved_paths_with_dots_are_refused(table: Path, written: str) -> None:
    (table.parent / "secret").write_bytes(b"secret")
    with pytest.raises(errors.ForbiddenLocationError):
        locate(Storage(root=str(table), moved_from="s3://b/t"), written)


def test_a_symbolic_link_does_not_lead_out_of_a_moved_table(table: Path) -> None:
    (table.parent / "secret").write_bytes(b"secret")
    (table / "data" / "link").symlink_to(table.parent / "secret")
    (table / "data" / "inner").symlink_to(table / "data" / "p=1")
    storage = Storage(root=str(table), moved_from="s3://b/t")
    with pytest.raises(errors.ForbiddenLocationError, match="symbolic link"):
        locate(storage, "s3://b/t/data/link")
    assert locate(storage, "s3://b/t/data/inner/f.parquet") == str(table / "data/inner/f.parquet")


def test_the_table_folder_itself_may_be_a_link(table: Path) -> None:
    (table.parent / "alias").symlink_to(table)
    storage = Storage(root=str(table.parent / "alias"), moved_from="s3://b/t")
    assert locate(storage, "s3://b/t/data/p=1/f.parquet").endswith("alias/data/p=1/f.parquet")


class Remote:
    """A file system that counts its making and serves a local folder as ``bucket/key``, or fails."""

    type_name = "s3"

    def __init__(self, folder: Path, error: Exception | None = None) -> None:
        self.files = pyarrow.fs.SubTreeFileSystem(str(folder), pyarrow.fs.LocalFileSystem())
        self.error = error
        self.made: list[tuple[str, str]] = []

    def connect(self, properties: Any, location: Any) -> Any:
        assert properties is not None
        self.made.append((location.scheme, location.authority))
        return self if self.error else self.files

    def open_input_file(self, name: str) -> Any:
        assert name
        raise self.error  # type: ignore[misc]


def serve(monkeypatch: pytest.MonkeyPatch, remote: Remote) -> None:
    monkeypatch.setattr(file_systems, "_connect", remote.connect)
    monkeypatch.setattr(file_systems, "_file_systems", {})
    monkeypatch.setattr(stores, "store_properties", lambda *_, **__: "the test has a file system of its own")
    monkeypatch.setattr(stores, "_clients", {})


def test_remote_files(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remote = Remote(table.parent)  # the folder t is the bucket t
    serve(monkeypatch, remote)
    storage = Storage(root="s3://t/data", properties={"s3.region": "x"})
    assert read_all(storage, "s3://t/data/p=1/f.parquet") == bytes(range(100))
    assert read_range(storage, "s3://t/data/p=1/f.parquet", 1, 2) == b"\1\2"
    assert exists(storage, "s3://t/data/p=1/f.parquet")
    assert not exists(storage, "s3://t/data/p=1")
    assert [entry.name for entry in list_folder(storage, "s3://t/data")] == ["p=1"]
    assert list_folder(storage, "s3://t/absent") == []
    assert locate(storage, "s3a://t/x") == "s3a://t/x"
    with pytest.raises(errors.MissingFileError):
        open_file(storage, "s3://t/data/absent")
    assert remote.made == [("s3", "t")]
    read_all(Storage(root="s3://t/data", properties={"s3.region": "y"}), "s3://t/data/p=1/f.parquet")
    assert len(remote.made) == 2
    moved = Storage(root="s3://t", moved_from="/warehouse/t")
    assert locate(moved, "/warehouse/t/data/p=1/f.parquet") == "s3://t/data/p=1/f.parquet"
    assert locate(moved, "/first/data/p=1/f.parquet") == "s3://t/data/p=1/f.parquet"


AWS = "When reading information for key 'k' in bucket 'b': AWS Error {} during HeadObject operation: {}"


@pytest.mark.parametrize(
    ("error", "kind", "code", "transient"),
    [
        (FileNotFoundError(2, "no"), errors.MissingFileError, "MISSING_FILE", None),
        (NotADirectoryError(20, "no"), errors.MissingFileError, "MISSING_FILE", None),
        (OSError(AWS.format("NO_SUCH_KEY", "No key")), errors.MissingFileError, "MISSING_FILE", None),
        (OSError(AWS.format("RESOURCE_NOT_FOUND", "x")), errors.MissingFileError, "MISSING_FILE", None),
        (
            OSError(AWS.format("ACCESS_DENIED", "No response body.")),
            errors.StorageError,
            "ACCESS_DENIED",
            False,
        ),
        (OSError(AWS.format("UNKNOWN (HTTP status 403)", "x")), errors.StorageError, "ACCESS_DENIED", False),
        (OSError(AWS.format("UNKNOWN", "ExpiredToken")), errors.StorageError, "CREDENTIALS_EXPIRED", False),
        (PermissionError(13, "no"), errors.StorageError, "ACCESS_DENIED", False),
        (
            OSError(AWS.format("NETWORK_CONNECTION", "curlCode: 28")),
            errors.StorageError,
            "STORAGE_FAILED",
            True,
        ),
        (OSError(AWS.format("SERVICE_UNAVAILABLE", "x")), errors.StorageError, "STORAGE_FAILED", True),
        (OSError(5, "Input/output error"), errors.StorageError, "STORAGE_FAILED", True),
        (TimeoutError("late"), errors.StorageError, "STORAGE_FAILED", True),
        (ConnectionResetError(104, "reset"), errors.StorageError, "STORAGE_FAILED", True),
        (OSError("something else"), errors.StorageError, "STORAGE_FAILED", False),
        (pa.ArrowInvalid("bad name"), errors.StorageError, "STORAGE_FAILED", False),
        (MemoryError("no"), errors.ResourceLimitError, "OUT_OF_MEMORY", None),
    ],
)
def test_remote_failures(
    table: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    kind: type[errors.TwoStageError],
    code: str,
    transient: bool | None,
) -> None:
    serve(monkeypatch, Remote(table, error))
    monkeypatch.setattr(retry_budget, "PATIENCE_SECONDS", 0.05)
    with pytest.raises(kind) as caught:
        open_file(Storage(root="s3://b/t"), "s3://b/t/k")
    assert caught.value.code == code
    assert getattr(caught.value, "transient", None) is transient
    assert caught.value.path == "s3://b/t/k"
    assert caught.value.__cause__ is None
    assert pickle.loads(pickle.dumps(caught.value)).code == code


@pytest.mark.parametrize(
    "error",
    [
        pa.ArrowInvalid("Parquet magic bytes not found"),
        pa.ArrowKeyError("k"),
        pa.ArrowIndexError("i"),
        pa.ArrowTypeError("t"),
        pa.ArrowSerializationError("s"),
        OSError("Couldn't deserialize thrift: TProtocolException"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        struct.error("unpack requires a buffer of 4 bytes"),
        zlib.error("incorrect header check"),
        EOFError("end"),
        OverflowError("int too big"),
        KeyError("field"),
        IndexError("list"),
        ValueError("bad"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("path", ["/t/f.parquet", "s3://b/f.parquet"])
def test_damage_is_corruption(error: Exception, path: str) -> None:
    with pytest.raises(errors.CorruptFileError) as caught, translate_errors(path, "fetch"):
        raise error
    assert (caught.value.path, caught.value.stage) == (path, "fetch")
    assert type(error).__name__ in str(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        pa.ArrowNotImplementedError("codec"),
        OSError(
            "While LZO compression is supported, it is currently not supported by the C++ implementation."
        ),
        OSError("Not yet implemented: Unsupported encoding."),
    ],
)
@pytest.mark.parametrize("path", ["/t/f.parquet", "s3://b/f.parquet"])
def test_what_arrow_cannot_read_is_not_called_damaged(error: Exception, path: str) -> None:
    with pytest.raises(errors.UnsupportedFeatureError, match="UNREADABLE_BY_ARROW") as caught:
        with translate_errors(path, "fetch"):
            raise error
    assert (caught.value.path, caught.value.stage) == (path, "fetch")


def test_every_arrow_exception_is_mapped() -> None:
    kinds = [getattr(pa.lib, name) for name in dir(pa.lib) if name.startswith("Arrow")]
    kinds = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Exception)]
    assert len(kinds) > 8
    for kind in kinds:
        if kind is pa.lib.ArrowCancelled:
            continue  # the user's own interrupt
        with pytest.raises(errors.TwoStageError), translate_errors("/f", "fetch"):
            raise kind("text")


def test_our_own_errors_pass_unchanged() -> None:
    mine = errors.CorruptFileError("CORRUPT_VECTOR", "bad", path="/v", stage="deletes")
    with pytest.raises(errors.CorruptFileError) as caught, translate_errors("/f", "fetch"):
        raise mine
    assert caught.value is mine


def test_secrets_stay_out_of_errors_and_reprs(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    properties = {"s3.secret-access-key": CANARY, "s3.endpoint": "http://x", "s3.session-token": f"{CANARY}2"}
    storage = Storage(root="s3://b/t", properties=properties)
    assert CANARY not in repr(storage)
    text = f"HTTP 500 for http://me:{CANARY}@x/b?X-Amz-Signature={CANARY} with {CANARY}2 and {CANARY}"
    serve(monkeypatch, Remote(table, OSError(text)))
    with pytest.raises(errors.StorageError) as caught:
        open_file(storage, "s3://b/t/k")
    assert CANARY not in str(caught.value)
    assert CANARY not in repr(caught.value)
    assert "HTTP 500" in str(caught.value)


def test_what_metadata_says_is_escaped_in_hints_too(table: Path) -> None:
    storage = Storage(root=str(table), moved_from=f"s3://u:{CANARY}@b/t\x1b[2J\n")
    with pytest.raises(errors.MissingFileError) as caught:
        locate(storage, "s3://first/absent")
    assert not {"\x1b", "\n"} & set(str(caught.value))
    assert CANARY not in str(caught.value)


def test_local_files_load_no_network_library() -> None:
    script = (
        "import sys; from twostage.storage.files import read_all, locate; from twostage.task import Storage\n"
        "storage = Storage(root='/'); assert read_all(storage, locate(storage, sys.executable))[:1]\n"
        "print([name for name in ('pyiceberg', 'pyarrow.dataset', 'pyarrow.fs') if name in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(errors.__file__).parents[1])}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "[]"


def test_a_listing_leaves_out_what_vanishes_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit renames temporary files in the folder that is listed; and a link may lead nowhere, as an editor's lock does."""
    for name in ("v1.metadata.json", "v2.metadata.json", "tmp.metadata.json"):
        (tmp_path / name).touch()
    (tmp_path / ".#lock").symlink_to(tmp_path / "nobody@host.1234")
    real = os.scandir

    @contextlib.contextmanager
    def commit(folder: str) -> Iterator[list[os.DirEntry[str]]]:
        with real(folder) as entries:
            found = list(entries)
        (tmp_path / "tmp.metadata.json").unlink()
        yield found

    monkeypatch.setattr(os, "scandir", commit)
    names = [entry.name for entry in list_folder(Storage(), str(tmp_path))]
    assert names == ["v1.metadata.json", "v2.metadata.json"]


def test_only_what_was_left_half_written_long_ago_is_removed(tmp_path: Path) -> None:
    place = Storage(root=str(tmp_path))
    seen: list[str] = []

    def parts() -> Iterator[bytes]:
        (half,) = os.listdir(tmp_path)
        seen.append(half)
        yield b"whole"
        assert remove_stale(place, str(tmp_path)) == 0, "it is being written"
        yield b" and more"

    write_stream(place, str(tmp_path / "a.json"), parts())
    assert is_half_written(seen[0])
    assert (tmp_path / "a.json").read_bytes() == b"whole and more"
    long_ago = time.time() - STALE_SECONDS - 60
    for name in (seen[0], "a.json", "somebody.part"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (long_ago, long_ago))
    assert remove_stale(place, str(tmp_path)) == 1
    assert sorted(os.listdir(tmp_path)) == ["a.json", "somebody.part"]
