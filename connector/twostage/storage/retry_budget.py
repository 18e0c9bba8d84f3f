"""How often a task repeats requests, and after which pause.

A failed request is repeated a few times; a throttled one, until the store has answered nothing for a
minute. The rule: repetitions end, whatever the store does; and many requests that fail at the same time end sooner than
each of them would alone. A budget is that of one `TaskReads`: of a Spark task, of a query's planning, of a file that the driver
opens for itself. Tasks know nothing of each other, so that a query may repeat as often as all of its tasks together.
Source: AWS Architecture Blog, "Exponential Backoff And Jitter" (full jitter).
"""

from __future__ import annotations

import random
import time
from collections import Counter

MOST_ATTEMPTS = {"broken": 6, "timeout": 3, "throttled": 1_000}
"""Attempts of one request, counting those that failed in the same way as the last one."""
PATIENCE_SECONDS = 60.0
"""A store that throttles and answers no request of the task for this long has failed."""
FIRST_PAUSE = 0.1
LONGEST_PAUSE = {"broken": 8.0, "timeout": 8.0, "throttled": 2.0}
"""Seconds; after throttling it is the window that keeps requests back."""
RETRIES_OF_EACH_IN_FLIGHT = 2
"""Repetitions for each request that a task may have in flight, throttled ones not counted: all connections may break once, and once more
while they are established again."""
LEAST_RETRIES = 32
"""Repetitions of a task that has few requests in flight."""
RETRIES_PER_ANSWER = 0.25
MAX_BUDGET_RATIO = 4
"""Most that answers can earn a task, as a multiple of what it has at first."""


class RetryBudget:
    """The budget of one task's reads. Its methods are called in the event loop's thread.

    Args:
        most_in_flight: Requests that may fail at the same time.
    """

    def __init__(self, most_in_flight: int = 1) -> None:
        self.first = max(LEAST_RETRIES, RETRIES_OF_EACH_IN_FLIGHT * most_in_flight)
        """Repetitions before the first answer."""
        self._left = float(self.first)
        self._answered_at = time.monotonic()

    def answered(self) -> None:
        """Note that the store answered a request."""
        self._left = min(MAX_BUDGET_RATIO * self.first, self._left + RETRIES_PER_ANSWER)
        self._answered_at = time.monotonic()

    def pause(self, kind: str, attempt: int) -> float | None:
        """Return the seconds to wait before the next attempt, None if there is to be none.

        Args:
            kind: How the attempt failed: ``broken``, ``timeout`` or ``throttled``.
            attempt: Its number, from 1.
        """
        if attempt >= MOST_ATTEMPTS[kind]:
            return None
        if kind == "throttled":
            if time.monotonic() - self._answered_at > PATIENCE_SECONDS:
                return None
        elif self._left < 1:
            return None
        else:
            self._left -= 1
        longest = min(LONGEST_PAUSE[kind], FIRST_PAUSE * 2 ** min(attempt, 10))
        return random.uniform(0.0, longest)  # noqa: S311 - not for secrecy


class Attempts:
    """The attempts of one request: `number` counts them all.

    Args:
        budget: Of its task.
    """

    def __init__(self, budget: RetryBudget) -> None:
        self.number = 0
        self._budget = budget
        self._failed: Counter[str] = Counter()

    def pause(self, kind: str) -> float | None:
        """Count an attempt that failed in this way; return what `RetryBudget.pause` does."""
        self.number += 1
        self._failed[kind] += 1
        return self._budget.pause(kind, self._failed[kind])
