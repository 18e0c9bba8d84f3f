"""Folders of object stores: what lies in them, and in which version.

Takes a scan's `Storage` and a folder's location; gives its entries, with ETags where one request tells them. Whatever that
request fails with, PyArrow is asked, which repeats requests and raises what `errors` translates. The rule: no entry is missing
that PyArrow lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from twostage.storage.file_systems import file_system, remote_name
from twostage.storage.store_client import RequestFailedError
from twostage.storage.store_loop import event_loop
from twostage.storage.stores import client_of

if TYPE_CHECKING:
    from twostage.storage.location import Location
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


def list_remote(storage: Storage, location: Location) -> list[FolderEntry]:
    """Return the entries of a remote folder in any order; a missing folder has none.

    Raises:
        OSError: PyArrow's, not translated.
    """
    name = remote_name(location)
    if location.family in _BY_REQUEST:
        found = _by_request(storage, location, name.rstrip("/"))
        if found is not None:
            return found
    import pyarrow.fs  # noqa: PLC0415

    selector = pyarrow.fs.FileSelector(name, allow_not_found=True)
    return [
        FolderEntry(i.base_name, i.type == pyarrow.fs.FileType.Directory, i.mtime_ns or 0, i.size or 0)
        for i in file_system(storage, location).get_file_info(selector)
    ]


def _by_request(storage: Storage, location: Location, name: str) -> list[FolderEntry] | None:
    """Return the entries as the store's client lists them; None if it does not, or fails."""
    from asyncio import run_coroutine_threadsafe  # noqa: PLC0415 - see `store_loop`

    client = client_of(storage, location, name)
    try:
        listed = run_coroutine_threadsafe(client.list(name), event_loop()).result()
    except RequestFailedError:
        return None
    if listed is None:
        return None
    return [
        *(FolderEntry(folder, True, 0) for folder in listed.folders),
        *(FolderEntry(one.name, False, one.modified, one.size, one.etag) for one in listed.objects),
    ]
