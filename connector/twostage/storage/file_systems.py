"""Remote file systems: one for each scheme, authority and set of properties, kept open by the process.

Takes a scan's `Storage` and a `Location`; gives pyarrow's file system, which knows the file by `Location.remote_name`. PyIceberg,
which chooses the file system and passes the properties on, takes a second to import and is loaded here only. The rule:
credentials come from options and catalogs, never from a path.
"""

from __future__ import annotations

import os
import re
import threading
from typing import TYPE_CHECKING, Any

from twostage.errors import StorageError, UnsupportedFeatureError
from twostage.storage.known_properties import check_properties
from twostage.storage.vended_credentials import with_current_credentials

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twostage.storage.location import Location
    from twostage.task import Storage

CONNECT_SECONDS = "10"
REQUEST_SECONDS = "60"
_BUCKETS = ("s3", "gs", "oss")
_NO_HADOOP = re.compile(r"(?i)load lib(?:jvm|hdfs)")
MAX_FILE_SYSTEMS = 64
"""Kept open by the process. Each renewal of short-lived credentials makes another one."""

_file_systems: dict[Any, Any] = {}
_lock = threading.Lock()
_of_parent: list[Any] = []
"""File systems of the process that this one was forked from: they are neither used nor destroyed here, since their connections
and threads are the parent's."""


def file_system(storage: Storage, location: Location) -> Any:
    """Return pyarrow's file system for a location, connected once per process and set of properties.

    When credentials renew themselves, another file system is made; one that is in use keeps those that it has.

    Raises:
        UnsupportedFeatureError: A scheme without a file system, or a login inside the path.
        StorageError: The properties are wrong, or Hadoop's library is not found.
    """
    storage = with_current_credentials(storage)
    key = (location.scheme, location.authority, frozenset(storage.properties.items()))
    with _lock:
        if key not in _file_systems:
            while len(_file_systems) >= MAX_FILE_SYSTEMS:
                _file_systems.pop(next(iter(_file_systems)))
            _file_systems[key] = _connect(storage.properties, location)
        return _file_systems[key]


def _connect(properties: Mapping[str, str], location: Location) -> Any:
    from pyiceberg.io.pyarrow import PyArrowFileIO  # noqa: PLC0415

    check_properties(location, properties, by_arrow=True)
    given = dict(properties)
    if location.family == "s3" or location.scheme == "oss":
        given.setdefault("s3.connect-timeout", CONNECT_SECONDS)
        given.setdefault("s3.request-timeout", REQUEST_SECONDS)
        if "s3.endpoint" in given and "client.region" not in given:
            given.setdefault("s3.region", "us-east-1")  # else PyIceberg asks AWS for the bucket's region
    if "@" in location.authority and location.family in _BUCKETS:
        raise UnsupportedFeatureError(
            "CREDENTIALS_IN_PATH",
            "Path has credentials before the bucket's name",
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
            f"Hadoop's native library, by which {location.scheme}:// is read, could not be loaded: {str(error).splitlines()[0]}",
            stage="storage",
            hint="On the driver and the executors, set JAVA_HOME, HADOOP_HOME (its lib/native holds libhdfs.so; or "
            "ARROW_LIBHDFS_DIR), and CLASSPATH to the output of `hadoop classpath --glob`.",
        ) from None


def _after_fork() -> None:
    global _lock  # noqa: PLW0603 - one for each process
    _lock = threading.Lock()
    _of_parent.extend(_file_systems.values())
    _file_systems.clear()


os.register_at_fork(after_in_child=_after_fork)
