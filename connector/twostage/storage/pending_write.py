"""One object on its way to a store: sent at once, while its writer does something else.

Takes a `Storage`, a path and the object's bytes; gives a `PendingWrite`. The rules: an object is there whole, or what was there
before is; the request waits for a place in the store's window, and is repeated, as those of `TaskReads` are; and every
`PendingWrite` ends. A caller that writes many objects bounds how many bytes wait.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from twostage.storage.location import check_location
from twostage.storage.lone_request import begin
from twostage.storage.request_errors import error_of
from twostage.storage.store_client import RangedFile, RequestFailedError
from twostage.storage.stores import client_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from twostage.task import Storage


class PendingWrite:
    """An object on its way. Any thread may call its methods.

    Args:
        file: The object.
        sent: The outcome of the request.
    """

    def __init__(self, file: RangedFile, sent: Future[None]) -> None:
        self._file = file
        self._sent = sent

    def done(self) -> bool:
        """Return whether `result` would not wait."""
        return self._sent.done()

    def on_done(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the object is there or writing it has failed; it must be quick, and must not wait."""
        self._sent.add_done_callback(lambda _: callback())

    def block(self) -> None:
        """Wait until `done`."""
        self._sent.exception()

    def result(self) -> None:
        """Return when the object is there.

        Raises:
            MissingFileError: There is no such bucket.
            StorageError: No access, no network, an answer that does not come.
        """
        try:
            self._sent.result()
        except RequestFailedError as failure:
            raise error_of(self._file, failure, failure.attempts) from None


def begin_write(storage: Storage, path: str, data: bytes) -> PendingWrite:
    """Begin to write a whole remote object, only in a folder that the user names; returns at once.

    Raises:
        TwoStageError: The policy refuses the path, or the store's properties are wrong.
    """
    location = check_location(storage, path)
    name = location.remote_name
    client = client_of(storage, location, name)
    file = RangedFile(path, name, client, storage=storage)
    return PendingWrite(file, begin(client.key, partial(client.put, name, data)))
