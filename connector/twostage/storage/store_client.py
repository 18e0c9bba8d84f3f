"""What a client of an object store does: one request, one answer, or a failure of a known kind.

Takes an object's name and a range; gives its bytes with the object's ETag and size; or takes an object's bytes. The rule: a
client sends one request and does not repeat it, so that the caller decides how often, how soon, and how many at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from twostage.task import Storage

if TYPE_CHECKING:
    from twostage.storage.vended_credentials import VendedCredentials

FailureKind = Literal[
    "missing", "denied", "replaced", "beyond", "throttled", "broken", "timeout", "too large", "other"
]
RETRIED: frozenset[str] = frozenset({"throttled", "broken", "timeout"})
"""Kinds of failures after which the same request may succeed."""


class RequestFailedError(Exception):
    """A request failed; `kind` says how, `text` is the library's, unmasked: it is shown masked only.

    `attempts` is how often it was sent; `is_transient` is False if it would fail the same way later.
    """

    def __init__(self, kind: FailureKind, text: str) -> None:
        self.attempts = 1
        self.is_transient = True
        self.kind: FailureKind = kind
        self.text = text
        super().__init__(text)


@dataclass(frozen=True, slots=True)
class StoreAnswer:
    """The bytes of a range (any object with the buffer protocol), and the object's ETag and size in bytes.

    `etag` is empty where the store has none.
    """

    data: Any
    etag: str
    size: int


@dataclass(frozen=True, slots=True)
class ListedObject:
    """An object in a listing: its name within the folder, size in bytes, ETag, and nanoseconds since 1970."""

    name: str
    size: int
    etag: str
    modified: int


@dataclass(frozen=True, slots=True)
class Listing:
    """What lies in a folder: objects, and the names of folders."""

    objects: list[ListedObject]
    folders: list[str]


@dataclass(slots=True, eq=False)
class RangedFile:
    """One remote file of a task, read by ranges.

    `size` is the metadata's until the first answer, then the store's; None if neither is known. `etag` is that of the
    first answer, or what the caller knows of an earlier one; each later request asks for that object and no other.
    """

    path: str
    name: str
    """Its bucket or container and its key; of Hadoop's file systems, its path."""
    client: StoreClient
    size: int | None = None
    etag: str | None = None
    storage: Storage = field(default=Storage(), repr=False)
    """The scan's, for the errors of its requests."""
    opened: Any = field(default=None, repr=False)
    """What the client keeps open for it."""


class StoreClient(Protocol):
    """A client of one store: one bucket with one set of properties."""

    key: tuple[str, ...]
    """Names the store; requests to stores of the same key share a window."""
    vended: VendedCredentials | None
    """The credentials of its requests, if they renew themselves."""
    asks_for_version: bool
    """Each request is for the object with ``file.etag``. Otherwise the object's ETag must be compared after reading."""

    async def get(self, file: RangedFile, start: int, end: int | None, limit: int | None) -> StoreAnswer:
        """Return the bytes from `start` to `end` (None: the end of the object), of the object with ``file.etag``.

        Args:
            file: What to read.
            start: The first byte; below 0, with `end` None: this many bytes before the end, or the first one of a shorter object.
            end: The byte after the last.
            limit: Bytes; a larger object is a failure of kind ``too large``, before its bytes are read.

        Raises:
            RequestFailedError: Of any kind.
        """

    async def list(self, folder: str) -> Listing:
        """Return what lies in a folder (bucket and prefix), by one request for each thousand.

        Raises:
            RequestFailedError: Of any kind.
        """

    async def put(self, name: str, data: bytes) -> None:
        """Write an object whole (bucket and key), or leave what was there.

        Raises:
            RequestFailedError: Of any kind.
        """

    def release(self, file: RangedFile) -> None:
        """Close what is kept open for a file."""
