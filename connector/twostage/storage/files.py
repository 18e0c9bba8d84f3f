"""Opens the files of one table, through one policy, with one set of errors.

Takes the scan's `Storage` and a path; gives open files, bytes, folder listings and the place where a
written path lies now. The rules: every path passes `check_location` first, and no library's exception
leaves this module — not there is `MissingFileError`, no access or no network is `StorageError`, and the
library's text is masked, the scan's secrets included. Local files need neither pyiceberg nor a network
library; pyiceberg costs a second to import and is loaded only where a remote file system is opened.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from twostage.errors import (
    CorruptFileError,
    MissingFileError,
    ResourceLimitError,
    StorageError,
    TwoStageError,
    UnsupportedFeatureError,
)
from twostage.storage.errors import hide_secrets, name_snapshot, translate_errors
from twostage.storage.location import (
    Location,
    canonical,
    canonical_for,
    canonical_moved,
    check_location,
    is_under,
    join,
    parse_location,
    refuse,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from twostage.task import Storage

__all__ = [
    "FolderEntry",
    "canonical",
    "canonical_for",
    "canonical_moved",
    "check_unchanged",
    "exists",
    "hide_secrets",
    "list_folder",
    "locate",
    "missing_bucket",
    "modified",
    "name_snapshot",
    "open_file",
    "read_all",
    "read_range",
    "remove",
    "translate_errors",
    "version_of",
    "write_all",
]

CONNECT_SECONDS = "10"
REQUEST_SECONDS = "60"
_BUCKETS = ("s3", "gs", "oss")
_NO_HADOOP = re.compile(r"(?i)load lib(?:jvm|hdfs)")
MAX_FILE_SYSTEMS = 64
"""Kept open per process: short-lived credentials make a new one each time they are renewed."""

_file_systems: dict[Any, Any] = {}
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """One name in a folder; `modified` is in nanoseconds since the epoch, 0 where unknown."""

    name: str
    is_folder: bool
    modified: int


def locate(storage: Storage, written_path: str) -> str:
    """Return where the file lies that the metadata names `written_path`.

    Without moved paths this is the path itself, once the policy allowed it. With them it is the same path
    relative to the table's folder; a path that doesn't begin with the location written in the metadata is
    looked for by its longest suffix that exists, there and then in the folders of ``storage.allowed``.

    Raises:
        ForbiddenLocationError: The policy refuses it.
        MissingFileError: With moved paths, no suffix of it exists in the table's folder.
    """
    if storage.moved_from is None:
        location = check_location(storage, written_path)
        return location.path if location.is_local else _uri(location)
    if ".." in parse_location(written_path).path.split("/"):
        raise refuse(written_path, "Path holds '..'", "The metadata is damaged, or not to be trusted.")
    old = canonical_moved(storage.moved_from).rstrip("/") + "/"
    path = canonical_moved(written_path)
    if path.startswith(old):
        candidate = _inside(storage, storage.root, path[len(old) :])
        if not storage.allowed or exists(storage, candidate):
            return candidate
        folders = storage.allowed
    else:
        folders = (storage.root, *storage.allowed)
    segments = path.strip("/").split("/")
    for folder in folders:
        for start in range(len(segments)):
            candidate = _inside(storage, folder, "/".join(segments[start:]))
            if exists(storage, candidate):
                return candidate
    raise MissingFileError(
        "MISSING_FILE",
        "No part of the written path exists in the table's folder",
        path=written_path,
        stage="storage",
        hint=f"The metadata gives the table's location as {storage.moved_from}; if the file was copied to "
        "another folder than the table's, name that folder in allowed-locations.",
    )


def _inside(storage: Storage, folder: str, relative: str) -> str:
    """Join a folder and a relative path; a symbolic link may not lead out of the folder."""
    path = join(folder, relative)
    location = check_location(storage, path)
    if not location.is_local:
        return _uri(location)
    top = os.path.realpath(parse_location(folder).path)
    if os.path.commonpath((top, os.path.realpath(location.path))) != top:
        raise refuse(path, "Path leaves the table's folder", "A symbolic link leads out of it.")
    return location.path


def _uri(location: Location) -> str:
    return f"{location.scheme}://{location.authority}{location.path}"


def open_file(storage: Storage, path: str) -> pa.NativeFile:
    """Open a located file for random access.

    Raises:
        ForbiddenLocationError: The policy refuses it.
        MissingFileError: It is not there.
        StorageError: No access, no network, not a file.
    """
    location = check_location(storage, path)
    with _transport_errors(storage, path):
        if location.is_local:
            _local_size(location.path, path)
            return pa.OSFile(location.path, "rb")  # a memory map of a file cut short meanwhile kills us
        return _file_system(storage, location).open_input_file(_remote_name(location))


def version_of(file: pa.NativeFile) -> bytes:
    """Return what the storage calls this version of an open object, its ETag; nothing for a local file.

    It came with the size when the object was opened: asking costs no request.
    """
    found = file.metadata() or {}
    return next((bytes(value) for key, value in found.items() if str(key).lower() == "etag"), b"")


def check_unchanged(storage: Storage, path: str, version: bytes) -> None:
    """Refuse an object that is another one now than when it was opened; one request, none for a local file.

    Ranged reads of two objects would be rows that no file ever held, and no checksum of a page tells.

    One that was removed by now was read whole before: that is no error.

    Raises:
        CorruptFileError: The object was replaced.
    """
    if not version:
        return
    try:
        with open_file(storage, path) as file:
            now = version_of(file)
    except MissingFileError:
        return
    if now != version:
        raise CorruptFileError(
            "FILE_CHANGED",
            "File was replaced by another one while it was read",
            path=path,
            stage="storage",
            hint="Iceberg's writers never write a name twice; something else writes into the table's folder.",
        )


def read_range(storage: Storage, path: str, offset: int, length: int) -> bytes:
    """Read exactly `length` bytes at `offset` of a located file.

    Raises:
        CorruptFileError: The file ends before that, or the range is negative.
    """
    with open_file(storage, path) as file, _transport_errors(storage, path):
        size = file.size()
        if offset >= 0 and 0 <= length <= size - offset:
            data = bytes(file.read_at(length, offset))
            if len(data) == length:
                return data
    raise CorruptFileError(
        "CORRUPT_FILE",
        f"File holds fewer bytes than its metadata says: {length} bytes at {offset} of {size}",
        path=path,
        stage="storage",
    )


def read_all(storage: Storage, path: str, *, limit: int | None = None) -> bytes:
    """Read a located file whole.

    Raises:
        ResourceLimitError: It is larger than `limit` bytes.
    """
    with open_file(storage, path) as file, _transport_errors(storage, path):
        size = file.size()
        if limit is not None and size > limit:
            raise ResourceLimitError(
                "FILE_TOO_LARGE", f"File is larger than {limit} bytes: {size}", path=path, stage="storage"
            )
        return bytes(file.read_at(size, 0)) if size else b""


def write_all(storage: Storage, path: str, data: bytes) -> None:
    """Write a file whole, or leave what was there; for places of the user's, never for a table's.

    Raises:
        StorageError: No access, no network, no room.
    """
    location = check_location(storage, path)
    with _transport_errors(storage, path):
        if not location.is_local:
            with _file_system(storage, location).open_output_stream(_remote_name(location)) as stream:
                stream.write(data)
            return
        os.makedirs(os.path.dirname(location.path), exist_ok=True)  # noqa: PTH103, PTH120
        with tempfile.NamedTemporaryFile(dir=os.path.dirname(location.path), delete=False) as file:  # noqa: PTH120
            try:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                os.replace(file.name, location.path)  # noqa: PTH105
            except BaseException:
                os.unlink(file.name)  # noqa: PTH108
                raise


def remove(storage: Storage, path: str) -> None:
    """Remove a file of a place of the user's; one that is gone is no error."""
    location = check_location(storage, path)
    with contextlib.suppress(MissingFileError), _transport_errors(storage, path):
        if location.is_local:
            os.unlink(location.path)  # noqa: PTH108
        else:
            _file_system(storage, location).delete_file(_remote_name(location))


def exists(storage: Storage, path: str) -> bool:
    """Return whether a located path is a file."""
    location = check_location(storage, path)
    if location.is_local:
        return os.path.isfile(location.path)  # noqa: PTH113 (a Path costs more than the call)
    import pyarrow.fs  # noqa: PLC0415

    with _transport_errors(storage, path):
        info = _file_system(storage, location).get_file_info(_remote_name(location))
        return bool(info.type == pyarrow.fs.FileType.File)


def missing_bucket(storage: Storage, path: str) -> str | None:
    """Return the bucket or container of a remote path if it is not there; None if it is, or nobody says.

    To a listing a bucket that is missing looks like an empty one.
    """
    location = check_location(storage, path)
    if location.is_local or location.is_hadoop or not location.authority:
        return None
    import pyarrow.fs  # noqa: PLC0415

    with contextlib.suppress(TwoStageError), _transport_errors(storage, path):
        info = _file_system(storage, location).get_file_info(_remote_name(replace(location, path="")))
        if info.type == pyarrow.fs.FileType.NotFound:
            return f"{location.scheme}://{location.authority}"
    return None


def modified(path: str) -> int:
    """Return when a located local file was changed, in nanoseconds; 0 if it is remote or not there.

    What a process keeps of a file is kept under it: a table made anew in the same folder may have files of
    the same names and sizes. Iceberg's own writers never use a name twice, so remote storage isn't asked.
    """
    location = parse_location(path)
    if not location.is_local:
        return 0
    try:
        return os.stat(location.path).st_mtime_ns  # noqa: PTH116 (2 µs; a Path triples it)
    except OSError:
        return 0


def list_folder(storage: Storage, path: str) -> list[FolderEntry]:
    """Return what a folder holds, by name; an absent folder holds nothing."""
    location = check_location(storage, path)
    with _transport_errors(storage, path):
        if location.is_local:
            try:
                with os.scandir(location.path) as entries:
                    found = [FolderEntry(e.name, e.is_dir(), e.stat().st_mtime_ns) for e in entries]
            except (FileNotFoundError, NotADirectoryError):
                return []
        else:
            import pyarrow.fs  # noqa: PLC0415

            selector = pyarrow.fs.FileSelector(_remote_name(location), allow_not_found=True)
            found = [
                FolderEntry(i.base_name, i.type == pyarrow.fs.FileType.Directory, i.mtime_ns or 0)
                for i in _file_system(storage, location).get_file_info(selector)
            ]
    return sorted(found, key=lambda entry: entry.name)


def _local_size(name: str, path: str) -> int:
    """Return a local file's size; a pipe or device would block the reader for ever."""
    status = os.stat(name)  # noqa: PTH116 (2 µs; a Path triples it)
    if not stat.S_ISREG(status.st_mode):
        raise StorageError("NOT_A_FILE", "Path is a folder or a device", path=path, stage="storage")
    return status.st_size


def _remote_name(location: Location) -> str:
    """Return the name that pyarrow's file system of this scheme takes."""
    if location.is_hadoop:
        return location.path
    container = location.authority.partition("@")[0]  # abfss://container@account.dfs.core.windows.net/…
    return f"{container}{location.path}"


def _file_system(storage: Storage, location: Location) -> Any:
    """Return the process's file system for this scheme, authority and properties."""
    key = (location.scheme, location.authority, frozenset(storage.properties.items()))
    with _lock:
        if key not in _file_systems:
            while len(_file_systems) >= MAX_FILE_SYSTEMS:
                _file_systems.pop(next(iter(_file_systems)))
            _file_systems[key] = _connect(storage.properties, location)
        return _file_systems[key]


def _connect(properties: Mapping[str, str], location: Location) -> Any:
    from pyiceberg.io.pyarrow import PyArrowFileIO  # noqa: PLC0415

    given = dict(properties)
    if location.family == "s3" or location.scheme == "oss":
        given.setdefault("s3.connect-timeout", CONNECT_SECONDS)
        given.setdefault("s3.request-timeout", REQUEST_SECONDS)
        if "s3.endpoint" in given and "client.region" not in given:
            given.setdefault("s3.region", "us-east-1")  # else PyIceberg asks AWS for the bucket's region
    if "@" in location.authority and location.family in _BUCKETS:
        raise UnsupportedFeatureError(
            "CREDENTIALS_IN_PATH",
            "Path holds a login before the bucket's name",
            stage="storage",
            hint="Give it as options: catalog.s3.access-key-id and catalog.s3.secret-access-key.",
        )
    account, _, _ = location.authority.partition("@")[2].partition(".")
    if location.family in ("abfs", "wasb") and account:
        given.setdefault("adls.account-name", account)
    try:
        return PyArrowFileIO(given).fs_by_scheme(location.scheme, location.authority or None)
    except ValueError as error:
        if "Unrecognized filesystem" not in str(error):
            raise StorageError("BAD_STORAGE", f"Storage is misconfigured: {error}", stage="storage") from None
        raise UnsupportedFeatureError(
            "UNSUPPORTED_SCHEME",
            f"No file system for scheme: {location.scheme}",
            stage="storage",
            hint="Known: file, s3, s3a, s3n, gs, abfs, abfss, wasb, wasbs, hdfs, viewfs, oss; if the table "
            "was copied from there, set allow-moved-paths=true.",
        ) from None
    except OSError as error:
        if not (location.is_hadoop and _NO_HADOOP.search(str(error))):
            raise
        raise StorageError(
            "HADOOP_NOT_FOUND",
            f"Hadoop's own library, by which {location.scheme}:// is read, could not be loaded: {str(error).splitlines()[0]}",
            stage="storage",
            hint="Where the driver and the executors run, set JAVA_HOME, HADOOP_HOME (its lib/native holds "
            "libhdfs.so; or ARROW_LIBHDFS_DIR) and CLASSPATH to what `hadoop classpath --glob` prints.",
        ) from None


@contextlib.contextmanager
def _transport_errors(storage: Storage, path: str) -> Iterator[None]:
    """Turn what goes wrong while bytes move into our errors; nothing here is the file's own damage."""
    try:
        with translate_errors(path, "storage", storage=storage):
            yield
    except CorruptFileError as error:
        text = error.message.removeprefix("File is damaged: ")
        raise StorageError("STORAGE_FAILED", f"Storage failed: {text}", path=path, stage="storage") from None
    except MissingFileError as error:
        if storage.moved_from is None and storage.root and not is_under(storage.root, path):
            error.hint = "If the table was copied from there, set allow-moved-paths=true."
        raise
