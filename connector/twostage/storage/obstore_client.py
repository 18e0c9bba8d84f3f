"""Objects by obstore: Rust's object_store, whose requests take half of the CPU that PyArrow's take.

Takes what `store_properties` made of a catalog's properties; gives a `StoreClient`. Obstore is imported when the first
store is opened, which starts its runtime: never before a process forks. Its own retries are off, since ours know of all
requests of a task. The rule: every request ends, whatever the store sends: silence ends it, and so do bytes that come more
slowly than `LOWEST_RATE`.
"""

from __future__ import annotations

import re
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from twostage.storage.store_client import ListedObject, Listing, RequestFailedError, StoreAnswer
from twostage.storage.vended_credentials import CredentialProvider

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from twostage.storage.store_client import FailureKind, RangedFile
    from twostage.storage.store_properties import StoreProperties
    from twostage.storage.vended_credentials import VendedCredentials

_T = TypeVar("_T")
_STATUS = re.compile(r"status code: (\d{3})")
_BEYOND = re.compile(r"Wanted range starting at")
_LESS = re.compile(r"Requested \d+\.\.\d+, got")
_EXPIRED = re.compile(r"ExpiredToken|InvalidToken|TokenRefreshRequired|RequestExpired|AuthenticationFailed")
_THROTTLED = re.compile(r"<Code>(?:SlowDown|Throttling\w*|RequestLimitExceeded|ServerBusy|RequestThrottled)")
_TIMEOUT = re.compile(r"kind: Timeout|TimedOut|operation timed out")
_STALE = re.compile(
    r"ExpiredToken|Invalid(?:Token|AccessKeyId)|TokenRefreshRequired|RequestExpired|AuthenticationFailed|HTTP 401"
)
"""Matches a refusal, as `shown` puts it, that new credentials may cure, whatever the stated end of the old ones."""
_LOGIN = re.compile(
    r"(?i)credential provider|oauth|https?://(?:169\.254\.|metadata\.google|sts\.|\[?fd00:ec2)"
)
"""Matches a request, sent or not, for the credentials of an instance, container or service account."""
LOWEST_RATE = 16 * 2**10
"""Bytes a second below which an answer is given up: 64 answers at a time take a connection of 8 Mbit/s."""
PART_BYTES = 8 * 2**20
"""Bytes of a written object that one request sends: at 1 Mbit/s, more take longer than the wait for a silent answer."""
_SECONDS_IN_ALL = 3_600
"""Longest that obstore waits for one answer; its own default is 30 s, whatever the answer's length."""


class ObstoreClient:
    """A client of one bucket or container.

    Args:
        properties: What opens it.
        vended: The credentials among them, if they renew themselves.
    """

    asks_for_version = True

    def __init__(self, properties: StoreProperties, vended: VendedCredentials | None = None) -> None:
        from asyncio import timeout_at  # noqa: PLC0415 - see `store_loop`

        import obstore  # noqa: PLC0415
        from obstore import store  # noqa: PLC0415

        shape = properties.renewed
        renewing = None if vended is None or shape is None else CredentialProvider(vended, shape)
        self._credentials = renewing
        self._connected_with = 0 if renewing is None else renewing.number
        self.key = properties.key
        self.vended = vended
        self._get = obstore.get_async
        self._list = obstore.list_with_delimiter_async
        self._put = obstore.put_async
        self._until = timeout_at
        self._seconds = properties.connect_seconds + properties.request_seconds
        self._knows_ends = properties.kind != "azure"
        kind: Any = {"s3": store.S3Store, "gs": store.GCSStore, "azure": store.AzureStore}[properties.kind]
        self._connect = partial(
            kind,
            properties.bucket,
            config=properties.config,
            client_options={
                "allow_http": properties.allows_http,
                "connect_timeout": timedelta(seconds=properties.connect_seconds),
                "read_timeout": timedelta(seconds=properties.request_seconds),
                "timeout": timedelta(seconds=_SECONDS_IN_ALL),
                **({"proxy_url": properties.proxy} if properties.proxy else {}),
            },
            retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=1)},
            credential_provider=renewing or properties.credentials,
        )
        self._store = self._connect()

    async def get(self, file: RangedFile, start: int, end: int | None, limit: int | None) -> StoreAnswer:
        """Send one request; a second one, if credentials had ended and the catalog gave new ones."""
        return await self._with_good_credentials(lambda: self._get_once(file, start, end, limit))

    async def _with_good_credentials(self, once: Callable[[], Awaitable[_T]]) -> _T:
        if self._credentials is None:
            return await once()
        number = self._credentials.number
        try:
            return await once()
        except RequestFailedError as failure:
            if failure.kind != "denied" or not _STALE.search(failure.text):
                raise
            vended = self._credentials.vended
            if not await vended.renewed_since(number):
                raise
        # obstore keeps credentials until their stated end.
        if self._connected_with < vended.number:
            self._connected_with = vended.number
            self._store = self._connect()
        return await once()

    async def _get_once(
        self, file: RangedFile, start: int, end: int | None, limit: int | None
    ) -> StoreAnswer:
        options: Any = {}
        name = file.name.partition("/")[2]
        if file.etag:
            options["if_match"] = file.etag
        began = monotonic()
        known = 0 if end is None else end - start
        try:
            async with self._until(began + self._seconds_of(known)) as until:
                if start < 0 and not self._knows_ends:
                    first = await self._get(self._store, name, options={**options, "range": (0, 1)})
                    start = max(0, first.meta["size"] + start)
                    options["if_match"] = first.meta["e_tag"]
                if end is not None:
                    options["range"] = (start, end)
                elif start:
                    options["range"] = {"offset": start} if start > 0 else {"suffix": -start}
                found = await self._get(self._store, name, options=options)
                size = found.meta["size"]
                first, last = found.range
                until.reschedule(began + self._seconds_of(last - first))
                data = b"" if limit is not None and size > limit else await found.bytes_async()
        except TimeoutError:
            raise RequestFailedError("timeout", _too_slow()) from None
        except Exception as error:  # noqa: BLE001 - all of them are failures of this request
            raise RequestFailedError(kind_of(error), shown(error)) from None
        if limit is not None and size > limit:
            raise RequestFailedError("too large", str(size))
        return StoreAnswer(data, found.meta["e_tag"] or "", size)

    def _seconds_of(self, num_bytes: int) -> float:
        """Return how many seconds to wait for an answer of this many bytes."""
        return self._seconds + num_bytes / LOWEST_RATE

    async def list(self, folder: str) -> Listing:
        """List a folder."""
        return await self._with_good_credentials(lambda: self._list_once(folder))

    async def _list_once(self, folder: str) -> Listing:
        try:
            found = await self._list(self._store, f"{folder.partition('/')[2]}/")
        except Exception as error:  # noqa: BLE001 - all of them are failures of this request
            raise RequestFailedError(kind_of(error), shown(error)) from None
        return Listing(
            [
                ListedObject(
                    one["path"].rpartition("/")[2],
                    one["size"],
                    one["e_tag"] or "",
                    int(one["last_modified"].timestamp() * 1e6) * 1000,
                )
                for one in found["objects"]
            ],
            [one.rpartition("/")[2] for one in found["common_prefixes"]],
        )

    async def put(self, name: str, data: bytes) -> None:
        """Write an object, by one request unless it is large."""
        await self._with_good_credentials(lambda: self._put_once(name, data))

    async def _put_once(self, name: str, data: bytes) -> None:
        is_large = len(data) > PART_BYTES
        try:
            async with self._until(monotonic() + self._seconds_of(len(data))):
                await self._put(
                    self._store, name.partition("/")[2], data, use_multipart=is_large, chunk_size=PART_BYTES
                )
        except TimeoutError:
            raise RequestFailedError("timeout", _too_slow()) from None
        except Exception as error:  # noqa: BLE001 - all of them are failures of this request
            raise RequestFailedError(kind_of(error), shown(error)) from None

    def release(self, file: RangedFile) -> None:
        """Do nothing: no file is kept open."""


def _too_slow() -> str:
    return f"no answer in time: slower than {LOWEST_RATE // 2**10} KiB/s"


def shown(error: Exception) -> str:
    """Return what a user needs of an exception's text: status, the store's own code and message, or the cause.

    >>> shown(OSError("… GET http://h/b/k in 1s - Server returned non-2xx status code: 503 Service Unavailable: <Error><Code>SlowDown</Code><Message>Wait</Message></Error>"))
    'HTTP 503 Service Unavailable, SlowDown: Wait'
    """
    text = str(error).partition("\n\nDebug source")[0]
    place = "no credentials were given, and none found in the environment: " if _LOGIN.search(text) else ""
    found = re.search(r"status code: (\d{3}[\w -]*)", text)
    if found is None:
        cause = "no answer in time" if _TIMEOUT.search(str(error)) else ""
        return place + (f"{cause}: {text}" if cause else text)
    code = re.search(r"<Code>([^<]*)</Code>", text)
    message = re.search(r"<Message>([^<]*)</Message>", text)
    said = (f", {code[1]}" if code else "") + (f": {message[1]}" if message else "")
    return f"{place}HTTP {found[1].strip()}{said}"


def kind_of(error: Exception) -> FailureKind:
    """Return what an exception of obstore says about the request."""
    name, text = type(error).__name__, str(error)
    if isinstance(error, FileNotFoundError):
        return "missing"
    if name == "PreconditionError":
        return "replaced"
    if name in ("PermissionDeniedError", "UnauthenticatedError") or _EXPIRED.search(text):
        return "denied"
    found = _STATUS.search(text)
    status = int(found[1]) if found else 0
    if status in (401, 403) or _LOGIN.search(text.partition("\n\nDebug source")[0]):
        return "denied"
    if status in (429, 503) or _THROTTLED.search(text):
        return "throttled"
    if status == 416 or _BEYOND.search(text):
        return "beyond"
    if status >= 500 or status == 408:
        return "broken"
    if _TIMEOUT.search(text):
        return "timeout"
    return "broken" if "HTTP error" in text or _LESS.search(text) else "other"
