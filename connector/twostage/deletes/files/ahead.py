"""Runs an iterator of decoded delete files ahead of its consumer, in its own thread.

Takes an iterator and the number of items that it may be ahead; yields the same items in the same order, and
raises the same error. The rule: once the returned iterator is closed or exhausted, its thread has ended, and
the given iterator is closed.
"""

from __future__ import annotations

import threading
from contextlib import closing
from queue import Queue
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator

Item = TypeVar("Item")


class _End(Generic[Item]):
    """The last entry of the queue: the error that ended the iterator, if any."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def ahead(items: Generator[Item, None, None], max_ahead: int) -> Generator[Item, None, None]:
    """Yield from `items`, which a thread advances by up to `max_ahead` items while the caller works.

    >>> list(ahead((number for number in range(3)), 2))
    [0, 1, 2]
    """
    queue: Queue[Item | _End[Item]] = Queue()
    free = threading.Semaphore(max_ahead)
    is_closed = threading.Event()

    def work() -> None:
        error: BaseException | None = None
        try:
            with closing(items):
                for item in items:
                    queue.put(item)
                    free.acquire()
                    if is_closed.is_set():
                        return
        except BaseException as raised:  # noqa: BLE001 - raised again in the consumer's thread
            error = raised
        finally:
            queue.put(_End(error))

    thread = threading.Thread(target=work, name="twostage-decoded-ahead", daemon=True)
    thread.start()
    try:
        while not isinstance(item := queue.get(), _End):
            free.release()
            yield item
        if item.error is not None:
            raise item.error
    finally:
        is_closed.set()
        free.release()
        thread.join()
