"""Which client reads a location: one for each store and set of properties, kept open by the process.

Takes a scan's `Storage` and a `Location`; gives a `StoreClient`: obstore's where it reads the store as PyArrow would, else
PyArrow's. The rule: the option ``object-store-client`` and the properties decide, never the outcome of a request.
"""

from __future__ import annotations

import os
import threading
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from twostage.storage.arrow_client import ArrowClient
from twostage.storage.file_systems import MAX_FILE_SYSTEMS, file_system
from twostage.storage.known_properties import check_properties
from twostage.storage.obstore_client import ObstoreClient
from twostage.storage.store_loop import lost_its_runtime
from twostage.storage.store_properties import store_properties
from twostage.storage.vended_credentials import vended_credentials

if TYPE_CHECKING:
    from twostage.storage.location import Location
    from twostage.storage.store_client import StoreClient
    from twostage.storage.store_properties import StoreProperties
    from twostage.task import Storage

_clients: dict[Any, StoreClient] = {}
_lock = threading.Lock()
_of_parent: list[StoreClient] = []
"""Clients of the process that this one was forked from, neither used nor destroyed here (see `file_systems`)."""


def client_of(storage: Storage, location: Location, name: str) -> StoreClient:
    """Return the client that reads an object, connected once per process and set of properties.

    Args:
        storage: The scan's.
        location: The object's, checked.
        name: What its file system knows it by.

    Raises:
        TwoStageError: See `file_system`.
    """
    use_arrow = storage.client == "arrow" or lost_its_runtime() or not is_plain(name)
    opened_by = (frozenset(storage.properties.items()), storage.renewal)
    key = (use_arrow, location.scheme, location.authority, *opened_by)
    with _lock:
        if key not in _clients:
            while len(_clients) >= MAX_FILE_SYSTEMS:
                _clients.pop(next(iter(_clients)))
            _clients[key] = _connect(storage, location, use_arrow=use_arrow)
        return _clients[key]


def _connect(storage: Storage, location: Location, *, use_arrow: bool) -> StoreClient:
    check_properties(location, storage.properties, by_arrow=False)
    vended = vended_credentials(storage)
    if use_arrow or find_spec("obstore") is None:  # a cluster may lack it
        found: StoreProperties | str = "PyArrow is wanted"
    else:
        found = store_properties(location, storage.properties, are_renewed=vended is not None)
    if isinstance(found, str):
        host = storage.properties.get("s3.endpoint", "")
        connect = partial(file_system, storage, location)
        key = (location.family, host, location.authority)
        return ArrowClient(key, connect(), None if vended is None else connect, vended)
    return ObstoreClient(found, vended)


def is_plain(name: str) -> bool:
    """Return whether obstore knows an object by this name: it drops empty parts, and refuses dots.

    >>> is_plain("lake/a b/c%20d"), is_plain("lake/a//b"), is_plain("lake/./b")
    (True, False, False)
    """
    return not any(part in ("", ".", "..") for part in name.split("/"))


def _after_fork() -> None:
    global _lock  # noqa: PLW0603 - one for each process
    _lock = threading.Lock()
    _of_parent.extend(_clients.values())
    _clients.clear()


os.register_at_fork(after_in_child=_after_fork)
