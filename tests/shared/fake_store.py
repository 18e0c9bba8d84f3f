"""An object store in memory, for tests of its clients: it answers when told to, and fails as told.

Takes objects by name (``bucket/key``); returns a `StoreClient`. It records each request: name, start, end,
requested ETag.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from twostage.storage.store_client import RequestFailedError, StoreAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from twostage.storage.store_client import FailureKind, RangedFile


class FakeStore:
    """The store. While `is_held`, no request is answered."""

    asks_for_version = True
    vended = None

    def __init__(self, objects: Mapping[str, bytes], *, key: tuple[str, ...] = ("fake",)) -> None:
        self.key = key
        self.objects = dict(objects)
        self.etags = {name: f'"{number}"' for number, name in enumerate(self.objects)}
        self.failures: list[FailureKind] = []
        """How the next requests fail, in order."""
        self.changes: Callable[[RangedFile, StoreAnswer], StoreAnswer] = lambda _, answer: answer
        self.is_held = False
        self.requests: list[tuple[str, int, int | None, str | None]] = []
        self.in_flight = self.most_in_flight = self.cancelled = 0
        self.released: list[str] = []

    async def get(self, file: RangedFile, start: int, end: int | None, limit: int | None) -> StoreAnswer:
        self.requests.append((file.name, start, end, file.etag))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(0.001)
            while self.is_held:  # noqa: ASYNC110 - the test's thread releases it
                await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.in_flight -= 1
        if self.failures:
            kind = self.failures.pop(0)
            raise RequestFailedError(kind, f"told to be {kind}")
        if file.name not in self.objects:
            raise RequestFailedError("missing", "no such object")
        data, etag = self.objects[file.name], self.etags[file.name]
        if file.etag and file.etag != etag:
            raise RequestFailedError("replaced", "412")
        if limit is not None and len(data) > limit:
            raise RequestFailedError("too large", str(len(data)))
        start = start if start >= 0 else max(0, len(data) + start)
        if start >= len(data) and data:
            raise RequestFailedError("beyond", "416")
        return self.changes(file, StoreAnswer(data[start:end], etag, len(data)))

    def release(self, file: RangedFile) -> None:
        self.released.append(file.name)
