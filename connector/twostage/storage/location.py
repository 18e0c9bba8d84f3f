"""What a path written in table metadata means, and whether a scan may open it.

Takes a written path and the scan's `Storage`; gives a parsed `Location`, a form in which paths can be compared, or a
refusal. The rule: a scan opens only its table's own scheme and authority (s3, s3a and s3n count as one), never a local
file for a remote table, and with moved paths nothing outside the table's folder; everything else needs the option
``allowed-locations``. Object keys and local names are literal: ``%20`` is three characters, as in Hadoop's Path and in
PyIceberg.
"""

from __future__ import annotations

import functools
import os
import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twostage.errors import ForbiddenLocationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from twostage.task import Storage

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(?://([^/]*))?")
_FAMILIES = {
    "s3a": "s3",
    "s3n": "s3",
    "gcs": "gs",
    "abfss": "abfs",
    "wasbs": "wasb",
}
_HADOOP = ("hdfs", "viewfs")


@dataclass(frozen=True, slots=True)
class Location:
    """A path in parts. `family` is the scheme without synonyms; `path` starts after the authority.

    >>> parse_location("s3a://lake/db/t")
    Location(scheme='s3a', family='s3', authority='lake', path='/db/t')
    >>> parse_location("file://localhost/x").is_local
    True
    """

    scheme: str
    family: str
    authority: str
    path: str

    @property
    def is_local(self) -> bool:
        """Whether this is a file on the machine that opens it."""
        return self.family == "file"

    @property
    def is_hadoop(self) -> bool:
        """Whether Hadoop's client opens it, which knows a default authority."""
        return self.family in _HADOOP

    @property
    def remote_name(self) -> str:
        """The name by which a store's clients know it: bucket or container and key; of Hadoop's file systems, the path."""
        if self.is_hadoop:
            return self.path
        container = self.authority.partition("@")[0]  # abfss://container@account.dfs.core.windows.net/…
        return f"{container}{self.path}"


@functools.lru_cache(maxsize=65_536)
def parse_location(path: str) -> Location:
    """Split a path or URI into scheme, authority and path; no scheme means a local file."""
    match = _URI.match(path)
    if match is None:
        return Location("file", "file", "", path)
    scheme = match[1].lower()
    authority = match[2] or ""
    if scheme == "file" and authority.lower() == "localhost":
        authority = ""
    return Location(scheme, _FAMILIES.get(scheme, scheme), authority, path[match.end() :])


def _normalize(path: str) -> str:
    """Collapse ``//``, ``.`` and ``..`` as Hadoop's Path does; a relative path stays relative."""
    path = posixpath.normpath(path)
    return path[1:] if path.startswith("//") else path


@functools.lru_cache(maxsize=65_536)
def canonical(path: str) -> str:
    """Return the form that all written paths of one file have in common.

    >>> {canonical(path) for path in ("/x", "file:/x", "file:///x", "file://localhost/x", "file:////x")}
    {'/x'}
    >>> canonical("s3a://lake//x") == canonical("s3://lake//x") != canonical("s3://lake/x")
    True
    """
    location = parse_location(path)
    if location.is_local and not location.authority:
        return _normalize(location.path)
    rest = _normalize(location.path) if location.is_hadoop and location.path else location.path
    return f"{location.family}://{location.authority}{rest}"


@functools.lru_cache(maxsize=65_536)
def canonical_moved(path: str) -> str:
    """Return the form for tables that were copied: without scheme and host.

    >>> canonical_moved("hdfs://namenode:8020/db/t/f") == canonical_moved("/db/t/f")
    True
    """
    return _normalize("/" + parse_location(path).path)


def canonical_for(storage: Storage) -> Callable[[str], str]:
    """Return the form to compare this scan's paths by: `canonical`, or `canonical_moved` with moved paths."""
    return canonical if storage.moved_from is None else canonical_moved


def refuse(path: str, reason: str, hint: str) -> ForbiddenLocationError:
    """Return the error for a location that a scan may not open."""
    return ForbiddenLocationError("FORBIDDEN_LOCATION", reason, path=path, stage="storage", hint=hint)


def check_location(storage: Storage, path: str) -> Location:
    """Return the location to open for `path`, or refuse it.

    Raises:
        ForbiddenLocationError: Another scheme or authority than the table's (so a local file of a remote
            table), or with moved paths anything outside the table's folder, unless it is inside one of
            ``storage.allowed``; ``..`` in a remote path.
    """
    location, root = parse_location(path), parse_location(storage.root)
    if "\0" in path:
        raise refuse(path, "Path holds a NUL character", "The metadata is damaged.")
    if root.is_hadoop and not location.authority and (location.is_hadoop or not _URI.match(path)):
        location = Location(root.scheme, root.family, root.authority, location.path)  # fs.defaultFS
    own = (location.family, location.authority) == (root.family, root.authority)
    if storage.moved_from is not None:
        own = own and is_under(storage.root, path)
    if not own and not any(is_under(folder, path) for folder in storage.allowed):
        raise _refuse_foreign(storage, root, path)
    if location.is_local:
        return Location("file", "file", "", os.path.abspath(_normalize(location.path)))  # noqa: PTH100
    if ".." in location.path.split("/"):
        raise refuse(path, "Path holds '..'", "The metadata is damaged, or not to be trusted.")
    return location


def _refuse_foreign(storage: Storage, root: Location, path: str) -> ForbiddenLocationError:
    if storage.moved_from is not None:
        return refuse(
            path,
            "Path leaves the table's folder",
            "With allow-moved-paths all files must be inside it, or in a folder that allowed-locations names.",
        )
    return refuse(
        path,
        f"Location is outside the table's storage {root.family}://{root.authority}",
        "Set allowed-locations to the storage that the table may also use, or allow-moved-paths=true "
        "if the table was copied from there.",
    )


def is_under(folder: str, path: str) -> bool:
    """Return whether `path` is `folder` or inside of it, judged by names alone."""
    top, inner = (
        os.path.abspath(form) if parse_location(form).is_local else form.rstrip("/")  # noqa: PTH100
        for form in (canonical(folder), canonical(path))
    )
    return inner == top or inner.startswith(top.rstrip("/") + "/")


def is_outside(storage: Storage, path: str) -> bool:
    """Return whether `path` is outside the table's folder, as that of a file that the table was copied without."""
    return storage.moved_from is None and bool(storage.root) and not is_under(storage.root, path)


def join(folder: str, *names: str) -> str:
    """Return the path of `names` inside `folder`.

    >>> join("s3://lake/t/", "metadata", "v1.metadata.json")
    's3://lake/t/metadata/v1.metadata.json'
    """
    stripped = folder.rstrip("/")
    return "/".join(([stripped] if stripped or folder.startswith("/") else []) + list(names))


def parent(path: str) -> str:
    """Return the folder that holds `path`.

    >>> parent("s3://lake/t/metadata/"), parent("/t"), parent("t")
    ('s3://lake/t', '/', '.')
    """
    location = parse_location(path.rstrip("/"))
    prefix = path[: len(path.rstrip("/")) - len(location.path)]
    folder = posixpath.dirname(location.path)
    return f"{prefix}{folder}" or "."
