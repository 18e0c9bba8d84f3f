"""Folders of object stores: what lies in them, and in which version.

Takes a scan's `Storage` and a folder's location; gives its entries, with ETags where one request tells them. A listing
that is refused, or whose folder is not there, is PyArrow's to decide on. The rule: no entry is missing that PyArrow lists.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from twostage.errors import CorruptFileError, MissingFileError
from twostage.storage.arrow_client import ArrowClient
from twostage.storage.lone_request import send
from twostage.storage.request_errors import error_of
from twostage.storage.store_client import RETRIED, RangedFile, RequestFailedError
from twostage.storage.stores import client_of
from twostage.storage.task_reads import TaskReads

if TYPE_CHECKING:
    from twostage.errors import TwoStageError
    from twostage.storage.location import Location
    from twostage.storage.store_client import Listing, StoreClient
    from twostage.task import Storage

_BY_REQUEST = ("s3", "gs")
"""Families of stores without real folders, which a listing by prefix would not tell from files."""


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """One entry of a folder; `modified` is in nanoseconds since 1970, 0 where unknown; `size` in bytes, 0 for a folder.

    `version` is an object's ETag; empty where it is not known.
    """

    name: str
    is_folder: bool
    modified: int
    size: int = 0
    version: str = ""


def list_remote(storage: Storage, location: Location, path: str) -> list[FolderEntry]:
    """Return the entries of a remote folder in any order; a missing folder has none.

    Raises:
        TwoStageError: No access, no network, an answer that does not come.
        OSError: Hadoop's, not translated.
    """
    name = location.remote_name
    if location.family in _BY_REQUEST:
        client = client_of(storage, location, name.rstrip("/"))
        try:
            return _entries(send(client.key, lambda: client.list(name.rstrip("/"))))
        except RequestFailedError as failure:
            if failure.kind in RETRIED or isinstance(client, ArrowClient):
                raise _error(storage, path, client, failure) from None
    arrow = _arrow(storage, location)
    try:
        return _entries(send(arrow.key, lambda: arrow.list(name)))
    except RequestFailedError as failure:
        raise _error(storage, path, arrow, failure) from None


def is_remote_file(storage: Storage, location: Location, path: str) -> bool:
    """Return whether there is an object, and no folder, of this name; see `list_remote` for the errors."""
    name = location.remote_name
    if location.family in _BY_REQUEST and not isinstance(client_of(storage, location, name), ArrowClient):
        try:
            with TaskReads() as reads:
                reads.ask(reads.file(storage, path), [(0, 1)]).result()
        except MissingFileError:
            return False
        except CorruptFileError as error:
            if error.code != "CORRUPT_FILE":  # it has no bytes
                raise
        return True
    arrow = _arrow(storage, location)
    try:
        return send(arrow.key, lambda: arrow.is_file(name))
    except RequestFailedError as failure:
        raise _error(storage, path, arrow, failure) from None


def _arrow(storage: Storage, location: Location) -> ArrowClient:
    client = client_of(replace(storage, client="arrow"), location, location.remote_name)
    assert isinstance(client, ArrowClient)
    return client


def _entries(listed: Listing) -> list[FolderEntry]:
    return [
        *(FolderEntry(folder, True, 0) for folder in listed.folders),
        *(FolderEntry(one.name, False, one.modified, one.size, one.etag) for one in listed.objects),
    ]


def _error(storage: Storage, path: str, client: StoreClient, failure: RequestFailedError) -> TwoStageError:
    return error_of(RangedFile(path, path, client, storage=storage), failure, failure.attempts)
