"""The files of one table: opened, read, listed, written, all through one policy and with one set of errors.

Takes the scan's `Storage` and a path; gives open files, bytes, folder listings, and where a written path is now. The
rules: every path passes `check_location` first, and no library's exception leaves this module: a missing file is
`MissingFileError`, no access or no network is `StorageError`, and a library's text is masked, the scan's secrets
included. Local files need neither PyIceberg nor a network library (see `file_systems`).
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from twostage.errors import (
    CorruptFileError,
    MissingFileError,
    ResourceLimitError,
    StorageError,
    TwoStageError,
)
from twostage.storage.driver_reads import count_listing, driver_reads
from twostage.storage.errors import hide_secrets, name_snapshot, translate_errors
from twostage.storage.file_systems import file_system
from twostage.storage.folders import FolderEntry, is_remote_file, list_remote
from twostage.storage.location import (
    Location,
    canonical,
    canonical_for,
    canonical_moved,
    check_location,
    join,
    parse_location,
    refuse,
)
from twostage.storage.object_file import open_object
from twostage.storage.ranged_object import RangedObject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from twostage.task import Storage

_PART_PREFIX, _PART_SUFFIX = ".twostage-", ".part"
STALE_SECONDS = 3600.0
"""A writer writes to its file more often than this: an older half-written one was left by a process that died."""

__all__ = [
    "STALE_SECONDS",
    "FolderEntry",
    "canonical",
    "canonical_for",
    "canonical_moved",
    "check_unchanged",
    "exists",
    "hide_secrets",
    "is_half_written",
    "list_folder",
    "locate",
    "missing_bucket",
    "modified",
    "name_snapshot",
    "open_file",
    "read_all",
    "read_range",
    "remove",
    "remove_stale",
    "stamp",
    "translate_errors",
    "version_of",
    "write_all",
    "write_stream",
]


def locate(storage: Storage, written_path: str) -> str:
    """Return where the file is now that the metadata names `written_path`.

    Without moved paths that is the path itself, if the policy allows it. With them it is the same path relative to the
    table's folder. A path that does not begin with the location written in the metadata is looked for by its longest
    suffix that exists, in the table's folder and then in the folders of ``storage.allowed``.

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
    """Return a relative path inside a folder; a symbolic link that leads out of the folder is refused."""
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
        MissingFileError: It does not exist.
        StorageError: No access, no network, not a file.
    """
    location = check_location(storage, path)
    if not location.is_local:
        return open_object(storage, path)
    with _transport_errors(storage, path):
        # A pipe or device is refused, because reading it might block for ever.
        if not stat.S_ISREG(os.stat(location.path).st_mode):  # noqa: PTH116 (2 µs; a Path triples it)
            raise StorageError("NOT_A_FILE", "Path is a folder or a device", path=path, stage="storage")
        # No memory map: a file that is truncated meanwhile would kill the process.
        return pa.OSFile(location.path, "rb")


def version_of(file: pa.NativeFile) -> bytes:
    """Return the ETag of an open object; empty for a local file.

    It came with the size when the object was opened, so this takes no request.
    """
    found = file.metadata() or {}
    return next((bytes(value) for key, value in found.items() if str(key).lower() == "etag"), b"")


def check_unchanged(storage: Storage, path: str, version: bytes) -> None:
    """Refuse an object that was replaced since it was opened; takes one request of one byte, none for a local file.

    Ranges of two different objects would make rows that no file ever held, and page checksums would not notice. An
    object that was removed by now was read completely before: that is not an error.

    Args:
        storage: The scan's.
        path: The object.
        version: What `version_of` returned when it was opened.

    Raises:
        CorruptFileError: The object was replaced.
    """
    if not version:
        return
    now = b""
    # One that has no bytes by now is another one, too.
    with contextlib.suppress(CorruptFileError), driver_reads() as reads:
        try:
            now = RangedObject(reads, storage, path).version()
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
        CorruptFileError: The file ends before the range does, or the range is negative.
    """
    if not parse_location(path).is_local and offset >= 0 and length > 0:
        with driver_reads() as reads:
            (found,) = reads.ask(reads.file(storage, path), [(offset, length)]).result()
            return bytes(found)
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
    if not parse_location(path).is_local:
        with driver_reads() as reads:
            (found,) = reads.ask_whole(reads.file(storage, path), limit).result()
            return bytes(found)
    with open_file(storage, path) as file, _transport_errors(storage, path):
        size = file.size()
        if limit is not None and size > limit:
            raise ResourceLimitError(
                "FILE_TOO_LARGE", f"File is larger than {limit} bytes: {size}", path=path, stage="storage"
            )
        return bytes(file.read_at(size, 0)) if size else b""


def write_all(storage: Storage, path: str, data: bytes) -> None:
    """Write a whole file, or leave what was there; only for folders that the user names, never for a table's files.

    Raises:
        StorageError: No access, no network, no space.
    """
    write_stream(storage, path, (data,))


def write_stream(storage: Storage, path: str, parts: Iterable[bytes | memoryview]) -> None:
    """Write a whole file in parts, or leave what was there.

    Others see a local file whole or not at all. An object whose parts end in an error may be there cut short: what is
    written here says itself where it ends.

    Raises:
        StorageError: No access, no network, no space.
    """
    location = check_location(storage, path)
    with _transport_errors(storage, path):
        if not location.is_local:
            with file_system(storage, location).open_output_stream(location.remote_name) as stream:
                for part in parts:
                    stream.write(part)
            return
        os.makedirs(os.path.dirname(location.path), exist_ok=True)  # noqa: PTH103, PTH120
        with tempfile.NamedTemporaryFile(
            dir=os.path.dirname(location.path),  # noqa: PTH120
            prefix=_PART_PREFIX,
            suffix=_PART_SUFFIX,
            delete=False,
        ) as file:
            try:
                for part in parts:
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
                os.replace(file.name, location.path)  # noqa: PTH105
            except BaseException:
                os.unlink(file.name)  # noqa: PTH108
                raise


def is_half_written(name: str) -> bool:
    """Return whether a local file has the name that `write_stream` gives one until it is whole.

    >>> is_half_written(".twostage-k2_x91ab.part"), is_half_written("columns-3.values.json")
    (True, False)
    """
    return name.startswith(_PART_PREFIX) and name.endswith(_PART_SUFFIX)


def remove_stale(storage: Storage, folder: str, is_one: Callable[[str], bool] = is_half_written) -> int:
    """Remove what processes that died left half written in a folder that the user names; return how many files.

    Args:
        storage: Of the folder.
        folder: The folder; what is inside its folders stays.
        is_one: Tells by a file's name whether it is half written. A young one is being written, and stays.
    """
    now = time.time()
    stale = [
        entry.name
        for entry in list_folder(storage, folder)
        if not entry.is_folder and is_one(entry.name) and now - entry.modified / 1e9 > STALE_SECONDS
    ]
    for name in stale:
        remove(storage, join(folder, name))
    return len(stale)


def remove(storage: Storage, path: str) -> None:
    """Remove a file from a folder that the user names; one that does not exist is not an error."""
    location = check_location(storage, path)
    with contextlib.suppress(MissingFileError), _transport_errors(storage, path):
        if location.is_local:
            os.unlink(location.path)  # noqa: PTH108
        else:
            file_system(storage, location).delete_file(location.remote_name)


def exists(storage: Storage, path: str) -> bool:
    """Return whether a located path is a file."""
    location = check_location(storage, path)
    if location.is_local:
        return os.path.isfile(location.path)  # noqa: PTH113 (a Path costs more than the call)
    with _transport_errors(storage, path):
        return is_remote_file(storage, location, path)


def missing_bucket(storage: Storage, path: str) -> str | None:
    """Return the bucket or container of a remote path if it does not exist; None if it does, or that is not known.

    A listing cannot tell a missing bucket from an empty one.
    """
    location = check_location(storage, path)
    if location.is_local or location.is_hadoop or not location.authority:
        return None
    import pyarrow.fs  # noqa: PLC0415

    with contextlib.suppress(TwoStageError), _transport_errors(storage, path):
        info = file_system(storage, location).get_file_info(replace(location, path="").remote_name)
        if info.type == pyarrow.fs.FileType.NotFound:
            return f"{location.scheme}://{location.authority}"
    return None


def modified(path: str) -> int:
    """Return when a located local file was changed, in nanoseconds since 1970; 0 if it is remote or missing.

    It is part of the key of whatever a process keeps of a file: a table that was created anew in the same folder may
    have files of the same names and sizes. Iceberg's own writers never use a name twice, so remote files take no request.
    """
    location = parse_location(path)
    if not location.is_local:
        return 0
    try:
        return os.stat(location.path).st_mtime_ns  # noqa: PTH116 (2 µs; a Path triples it)
    except OSError:
        return 0


def stamp(path: str) -> tuple[int, ...]:
    """Return what tells a located local file from any other that was or will be there; empty if it is remote or missing.

    When it was written and when it was changed in any way (nanoseconds since 1970), and its inode: a copy that keeps the
    time of writing is told apart, too. For what outlives a process, where `modified` would not do.
    """
    location = parse_location(path)
    if not location.is_local:
        return ()
    try:
        found = os.stat(location.path)  # noqa: PTH116 (2 µs; a Path triples it)
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def list_folder(storage: Storage, path: str) -> list[FolderEntry]:
    """Return the entries of a folder, by name; a missing folder has none."""
    location = check_location(storage, path)
    with _transport_errors(storage, path):
        if location.is_local:
            try:
                with os.scandir(location.path) as entries:
                    found = [one for entry in entries if (one := _local_entry(entry)) is not None]
            except (FileNotFoundError, NotADirectoryError):
                return []
        else:
            found = list_remote(storage, location, path)
            count_listing()
    return sorted(found, key=lambda entry: entry.name)


def _local_entry(entry: os.DirEntry[str]) -> FolderEntry | None:
    """Return an entry of a local folder; None if it is gone by now, as a writer's temporary file, or a link that leads nowhere."""
    try:
        status = entry.stat()
    except FileNotFoundError:
        return None
    is_folder = stat.S_ISDIR(status.st_mode)
    return FolderEntry(entry.name, is_folder, status.st_mtime_ns, 0 if is_folder else status.st_size)


@contextlib.contextmanager
def _transport_errors(storage: Storage, path: str) -> Iterator[None]:
    """Turn what fails while bytes are moved into our errors; none of it means that the file is damaged."""
    try:
        with translate_errors(path, "storage", storage=storage):
            yield
    except CorruptFileError as error:
        text = error.message.removeprefix("File is damaged: ")
        raise StorageError("STORAGE_FAILED", f"Storage failed: {text}", path=path, stage="storage") from None
