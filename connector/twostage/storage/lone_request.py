"""A request that neither reads bytes nor belongs to a task: a listing, a check whether an object exists, an object to write.

Takes a function that sends it once; gives its answer. The rule: it waits for a place in the store's window, and is repeated, as the
requests of `TaskReads` are, so that a store that throttles slows it down and does not end it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from twostage.storage.request_window import window_of
from twostage.storage.retry_budget import Attempts, RetryBudget
from twostage.storage.store_client import RETRIED, RequestFailedError
from twostage.storage.store_loop import event_loop, pause

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from concurrent.futures import Future

Answered = TypeVar("Answered")


def send(key: tuple[str, ...], once: Callable[[], Awaitable[Answered]]) -> Answered:
    """Return what `once` answers; the calling thread waits for it.

    Args:
        key: The key of the client that sends it.
        once: Sends it once. It is called in the event loop's thread.

    Raises:
        RequestFailedError: It failed for good.
    """
    return begin(key, once).result()


def begin(key: tuple[str, ...], once: Callable[[], Awaitable[Answered]]) -> Future[Answered]:
    """Do as `send`, but return at once: the future ends as `send` would."""
    from asyncio import run_coroutine_threadsafe  # noqa: PLC0415 - see `store_loop`

    return run_coroutine_threadsafe(_repeat(key, once), event_loop())


async def _repeat(key: tuple[str, ...], once: Callable[[], Awaitable[Answered]]) -> Answered:
    attempts = Attempts(RetryBudget())
    while True:
        window = window_of(key)
        entered = await window.enter()
        is_answered = is_throttled = False
        try:
            found = await once()
            is_answered = True
        except RequestFailedError as failure:
            is_throttled = failure.kind == "throttled"
            is_answered = failure.kind not in RETRIED
            seconds = None if is_answered else attempts.pause(failure.kind)
            if seconds is None:
                failure.attempts = attempts.number
                raise
        else:
            return found
        finally:
            window.leave(entered, answered=is_answered, throttled=is_throttled)
        await pause(seconds)
