"""Tables without a catalog: a table folder, a metadata file, or a hadoop warehouse.

Takes a path; returns the table's newest metadata file and its folder. A version hint that names an existing file is
used (a numeric one as a lower bound, as in Iceberg's HadoopTableOperations), because the folder may also have files
that no commit published. Without a usable hint, the highest version number wins, and among equals the file modified
last.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from twostage.errors import MissingFileError, NotFoundError, TwoStageError, nearest
from twostage.storage.files import exists, list_folder, missing_bucket
from twostage.storage.immutable_files import is_named_once, read_immutable, read_version
from twostage.storage.location import join, parent, parse_location

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twostage.storage.files import FolderEntry
    from twostage.task import Storage

METADATA_FOLDER = "metadata"
_METADATA_FILE = re.compile(
    r"(?:v(?P<version>[0-9]+)|(?P<number>[0-9]+)-[^/]+?)"
    r"(?:\.gz\.metadata\.json|\.metadata\.json(?:\.gz)?)"
)
_HINT = "version-hint.text"
_MAX_HINT_BYTES = 1024
_MAX_FOLDERS_ABOVE = 6
"""Searched for a table around a path: a data file is below one folder for each partition field."""


def is_metadata_file(path: str) -> bool:
    """Return whether a path is that of a metadata file rather than a folder."""
    return path.endswith((".json", ".json.gz"))


def table_folder(metadata_path: str) -> str:
    """Return the folder of the table that a metadata file belongs to.

    >>> table_folder("/t/metadata/v1.metadata.json"), table_folder("/x/v1.metadata.json")
    ('/t', '/x')
    """
    folder = parent(metadata_path)
    return parent(folder) if folder.rpartition("/")[2] == METADATA_FOLDER else folder


def read_newest(storage: Storage, path: str, *, limit: int) -> tuple[str, bytes]:
    """Return path and bytes of the newest metadata file of a table folder, a metadata folder, or such a file.

    In an object store one listing tells which file that is, and whether a file read before is still there.

    Raises:
        NotFoundError: There is no metadata file.
        MissingFileError: It was removed while it was looked for.
        ResourceLimitError: It is larger than `limit` bytes.
    """
    if is_metadata_file(path):
        if not parse_location(path).is_local or exists(storage, path):
            try:
                return path, read_immutable(storage, path, limit=limit)
            except MissingFileError:
                if exists(storage, path):
                    raise
        check_bucket(storage, path)
        folder = parent(path)
        names = [entry.name for entry in list_folder(storage, folder) if _METADATA_FILE.fullmatch(entry.name)]
        raise NotFoundError(
            "TABLE_NOT_FOUND",
            "Metadata file is not there",
            path=path,
            stage="catalog",
            hint=nearest(path.rpartition("/")[2], names),
        )
    for folder in (join(path, METADATA_FOLDER), path):
        entries = [entry for entry in list_folder(storage, folder) if not entry.is_folder]
        if newest := _newest(storage, folder, entries):
            version = next(entry.version for entry in entries if entry.name == newest)
            return join(folder, newest), _read(storage, folder, newest, version, limit)
    check_bucket(storage, path)
    raise NotFoundError(
        "TABLE_NOT_FOUND",
        "Path holds no Iceberg table: no metadata file in its metadata folder",
        path=path,
        stage="catalog",
        hint=_near_tables(storage, path),
    )


def check_bucket(storage: Storage, path: str) -> None:
    """Raise if the bucket or container of a path does not exist."""
    bucket = missing_bucket(storage, path)
    if bucket is not None:
        raise NotFoundError(
            "BUCKET_NOT_FOUND",
            f"There is no such bucket or container: {bucket}",
            path=path,
            stage="catalog",
            hint="Check its name, and the endpoint, the region and the account: catalog.s3.endpoint and "
            "catalog.s3.region, say, or spark.hadoop.fs.s3a.endpoint.",
        )


def _newest(storage: Storage, folder: str, entries: Sequence[FolderEntry]) -> str | None:
    found = [(match, entry) for entry in entries if (match := _METADATA_FILE.fullmatch(entry.name))]
    if not found:
        return None
    names = {entry.name for entry in entries if is_metadata_file(entry.name)}
    versions = {int(match["version"]): entry.name for match, entry in found if match["version"]}
    written = next((entry.version for entry in entries if entry.name == _HINT), None)
    if written is not None:
        hint = _read_hint(storage, folder, written)
        for name in (hint, f"{hint}.metadata.json"):
            if name in names:
                return name
        if hint.isascii() and hint.isdigit() and int(hint) in versions:
            version = int(hint)
            while version + 1 in versions:
                version += 1
            return versions[version]
    newest = max(found, key=lambda item: (int(item[0]["version"] or item[0]["number"]), item[1].modified))
    return newest[1].name


def _read(storage: Storage, folder: str, name: str, version: str, limit: int) -> bytes:
    """Return a metadata file's bytes; files with a UUID in their names are never written again."""
    path = join(folder, name)
    if version and not is_named_once(path):
        return read_version(storage, path, version, limit=limit)
    return read_immutable(storage, path, limit=limit)


def _read_hint(storage: Storage, folder: str, version: str) -> str:
    """Return the hint's text; empty if a commit is replacing the file, which some writers do by delete and rename."""
    try:
        data = read_version(storage, join(folder, _HINT), version, limit=_MAX_HINT_BYTES)
    except MissingFileError:
        return ""
    return data.decode("utf-8", "replace").strip()


def _near_tables(storage: Storage, path: str) -> str:
    """Return a hint with the tables inside `path`, the table around it, or with the nearest sibling folder."""
    inside = [entry.name for entry in list_folder(storage, path) if entry.is_folder]
    tables = [name for name in inside if is_table(storage, join(path, name))]
    if tables:
        return f"It is a folder of tables: {', '.join(tables[:10])}."
    folder, _, name = path.rstrip("/").rpartition("/")
    if around := _table_around(storage, folder):
        names = [e.name for e in list_folder(storage, folder) if _METADATA_FILE.fullmatch(e.name)]
        meant = nearest(name, names) if names else ""
        inside_it = f"It lies inside a table's folder: load that, {around}."
        return meant if meant.startswith("Did you mean") else inside_it
    beside = [e.name for e in list_folder(storage, folder or "/") if e.is_folder and e.name != name]
    if not beside:
        return "Nothing is there, nor beside it." if not inside else f"It holds: {', '.join(inside[:10])}."
    return nearest(name, beside)


def _table_around(storage: Storage, folder: str) -> str:
    """Return the folder of the table that a folder is, or is in; empty if there is none, or access fails."""
    for _ in range(_MAX_FOLDERS_ABOVE):
        if not folder.strip("/") or folder.endswith(("://", ":/", ":")):
            break
        try:
            if is_table(storage, folder):
                return folder
        except TwoStageError:
            break
        folder = folder.rpartition("/")[0]
    return ""


def is_table(storage: Storage, folder: str) -> bool:
    """Return whether a folder is a table's: its ``metadata`` folder has a metadata file."""
    return any(
        _METADATA_FILE.fullmatch(entry.name) for entry in list_folder(storage, join(folder, METADATA_FOLDER))
    )


def list_warehouse(storage: Storage, namespace: Sequence[str], *, tables: bool) -> list[str]:
    """Return the tables (or with ``tables=False`` the namespaces) in a namespace of a hadoop warehouse."""
    folder = join(storage.root, *namespace)
    entries = list_folder(storage, folder)
    if not entries:
        check_bucket(storage, folder)
    names = [e.name for e in entries if e.is_folder and not e.name.startswith((".", "_"))]
    return [name for name in names if is_table(storage, join(folder, name)) is tables]


def check_names(names: Sequence[str]) -> bool:
    """Return whether names are safe as folders of a warehouse: none is empty, consists of dots, or has a slash."""
    return all(name.strip(".") and "/" not in name and "\0" not in name for name in names)
