"""Tables without a catalog: a folder with ``metadata/``, a metadata file, or a hadoop warehouse.

Takes a path; gives the metadata file that is the table's newest version and the table's folder. The rule:
a version hint that names an existing file is believed (a numeric one only as a lower bound, as Iceberg's
HadoopTableOperations does), because files that no commit published may lie beside it; without a usable hint
the newest version number wins, and of equals the one modified last.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from twostage.errors import MissingFileError, NotFoundError, nearest
from twostage.storage.files import exists, list_folder, missing_bucket, read_all
from twostage.storage.location import join, parent

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


def is_metadata_file(path: str) -> bool:
    """Return whether a path names a metadata file rather than a folder."""
    return path.endswith((".json", ".json.gz"))


def table_folder(metadata_path: str) -> str:
    """Return the folder of the table that a metadata file belongs to.

    >>> table_folder("/t/metadata/v1.metadata.json"), table_folder("/x/v1.metadata.json")
    ('/t', '/x')
    """
    folder = parent(metadata_path)
    return parent(folder) if folder.rpartition("/")[2] == METADATA_FOLDER else folder


def find_metadata(storage: Storage, path: str) -> str:
    """Return the newest metadata file of the table whose folder, metadata folder or metadata file `path` is.

    Raises:
        NotFoundError: There is none.
    """
    if is_metadata_file(path):
        if exists(storage, path):
            return path
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
            return join(folder, newest)
    check_bucket(storage, path)
    raise NotFoundError(
        "TABLE_NOT_FOUND",
        "Path holds no Iceberg table: no metadata file in its metadata folder",
        path=path,
        stage="catalog",
        hint=_near_tables(storage, path),
    )


def check_bucket(storage: Storage, path: str) -> None:
    """Raise if not the table is missing but all that it would lie in."""
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
    if any(entry.name == _HINT for entry in entries):
        hint = _read_hint(storage, folder)
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


def _read_hint(storage: Storage, folder: str) -> str:
    """Return the hint's text; nothing while a commit replaces it, which some writers do by delete and rename."""
    try:
        data = read_all(storage, join(folder, _HINT), limit=_MAX_HINT_BYTES)
    except MissingFileError:
        return ""
    return data.decode("utf-8", "replace").strip()


def _near_tables(storage: Storage, path: str) -> str:
    """Name the nearest folder beside `path`, or a table inside it."""
    inside = [entry.name for entry in list_folder(storage, path) if entry.is_folder]
    tables = [name for name in inside if is_table(storage, join(path, name))]
    if tables:
        return f"It is a folder of tables: {', '.join(tables[:10])}."
    folder, _, name = path.rstrip("/").rpartition("/")
    beside = [e.name for e in list_folder(storage, folder or "/") if e.is_folder and e.name != name]
    if not beside:
        return "Nothing is there, nor beside it." if not inside else f"It holds: {', '.join(inside[:10])}."
    return nearest(name, beside)


def is_table(storage: Storage, folder: str) -> bool:
    """Return whether a folder is a table's: its ``metadata`` folder holds a metadata file."""
    return any(
        _METADATA_FILE.fullmatch(entry.name) for entry in list_folder(storage, join(folder, METADATA_FOLDER))
    )


def list_warehouse(storage: Storage, namespace: Sequence[str], *, tables: bool) -> list[str]:
    """Return the tables, or else the namespaces, directly inside a namespace of a hadoop warehouse."""
    folder = join(storage.root, *namespace)
    entries = list_folder(storage, folder)
    if not entries:
        check_bucket(storage, folder)
    names = [e.name for e in entries if e.is_folder and not e.name.startswith((".", "_"))]
    return [name for name in names if is_table(storage, join(folder, name)) is tables]


def check_names(names: Sequence[str]) -> bool:
    """Return whether these names stay inside the warehouse: none is empty, dots only, or has a slash."""
    return all(name.strip(".") and "/" not in name and "\0" not in name for name in names)
