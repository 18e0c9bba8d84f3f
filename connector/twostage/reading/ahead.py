"""Works on the next item while the caller uses the current one.

Object stores answer late: stage one of the next row group waits for its bytes while this one's are fetched.
The rule: at most one item ahead, results in order, an error where its item would have been; what is counted
on the way is added when the result is handed out. What the caller does with a result may share only what two
threads can: `alone` names the results for which nothing may run meanwhile.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, TypeVar

from twostage.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from concurrent.futures import Future

Item = TypeVar("Item")
Result = TypeVar("Result")


def steps_ahead(
    items: Iterable[Item],
    work: Callable[[Item, Metrics], Result],
    metrics: Metrics,
    *,
    ahead: bool,
    alone: Callable[[Result], bool],
) -> Generator[Result, None, None]:
    """Yield ``work(item, metrics)`` for each item; with `ahead`, the next one runs in a thread meanwhile.

    Closing the generator waits for that thread, so that nobody reads a file that is closed.
    """
    if not ahead:
        for item in items:
            yield work(item, metrics)
        return

    def counted(item: Item) -> tuple[Result, Metrics]:
        own = Metrics()
        return work(item, own), own

    with ThreadPoolExecutor(1, "twostage-ahead") as pool:
        upcoming = iter(items)
        waiting = _submitted(pool, counted, upcoming)
        while waiting is not None:
            following = _submitted(pool, counted, upcoming)
            result, own = waiting.result()
            metrics.merge(own)
            if following is not None and alone(result):
                wait([following])
            yield result
            waiting = following


def _submitted(
    pool: ThreadPoolExecutor, work: Callable[[Item], Result], items: Iterator[Item]
) -> Future[Result] | None:
    """Start work on the next item; None if there is none."""
    for item in items:
        return pool.submit(work, item)
    return None
