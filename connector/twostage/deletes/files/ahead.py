"""An iterator of decoded delete files that works ahead in a thread of its own.

Takes an iterator and how many items it may be ahead; gives the same items in the same order, and the same error. The
rule: once the returned iterator is closed or used up, its thread has ended, and so has the iterator it was given.
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
    """What comes last: the error that ended it, if any."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def ahead(items: Generator[Item, None, None], most: int) -> Generator[Item, None, None]:
    """Yield from `items`, which a thread takes while the caller works, at most so many ahead.

    >>> list(ahead((number for number in range(3)), 2))
    [0, 1, 2]
    """
    queue: Queue[Item | _End[Item]] = Queue()
    free = threading.Semaphore(most)
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
        except BaseException as raised:  # noqa: BLE001 - the caller's to judge
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
