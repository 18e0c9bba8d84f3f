"""Vended credentials that renew themselves, in whichever process reads the files.

Takes a scan's `Storage` whose catalog says where credentials are renewed; gives its properties with the current credentials.
They are renewed some minutes before they end, in a thread of its own, while the old ones serve; only a caller that finds them
ended waits. The rules: a process asks once for a table, however many files and requests need them; a failure changes nothing, the store
then says that the credentials have expired; and nobody waits longer than `WAIT_SECONDS`.
Source: Iceberg's `VendedCredentialsProvider`, `OAuth2RefreshCredentialsHandler` and `VendedAdlsCredentialProvider`.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from twostage.storage.credentials_request import CredentialsRequest, NotVendedError
from twostage.storage.expiry import RENEWED_BEFORE_MS, expires_at
from twostage.storage.store_identity import is_vended

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from twostage.task import CredentialsEndpoint, Storage

SPREAD_MS = 2 * 60 * 1000
"""Time over which a query's processes spread their requests: otherwise a thousand workers would ask in the same second."""
ENDED_MS = 5_000
"""Credentials that end sooner are not sent any more: the store's clock may be ahead, and a request takes its time."""
PAUSE_SECONDS = 15.0
"""Pause after a failure, before the catalog is asked again."""
WAIT_SECONDS = 20.0
"""Longest wait for an answer; a request that takes longer is given up, and the next one may be sent."""
MAX_TABLES = 64
"""Kept by the process."""
_NEEDED = (
    ("s3.access-key-id", "s3.secret-access-key"),
    ("gcs.oauth2.token",),
    ("adls.sas-token",),
)
"""The properties that are the credentials of each kind of store."""

_lock = threading.Lock()
_known: dict[Any, VendedCredentials] = {}


class VendedCredentials:
    """The credentials of one table in this process.

    Attributes:
        properties: Those of the storage, with the current credentials. Replaced as a whole, never changed.
        number: How often they were renewed.
        failure: Why the last request for new ones gave none, masked; empty if it did.
    """

    def __init__(self, properties: Mapping[str, str], endpoint: CredentialsEndpoint) -> None:
        self.properties = properties
        self.number = 0
        self.failure = ""
        self._request = CredentialsRequest(endpoint)
        self._renewed_before_ms = RENEWED_BEFORE_MS - random.uniform(0, SPREAD_MS)  # noqa: S311 - not for secrecy
        self._asking: Future[None] | None = None
        self._asked_at = self._failed_at = float("-inf")
        self._lock = threading.Lock()

    @property
    def until(self) -> int | None:
        """Until when they are good, in milliseconds since 1970; None: not known."""
        return expires_at(self.properties)

    def renew_in_time(self) -> Future[None] | None:
        """Ask for new ones if these end soon; return what to wait for if they have ended, None if they still serve."""
        until = self.until
        if until is None:
            return None
        left = until - time.time() * 1000
        if left > self._renewed_before_ms:
            return None
        asked = self._ask()
        return asked if left <= ENDED_MS else None

    def renew(self) -> None:
        """Do the same, and wait."""
        if (asked := self.renew_in_time()) is not None:
            with contextlib.suppress(TimeoutError):
                asked.result(WAIT_SECONDS)

    async def renewed_since(self, number: int) -> bool:
        """Tell, after a store's refusal of the credentials of this `number`, whether there are newer ones; ask for them if not."""
        if self.number == number and (asked := self._ask()) is not None:
            await answered(asked)
        return self.number > number

    def _ask(self) -> Future[None] | None:
        """Return the request for new ones, which is sent if there is none; None for a while after a failure."""
        with self._lock:
            now = time.monotonic()
            if self._asking is not None and now - self._asked_at < WAIT_SECONDS:
                return self._asking
            if now - self._failed_at < PAUSE_SECONDS:
                return None
            self._asked_at = now
            asking: Future[None] = Future()
            self._asking = asking
            asking.set_running_or_notify_cancel()  # a caller that stops waiting does not cancel it for the others
        try:
            threading.Thread(
                target=self._run, args=(asking,), name="twostage-credentials", daemon=True
            ).start()
        except RuntimeError:  # the process ends, or has no room for a thread
            self._failed(asking, "no thread could be started to ask the catalog")
            self._done(asking)
        return asking

    def _run(self, asking: Future[None]) -> None:
        try:
            vended = self._request()
            with self._lock:
                self._take(vended)
        except NotVendedError as error:
            self._failed(asking, str(error))
        except Exception as error:  # noqa: BLE001 - callers that wait must be told, whatever it was
            self._failed(asking, type(error).__name__)
        self._done(asking)

    def _done(self, asking: Future[None]) -> None:
        with self._lock:
            if self._asking is asking:
                self._asking = None
        asking.set_result(None)

    def _failed(self, asking: Future[None], why: str) -> None:
        with self._lock:
            if self._asking is asking:  # else it was given up, and another one was sent
                self.failure, self._failed_at = why, time.monotonic()

    def _take(self, vended: Mapping[str, str]) -> None:
        """Replace all of the old credentials by what was vended.

        Raises:
            NotVendedError: They are no credentials, or do not end later than the old ones.
        """
        found = {_plain(name): value for name, value in vended.items() if is_vended(name)}
        wanted = next((names for names in _NEEDED if self.properties.get(names[0])), ())
        if not wanted or not all(found.get(name) for name in wanted):
            raise NotVendedError("the answer lacks a part of the credentials")
        until, before = expires_at(found), self.until
        if found == {name: value for name, value in self.properties.items() if is_vended(name)} or (
            until is not None and before is not None and until <= before
        ):
            raise NotVendedError("the new credentials expire no later than the old ones")
        if until is not None:
            # Else those for five minutes would be renewed at once, again and again.
            half = (until - time.time() * 1000) / 2
            self._renewed_before_ms = min(self._renewed_before_ms, max(half, ENDED_MS))
        kept = {name: value for name, value in self.properties.items() if not is_vended(name)}
        self.properties = {**kept, **found}
        self.number += 1
        self.failure = ""


class CredentialProvider:
    """Gives obstore the current credentials, at once or, where they have ended, when the catalog has answered.

    Args:
        vended: The table's.
        shape: Returns them in obstore's form, without their end, given the properties.
    """

    def __init__(
        self, vended: VendedCredentials, shape: Callable[[Mapping[str, str]], dict[str, Any]]
    ) -> None:
        self.vended = vended
        self.number = vended.number
        """Of those that were given last."""
        self._shape = shape

    def __call__(self) -> dict[str, Any] | Coroutine[Any, Any, dict[str, Any]]:
        """Return them, or what to await; obstore calls when those that it has end within five minutes."""
        asked = self.vended.renew_in_time()
        return self._given() if asked is None else self._later(asked)

    async def _later(self, asked: Future[None]) -> dict[str, Any]:
        await answered(asked)
        return self._given()

    def _given(self) -> dict[str, Any]:
        self.number = self.vended.number
        properties = self.vended.properties
        until = expires_at(properties)
        end = None if until is None else datetime.fromtimestamp(until / 1000, UTC)
        return {**self._shape(properties), "expires_at": end}


async def answered(asked: Future[None]) -> None:
    """Wait for a request in the event loop, but not for ever."""
    from asyncio import wait_for, wrap_future  # noqa: PLC0415 - see `store_loop`

    with contextlib.suppress(TimeoutError):
        await wait_for(wrap_future(asked), WAIT_SECONDS)


def vended_credentials(storage: Storage) -> VendedCredentials | None:
    """Return the credentials of a scan's storage, one object per process; None if nothing renews them here."""
    if storage.renewal is None:
        return None
    key = (storage.renewal, frozenset(storage.properties.items()))
    with _lock:
        if key not in _known:
            while len(_known) >= MAX_TABLES:
                _known.pop(next(iter(_known)))
            _known[key] = VendedCredentials(storage.properties, storage.renewal)
        return _known[key]


def with_current_credentials(storage: Storage) -> Storage:
    """Return the storage with credentials that are good now, for a client that takes no provider; may wait for the catalog."""
    vended = vended_credentials(storage)
    if vended is None:
        return storage
    vended.renew()
    return replace(storage, properties=vended.properties, renewal=None)


def _plain(name: str) -> str:
    """Return a vended property's name without an account's, as catalogs' properties are kept (`catalog.properties`)."""
    return "adls.sas-token" if name.startswith("adls.sas-token.") else name


def _after_fork() -> None:
    global _lock  # noqa: PLW0603 - one for each process
    _lock = threading.Lock()
    _known.clear()  # their threads are the parent's


os.register_at_fork(after_in_child=_after_fork)
